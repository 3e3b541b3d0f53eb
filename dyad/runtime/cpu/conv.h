#pragma once

#include <cstdint>
#include <span>

#include "dyad/core/dtype.h"
#include "dyad/core/tensor.h"
#include "dyad/runtime/cpu/epilogue.h"
#include "dyad/runtime/op_kernel.h"

namespace dyad::ops {
struct ConvAttrs;
}

namespace dyad::runtime::cpu {

/// The sizes of a convolution over three spatial axes: depth, rows, columns. With fewer the first
/// ones have size 1. `out` are the positions of windows, which begin at position * stride - low.
struct ConvShape {
  DType dtype = DType::f32;
  std::int64_t n = 0, c = 0, o = 0;
  std::int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  std::int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, low[3] = {0, 0, 0},
               dilation[3] = {1, 1, 1};
  std::int64_t groups = 1;

  [[nodiscard]] std::int64_t positions() const noexcept { return out[0] * out[1] * out[2]; }
  /// Elements of one output channel's weights.
  [[nodiscard]] std::int64_t patch() const noexcept {
    return c / groups * kernel[0] * kernel[1] * kernel[2];
  }
  /// Whether the first axis does nothing.
  [[nodiscard]] bool flat() const noexcept {
    return in[0] == 1 && out[0] == 1 && kernel[0] == 1 && low[0] == 0;
  }
  /// Multiplications and additions of one pass.
  [[nodiscard]] double flops() const noexcept {
    return 2.0 * static_cast<double>(n * o * positions()) * static_cast<double>(patch());
  }
};

/// The sizes of a call; the tensors have five axes.
[[nodiscard]] ConvShape conv_shape(const ops::ConvAttrs& attrs, const Tensor& x,
                                   const Tensor& weight, const Tensor& out);

// The three passes as loop nests (patches times weights), for f32 and f64. Images have five axes
// and may have any strides; weights are row-major; bias may be undefined.
void conv_loops_forward(const ConvShape& shape, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Tensor& out);
void conv_loops_backward_input(const ConvShape& shape, const Tensor& grad, const Tensor& weight,
                               const Tensor& out);
void conv_loops_backward_weight(const ConvShape& shape, const Tensor& grad, const Tensor& x,
                                const Tensor& out);

// The same for one input channel a group, and any number of output channels of it, plane by plane.
// Images are row-major, with two spatial axes at most; any floating dtype.
void depthwise_forward(const ConvShape& shape, const Tensor& x, const Tensor& weight,
                       const Tensor& bias, const Tensor& out);
void depthwise_backward_input(const ConvShape& shape, const Tensor& grad, const Tensor& weight,
                              const Tensor& out);
void depthwise_backward_weight(const ConvShape& shape, const Tensor& grad, const Tensor& x,
                               const Tensor& out);

// The same for windows of one element, where images in row-major order would have to be turned:
// false for any other. Results are channels-last, but for the input's gradient with few channels.
bool conv_pointwise_forward(const ConvShape& shape, const Tensor& x, const Tensor& weight,
                            const Tensor& bias, const Tensor& out);
bool conv_pointwise_backward_input(const ConvShape& shape, const Tensor& grad, const Tensor& weight,
                                   const Tensor& out);
bool conv_pointwise_backward_weight(const ConvShape& shape, const Tensor& grad, const Tensor& x,
                                    const Tensor& out);
/// Whether windows are single elements of f32, one after the other, of all channels.
[[nodiscard]] bool is_pointwise(const ConvShape& shape);
/// Whether the forward pass is such a product.
[[nodiscard]] bool is_pointwise_product(const ConvShape& shape, const Tensor& x, const Tensor& out);

/// Whether a convolution of `channels` input channels, one a group, runs plane by plane: where
/// `image` (its input, or the gradient of its result) is row-major. Its result is then too.
[[nodiscard]] bool runs_by_planes(const Tensor& image, std::int64_t channels, std::int64_t groups);

// The same by the library; false when it has no such convolution. Images are channels-last, but for
// the input's gradient with few channels: see `input_gradient_channels_last`.

/// `call` is what the convolution is a part of: a constant weight's packed copy is its memo. To the
/// result is added what `out` held before, if `epilogue` says so (false where it must be added
/// last, and the library would begin with it, which changes bits), then it goes through the
/// activation.
bool conv_library_forward(const ConvShape& shape, const Tensor& x, const Tensor& weight,
                          const Tensor& bias, const Tensor& out, const OpCall& call,
                          const Epilogue& epilogue = {});
/// The same with the result in blocks of channels, [n, o / 8, h, w, 8]: so is x if it has five
/// axes. Of four axes it lies [n, h, w, c] where c divides by eight, else [n, c, h, w]. A residual
/// may be added before the sums.
bool conv_library_blocks(const ConvShape& shape, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, const Tensor& out, const OpCall& call,
                         const Epilogue& epilogue);
/// The same where Winograd's way is faster (winograd.h): results in blocks with constant weights
/// alone, results whose channels come last with any. The residual is read where it lies, which may
/// be `out`.
bool conv_winograd(const ConvShape& shape, const Tensor& x, const Tensor& weight,
                   const Tensor& bias, const Tensor& residual, const Tensor& out,
                   bool out_is_channels_last, const OpCall& call, const Epilogue& epilogue);
/// The same where they are products of pixels that are faster than the library's (pixel_product.h).
bool conv_pixels(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& out, const OpCall& call, const Epilogue& epilogue = {});
bool conv_library_backward_input(const ConvShape& shape, const Tensor& grad, const Tensor& weight,
                                 const Tensor& out);
bool conv_library_backward_weight(const ConvShape& shape, const Tensor& grad, const Tensor& x,
                                  const Tensor& out);

/// The sums of u8 images times an i8 weight in i32, both without zero points and without padding:
/// `image` and `out` are [n, ..., channels] without gaps. False when the library has no such
/// convolution that is exact.
bool conv_library_integer(const ConvShape& shape, const std::uint8_t* image, const Tensor& weight,
                          std::int32_t* out);

/// Whether the gradient of an input of so many channels comes out channels-last. The direct kernels
/// fill vectors with input channels, so with few of them a product of patches in row-major order is
/// several times as fast. Depthwise ones fill vectors with groups.
[[nodiscard]] constexpr bool input_gradient_channels_last(std::int64_t channels,
                                                          std::int64_t groups) noexcept {
  return channels / groups >= 16 || (groups > 1 && groups == channels);
}

/// An image or a weight with one to three spatial axes as one with three: the first ones have
/// size 1.
[[nodiscard]] Tensor with_three_axes(const Tensor& image);
/// Whether the elements of an image lie [n, ..., c].
[[nodiscard]] bool is_channels_last(const Tensor& image);
/// `image` itself if they do, otherwise a copy of which they do.
[[nodiscard]] Tensor channels_last(const Tensor& image);

}  // namespace dyad::runtime::cpu
