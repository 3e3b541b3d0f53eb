#pragma once

#include "dyad/core/tensor.h"
#include "dyad/ops/per_axis.h"

namespace dyad {

// Convolution over one, two or three spatial axes; all operands have one floating dtype. The
// gradient is defined to any order. ShapeError for operands that do not fit one another, ValueError
// for attributes out of range.

/// Cross-correlation, as frameworks call convolution: x[n, c, h, w], weight[o, c / groups, kh, kw],
/// bias[o] or undefined -> [n, o, oh, ow] with oh = (h + padding before and after -
/// dilation*(kh - 1) - 1) / stride + 1. Padding is zeros; see Padding for its forms. f32 and
/// smaller floats may be computed in tiles of 4 x 4 positions (Winograd's way): a NaN or infinity
/// in x then makes NaN of all results of its tile, one position further than its window reaches.
/// Here and below x may be one image without the axis n; the result is then too.
[[nodiscard]] Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                            const PerAxis& stride = 1, const Padding& padding = 0,
                            const PerAxis& dilation = 1, std::int64_t groups = 1,
                            Loc loc = std::source_location::current());
/// The same for x[n, c, length] and weight[o, c / groups, k].
[[nodiscard]] Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                            const PerAxis& stride = 1, const Padding& padding = 0,
                            const PerAxis& dilation = 1, std::int64_t groups = 1,
                            Loc loc = std::source_location::current());
/// The same for x[n, c, d, h, w] and weight[o, c / groups, kd, kh, kw].
[[nodiscard]] Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                            const PerAxis& stride = 1, const Padding& padding = 0,
                            const PerAxis& dilation = 1, std::int64_t groups = 1,
                            Loc loc = std::source_location::current());

/// Transposed convolution, the gradient of a convolution by its input: x[n, c, h, w],
/// weight[c, o / groups, kh, kw], bias[o] or undefined -> [n, o, oh, ow] with oh =
/// (h - 1)*stride - padding before and after + dilation*(kh - 1) + output_padding + 1. With padding
/// "same" oh = h*stride. output_padding (from 0 to stride - 1) says which of the sizes that a
/// convolution would bring to h is meant.
[[nodiscard]] Tensor conv_transpose2d(const Tensor& x, const Tensor& weight,
                                      const Tensor& bias = {}, const PerAxis& stride = 1,
                                      const Padding& padding = 0, const PerAxis& output_padding = 0,
                                      std::int64_t groups = 1, const PerAxis& dilation = 1,
                                      Loc loc = std::source_location::current());
/// The same for x[n, c, length].
[[nodiscard]] Tensor conv_transpose1d(const Tensor& x, const Tensor& weight,
                                      const Tensor& bias = {}, const PerAxis& stride = 1,
                                      const Padding& padding = 0, const PerAxis& output_padding = 0,
                                      std::int64_t groups = 1, const PerAxis& dilation = 1,
                                      Loc loc = std::source_location::current());
/// The same for x[n, c, d, h, w].
[[nodiscard]] Tensor conv_transpose3d(const Tensor& x, const Tensor& weight,
                                      const Tensor& bias = {}, const PerAxis& stride = 1,
                                      const Padding& padding = 0, const PerAxis& output_padding = 0,
                                      std::int64_t groups = 1, const PerAxis& dilation = 1,
                                      Loc loc = std::source_location::current());

/// Convolution whose kernel elements are moved, position by position: x[n, c, h, w], weight[o,
/// c / groups, kh, kw], offset[n, sets * kh * kw * 2, oh, ow] (for each kernel element how far down
/// and how far right; the sets divide the channels), mask[n, sets * kh * kw, oh, ow] or undefined
/// (what each one is multiplied with), bias[o] or undefined -> [n, o, oh, ow]. Elements of x are
/// read between each other (bilinear), as 0 outside. Gradients of any order by all operands.
[[nodiscard]] Tensor deform_conv2d(const Tensor& x, const Tensor& offset, const Tensor& weight,
                                   const Tensor& bias = {}, const PerAxis& stride = 1,
                                   const Padding& padding = 0, const PerAxis& dilation = 1,
                                   const Tensor& mask = {}, std::int64_t groups = 1,
                                   Loc loc = std::source_location::current());

}  // namespace dyad
