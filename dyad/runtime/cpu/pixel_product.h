#pragma once

#include <cstdint>

#include "dyad/runtime/cpu/epilogue.h"

namespace dyad::runtime::cpu {

/// C[m, n] = epilogue(A[m, k] B[k, n] + bias[n]) in f32 of many dense rows and few columns: what a
/// convolution of one element is where channels come last. n is a multiple of 8.
///
/// An element's products are added in the order of k, each with one rounding (FMA), in one sum that
/// begins at 0; bias, what was in C and the activation follow: the sums of a PanelProduct.
struct PixelProduct {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  const float* b = nullptr;     ///< dense rows
  const float* bias = nullptr;  ///< none: null
  float* c = nullptr;
  Epilogue epilogue = {};
};

/// Whether that is quicker than the library for a product of these sizes on this CPU.
[[nodiscard]] bool takes_pixel_product(std::int64_t m, std::int64_t n, std::int64_t k) noexcept;

/// Computes it on the threads of the team where that is worth it. With results that leave the
/// caches anyway, vectors are stored past them.
void pixel_product(const PixelProduct& product);

}  // namespace dyad::runtime::cpu
