#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

// Products of vectors and matrices, in terms of matmul and einsum: number and complex dtypes, all
// operands alike (DTypeError). A rank or size that does not fit is a ShapeError.

/// Matrix products of two batches: [batch, m, k] and [batch, k, n].
[[nodiscard]] Tensor bmm(const Tensor& a, const Tensor& b,
                         Loc loc = std::source_location::current());
/// The product of two matrices, [m, k] and [k, n].
[[nodiscard]] Tensor mm(const Tensor& a, const Tensor& b,
                        Loc loc = std::source_location::current());
/// The product of a matrix [m, k] and a vector [k].
[[nodiscard]] Tensor mv(const Tensor& a, const Tensor& x,
                        Loc loc = std::source_location::current());
/// The sum of the products of the elements of two vectors.
[[nodiscard]] Tensor dot(const Tensor& a, const Tensor& b,
                         Loc loc = std::source_location::current());
/// The same over one axis of tensors that broadcast; of a complex a the conjugate, as in NumPy.
[[nodiscard]] Tensor vecdot(const Tensor& a, const Tensor& b, std::int64_t axis = -1,
                            Loc loc = std::source_location::current());
/// a[..., k] and b[..., k] -> [a's other axes, b's other axes]: the dot products of their rows.
/// With a scalar: the product of each element.
[[nodiscard]] Tensor inner(const Tensor& a, const Tensor& b,
                           Loc loc = std::source_location::current());
/// The products of all pairs of elements of two vectors: [m] and [n] -> [m, n].
[[nodiscard]] Tensor outer(const Tensor& a, const Tensor& b,
                           Loc loc = std::source_location::current());
/// beta * input + alpha * (a @ b) of matrices; input broadcasts to [m, n]. With beta = 0 the input
/// counts for nothing, not even its NaN. With whole beta and alpha integers stay integers.
[[nodiscard]] Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1,
                           double alpha = 1, Loc loc = std::source_location::current());
/// The same for batches of matrices, as bmm takes them.
[[nodiscard]] Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1,
                             double alpha = 1, Loc loc = std::source_location::current());

/// Products summed over axes_a of a and axes_b of b, pair by pair; the other axes of a, then those
/// of b, are left. IndexError, ValueError (lists of different lengths, an axis named twice).
[[nodiscard]] Tensor tensordot(const Tensor& a, const Tensor& b, const Ints& axes_a,
                               const Ints& axes_b, Loc loc = std::source_location::current());
/// The same over the last `axes` axes of a and the first ones of b.
[[nodiscard]] Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t axes = 2,
                               Loc loc = std::source_location::current());
/// Kronecker product: every element of a times the whole of b, in blocks; the tensor of lower rank
/// has leading axes of size 1.
[[nodiscard]] Tensor kron(const Tensor& a, const Tensor& b,
                          Loc loc = std::source_location::current());
/// The product of a chain of matrices, in the order that takes the fewest multiplications (see
/// einsum). The first and the last may be vectors. ValueError for fewer than two.
[[nodiscard]] Tensor multi_dot(std::span<const Tensor> chain,
                               Loc loc = std::source_location::current());
[[nodiscard]] Tensor multi_dot(std::initializer_list<Tensor> chain,
                               Loc loc = std::source_location::current());
/// x @ x @ ... `n` times, by repeated squaring, for a batch [..., m, m]: 0 gives identity matrices,
/// a negative n the power of the inverse (floating dtypes).
[[nodiscard]] Tensor matrix_power(const Tensor& x, std::int64_t n,
                                  Loc loc = std::source_location::current());
/// The vector product along an axis of size 3; the others broadcast.
[[nodiscard]] Tensor cross(const Tensor& a, const Tensor& b, std::int64_t axis = -1,
                           Loc loc = std::source_location::current());
/// The distance of every row of a[..., m, k] from every row of b[..., n, k] in the norm
/// sum(|d|^p)^(1/p): [..., m, n]. p = 0 counts the elements that differ, infinity gives the
/// largest. Floating dtypes. The gradient of a distance of 0 is 0. ValueError for a negative p.
[[nodiscard]] Tensor cdist(const Tensor& a, const Tensor& b, double p = 2,
                           Loc loc = std::source_location::current());

}  // namespace dyad
