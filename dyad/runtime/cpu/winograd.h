#pragma once

#include <cstdint>

#include "dyad/runtime/cpu/conv.h"
#include "dyad/runtime/cpu/epilogue.h"

// Convolutions of 3 x 3 by Winograd's way, F(2 x 2, 3 x 3) (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2015): of four neighbouring results with 16 multiplications in
// the place of 36, all by numbers that are sums and halves. Gradients are those of these
// operations. Every result has its own order of sums, which threads do not change. An infinity in a
// tile of 4 x 4 positions makes NaN of all its results.
namespace dyad::runtime::cpu {

/// Whether such a convolution, its weights packed in advance, runs so, and is faster than the
/// library's.
[[nodiscard]] bool suits_winograd(const ConvShape& shape, const Epilogue& epilogue) noexcept;
/// The same for weights that each call packs, whose images have channels that come last, and for
/// the gradient of the image.
[[nodiscard]] bool repays_winograd(const ConvShape& shape) noexcept;
/// The same for the gradient of the weight.
[[nodiscard]] bool repays_winograd_for_weight(const ConvShape& shape) noexcept;

/// Output channels whose weights lie side by side: [o / 16, c, 3, 3, 16].
inline constexpr std::int64_t kWinogradPanel = 16;

/// Where the operands lie; bias and residual may be null. The residual lies as the result does, and
/// may lie where it does. Images lie [n, h, w, c] if channels come last there, else in blocks of
/// eight, [n, c / 8, h, w, 8].
struct WinogradOperands {
  const float *x, *weight, *bias, *residual;
  float* out;
  bool x_is_channels_last, out_is_channels_last;
};

/// The convolution with its epilogue.
void winograd_forward(const ConvShape& shape, const WinogradOperands& operands,
                      const Epilogue& epilogue);

/// Weights [o, c, 3, 3] in panels, as winograd_forward reads them.
void pack_for_winograd(const float* weight, std::int64_t o, std::int64_t c, float* panels);
/// The same of the convolution that gives the gradient of x from that of the result: channels
/// change places, and taps go from the last to the first.
void pack_turned_for_winograd(const float* weight, std::int64_t o, std::int64_t c, float* panels);
/// That convolution: of images [n, o, ...], to images [n, c, ...].
[[nodiscard]] ConvShape turned(const ConvShape& shape) noexcept;

/// The gradient of the weight, [o, c, 3, 3], from x and the gradient of the result, [n, h, w, ...].
void winograd_backward_weight(const ConvShape& shape, const float* x, const float* grad,
                              float* weight_grad);

}  // namespace dyad::runtime::cpu
