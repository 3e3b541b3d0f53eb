#pragma once

#include <cstdint>
#include <span>

#include "dyad/core/dtype.h"
#include "dyad/core/tensor.h"

namespace dyad::runtime::cpu {

/// The sizes of a 2-D convolution; arrays hold rows, columns.
struct ConvShape {
  DType dtype = DType::f32;
  std::int64_t n = 0, c = 0, h = 0, w = 0;  ///< the input's
  std::int64_t o = 0, oh = 0, ow = 0;       ///< the output's
  std::int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  std::int64_t groups = 1;

  /// Multiplications and additions of one pass.
  [[nodiscard]] double flops() const noexcept {
    return 2.0 * static_cast<double>(n * o * oh * ow) *
           static_cast<double>(c / groups * kernel[0] * kernel[1]);
  }
};

// The three passes as loop nests (patches times weights), for f32 and f64. Images may have any
// strides; weights are row-major; bias may be undefined.
void conv_loops_forward(const ConvShape& shape, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Tensor& out);
void conv_loops_backward_input(const ConvShape& shape, const Tensor& grad, const Tensor& weight,
                               const Tensor& out);
void conv_loops_backward_weight(const ConvShape& shape, const Tensor& grad, const Tensor& x,
                                const Tensor& out);

// The same by the library; false when it has no such convolution. Images are channels-last, but for
// the input's gradient with few channels: see `input_gradient_channels_last`.
bool conv_library_forward(const ConvShape& shape, const Tensor& x, const Tensor& weight,
                          const Tensor& bias, const Tensor& out);
bool conv_library_backward_input(const ConvShape& shape, const Tensor& grad, const Tensor& weight,
                                 const Tensor& out);
bool conv_library_backward_weight(const ConvShape& shape, const Tensor& grad, const Tensor& x,
                                  const Tensor& out);

/// Whether the gradient of an input of so many channels comes out channels-last. The direct kernels
/// fill vectors with input channels, so with few of them a product of patches in row-major order is
/// several times as fast.
[[nodiscard]] constexpr bool input_gradient_channels_last(std::int64_t channels,
                                                          std::int64_t groups) noexcept {
  return channels / groups >= 16;
}

/// `image` itself if its elements lie [n, h, w, c], otherwise a copy that does.
[[nodiscard]] Tensor channels_last(const Tensor& image);

}  // namespace dyad::runtime::cpu
