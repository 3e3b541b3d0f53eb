#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

// Factors of one matrix or a batch of them (the axes before the last two), through LAPACK. Floating
// dtypes; f16 and bf16 are computed in f32. Factors that mathematics leaves open are fixed by the
// signs named below, so results do not depend on the library. A NaN or infinity in a matrix is a
// ValueError where the factors would have no meaning (svd, eigh, pinv and what is made of them),
// and so is a matrix that has no such factor; the message names the matrix by its place in the
// batch.

/// l with l @ l^T = x, lower triangular with a positive diagonal; with `upper` u = l^T. x counts by
/// its symmetric part (x + x^T) / 2, and so does its gradient: a matrix of which only one triangle
/// is filled must be completed first. ValueError unless x is positive definite.
[[nodiscard]] Tensor cholesky(const Tensor& x, bool upper = false,
                              Loc loc = std::source_location::current());

/// x = q @ r: q with orthonormal columns, r upper triangular with no negative number on its
/// diagonal. Reduced: q[m, k], r[k, n] for k = min(m, n); complete: q[m, m], r[m, n].
/// The gradient needs independent columns (the first m of them when there are more than rows); a
/// complete factor of a matrix with more rows than columns has none (GradError).
struct Qr {
  Tensor q, r;
};
[[nodiscard]] Qr qr(const Tensor& x, bool complete = false,
                    Loc loc = std::source_location::current());

/// x = u @ diag(s) @ vh with orthonormal columns of u and rows of vh, and s >= 0 from the largest
/// down. Full: u[m, m], vh[n, n]; otherwise u[m, k], vh[k, n] for k = min(m, n). In each column of
/// u the first element that is at least half as large as the largest one is positive (rows of vh
/// that belong to no column likewise). The gradient through u and vh needs singular values that
/// differ: it grows as 1 / (s_i^2 - s_j^2) and is infinite or NaN where two are equal; that through
/// s alone always exists. Full matrices have a gradient through u and vh only when x is square
/// (GradError).
struct Svd {
  Tensor u, s, vh;
};
[[nodiscard]] Svd svd(const Tensor& x, bool full_matrices = true,
                      Loc loc = std::source_location::current());
/// The singular values alone, which takes a fraction of the time, to last bits of their own; a
/// gradient computes the vectors, too.
[[nodiscard]] Tensor svdvals(const Tensor& x, Loc loc = std::source_location::current());

/// x = v @ diag(w) @ v^T for symmetric x: eigenvalues w from the smallest up and eigenvectors as
/// the columns of v; signs as for svd. x counts by its symmetric part, as for cholesky. The
/// gradient through v needs eigenvalues that differ: it grows as 1 / (w_i - w_j) and is infinite or
/// NaN where two are equal; that through w alone always exists.
struct Eigh {
  Tensor w, v;
};
[[nodiscard]] Eigh eigh(const Tensor& x, Loc loc = std::source_location::current());
/// The eigenvalues w of eigh() alone.
[[nodiscard]] Tensor eigvalsh(const Tensor& x, Loc loc = std::source_location::current());

/// index_select(x, -2, permutation) = l @ u for one matrix: l[m, k] lower triangular with ones on
/// its diagonal, u[k, n] upper triangular, k = min(m, n); permutation[m] is i64. Each pivot is the
/// largest of its column. The gradient needs an invertible square part.
struct Lu {
  Tensor permutation, l, u;
};
[[nodiscard]] Lu lu(const Tensor& x, Loc loc = std::source_location::current());

/// The pseudo-inverse (Moore and Penrose) by singular values; those up to rcond times the largest
/// count as 0. A negative rcond means max(m, n) times the spacing of numbers at 1. The gradient is
/// that of matrices of the same rank.
[[nodiscard]] Tensor pinv(const Tensor& x, double rcond = -1,
                          Loc loc = std::source_location::current());
/// The x of least norm among those with the least |a @ x - b|: a[..., m, n] and b[..., m, k] ->
/// [..., n, k], or one vector b[m] -> [..., n]. rcond as for pinv.
[[nodiscard]] Tensor lstsq(const Tensor& a, const Tensor& b, double rcond = -1,
                           Loc loc = std::source_location::current());
/// How many singular values are above rcond times the largest: i64. rcond as for pinv.
[[nodiscard]] Tensor matrix_rank(const Tensor& x, double rcond = -1,
                                 Loc loc = std::source_location::current());

/// The exponential of square matrices, I + x + x^2 / 2! + x^3 / 3! + ..., computed in f64 (Higham,
/// 2005: scaling and squaring). NaN for a matrix with NaN or an infinity.
[[nodiscard]] Tensor matrix_exp(const Tensor& x, Loc loc = std::source_location::current());

}  // namespace dyad
