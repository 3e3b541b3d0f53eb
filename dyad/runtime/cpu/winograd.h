#pragma once

#include <cstdint>

#include "dyad/runtime/cpu/conv.h"
#include "dyad/runtime/cpu/epilogue.h"

// Convolutions of 3 x 3 by Winograd's way, F(2 x 2, 3 x 3): of four neighbouring results with 16
// multiplications in the place of 36, all by numbers that are sums and halves. Results have their
// channels in blocks of eight.
namespace dyad::runtime::cpu {

/// Whether such a convolution runs so, and is faster than the library's.
[[nodiscard]] bool suits_winograd(const ConvShape& shape, const Epilogue& epilogue) noexcept;

/// Output channels whose weights lie side by side: [o / 16, c, 3, 3, 16].
inline constexpr std::int64_t kWinogradPanel = 16;

/// Where the operands lie; bias and residual may be null. The residual may lie where the result
/// does, in blocks like it. x lies [n, h, w, c] if channels come last there, else in blocks too.
struct WinogradOperands {
  const float *x, *weight, *bias, *residual;
  float* out;
  bool x_is_channels_last;
};

/// The convolution with its epilogue.
void winograd_forward(const ConvShape& shape, const WinogradOperands& operands,
                      const Epilogue& epilogue);

}  // namespace dyad::runtime::cpu
