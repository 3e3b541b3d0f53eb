#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace dyad::runtime::cpu {

/// An orthogonal matrix q[m, m] = h1 h2 ... hk of Householder reflections, as LAPACK finds them, in
/// blocks of some reflections as I - v t v^T, so that it is applied by products. (R. Schreiber,
/// C. Van Loan, "A storage-efficient WY representation for products of Householder
/// transformations", 1989.) Columns, which do not meet, are shared out to the team in pieces of a
/// fixed size, so the bits do not depend on threads. Matrices are stored by columns; W is float or
/// double.
template <class W>
class Reflections {
 public:
  explicit Reflections(std::int64_t m) : m_(m) {}
  /// k reflections: number j is 1 at row j, and its element i > j is at a[i * row + j * column].
  Reflections(std::int64_t m, std::int64_t k, const W* a, std::int64_t row, std::int64_t column,
              const W* tau);

  /// The QR factors of a[m, n] in their place: r in the upper triangle, below it the reflections,
  /// which are returned.
  static Reflections of_qr(std::int64_t m, std::int64_t n, W* a);

  /// c[m, n] := q c.
  void apply(W* c, std::int64_t ldc, std::int64_t n) const;
  /// c[n, m] := c q^T.
  void apply_right_transposed(W* c, std::int64_t ldc, std::int64_t n) const;
  /// q[m, n] := the first n columns.
  void columns(W* q, std::int64_t n) const;

 private:
  struct Block {
    std::int64_t first, count, rows;  ///< it works on the last `rows` rows, from row `first` on
    std::unique_ptr<W[]> v, t;        ///< v[rows, count], t[count, count]
  };
  void add(std::int64_t first, std::int64_t count, const W* a, std::int64_t row,
           std::int64_t column, const W* tau);
  /// c := (I - v op(t) v^T) c for n columns; c begins at the block's first row.
  static void reflect(const Block& block, bool transpose, W* c, std::int64_t ldc, std::int64_t n,
                      W* work);

  std::int64_t m_;
  std::vector<Block> blocks_;
};

/// The singular values s[n] of a[m, n], m >= n, which is destroyed, and vectors u[m, n], or [m, m]
/// with `full`, and vt[n, n], by columns. 0, or not where they do not converge.
template <class W>
int singular_vectors(bool full, std::int64_t m, std::int64_t n, W* a, W* s, W* u, W* vt);

/// The eigenvalues w[n] of symmetric a[n, n], which is destroyed, and the eigenvectors z[n, n], by
/// columns. 0, or not where they do not converge.
template <class W>
int symmetric_eigenvectors(std::int64_t n, W* a, W* w, W* z);

}  // namespace dyad::runtime::cpu
