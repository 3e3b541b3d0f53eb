#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

// Systems of linear equations and determinants, of one matrix or a batch of them: the axes before
// the last two, which are worked on in parallel. Floating dtypes; f16 and bf16 are computed in f32.
// Through LAPACK's LU factors with partial pivoting. A matrix that is singular, to the last bit, is
// a ValueError that names it by its place in the batch; one that is nearly so gives large numbers.
// NaN and infinite elements give NaN. Not square: ShapeError. solve() and inverse() take complex
// matrices too.

/// x with a @ x = b: a[..., n, n] and b[..., n, k] -> [..., n, k], or vectors b[..., n] -> [...,
/// n]. b holds vectors when it has one axis, or one axis fewer than a and the sizes of a without
/// its last one. The leading axes broadcast.
[[nodiscard]] Tensor solve(const Tensor& a, const Tensor& b,
                           Loc loc = std::source_location::current());
/// The same for a triangle of a, the upper or the lower one: the other elements are not read. With
/// `transpose` a^T @ x = b; with `unit_diagonal` the diagonal is not read either, and counts as 1.
/// ValueError for a 0 on the diagonal.
[[nodiscard]] Tensor triangular_solve(const Tensor& a, const Tensor& b, bool upper,
                                      bool transpose = false, bool unit_diagonal = false,
                                      Loc loc = std::source_location::current());
/// x with a @ x = b, from the Cholesky factor of a: l with l @ l^T = a, or with `upper` u with
/// u^T @ u = a.
[[nodiscard]] Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper = false,
                                    Loc loc = std::source_location::current());
/// The inverse matrix; solve() is quicker and more exact where it is to be multiplied.
[[nodiscard]] Tensor inverse(const Tensor& x, Loc loc = std::source_location::current());

/// The determinant: 0 for a singular matrix, 1 for one without elements. Its gradient, the matrix
/// of cofactors, is right for singular matrices too; the second one needs an invertible matrix.
[[nodiscard]] Tensor det(const Tensor& x, Loc loc = std::source_location::current());
/// The determinant as sign * exp(logabsdet): what neither overflows nor vanishes.
struct SignAndLog {
  Tensor sign;       ///< -1, 0 or 1; its derivative is 0
  Tensor logabsdet;  ///< -infinity for a singular matrix, which has no gradient (ValueError)
};
[[nodiscard]] SignAndLog slogdet(const Tensor& x, Loc loc = std::source_location::current());
/// log(det(x)): NaN where the determinant is negative.
[[nodiscard]] Tensor logdet(const Tensor& x, Loc loc = std::source_location::current());

}  // namespace dyad
