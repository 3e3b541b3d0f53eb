#include "dyad/runtime/cpu/panel_product.h"

#include <algorithm>
#include <atomic>

#include "dyad/base/error.h"
#include "dyad/runtime/cpu/onednn.h"
#include "dyad/runtime/cpu/panel_tiles.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {

#ifdef DYAD_PANEL_TILES

namespace {

using panels::kAcross;
using panels::kRowsOfTile;
static_assert(kAcross == PanelProduct::kColumns);

/// Rows that pass by a panel before the next one does.
constexpr std::int64_t kBlockRows = 11 * kRowsOfTile;
/// Rows of a panel that stay in cache for the next tile.
constexpr std::int64_t kPanelDepth = 1024;
/// Rows so few that one panel would not keep the CPU busy take several at once.
constexpr std::int64_t kMostPanels = 4;

/// Sums of a block of rows with kMostPanels panels.
constexpr std::int64_t kNextSums = kBlockRows * kAcross;
struct PanelSums {
  alignas(64) float of[kMostPanels * kNextSums];
};

/// sums[kPanels][kRows][kAcross] = or += a[kRows][k] times kPanels panels.
template <int kRows, int kPanels>
DYAD_AVX2 void sum_tile(const float* a, std::int64_t a_row, const float* panel, std::int64_t k,
                        bool add, float* sums) {
  panels::sum_products<kRows, kPanels>(a, a_row, panel, k * kAcross, k, add, sums, kNextSums);
}

using SumTile = void (*)(const float*, std::int64_t, const float*, std::int64_t, bool, float*);
constexpr SumTile kSumTile[kRowsOfTile] = {sum_tile<1, 1>, sum_tile<2, 1>, sum_tile<3, 1>,
                                           sum_tile<4, 1>, sum_tile<5, 1>, sum_tile<6, 1>};

/// c[rows][width] = sums + bias + c, where there is a bias, and if `adds`.
DYAD_AVX2 void finish_panel(const float* sums, const float* bias, bool adds, std::int64_t rows,
                            std::int64_t width, float* c, std::int64_t c_row) {
  if (width < kAcross) {
    for (std::int64_t i = 0; i < rows; ++i, sums += kAcross, c += c_row) {
      for (std::int64_t j = 0; j < width; ++j) {
        const float x = bias != nullptr ? sums[j] + bias[j] : sums[j];
        c[j] = adds ? x + c[j] : x;
      }
    }
    return;
  }
  // Adding -0 changes nothing.
  const __m256 none = _mm256_set1_ps(-0.0f);
  const __m256 left = bias != nullptr ? _mm256_loadu_ps(bias) : none,
               right = bias != nullptr ? _mm256_loadu_ps(bias + 8) : none;
  for (std::int64_t i = 0; i < rows; ++i, sums += kAcross, c += c_row) {
    __m256 x = _mm256_load_ps(sums) + left, y = _mm256_load_ps(sums + 8) + right;
    if (adds) {
      x += _mm256_loadu_ps(c);
      y += _mm256_loadu_ps(c + 8);
    }
    _mm256_storeu_ps(c, x);
    _mm256_storeu_ps(c + 8, y);
  }
}

/// How many panels rows so few take at once.
constexpr std::int64_t panels_at_once(std::int64_t rows) {
  return rows == 1 ? kMostPanels : rows == 2 ? kMostPanels / 2 : 1;
}

/// Sums of the rows from `first` on and `count` panels from panel j on: one, or panels_at_once().
void sum_panels(const PanelProduct::Factors& f, std::int64_t first, std::int64_t rows,
                std::int64_t j, std::int64_t count, bool add, float* sums) {
  const float* const a = f.a + first * f.a_row;
  const float* const panel = f.panels + j * kAcross * f.k;
  if (count > 1) {
    (rows == 1 ? sum_tile<1, kMostPanels> : sum_tile<2, kMostPanels / 2>)(a, f.a_row, panel, f.k,
                                                                          add, sums);
    return;
  }
  const std::int64_t tiles = (rows + kRowsOfTile - 1) / kRowsOfTile;
  for (std::int64_t k = 0; k == 0 || k < f.k; k += kPanelDepth) {
    const std::int64_t depth = std::min(kPanelDepth, f.k - k);
    for (std::int64_t t = 0, row = 0; t < tiles; ++t) {
      const std::int64_t end = rows * (t + 1) / tiles;
      kSumTile[end - row - 1](a + row * f.a_row + k, f.a_row, panel + k * kAcross, depth,
                              add || k > 0, sums + row * kAcross);
      row = end;
    }
  }
}

/// The rows from `first` on and the panels [lo, hi).
void multiply_panels(const PanelProduct& p, std::int64_t first, std::int64_t rows, std::int64_t lo,
                     std::int64_t hi) {
  PanelSums sums;
  const std::int64_t together = panels_at_once(rows);
  for (std::int64_t j = lo, count = 0; j < hi; j += count) {
    count = hi - j >= together ? together : 1;
    sum_panels(p.factors, first, rows, j, count, /*add=*/false, sums.of);
    if (p.more.k > 0) sum_panels(p.more, first, rows, j, count, /*add=*/true, sums.of);
    for (std::int64_t q = 0; q < count; ++q) {
      const std::int64_t column = (j + q) * kAcross, width = std::min(kAcross, p.n - column);
      finish_panel(sums.of + q * kNextSums, p.bias != nullptr ? p.bias + column : nullptr,
                   p.epilogue.adds, rows, width, p.c + first * p.c_row + column, p.c_row);
    }
  }
  if (p.epilogue.activation == Epilogue::Activation::none) return;
  const std::int64_t from = lo * kAcross, width = std::min(hi * kAcross, p.n) - from;
  for (std::int64_t i = 0; i < rows; ++i) {
    activate_in_place(p.epilogue, p.c + (first + i) * p.c_row + from, width);
  }
}

/// With more rows, and more elements of B, the library's blocks are quicker: panels come from
/// beyond the second cache once for each block of rows.
constexpr std::int64_t kFewRows = 64, kFewElements = 1 << 20;

}  // namespace

