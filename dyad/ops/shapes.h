#pragma once

#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

// Views in other words: nothing is copied unless said. Axes count from the end when negative
// (IndexError out of range).

/// The axes `from` in the places `to`, the others in their order.
[[nodiscard]] Tensor movedim(const Tensor& x, const Ints& from, const Ints& to,
                             Loc loc = std::source_location::current());
[[nodiscard]] Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to,
                             Loc loc = std::source_location::current());
/// transpose() by its NumPy name.
[[nodiscard]] Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b,
                              Loc loc = std::source_location::current());
/// Without the axes of size 1; sizes must be known (a symbolic size stays).
[[nodiscard]] Tensor squeeze(const Tensor& x, Loc loc = std::source_location::current());
/// Without the given axes, each of size 1 (ShapeError for another size, ValueError for an axis
/// named twice).
[[nodiscard]] Tensor squeeze(const Tensor& x, const Ints& axes,
                             Loc loc = std::source_location::current());
/// One axis; row-major order.
[[nodiscard]] Tensor ravel(const Tensor& x, Loc loc = std::source_location::current());
/// One axis as several; one of the sizes may be -1 (ShapeError when they do not fit).
[[nodiscard]] Tensor unflatten(const Tensor& x, std::int64_t axis, const Sizes& sizes,
                               Loc loc = std::source_location::current());
/// expand() by its NumPy name.
[[nodiscard]] Tensor broadcast_to(const Tensor& x, Sizes shape,
                                  Loc loc = std::source_location::current());
/// All of one shape, the one that they broadcast to (ShapeError).
[[nodiscard]] std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors,
                                                    Loc loc = std::source_location::current());
[[nodiscard]] std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> tensors,
                                                    Loc loc = std::source_location::current());
/// The parts at each index of an axis, which vanishes. The size must be known.
[[nodiscard]] std::vector<Tensor> unbind(const Tensor& x, std::int64_t axis = 0,
                                         Loc loc = std::source_location::current());
/// `count` slices whose sizes differ by at most one, the larger ones first.
[[nodiscard]] std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t count,
                                               std::int64_t axis = 0,
                                               Loc loc = std::source_location::current());
/// Slices up to each of the indices, which slice() reads as bounds, and from the last one on:
/// `tensor_split(x, {2, 5})` gives x[:2], x[2:5] and x[5:].
[[nodiscard]] std::vector<Tensor> tensor_split(const Tensor& x, const Ints& indices,
                                               std::int64_t axis = 0,
                                               Loc loc = std::source_location::current());
[[nodiscard]] std::vector<Tensor> tensor_split(const Tensor& x,
                                               std::initializer_list<std::int64_t> indices,
                                               std::int64_t axis = 0,
                                               Loc loc = std::source_location::current());

/// x, or a number as [1].
[[nodiscard]] Tensor atleast_1d(const Tensor& x, Loc loc = std::source_location::current());
/// At least two axes: a number becomes [1, 1], a vector [1, n].
[[nodiscard]] Tensor atleast_2d(const Tensor& x, Loc loc = std::source_location::current());
/// At least three axes: a number becomes [1, 1, 1], a vector [1, n, 1], a matrix [m, n, 1].
[[nodiscard]] Tensor atleast_3d(const Tensor& x, Loc loc = std::source_location::current());
/// Joined along the second axis, or the only one of vectors; numbers are vectors of one. A copy.
[[nodiscard]] Tensor hstack(std::span<const Tensor> tensors,
                            Loc loc = std::source_location::current());
[[nodiscard]] Tensor hstack(std::initializer_list<Tensor> tensors,
                            Loc loc = std::source_location::current());
/// Joined along the first axis of at least two, as atleast_2d() makes them. A copy.
[[nodiscard]] Tensor vstack(std::span<const Tensor> tensors,
                            Loc loc = std::source_location::current());
[[nodiscard]] Tensor vstack(std::initializer_list<Tensor> tensors,
                            Loc loc = std::source_location::current());
/// Joined along the third axis of at least three, as atleast_3d() makes them. A copy.
[[nodiscard]] Tensor dstack(std::span<const Tensor> tensors,
                            Loc loc = std::source_location::current());
[[nodiscard]] Tensor dstack(std::initializer_list<Tensor> tensors,
                            Loc loc = std::source_location::current());

}  // namespace dyad
