#pragma once

#include "dyad/core/dtype.h"

// What passes ask of this CPU's convolutions and products.
namespace dyad::runtime {

/// Whether this CPU's convolutions are faster with the channels of images in blocks of eight
/// ([n, c / 8, h, w, 8]) than with channels that lie side by side: without AVX-512.
[[nodiscard]] bool prefers_channel_blocks() noexcept;

/// Whether there are convolutions in this dtype; those in others are computed on copies in f32 and
/// rounded at the end.
[[nodiscard]] bool convolves(DType dtype) noexcept;

/// The same of products (matmul and linear) of floats.
[[nodiscard]] bool multiplies(DType dtype) noexcept;

}  // namespace dyad::runtime
