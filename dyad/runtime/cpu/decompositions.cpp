#include <bit>
#include <limits>
#include <utility>

#include "dyad/ops/attrs/linalg.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/matrices.h"
#include "dyad/runtime/cpu/reflections.h"
#include "dyad/runtime/cpu/vector_clones.h"

namespace dyad::runtime::cpu {
namespace {

using lapack::Triangle;

double volume(std::int64_t a, std::int64_t b, std::int64_t c) {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

/// The first NaN on a diagonal, or -1.
template <class W>
std::int64_t first_nan(const W* matrix, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isnan(matrix[i * (n + 1)])) return i;
  }
  return -1;
}

void cholesky(const OpCall& call) {
  const bool upper = call.attrs_as<ops::CholeskyAttrs>().upper;
  const TensorImpl &x = *call.inputs[0].impl(), &out = *call.outputs[0].impl();
  if (out.numel() == 0) return;
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t n = at_x.rows;
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    MatrixBatch(call, batch, volume(n, n, n) / 3)
        .run<2>({batch_strides(x, batch), batch_strides(out, batch)},
                [&](const RowWalk<2>& at) -> std::string {
                  Target<T> factor(elements_of<T>(out, at[1]), n * n);
                  auto* const l = factor.data();
                  read_symmetric(elements_of<T>(x, at[0]), at_x, l);
                  // Our lower triangle is the upper one of columns.
                  const int info = lapack::potrf(upper ? Triangle::lower : Triangle::upper, n, l);
                  // The library takes NaN for a positive number.
                  const std::int64_t order = info > 0 ? info : first_nan(l, n) + 1;
                  if (order > 0) {
                    const bool nan = std::isnan(l[(order - 1) * (n + 1)]);
                    return "is not positive definite: its leading minor of order " +
                           std::to_string(order) + (nan ? " is NaN" : " is not positive");
                  }
                  for (std::int64_t i = 0; i < n; ++i) {
                    std::fill(l + i * n + (upper ? 0 : i + 1), l + i * n + (upper ? i : n),
                              Computed<T>(0));
                  }
                  factor.write_back();
                  return {};
                });
  });
}

void qr(const OpCall& call) {
  const TensorImpl& x = *call.inputs[0].impl();
  const TensorImpl &q = *call.outputs[0].impl(), &r = *call.outputs[1].impl();
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t m = at_x.rows, n = at_x.columns, least = std::min(m, n);
  const std::int64_t k = matrix_of(q).columns;
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, 4 * volume(m, n, least), MatrixBatch::kOwnTeam)
        .run<3>({batch_strides(x, batch), batch_strides(q, batch), batch_strides(r, batch)},
                [&](const RowWalk<3>& at) -> std::string {
                  const auto factors = scratch<W>(m * std::max(n, k)), signs = scratch<W>(k);
                  read_matrix(elements_of<T>(x, at[0]), at_x, factors.get(), true);
                  const auto reflections = Reflections<W>::of_qr(m, n, factors.get());
                  for (std::int64_t i = 0; i < k; ++i) {
                    signs[i] = i < least && factors[i * (m + 1)] < 0 ? W(-1) : W(1);
                  }
                  T* const to_r = elements_of<T>(r, at[2]);
                  for (std::int64_t i = 0; i < k; ++i) {
                    for (std::int64_t j = 0; j < n; ++j) {
                      to_r[i * n + j] =
                          narrowed_element<T>(j < i ? W(0) : signs[i] * factors[i + j * m]);
                    }
                  }
                  reflections.columns(factors.get(), k);
                  for (std::int64_t j = 0; j < k; ++j) {
                    if (signs[j] > 0) continue;
                    for (std::int64_t i = 0; i < m; ++i) factors[i + j * m] = -factors[i + j * m];
                  }
                  write_matrix(factors.get(), m, k, elements_of<T>(q, at[1]), true);
                  return {};
                });
  });
}

// The sign of a vector is the one that makes the first of its elements positive that is at least
// half as large as the largest.

