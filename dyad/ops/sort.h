#pragma once

#include <optional>

#include "dyad/core/tensor.h"
#include "dyad/ops/cumulative.h"

namespace dyad {

// Order: NaN counts as the greatest, -0 equals 0, false is before true. Axes count from the end
// when negative (IndexError out of range); a scalar counts as a vector of one. Gradients go from a
// value to the element that it was.

/// The elements along the axis in ascending (or descending) order, and where they were. Equal
/// elements stay in their order.
[[nodiscard]] ValuesAndIndices sort(const Tensor& x, std::int64_t axis = -1,
                                    bool descending = false,
                                    Loc loc = std::source_location::current());
/// sort(x).indices
[[nodiscard]] Tensor argsort(const Tensor& x, std::int64_t axis = -1, bool descending = false,
                             Loc loc = std::source_location::current());
/// The k largest (or smallest) elements along the axis and where they are: the best first, of equal
/// ones the earlier; unsorted: in the order of x. ShapeError for a k beyond the size.
[[nodiscard]] ValuesAndIndices topk(const Tensor& x, Dim k, std::int64_t axis = -1,
                                    bool largest = true, bool sorted = true,
                                    Loc loc = std::source_location::current());
/// The k-th smallest element along the axis, counted from 1, and where it is.
[[nodiscard]] ValuesAndIndices kthvalue(const Tensor& x, Dim k, std::int64_t axis = -1,
                                        bool keepdim = false,
                                        Loc loc = std::source_location::current());

/// What unique() gives.
struct Unique {
  Tensor values;   ///< each different element (or slice) once
  Tensor indices;  ///< i64: where each one is first
  Tensor inverse;  ///< i64, of the shape of x: places in values (with an axis: of each slice)
  Tensor counts;   ///< i64: how often each one is there
};
/// The different elements of x, or its different slices along an axis: ascending (slices compare
/// element by element), or unsorted, in the order of their first appearance. NaNs count as equal,
/// as in NumPy. How many there are, only the elements tell. No gradient.
[[nodiscard]] Unique unique(const Tensor& x, bool sorted = true,
                            std::optional<std::int64_t> axis = {},
                            Loc loc = std::source_location::current());

/// Where each value would go to keep `sorted` sorted: before equal elements, or behind them
/// (right); i64 of the shape of values. `sorted` is a vector, or has rows of its own for each row
/// of values (all axes but the last equal). Both have one dtype.
[[nodiscard]] Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false,
                                  Loc loc = std::source_location::current());
/// searchsorted() with the arguments in PyTorch's other order: the number of the bucket of each
/// value between the boundaries, an ascending vector.
[[nodiscard]] Tensor bucketize(const Tensor& values, const Tensor& boundaries, bool right = false,
                               Loc loc = std::source_location::current());
/// For each element whether it is among those of `among`. NaN never is.
[[nodiscard]] Tensor isin(const Tensor& x, const Tensor& among,
                          Loc loc = std::source_location::current());

}  // namespace dyad
