#pragma once

#include <cstdint>

#include "dyad/runtime/threads.h"

/// LAPACK and BLAS for f32 and f64, on matrices stored by columns. A row-major matrix is to them
/// its transpose, which most kernels make use of instead of copying. Every result is LAPACK's info:
/// 0, or i when the i-th pivot, minor or value is where it failed. Sizes are checked (MemoryError
/// when one does not fit LAPACK's 32-bit integers).
namespace dyad::runtime::cpu::lapack {

/// Held around calls: LAPACK's threads, as many as said and at most as many as the team has. One
/// inside a parallel loop.
class Threads {
 public:
  explicit Threads(int threads);

 private:
  LibraryTeam team_;
};

enum class Triangle : char { upper = 'U', lower = 'L' };

/// Cholesky factor of one triangle of a[n, n], in its place.
template <class T>
int potrf(Triangle triangle, std::int64_t n, T* a);
/// LU factors of a[m, n] in its place; row i was exchanged with row pivots[i] - 1, from the first
/// on.
template <class T>
int getrf(std::int64_t m, std::int64_t n, T* a, int* pivots);
/// The inverse from such factors, in their place.
template <class T>
int getri(std::int64_t n, T* a, const int* pivots);
/// b[m, n] := b @ op(t)^-1 for a triangle t[n, n], with leading dimensions.
template <class T>
void trsm_right(Triangle triangle, bool transpose, bool unit_diagonal, std::int64_t m,
                std::int64_t n, const T* t, std::int64_t ldt, T* b, std::int64_t ldb);
/// The QR factors of a[m, n] in their place, one column after the other: k = min(m, n) reflections
/// with their factors in tau[k].
template <class T>
void geqr2(std::int64_t m, std::int64_t n, T* a, std::int64_t lda, T* tau);
/// a[m, n], m >= n, as q @ (upper bidiagonal d[n], e[n - 1]) @ p^T: n reflections of q below the
/// diagonal, with tau_q[n], and n - 1 of p right of the bidiagonal, with tau_p[n].
template <class T>
void gebrd(std::int64_t m, std::int64_t n, T* a, T* d, T* e, T* tau_q, T* tau_p);
/// The singular values of an upper bidiagonal matrix in the place of d[n], e[n - 1] is destroyed;
/// and its vectors u[n, n] with a leading dimension, vt[n, n] too.
template <class T>
int bdsdc(std::int64_t n, T* d, T* e, T* u, std::int64_t ldu, T* vt, std::int64_t ldvt);
/// Symmetric a[n, n] as q @ (tridiagonal d[n], e[n - 1]) @ q^T: n - 1 reflections below the
/// subdiagonal, with tau[n - 1].
template <class T>
void sytrd(std::int64_t n, T* a, T* d, T* e, T* tau);
/// The eigenvalues of a symmetric tridiagonal matrix in the place of d[n], e[n - 1] is destroyed;
/// and its eigenvectors z[n, n], with a leading dimension.
template <class T>
int stedc(std::int64_t n, T* d, T* e, T* z, std::int64_t ldz);
/// The same of a matrix whose largest element is 1 or -1, torn in two: d[n] and z[n, n] hold the
/// eigenvalues and eigenvectors of two diagonal blocks, the first of `cut` rows, from which the
/// element `tie` beside the diagonal between them was taken (and |tie| from the two next to it).
/// order[i] is the place of the i-th smallest eigenvalue.
template <class T>
int laed1(std::int64_t n, T* d, T* z, T tie, std::int64_t cut, int* order);
/// Singular values of a[m, n], which is destroyed, and vectors: 'N' none, 'S' min(m, n) of them,
/// 'A' all. u[m, .] and vt[., n].
template <class T>
int gesdd(char vectors, std::int64_t m, std::int64_t n, T* a, T* s, T* u, T* vt);
/// Eigenvalues w[n] of symmetric a[n, n]; with `vectors` the eigenvectors in its place, otherwise
/// it is destroyed.
template <class T>
int syevd(bool vectors, std::int64_t n, T* a, T* w);
/// c[m, n] := beta c + alpha op(a) @ op(b), with leading dimensions.
template <class T>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c,
          std::int64_t ldc);

/// c[m, n] += op(a) @ op(b), or = without `accumulate`, row-major with leading dimensions: the
/// plain product of f64, which oneDNN does not have.
void gemm_rows(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               const double* a, std::int64_t lda, const double* b, std::int64_t ldb,
               bool accumulate, double* c, std::int64_t ldc);

}  // namespace dyad::runtime::cpu::lapack