/// The signs of the first `count` columns of a row-major matrix of `width` columns.
template <class W>
[[gnu::always_inline]] inline void signs_of_columns(const W* matrix, std::int64_t length,
                                                    std::int64_t width, std::int64_t count,
                                                    W* largest, W* signs) {
  std::fill_n(largest, count, W(0));
  std::fill_n(signs, count, W(0));
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t j = 0; j < count; ++j) {
      const W size = std::abs(matrix[i * width + j]);
      largest[j] = size > largest[j] ? size : largest[j];
    }
  }
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t j = 0; j < count; ++j) {
      const W value = matrix[i * width + j], sign = value < 0 ? W(-1) : W(1);
      const bool leads = 2 * std::abs(value) >= largest[j];
      signs[j] = signs[j] == 0 && leads ? sign : signs[j];
    }
  }
}
DYAD_VECTOR_CLONES void column_signs(const float* matrix, std::int64_t length, std::int64_t width,
                                     std::int64_t count, float* largest, float* signs) {
  signs_of_columns(matrix, length, width, count, largest, signs);
}
DYAD_VECTOR_CLONES void column_signs(const double* matrix, std::int64_t length, std::int64_t width,
                                     std::int64_t count, double* largest, double* signs) {
  signs_of_columns(matrix, length, width, count, largest, signs);
}

/// Finite numbers without a sign are in the order of their bits, which vectors compare.
DYAD_VECTOR_CLONES std::uint32_t largest_bits(const float* x, std::int64_t n) {
  std::uint32_t bits = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    bits = std::max(bits, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffU);
  }
  return bits;
}
DYAD_VECTOR_CLONES std::uint64_t largest_bits(const double* x, std::int64_t n) {
  std::uint64_t bits = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    bits = std::max(bits, std::bit_cast<std::uint64_t>(x[i]) & ~(std::uint64_t{1} << 63));
  }
  return bits;
}
/// The vector times its sign.
template <class W>
void turn_vector(W* x, std::int64_t n) {
  const W half = std::bit_cast<W>(largest_bits(x, n)) / 2;
  const W* const leading = std::find_if(x, x + n, [half](W y) { return std::abs(y) >= half; });
  if (leading < x + n && *leading < 0) std::transform(x, x + n, x, [](W y) { return -y; });
}

/// Multiplies the first columns of a row-major matrix by their signs.
template <class W>
void turn_columns(W* matrix, std::int64_t rows, std::int64_t width, const std::vector<W>& signs) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < signs.size(); ++j)
      matrix[i * width + static_cast<std::int64_t>(j)] *= signs[j];
  }
}

/// The signs of u[m, ku] and vh[kv, n], of which `pairs` vectors belong together.
template <class W>
void fix_signs(W* u, std::int64_t m, std::int64_t ku, W* vh, std::int64_t kv, std::int64_t n,
               std::int64_t pairs) {
  std::vector<W> signs(static_cast<std::size_t>(ku)), largest(signs.size());
  column_signs(u, m, ku, ku, largest.data(), signs.data());
  turn_columns(u, m, ku, signs);
  for (std::int64_t i = 0; i < kv; ++i) {
    W* const row = vh + i * n;
    if (i >= pairs) {
      turn_vector(row, n);
    } else if (signs[static_cast<std::size_t>(i)] < 0) {
      std::transform(row, row + n, row, [](W x) { return -x; });
    }
  }
}

constexpr const char* kNoConvergence = "has singular values or eigenvalues that do not converge";

/// u[m, .], s and vh[., n], row-major, of x[m, n], which is destroyed: row-major, or by columns
/// when it has more rows than columns.
template <class W>
bool decompose(bool full, std::int64_t m, std::int64_t n, W* x, W* u, W* s, W* vh) {
  // Row-major x is by columns x^T = v s u^T, whose v and u^T lie as vh and u do.
  if (m <= n) return singular_vectors(full, n, m, x, s, vh, u) == 0;
  const std::int64_t ku = full ? m : n;
  const auto left = scratch<W>(m * ku), right = scratch<W>(n * n);
  if (singular_vectors(full, m, n, x, s, left.get(), right.get()) != 0) return false;
  const auto same = [](W y) { return y; };
  copy_tiles(left.get(), 1, m, u, ku, 1, m, ku, same);
  copy_tiles(right.get(), 1, n, vh, n, 1, n, n, same);
  return true;
}

