#pragma once

#include <array>
#include <string_view>

#include "dyad/core/tensor.h"

namespace dyad {

// Norms and factors of one matrix or a batch of them, in terms of other operators. Axes count from
// the end when negative (IndexError out of range).

/// norm() by its other name; of complex numbers that of their absolute values.
[[nodiscard]] Tensor vector_norm(const Tensor& x, double p = 2, const Ints& axes = {},
                                 bool keepdim = false, Loc loc = std::source_location::current());
/// The norm of matrices along two axes: "fro", the root of the sum of squares, or "nuc", the sum of
/// the singular values. ValueError for another name, or axes that are not two different ones.
[[nodiscard]] Tensor matrix_norm(const Tensor& x, std::string_view kind = "fro",
                                 const Ints& axes = {-2, -1}, bool keepdim = false,
                                 Loc loc = std::source_location::current());
/// The same by number: 2 (-2) the largest (smallest) singular value, 1 (-1) the largest (smallest)
/// sum of absolute values of a column, infinity (-infinity) that of a row. ValueError for another.
[[nodiscard]] Tensor matrix_norm(const Tensor& x, double p, const Ints& axes = {-2, -1},
                                 bool keepdim = false, Loc loc = std::source_location::current());
/// How much worse a system of equations makes errors: the largest singular value over the smallest
/// (infinite for a singular matrix), -2: the other way round.
[[nodiscard]] Tensor cond(const Tensor& x, Loc loc = std::source_location::current());
/// For 2 and -2 the same; otherwise the norm of the matrix times that of its inverse, whose errors
/// it has.
[[nodiscard]] Tensor cond(const Tensor& x, double p, Loc loc = std::source_location::current());
[[nodiscard]] Tensor cond(const Tensor& x, const char* kind,
                          Loc loc = std::source_location::current());

/// The factors of lu() for one or more systems of equations.
struct LuFactor {
  Tensor factors;      ///< u, and below its diagonal l without its ones
  Tensor permutation;  ///< i64: see lu()
};
/// ShapeError unless the matrices are square.
[[nodiscard]] LuFactor lu_factor(const Tensor& x, Loc loc = std::source_location::current());
/// x with a @ x = b by the factors of a: b[..., n, k] -> [..., n, k]. ValueError for a singular a.
[[nodiscard]] Tensor lu_solve(const LuFactor& a, const Tensor& b,
                              Loc loc = std::source_location::current());
/// The inverse of a matrix from its Cholesky factor, as cholesky_solve() takes it.
[[nodiscard]] Tensor cholesky_inverse(const Tensor& factor, bool upper = false,
                                      Loc loc = std::source_location::current());

}  // namespace dyad
