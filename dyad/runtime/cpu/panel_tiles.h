#pragma once

#include <cstdint>

// Tiles of products of f32 in registers: some rows of A times a panel of B, whose rows of 16
// elements follow one another. For the sources that compute such products on CPUs with AVX2, and
// with AVX-512: the sums are the same, to the bit.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(DYAD_PLAIN_LOOPS)
#define DYAD_PANEL_TILES
#include <immintrin.h>

#define DYAD_AVX2 [[gnu::target("avx2,fma"), gnu::optimize("O3")]]
#define DYAD_AVX2_INLINE [[gnu::target("avx2,fma"), gnu::always_inline]] inline
#define DYAD_AVX512 [[gnu::target("avx512f,avx512vl,avx2,fma"), gnu::optimize("O3")]]
#define DYAD_AVX512_INLINE [[gnu::target("avx512f,avx512vl,avx2,fma"), gnu::always_inline]] inline

namespace dyad::runtime::cpu::panels {

/// Columns of a panel.
inline constexpr std::int64_t kAcross = 16;
/// Most rows of a tile: their sums and a row of a panel fill the registers.
inline constexpr std::int64_t kRowsOfTile = 6;

/// Sums of a tile; every loop over them is unrolled, or GCC would keep them in memory.
template <int kRows, int kVectors = 2>
using TileSums = __m256[kRows][kVectors];

/// Where vector v of panels side by side is.
constexpr std::int64_t vector_at(std::int64_t v, std::int64_t next_panel) {
  return v / 2 * next_panel + v % 2 * 8;
}

/// The next kSteps of k: rows of A from `low`, its fourth and later ones from `high`.
template <std::int64_t kSteps, std::int64_t kStep, int kRows, int kVectors>
DYAD_AVX2_INLINE void add_steps(const float* low, const float* high, std::int64_t a_row,
                                const float* panel, std::int64_t next_panel,
                                TileSums<kRows, kVectors>& sum) {
#pragma GCC unroll 8
  for (std::int64_t s = 0; s < kSteps; ++s) {
    __m256 row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      row[v] = _mm256_loadu_ps(panel + s * kAcross + vector_at(v, next_panel));
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const __m256 x =
          _mm256_broadcast_ss((i < 3 ? low + i * a_row : high + (i - 3) * a_row) + s * kStep);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm256_fmadd_ps(x, row[v], sum[i][v]);
    }
  }
}

/// sum += A[kRows][k] times panels that are `next_panel` apart. Rows of A are `a_row` apart, steps
/// of k kStep. Four steps at once, because a core that shares its decoder with another hyperthread
/// is held up by every instruction.
template <std::int64_t kStep, int kRows, int kVectors>
DYAD_AVX2_INLINE void add_products(const float* a, std::int64_t a_row, const float* panel,
                                   std::int64_t next_panel, std::int64_t k,
                                   TileSums<kRows, kVectors>& sum) {
  constexpr std::int64_t kSteps = 4;
  const float* high = kRows > 3 ? a + 3 * a_row : a;
  for (; k >= kSteps; k -= kSteps) {
    add_steps<kSteps, kStep>(a, high, a_row, panel, next_panel, sum);
    a += kSteps * kStep;
    high += kSteps * kStep;
    panel += kSteps * kAcross;
  }
  for (; k > 0; --k, a += kStep, high += kStep, panel += kAcross) {
    add_steps<1, kStep>(a, high, a_row, panel, next_panel, sum);
  }
}

/// sums[kRows][16] = or += A[kRows][k] times kPanels panels, each `next_panel` from the one before
/// it; their sums are `next_sums` apart.
template <int kRows, int kPanels = 1, std::int64_t kStep = 1>
DYAD_AVX2_INLINE void sum_products(const float* a, std::int64_t a_row, const float* panel,
                                   std::int64_t next_panel, std::int64_t k, bool adds, float* sums,
                                   std::int64_t next_sums) {
  constexpr int kVectors = 2 * kPanels;
  TileSums<kRows, kVectors> sum;
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const float* const from = sums + vector_at(v, next_sums) + i * kAcross;
      sum[i][v] = adds ? _mm256_loadu_ps(from) : _mm256_setzero_ps();
    }
  }
  add_products<kStep>(a, a_row, panel, next_panel, k, sum);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      _mm256_storeu_ps(sums + vector_at(v, next_sums) + i * kAcross, sum[i][v]);
    }
  }
}

/// The same with vectors of 16 elements, which are a panel's row.
namespace wide {

/// Most rows of a tile; with more the registers would be fuller, but nothing faster.
inline constexpr std::int64_t kRowsOfTile = 16;

template <int kRows, int kPanels>
using TileSums = __m512[kRows][kPanels];
/// Every third row of A: the two after it are found from there.
template <int kRows>
using Rows = const float * [(kRows + 2) / 3];

template <std::int64_t kSteps, std::int64_t kStep, int kRows, int kPanels>
DYAD_AVX512_INLINE void add_steps(const Rows<kRows>& a, std::int64_t a_row, const float* panel,
                                  std::int64_t next_panel, TileSums<kRows, kPanels>& sum) {
#pragma GCC unroll 8
  for (std::int64_t s = 0; s < kSteps; ++s) {
    __m512 row[kPanels];
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p)
      row[p] = _mm512_loadu_ps(panel + s * kAcross + p * next_panel);
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
      const __m512 x = _mm512_set1_ps(a[i / 3][i % 3 * a_row + s * kStep]);
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p) sum[i][p] = _mm512_fmadd_ps(x, row[p], sum[i][p]);
    }
  }
}

template <int kRows, int kPanels = 1, std::int64_t kStep = 1>
DYAD_AVX512_INLINE void sum_products(const float* a, std::int64_t a_row, const float* panel,
                                     std::int64_t next_panel, std::int64_t k, bool adds,
                                     float* sums, std::int64_t next_sums) {
  constexpr std::int64_t kSteps = 4;
  constexpr int kBases = (kRows + 2) / 3;
  TileSums<kRows, kPanels> sum;
#pragma GCC unroll 32
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      const float* const from = sums + p * next_sums + i * kAcross;
      sum[i][p] = adds ? _mm512_loadu_ps(from) : _mm512_setzero_ps();
    }
  }
  Rows<kRows> at;
#pragma GCC unroll 8
  for (int b = 0; b < kBases; ++b) at[b] = a + b * (3 * a_row);
  const auto go_on = [&](std::int64_t steps) {
#pragma GCC unroll 8
    for (int b = 0; b < kBases; ++b) at[b] += steps * kStep;
    panel += steps * kAcross;
  };
  for (; k >= kSteps; k -= kSteps, go_on(kSteps))
    add_steps<kSteps, kStep, kRows, kPanels>(at, a_row, panel, next_panel, sum);
  for (; k > 0; --k, go_on(1))
    add_steps<1, kStep, kRows, kPanels>(at, a_row, panel, next_panel, sum);
#pragma GCC unroll 32
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p)
      _mm512_storeu_ps(sums + p * next_sums + i * kAcross, sum[i][p]);
  }
}

}  // namespace wide

}  // namespace dyad::runtime::cpu::panels

#endif
