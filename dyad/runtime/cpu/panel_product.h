#pragma once

#include <cstdint>

#include "dyad/runtime/cpu/epilogue.h"

namespace dyad::runtime::cpu {

/// C[m, n] = epilogue(A[m, k] B[k, n] + A'[m, k'] B'[k', n] + bias[n]) in f32; columns of A, A' and
/// C are neighbours. B and B' lie in panels of kColumns columns, one after the other: in each, rows
/// of kColumns elements, with zeros where the last panel has fewer columns.
///
/// An element's products are added in the order of k and then of k', each with one rounding (FMA),
/// in one sum that begins at 0; bias, what was in C and the activation follow. So its bits depend
/// on its rows of A and columns of B alone, not on m, n or threads.
struct PanelProduct {
  static constexpr std::int64_t kColumns = 16;
  struct Factors {
    std::int64_t k = 0;
    const float* a = nullptr;
    std::int64_t a_row = 0;
    const float* panels = nullptr;
  };
  std::int64_t m = 0, n = 0;
  Factors factors = {}, more = {};  ///< the second pair may be left out
  const float* bias = nullptr;      ///< none: null
  float* c = nullptr;
  std::int64_t c_row = 0;
  Epilogue epilogue = {};
};

/// Whether this CPU and this build can compute such products.
[[nodiscard]] bool has_panel_products() noexcept;
/// Whether that is quicker than the library for a product of these sizes here.
[[nodiscard]] bool takes_panels(std::int64_t m, std::int64_t n, std::int64_t k) noexcept;

/// Computes it where has_panel_products(), on the threads of the team where that is worth it.
void panel_product(const PanelProduct& product);

}  // namespace dyad::runtime::cpu