void svd(const OpCall& call) {
  const bool full = call.attrs_as<ops::SvdAttrs>().full_matrices;
  const TensorImpl& x = *call.inputs[0].impl();
  const TensorImpl &u = *call.outputs[0].impl(), &s = *call.outputs[1].impl(),
                   &vh = *call.outputs[2].impl();
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t m = at_x.rows, n = at_x.columns, k = std::min(m, n);
  const std::int64_t ku = matrix_of(u).columns, kv = matrix_of(vh).rows;
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, 10 * volume(m, n, k), MatrixBatch::kOwnTeam)
        .run<4>(
            {batch_strides(x, batch), batch_strides(u, batch), batch_strides(s, batch, 1),
             batch_strides(vh, batch)},
            [&](const RowWalk<4>& at) -> std::string {
              Target<T> to_u(elements_of<T>(u, at[1]), m * ku);
              Target<T> to_s(elements_of<T>(s, at[2]), k);
              Target<T> to_vh(elements_of<T>(vh, at[3]), kv * n);
              const auto copy = scratch<W>(m * n);
              const bool tall = m > n;
              read_matrix(elements_of<T>(x, at[0]), at_x, copy.get(), tall);
              if (auto problem = not_finite(copy.get(), m, n, tall); !problem.empty()) {
                return problem;
              }
              if (k == 0) {
                // No singular values: the vectors of full matrices are those of the identity.
                for (auto& [to, size] :
                     {std::pair(&to_u, ku == m ? m : 0), std::pair(&to_vh, kv == n ? n : 0)}) {
                  for (std::int64_t i = 0; i < size * size; ++i) {
                    to->data()[i] = i % (size + 1) == 0 ? W(1) : W(0);
                  }
                }
              } else {
                if (!decompose(full, m, n, copy.get(), to_u.data(), to_s.data(), to_vh.data())) {
                  return kNoConvergence;
                }
                fix_signs(to_u.data(), m, ku, to_vh.data(), kv, n, k);
              }
              to_u.write_back();
              to_s.write_back();
              to_vh.write_back();
              return {};
            });
  });
}

void svdvals(const OpCall& call) {
  const TensorImpl &x = *call.inputs[0].impl(), &s = *call.outputs[0].impl();
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t m = at_x.rows, n = at_x.columns, k = std::min(m, n);
  if (k == 0) return;
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, 3 * volume(m, n, k), MatrixBatch::kReflections)
        .run<2>({batch_strides(x, batch), batch_strides(s, batch, 1)},
                [&](const RowWalk<2>& at) -> std::string {
                  Target<T> to(elements_of<T>(s, at[1]), k);
                  const auto copy = scratch<W>(m * n);
                  W none = 0;
                  read_matrix(elements_of<T>(x, at[0]), at_x, copy.get());
                  if (auto problem = not_finite(copy.get(), m, n); !problem.empty()) return problem;
                  if (lapack::gesdd('N', n, m, copy.get(), to.data(), &none, &none) > 0) {
                    return kNoConvergence;
                  }
                  to.write_back();
                  return {};
                });
  });
}

/// Runs `body(offsets, matrix)` on the symmetric part of each matrix: offsets in the matrices,
/// their eigenvalues and eigenvectors, of which there need be none.
template <class Body>
void with_symmetric(const OpCall& call, double flops, double worth_threads, Body&& body) {
  const TensorImpl &x = *call.inputs[0].impl(), &w = *call.outputs[0].impl();
  const TensorImpl& v = *call.outputs.back().impl();
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t n = at_x.rows;
  if (n == 0) return;
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, flops, worth_threads)
        .run<3>({batch_strides(x, batch), batch_strides(w, batch, 1),
                 batch_strides(v, batch, call.outputs.size())},
                [&](const RowWalk<3>& at) -> std::string {
                  Target<T> values(elements_of<T>(w, at[1]), n);
                  const auto copy = scratch<W>(n * n);
                  read_symmetric(elements_of<T>(x, at[0]), at_x, copy.get());
                  if (auto problem = not_finite(copy.get(), n, n); !problem.empty()) return problem;
                  if (!body(copy.get(), values.data(), elements_of<T>(v, at[2]))) {
                    return kNoConvergence;
                  }
                  values.write_back();
                  return {};
                });
  });
}

void eigh(const OpCall& call) {
  const std::int64_t n = matrix_of(*call.inputs[0].impl()).rows;
  with_symmetric(call, 9 * volume(n, n, n), MatrixBatch::kOwnTeam,
                 [&]<class W, class T>(W* matrix, W* values, T* to) {
                   const auto vectors = scratch<W>(n * n);
                   if (symmetric_eigenvectors(n, matrix, values, vectors.get()) != 0) return false;
                   for (std::int64_t j = 0; j < n; ++j) turn_vector(vectors.get() + j * n, n);
                   write_matrix(vectors.get(), n, n, to, true);
                   return true;
                 });
}

void eigvalsh(const OpCall& call) {
  const std::int64_t n = matrix_of(*call.inputs[0].impl()).rows;
  with_symmetric(call, 2 * volume(n, n, n), MatrixBatch::kReflections,
                 [&]<class W, class T>(W* matrix, W* values, T*) {
                   return lapack::syevd(false, n, matrix, values) == 0;
                 });
}

