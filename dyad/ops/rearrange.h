#pragma once

#include <string_view>

#include "dyad/core/tensor.h"

namespace dyad {

// Elements in other places. Axes count from the end when negative (IndexError out of range);
// gradients go back to where the elements came from, added up where one was taken several times.

/// x backwards along each of the axes (none: all): a view.
[[nodiscard]] Tensor flip(const Tensor& x, const Ints& axes = {},
                          Loc loc = std::source_location::current());
/// A quarter turn from axis `first` towards axis `second`, `turns` times (negative: the other way):
/// a view.
[[nodiscard]] Tensor rot90(const Tensor& x, std::int64_t turns = 1, std::int64_t first = 0,
                           std::int64_t second = 1, Loc loc = std::source_location::current());
/// Moved along each axis by its shift, what leaves at the end comes back at the beginning. Without
/// axes: in row-major order by the one shift.
[[nodiscard]] Tensor roll(const Tensor& x, const Ints& shifts, const Ints& axes = {},
                          Loc loc = std::source_location::current());
/// x beside itself, `counts[i]` times along axis i; axes are added in front when there are more
/// counts, counts of 1 when there are fewer.
[[nodiscard]] Tensor tile(const Tensor& x, const Sizes& counts,
                          Loc loc = std::source_location::current());
/// tile() by its PyTorch name.
[[nodiscard]] Tensor repeat(const Tensor& x, const Sizes& counts,
                            Loc loc = std::source_location::current());
/// Each slice along the axis `count` times in a row.
[[nodiscard]] Tensor repeat_interleave(const Tensor& x, std::int64_t count, std::int64_t axis,
                                       Loc loc = std::source_location::current());
/// Slice i along the axis counts[i] times (i64 or i32, none negative: ValueError). How long the
/// axis gets, only the counts tell.
[[nodiscard]] Tensor repeat_interleave(const Tensor& x, const Tensor& counts, std::int64_t axis,
                                       Loc loc = std::source_location::current());

/// The same of the elements in row-major order, as a vector.
[[nodiscard]] Tensor repeat_interleave(const Tensor& x, std::int64_t count,
                                       Loc loc = std::source_location::current());
[[nodiscard]] Tensor repeat_interleave(const Tensor& x, const Tensor& counts,
                                       Loc loc = std::source_location::current());

/// `low[i]` elements before and `high[i]` after axis i, by mode: "constant" (0), "reflect"
/// (mirrored without the edge, there and back again where there are more than that), "edge" or
/// "replicate" (the first and the last element), "wrap" or "circular" (as if x went on, again and
/// again). Only "constant" crops. ShapeError where x has nothing to take, and when a graph runs
/// that left sizes open, where "reflect" would need the size or more and "wrap" more than it.
[[nodiscard]] Tensor pad(const Tensor& x, const Shape& low, const Shape& high,
                         std::string_view mode, Loc loc = std::source_location::current());

/// Windows of `size` elements, one every `step`, along the axis: a view of as many windows there,
/// with the elements of a window along a new last axis. ValueError for a size or step below 1,
/// ShapeError for a size beyond the axis. It cannot be written through.
[[nodiscard]] Tensor unfold(const Tensor& x, std::int64_t axis, std::int64_t size,
                            std::int64_t step, Loc loc = std::source_location::current());
/// Element [i, j, ...] is that of x in row-major order at offset + i * strides[0] + j * strides[1]
/// + ...: a copy, so that it means the same for any layout of x. ShapeError for places beyond x.
[[nodiscard]] Tensor as_strided(const Tensor& x, const Shape& shape, const Ints& strides,
                                std::int64_t offset = 0, Loc loc = std::source_location::current());

/// x[n, c, h, w] -> [n, c / block^2, h * block, w * block]: each block's elements come from
/// channels of their own; channels are read as [block, block, c'] ("DCR"), or [c', block, block]
/// ("CRD").
[[nodiscard]] Tensor depth_to_space(const Tensor& x, std::int64_t block,
                                    std::string_view mode = "DCR",
                                    Loc loc = std::source_location::current());
/// x[n, c, h, w] -> [n, block^2 * c, h / block, w / block], channels as [block, block, c]:
/// depth_to_space's opposite.
[[nodiscard]] Tensor space_to_depth(const Tensor& x, std::int64_t block,
                                    Loc loc = std::source_location::current());
/// x[..., c * factor^2, h, w] -> [..., c, h * factor, w * factor], channels read as
/// [c, factor, factor] (Shi et al., 2016).
[[nodiscard]] Tensor pixel_shuffle(const Tensor& x, std::int64_t factor,
                                   Loc loc = std::source_location::current());
/// pixel_shuffle's opposite.
[[nodiscard]] Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor,
                                     Loc loc = std::source_location::current());
/// The first lengths[b] elements of sequence b backwards, the others as they are; sequences run
/// along `time_axis` and are numbered along `batch_axis`. lengths is i64 or i32 [batch].
/// ValueError, when it runs, unless they are from 0 to the size of the time axis.
[[nodiscard]] Tensor reverse_sequence(const Tensor& x, const Tensor& lengths,
                                      std::int64_t time_axis = 0, std::int64_t batch_axis = 1,
                                      Loc loc = std::source_location::current());

}  // namespace dyad
