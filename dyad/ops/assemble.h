#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

// Tensors made of others, in other words. Axes count from the end when negative (IndexError out of
// range). Sizes may be symbolic unless said.

/// Matrices along the diagonal of one, zeros elsewhere; a vector is a row, a number a matrix of
/// one. ValueError for none, ShapeError for more axes.
[[nodiscard]] Tensor block_diag(std::span<const Tensor> blocks,
                                Loc loc = std::source_location::current());
[[nodiscard]] Tensor block_diag(std::initializer_list<Tensor> blocks,
                                Loc loc = std::source_location::current());
/// Every choice of one element of each vector, a row each, the last one changing fastest; of one
/// vector itself. ValueError for none, ShapeError for another rank.
[[nodiscard]] Tensor cartesian_prod(std::span<const Tensor> vectors,
                                    Loc loc = std::source_location::current());
[[nodiscard]] Tensor cartesian_prod(std::initializer_list<Tensor> vectors,
                                    Loc loc = std::source_location::current());
/// Every choice of `count` elements of a vector in their order, a row each; with repeats an element
/// may be chosen again. The size must be known. ValueError for a count below 0.
[[nodiscard]] Tensor combinations(const Tensor& x, std::int64_t count = 2, bool repeats = false,
                                  Loc loc = std::source_location::current());

/// What unique_consecutive() gives.
struct Runs {
  Tensor values;   ///< the first element (or slice) of each run
  Tensor inverse;  ///< i64: for each element (slice) the number of its run
  Tensor counts;   ///< i64: how long each run is
};
/// Runs of equal elements of x in row-major order, or of equal slices along an axis. A NaN equals
/// nothing. How many there are, only the elements tell.
[[nodiscard]] Runs unique_consecutive(const Tensor& x, std::optional<std::int64_t> axis = {},
                                      Loc loc = std::source_location::current());
/// The different elements that one of the two has, ascending, as a vector.
[[nodiscard]] Tensor union1d(const Tensor& a, const Tensor& b,
                             Loc loc = std::source_location::current());
/// The different elements of a that b has too, ascending, as a vector.
[[nodiscard]] Tensor intersect1d(const Tensor& a, const Tensor& b,
                                 Loc loc = std::source_location::current());
/// The different elements of a that b has not, ascending, as a vector.
[[nodiscard]] Tensor setdiff1d(const Tensor& a, const Tensor& b,
                               Loc loc = std::source_location::current());
/// The different elements that exactly one of the two has, ascending, as a vector.
[[nodiscard]] Tensor setxor1d(const Tensor& a, const Tensor& b,
                              Loc loc = std::source_location::current());
/// The order (i64, along the axis) that sorts by the last key, and where that is equal by the one
/// before it, and so on; keys have one shape. ValueError for none.
[[nodiscard]] Tensor lexsort(std::span<const Tensor> keys, std::int64_t axis = -1,
                             Loc loc = std::source_location::current());
[[nodiscard]] Tensor lexsort(std::initializer_list<Tensor> keys, std::int64_t axis = -1,
                             Loc loc = std::source_location::current());
/// sort() along the first axis.
[[nodiscard]] Tensor msort(const Tensor& x, Loc loc = std::source_location::current());
/// nonzero() by its other name.
[[nodiscard]] Tensor argwhere(const Tensor& x, Loc loc = std::source_location::current());
/// The indices along each axis of an array of that shape of elements numbered in row-major order;
/// negative numbers count from the end.
[[nodiscard]] std::vector<Tensor> unravel_index(const Tensor& places, const Shape& shape,
                                                Loc loc = std::source_location::current());

/// Vectors as columns and matrices side by side.
[[nodiscard]] Tensor column_stack(std::span<const Tensor> tensors,
                                  Loc loc = std::source_location::current());
[[nodiscard]] Tensor column_stack(std::initializer_list<Tensor> tensors,
                                  Loc loc = std::source_location::current());
/// tensor_split() along axis 1, or 0 of a vector.
[[nodiscard]] std::vector<Tensor> hsplit(const Tensor& x, std::int64_t count,
                                         Loc loc = std::source_location::current());
/// tensor_split() along axis 0.
[[nodiscard]] std::vector<Tensor> vsplit(const Tensor& x, std::int64_t count,
                                         Loc loc = std::source_location::current());
/// tensor_split() along axis 2.
[[nodiscard]] std::vector<Tensor> dsplit(const Tensor& x, std::int64_t count,
                                         Loc loc = std::source_location::current());
/// x backwards along axis 1: a view.
[[nodiscard]] Tensor fliplr(const Tensor& x, Loc loc = std::source_location::current());
/// x backwards along axis 0: a view.
[[nodiscard]] Tensor flipud(const Tensor& x, Loc loc = std::source_location::current());
/// `length` elements along the axis from `start` on (negative from the end): a view.
[[nodiscard]] Tensor narrow(const Tensor& x, std::int64_t axis, Dim start, Dim length,
                            Loc loc = std::source_location::current());
/// A matrix with the elements of x, in row-major order, on its k-th diagonal.
[[nodiscard]] Tensor diagflat(const Tensor& x, std::int64_t k = 0,
                              Loc loc = std::source_location::current());
/// A copy of x in which `source` is what diagonal() would give.
[[nodiscard]] Tensor diagonal_scatter(const Tensor& x, const Tensor& source,
                                      std::int64_t offset = 0, std::int64_t axis1 = 0,
                                      std::int64_t axis2 = 1,
                                      Loc loc = std::source_location::current());
/// scatter_reduce() of whole slices: slice i of source goes to slice index[i] of x along the axis.
[[nodiscard]] Tensor index_reduce(const Tensor& x, std::int64_t axis, const Tensor& index,
                                  const Tensor& source, std::string_view reduction,
                                  bool include_self = true,
                                  Loc loc = std::source_location::current());
/// reshape() to the shape of another tensor.
[[nodiscard]] Tensor reshape_as(const Tensor& x, const Tensor& other,
                                Loc loc = std::source_location::current());
/// expand() to the shape of another tensor.
[[nodiscard]] Tensor expand_as(const Tensor& x, const Tensor& other,
                               Loc loc = std::source_location::current());

}  // namespace dyad
