#pragma once

#include <span>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

// Indices are i64 or i32 tensors; negative ones count from the end, others beyond the size are an
// IndexError when the operator runs. Axes count from the end when negative.

/// out[i][j][k] = x[i][index[i][j][k]][k] for axis 1: one element of x for each index. Ranks are
/// equal; index is no longer than x along the other axes (ShapeError).
[[nodiscard]] Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index,
                            Loc loc = std::source_location::current());
/// A copy of x with source[i][j][k] added at [i][index[i][j][k]][k] for axis 1: gather's opposite.
/// source has the shape of index and the dtype of x.
[[nodiscard]] Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index,
                                 const Tensor& source, Loc loc = std::source_location::current());
/// The slices of x along the axis that `index` names; the axes of index take the place of the axis.
[[nodiscard]] Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index,
                                  Loc loc = std::source_location::current());
/// [...] -> [..., classes]: 1 at the index, 0 elsewhere (all 0 for an index out of range). Floating
/// indices are a DTypeError.
[[nodiscard]] Tensor one_hot(const Tensor& indices, Dim classes, DType dtype = f32,
                             Loc loc = std::source_location::current());
/// The same of as many classes as the largest index needs, which only the elements tell; a negative
/// one is a ValueError then.
[[nodiscard]] Tensor one_hot(const Tensor& indices, DType dtype = f32,
                             Loc loc = std::source_location::current());

/// Tensors one after the other along an axis; the other sizes agree (ShapeError). Dtypes are
/// promoted.
[[nodiscard]] Tensor concat(std::span<const Tensor> tensors, std::int64_t axis = 0,
                            Loc loc = std::source_location::current());
[[nodiscard]] Tensor concat(std::initializer_list<Tensor> tensors, std::int64_t axis = 0,
                            Loc loc = std::source_location::current());
/// Tensors of one shape, side by side along a new axis.
[[nodiscard]] Tensor stack(std::span<const Tensor> tensors, std::int64_t axis = 0,
                           Loc loc = std::source_location::current());
[[nodiscard]] Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t axis = 0,
                           Loc loc = std::source_location::current());
/// `low[i]` elements of `value` before and `high[i]` after axis i; negative counts crop.
[[nodiscard]] Tensor pad(const Tensor& x, Shape low, Shape high, double value = 0,
                         Loc loc = std::source_location::current());

}  // namespace dyad