bool has_panel_products() noexcept {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

bool takes_panels(std::int64_t m, std::int64_t n, std::int64_t k) noexcept {
  static const bool is_quicker = has_panel_products() && !onednn::uses(dnnl_cpu_isa_avx512_core);
  return is_quicker && m > 0 && n > 0 && k > 0 && (m <= kFewRows || n * k <= kFewElements);
}

void panel_product(const PanelProduct& p) {
  // Units are blocks of rows, and in them panels.
  const std::int64_t panels = (p.n + kAcross - 1) / kAcross,
                     blocks = (p.m + kBlockRows - 1) / kBlockRows, units = blocks * panels;
  const auto rows = static_cast<double>(std::min(p.m, kBlockRows)),
             elements = static_cast<double>(kAcross * (p.factors.k + p.more.k));
  const std::int64_t grain = std::max(
      panels_at_once(p.m), grain_for({.bytes = 4 * elements, .flops = 2 * rows * elements}, units));
  // Claimed a few at a time, where chunks of a parallel_for take 10 us of one that takes 80: cores
  // that share their hardware with others are not equally fast.
  std::atomic<std::int64_t> next{0};
  const auto work = [&](std::int64_t, std::int64_t) {
    for (;;) {
      std::int64_t lo = next.fetch_add(grain, std::memory_order_relaxed);
      if (lo >= units) return;
      for (const std::int64_t hi = std::min(units, lo + grain); lo < hi;) {
        const std::int64_t block = lo / panels, end = std::min(hi, (block + 1) * panels);
        const std::int64_t first = p.m * block / blocks;
        multiply_panels(p, first, p.m * (block + 1) / blocks - first, lo - block * panels,
                        end - block * panels);
        lo = end;
      }
    }
  };
  if (units < 2 * grain) return work(0, 1);
  parallel_for(0, team_size(), 1, work);
}

#else

bool has_panel_products() noexcept { return false; }

bool takes_panels(std::int64_t, std::int64_t, std::int64_t) noexcept { return false; }

void panel_product(const PanelProduct&) {
  throw InternalError("this build has no products of panels");
}

#endif

}  // namespace dyad::runtime::cpu