void lu(const OpCall& call) {
  const TensorImpl& x = *call.inputs[0].impl();
  const TensorImpl &p = *call.outputs[0].impl(), &l = *call.outputs[1].impl(),
                   &u = *call.outputs[2].impl();
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t m = at_x.rows, n = at_x.columns, k = std::min(m, n);
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, 2 * volume(m, n, k) / 3)
        .run<4>({batch_strides(x, batch), batch_strides(p, batch, 1), batch_strides(l, batch),
                 batch_strides(u, batch)},
                [&](const RowWalk<4>& at) -> std::string {
                  const auto factors = scratch<W>(m * n);
                  const auto pivots = scratch<int>(k);
                  read_matrix(elements_of<T>(x, at[0]), at_x, factors.get(), true);
                  if (k > 0) (void)lapack::getrf(m, n, factors.get(), pivots.get());
                  auto* const order = elements_of<std::int64_t>(p, at[1]);
                  for (std::int64_t i = 0; i < m; ++i) order[i] = i;
                  for (std::int64_t i = 0; i < k; ++i) std::swap(order[i], order[pivots[i] - 1]);
                  copy_tiles(factors.get(), 1, m, elements_of<T>(l, at[2]), k, 1, m, k,
                             narrowed_element<T>);
                  copy_tiles(factors.get(), 1, m, elements_of<T>(u, at[3]), n, 1, k, n,
                             narrowed_element<T>);
                  const T zero = narrowed_element<T>(0), one = narrowed_element<T>(1);
                  for (std::int64_t i = 0; i < k; ++i) {
                    T *const row_l = elements_of<T>(l, at[2]) + i * k, *const row_u =
                                                                           elements_of<T>(u,
                                                                                          at[3]) +
                                                                           i * n;
                    std::fill(row_l + i + 1, row_l + k, zero);
                    row_l[i] = one;
                    std::fill(row_u, row_u + i, zero);
                  }
                  return {};
                });
  });
}

void pinv(const OpCall& call) {
  const TensorImpl &x = *call.inputs[0].impl(), &out = *call.outputs[0].impl();
  if (out.numel() == 0) return;
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t m = at_x.rows, n = at_x.columns, k = std::min(m, n);
  const double given = call.attrs_as<ops::PinvAttrs>().rcond;
  const double rcond =
      given >= 0 ? given : static_cast<double>(std::max(m, n)) * ops::spacing_at_one(x.dtype);
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, 12 * volume(m, n, k), MatrixBatch::kReflections)
        .run<2>({batch_strides(x, batch), batch_strides(out, batch)},
                [&](const RowWalk<2>& at) -> std::string {
                  Target<T> to(elements_of<T>(out, at[1]), n * m);
                  const auto copy = scratch<W>(m * n), s = scratch<W>(k);
                  const auto v = scratch<W>(n * k), ut = scratch<W>(k * m);
                  read_matrix(elements_of<T>(x, at[0]), at_x, copy.get());
                  if (auto problem = not_finite(copy.get(), m, n); !problem.empty()) return problem;
                  // To LAPACK x is x^T = v s u^T.
                  if (lapack::gesdd('S', n, m, copy.get(), s.get(), v.get(), ut.get()) > 0) {
                    return kNoConvergence;
                  }
                  const auto bound = static_cast<W>(rcond) * s[0];
                  for (std::int64_t j = 0; j < k; ++j) {
                    const W scale = s[j] > bound ? 1 / s[j] : W(0);
                    for (std::int64_t i = 0; i < n; ++i) v[j * n + i] *= scale;
                  }
                  // By columns the result is its transpose, u s^-1 v^T.
                  lapack::gemm(true, true, m, n, k, W(1), ut.get(), k, v.get(), n, W(0), to.data(),
                               m);
                  to.write_back();
                  return {};
                });
  });
}

/// Square matrices of one size in f64, by columns.
class Squares {
 public:
  explicit Squares(std::int64_t n) : n_(n) {}
  using Matrix = std::unique_ptr<double[]>;

