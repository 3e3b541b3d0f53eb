#pragma once

#include <cstdint>
#include <span>

#include "dyad/core/shape.h"
#include "dyad/core/tensor.h"
#include "dyad/ir/op_info.h"

namespace dyad::runtime {

/// The strides that the result of an element-by-element operator has: those of the row-major
/// permutation that follows the inputs' own order of axes, so that channels-last stays
/// channels-last. A pure function of shape and input strides; row-major when the inputs do not say.
[[nodiscard]] Strides pointwise_layout(std::span<const Tensor> inputs, const Shape& shape);
/// The same from shapes and strides.
struct StridedShape {
  std::span<const std::int64_t> sizes;
  std::span<const std::int64_t> strides;
};
[[nodiscard]] Strides pointwise_layout(std::span<const StridedShape> inputs,
                                       std::span<const std::int64_t> shape);

/// A layout rule of opaque rows: the result follows the order of axes of the first input.
[[nodiscard]] Strides follow_first(const OpInfo& op, const void* attrs,
                                   std::span<const Tensor> inputs, const Shape& shape, int index);

/// The strides that an operator's result `index` has, in every mode: what its kernel asks for
/// (opaque rows), the inputs' own order of axes (pointwise rows; `clone` is row-major), or
/// row-major.
[[nodiscard]] Strides output_layout(const OpInfo& op, const void* attrs,
                                    std::span<const Tensor> inputs, const Shape& shape,
                                    int index = 0);

/// The strides of rank `rank` with which an array of `sizes` is read when broadcast: 0 along axes
/// that it lacks or has once.
[[nodiscard]] Strides broadcast_strides(std::span<const std::int64_t> sizes,
                                        std::span<const std::int64_t> strides,
                                        std::span<const std::int64_t> shape);

/// Whether the elements of a concrete tensor lie as these strides say; those of axes of size 1 say
/// nothing.
[[nodiscard]] bool lies_with(const Tensor& tensor, std::span<const std::int64_t> strides);

/// Strides of channels-last: the axes in order [n, h, w, c] for a shape [n, c, h, w], and so with
/// any number of spatial axes.
[[nodiscard]] Strides channels_last_strides(std::span<const std::int64_t> sizes);

}  // namespace dyad::runtime
