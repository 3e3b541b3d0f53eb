#pragma once

#include <cstdint>

#include "dyad/runtime/cpu/conv.h"

namespace dyad::runtime::cpu {

/// A convolution of u8 images, which lie [n, h, w, c], with an i8 weight.
struct IntegerWindows {
  const std::uint8_t* images = nullptr;
  std::uint8_t zero = 0;                ///< what counts as 0, around images too
  const std::int16_t* words = nullptr;  ///< what pack_words made of the weight [h, w, c, o]
  const std::uint32_t* sums = nullptr;  ///< of each output channel's weights
  std::int32_t* out = nullptr;          ///< [n, h, w, o]
};

/// The convolution, exact modulo 2^32, by words (integer_words.h) that are read where they lie in
/// the image: windows are not copied. False, and nothing done, where it does not suit: groups,
/// three axes, an odd number of channels or few of them, windows of one element, a CPU without
/// AVX2.
[[nodiscard]] bool integer_windows(const ConvShape& shape, const IntegerWindows& operands);

}  // namespace dyad::runtime::cpu