  /// a b
  [[nodiscard]] Matrix product(const Matrix& a, const Matrix& b) const {
    Matrix c = scratch<double>(n_ * n_);
    lapack::gemm(false, false, n_, n_, n_, 1.0, a.get(), n_, b.get(), n_, 0.0, c.get(), n_);
    return c;
  }
  /// The sum of weighted matrices and of `diagonal` times the identity.
  [[nodiscard]] Matrix sum(std::initializer_list<std::pair<double, const Matrix*>> terms,
                           double diagonal = 0) const {
    Matrix c = scratch<double>(n_ * n_);
    std::fill_n(c.get(), n_ * n_, 0.0);
    for (const auto& [weight, matrix] : terms) {
      for (std::int64_t i = 0; i < n_ * n_; ++i) c[i] += weight * (*matrix)[i];
    }
    for (std::int64_t i = 0; i < n_; ++i) c[i * (n_ + 1)] += diagonal;
    return c;
  }
  /// The largest sum of absolute values of a column.
  [[nodiscard]] double norm(const Matrix& a) const {
    double most = 0;
    for (std::int64_t j = 0; j < n_; ++j) {
      double total = 0;
      for (std::int64_t i = 0; i < n_; ++i) total += std::abs(a[j * n_ + i]);
      most = std::max(most, total);
    }
    return most;
  }

 private:
  std::int64_t n_;
};

/// N. Higham, "The scaling and squaring method for the matrix exponential revisited", 2005: the
/// Pade approximant of order 13 of a matrix whose norm is at most 5.37, squared again and again.
Squares::Matrix exponential(const Squares& at, std::int64_t n, Squares::Matrix a) {
  constexpr double kReach = 5.371920351148152;
  constexpr double b[] = {64764752532480000.,
                          32382376266240000.,
                          7771770303897600.,
                          1187353796428800.,
                          129060195264000.,
                          10559470521600.,
                          670442572800.,
                          33522128640.,
                          1323241920.,
                          40840800.,
                          960960.,
                          16380.,
                          182.,
                          1.};
  int squarings = 0;
  double size = at.norm(a);
  while (size > kReach) {
    size /= 2;
    ++squarings;
  }
  const double scale = std::ldexp(1.0, -squarings);
  for (std::int64_t i = 0; i < n * n; ++i) a[i] *= scale;
  const auto a2 = at.product(a, a), a4 = at.product(a2, a2), a6 = at.product(a2, a4);
  const auto odd_tail = at.product(a6, at.sum({{b[13], &a6}, {b[11], &a4}, {b[9], &a2}}));
  const auto odd =
      at.product(a, at.sum({{1, &odd_tail}, {b[7], &a6}, {b[5], &a4}, {b[3], &a2}}, b[1]));
  const auto even_tail = at.product(a6, at.sum({{b[12], &a6}, {b[10], &a4}, {b[8], &a2}}));
  const auto even = at.sum({{1, &even_tail}, {b[6], &a6}, {b[4], &a4}, {b[2], &a2}}, b[0]);
  auto under = at.sum({{1, &even}, {-1, &odd}});
  const auto pivots = scratch<int>(n);
  (void)lapack::getrf(n, n, under.get(), pivots.get());
  (void)lapack::getri(n, under.get(), pivots.get());
  auto result = at.product(under, at.sum({{1, &even}, {1, &odd}}));
  for (; squarings > 0; --squarings) result = at.product(result, result);
  return result;
}

void matrix_exp(const OpCall& call) {
  const TensorImpl &x = *call.inputs[0].impl(), &out = *call.outputs[0].impl();
  if (out.numel() == 0) return;
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t n = at_x.rows;
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    MatrixBatch(call, batch, 20 * volume(n, n, n))
        .run<2>({batch_strides(x, batch), batch_strides(out, batch)},
                [&](const RowWalk<2>& at) -> std::string {
                  const T* from = elements_of<T>(x, at[0]);
                  auto a = scratch<double>(n * n);
                  copy_tiles(from, at_x.row, at_x.column, a.get(), 1, n, n, n,
                             [](T value) { return static_cast<double>(widened_element(value)); });
                  const bool finite = not_finite(a.get(), n, n).empty();
                  if (finite) a = exponential(Squares(n), n, std::move(a));
                  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
                  copy_tiles(
                      a.get(), 1, n, elements_of<T>(out, at[1]), n, 1, n, n, [&](double value) {
                        return narrowed_element<T>(static_cast<Computed<T>>(finite ? value : kNaN));
                      });
                  return {};
                });
  });
}

}  // namespace

std::span<const NamedKernel> decompositions_kernels() {
  static constexpr NamedKernel kernels[] = {{"cholesky", {cholesky}},
                                            {"qr", {qr}},
                                            {"svd", {svd}},
                                            {"svdvals", {svdvals}},
                                            {"eigh", {eigh}},
                                            {"eigvalsh", {eigvalsh}},
                                            {"lu", {lu}},
                                            {"pinv", {pinv}},
                                            {"matrix_exp", {matrix_exp}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
