#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

// Elements put at places that indices name: each function gives a copy of x. Indices are i64 or
// i32; negative ones count from the end, others beyond the size are an IndexError when the operator
// runs. Where several elements meet, they are taken in row-major order of the index.

/// out[i][index[i][j][k]][k] = source[i][j][k] for axis 1. Ranks are equal; source has the shape of
/// index and the dtype of x. Of several elements for one place the last one stays, and it alone has
/// a gradient.
[[nodiscard]] Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index,
                             const Arg& source, Loc loc = std::source_location::current());
/// Each place of x joined with all elements for it by reduction "sum" (or "add"), "prod" ("mul"),
/// "amax" ("max"), "amin" ("min") or "mean" (of integers rounded down). Without include_self what x
/// has at a place that an element goes to does not count. Equal extremes share the gradient evenly;
/// the second derivative of a product is 0 where several elements for one place are 0. ValueError
/// for another reduction.
[[nodiscard]] Tensor scatter_reduce(const Tensor& x, std::int64_t axis, const Tensor& index,
                                    const Tensor& source, std::string_view reduction,
                                    bool include_self = true,
                                    Loc loc = std::source_location::current());

/// Slice i of source added to slice index[i] of x along the axis; index is a vector.
[[nodiscard]] Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index,
                               const Tensor& source, Loc loc = std::source_location::current());
/// The same of alpha * source; a product of another dtype than x is a DTypeError.
[[nodiscard]] Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index,
                               const Tensor& source, const Arg& alpha,
                               Loc loc = std::source_location::current());
/// Slice index[i] of x replaced by slice i of source (the last one of several).
[[nodiscard]] Tensor index_copy(const Tensor& x, std::int64_t axis, const Tensor& index,
                                const Tensor& source, Loc loc = std::source_location::current());
/// The slices of x that index names, filled with a number (or a scalar tensor).
[[nodiscard]] Tensor index_fill(const Tensor& x, std::int64_t axis, const Tensor& index,
                                const Arg& value, Loc loc = std::source_location::current());

/// out[i..., :] = x[b..., index[i..., 0], index[i..., 1], ..., :]: the last axis of index holds
/// places along as many axes of x, after `batch_dims` axes that both have.
[[nodiscard]] Tensor gather_nd(const Tensor& x, const Tensor& index, std::int64_t batch_dims = 0,
                               Loc loc = std::source_location::current());
/// gather_nd's opposite: source[i..., :] at x[index[i..., 0], index[i..., 1], ..., :], joined with
/// what is there by reduction "none" (replaced; the last of several), "add", "mul", "max" or "min".
[[nodiscard]] Tensor scatter_nd(const Tensor& x, const Tensor& index, const Tensor& source,
                                std::string_view reduction = "none",
                                Loc loc = std::source_location::current());

/// The number in row-major order of the element at [indices[0], indices[1], ...] of an array of
/// that shape; indices broadcast.
[[nodiscard]] Tensor ravel_multi_index(std::span<const Tensor> indices, const Shape& shape,
                                       Loc loc = std::source_location::current());
[[nodiscard]] Tensor ravel_multi_index(std::initializer_list<Tensor> indices, const Shape& shape,
                                       Loc loc = std::source_location::current());
/// The elements of x at places in row-major order; the result has the shape of index.
[[nodiscard]] Tensor take(const Tensor& x, const Tensor& index,
                          Loc loc = std::source_location::current());
/// The slices along an axis that `index` names, whose axes take the place of that axis:
/// index_select() by its NumPy name.
[[nodiscard]] Tensor take(const Tensor& x, const Tensor& index, std::int64_t axis,
                          Loc loc = std::source_location::current());
/// gather() by its NumPy name; the other axes of x and index broadcast.
[[nodiscard]] Tensor take_along_axis(const Tensor& x, const Tensor& index, std::int64_t axis,
                                     Loc loc = std::source_location::current());
/// scatter() by its NumPy name; index broadcasts to the other axes of x, and the values (a number
/// or a tensor, converted) to index.
[[nodiscard]] Tensor put_along_axis(const Tensor& x, const Tensor& index, const Arg& values,
                                    std::int64_t axis, Loc loc = std::source_location::current());

}  // namespace dyad
