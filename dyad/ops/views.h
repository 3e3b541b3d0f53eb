#pragma once

#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

// Other shapes over the same elements: no copy unless said. Axes count from the end when negative;
// an axis out of range is an IndexError. Sizes may be symbolic.

/// The elements in row-major order in another shape; one size may be -1: what the others leave.
/// ShapeError when the numbers of elements differ. Copies when strides do not allow a view.
[[nodiscard]] Tensor reshape(const Tensor& x, Sizes shape,
                             Loc loc = std::source_location::current());
/// The axes first to last as one.
[[nodiscard]] Tensor flatten(const Tensor& x, std::int64_t first = 0, std::int64_t last = -1,
                             Loc loc = std::source_location::current());
/// Axis i of the result is axis axes[i] of x.
[[nodiscard]] Tensor permute(const Tensor& x, Ints axes, Loc loc = std::source_location::current());
/// x with two axes exchanged.
[[nodiscard]] Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b,
                               Loc loc = std::source_location::current());
/// Without an axis of size 1 (ShapeError for another size).
[[nodiscard]] Tensor squeeze(const Tensor& x, std::int64_t axis,
                             Loc loc = std::source_location::current());
/// With a new axis of size 1 in that place of the result.
[[nodiscard]] Tensor unsqueeze(const Tensor& x, std::int64_t axis,
                               Loc loc = std::source_location::current());
/// x broadcast to `shape`; -1 keeps a size.
[[nodiscard]] Tensor expand(const Tensor& x, Sizes shape,
                            Loc loc = std::source_location::current());
/// x, whose sizes are said to be those of `shape`: in a graph, where two sizes may have different
/// names, they are taken for equal from here on. ShapeError when a run finds that they are not.
[[nodiscard]] Tensor assume_shape(const Tensor& x, Shape shape,
                                  Loc loc = std::source_location::current());
/// The part at `index` (negative from the end) along an axis, which vanishes.
[[nodiscard]] Tensor select(const Tensor& x, std::int64_t axis, Dim index,
                            Loc loc = std::source_location::current());
/// Every step-th element from begin to before end along an axis; negative bounds count from the
/// end, bounds beyond the size are clipped to it, as in Python. A negative step walks backwards; 0
/// is a ValueError.
[[nodiscard]] Tensor slice(const Tensor& x, std::int64_t axis, Dim begin, Dim end = kEnd,
                           std::int64_t step = 1, Loc loc = std::source_location::current());
/// A copy of x in which `source` is the part that select() would give; it has that part's shape and
/// the dtype of x (ShapeError, DTypeError).
[[nodiscard]] Tensor select_scatter(const Tensor& x, const Tensor& source, std::int64_t axis,
                                    Dim index, Loc loc = std::source_location::current());
/// A copy of x in which `source` is the part that slice() would give.
[[nodiscard]] Tensor slice_scatter(const Tensor& x, const Tensor& source, std::int64_t axis,
                                   Dim begin, Dim end = kEnd, std::int64_t step = 1,
                                   Loc loc = std::source_location::current());
/// Slices of the given sizes, which add up to the size of the axis (ShapeError).
[[nodiscard]] std::vector<Tensor> split(const Tensor& x, const Shape& sizes, std::int64_t axis = 0,
                                        Loc loc = std::source_location::current());
/// Slices of `size` elements, the last one with what is left.
[[nodiscard]] std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis = 0,
                                        Loc loc = std::source_location::current());
/// `count` slices of one size, the last shorter (or fewer slices) when the axis does not divide.
[[nodiscard]] std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis = 0,
                                        Loc loc = std::source_location::current());

/// The same elements, apart from the graph of gradients: nothing flows back through it.
[[nodiscard]] Tensor detach(const Tensor& x, Loc loc = std::source_location::current());
/// A row-major copy.
[[nodiscard]] Tensor clone(const Tensor& x, Loc loc = std::source_location::current());
/// x itself when it is row-major, otherwise a row-major copy.
[[nodiscard]] Tensor contiguous(const Tensor& x, Loc loc = std::source_location::current());

}  // namespace dyad
