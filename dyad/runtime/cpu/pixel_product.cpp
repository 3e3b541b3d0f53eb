#include "dyad/runtime/cpu/pixel_product.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "dyad/base/error.h"
#include "dyad/runtime/caches.h"
#include "dyad/runtime/cpu/onednn.h"
#include "dyad/runtime/cpu/panel_tiles.h"
#include "dyad/runtime/cpu/stream.h"
#include "dyad/runtime/threads.h"

// The library pads columns to whole vectors of 16 or more, which for 24 is a quarter of the work,
// and reads each line of a result before it writes it, which for 96 columns of 16 products each is
// most of the time.

namespace dyad::runtime::cpu {

#ifdef DYAD_PANEL_TILES

namespace {

constexpr std::int64_t kVector = 16, kHalf = 8;
/// Rows that pass by all blocks of columns before the next ones do: a multiple of every tile's.
constexpr std::int64_t kPassRows = 72;
constexpr std::int64_t kMostColumns = 3 * kVector;

/// Columns of the block that comes next, of n that are left.
constexpr std::int64_t columns_of_block(std::int64_t n) {
  if (n % kMostColumns == 0) return kMostColumns;
  return std::min(n, n > kMostColumns ? 2 * kVector : kMostColumns);
}

/// What becomes of the sums of some columns. Rows of B are as far apart as those of C.
struct Finish {
  const float* bias;
  float* c;
  std::int64_t c_row;
  const Epilogue* epilogue;
  bool streams;
};

/// Activations that are taken of sums in registers; others of rows that were stored.
constexpr bool is_taken_at_once(Epilogue::Activation activation) {
  using Activation = Epilogue::Activation;
  return activation == Activation::none || activation == Activation::relu ||
         activation == Activation::leaky_relu || activation == Activation::clamp;
}

DYAD_AVX512_INLINE __m512 at_least(float limit, __m512 v) {
  const __m512 low = _mm512_set1_ps(limit);
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, low, _CMP_LT_OQ), v, low);
}

DYAD_AVX512_INLINE __m512 activated(const Epilogue& e, __m512 v) {
  switch (e.activation) {
    case Epilogue::Activation::relu:
      return at_least(0, v);
    case Epilogue::Activation::leaky_relu:
      return _mm512_mask_mul_ps(v, _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NGT_UQ),
                                _mm512_set1_ps(e.alpha), v);
    case Epilogue::Activation::clamp: {
      const __m512 x = at_least(e.alpha, v), high = _mm512_set1_ps(e.beta);
      return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, high, _CMP_GT_OQ), x, high);
    }
    default:
      return v;
  }
}

/// One vector of a result's row, from `column` on; half of it if `mask` says so.
DYAD_AVX512_INLINE void finish(const Finish& f, __m512 sum, std::int64_t row, std::int64_t column,
                               __mmask16 mask) {
  float* const to = f.c + row * f.c_row + column;
  if (f.bias != nullptr) sum += _mm512_maskz_loadu_ps(mask, f.bias + column);
  if (f.epilogue->adds) sum += _mm512_maskz_loadu_ps(mask, to);
  sum = activated(*f.epilogue, sum);
  if (f.streams) {
    _mm512_stream_ps(to, sum);
  } else {
    _mm512_mask_storeu_ps(to, mask, sum);
  }
}

/// kRows rows times a block of kVectors vectors and, if kHasHalf, half of one.
template <int kRows, int kVectors, bool kHasHalf>
DYAD_AVX512 void tile(const float* a, std::int64_t k, const float* b, const Finish& to) {
  __m512 sum[kRows][kVectors == 0 ? 1 : kVectors];
  __m256 half[kRows];
#pragma GCC unroll 32
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_setzero_ps();
    if constexpr (kHasHalf) half[i] = _mm256_setzero_ps();
  }
  // Every third row: the two after it are found from there.
  const float* at[(kRows + 2) / 3];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; i += 3) at[i / 3] = a + i * k;
  const float* next = a + kRows * k;  // which the CPU does not see coming in so many rows
  for (std::int64_t j = 0; j < k; ++j, b += to.c_row, next += kVector) {
    _mm_prefetch(next, _MM_HINT_T0);
    __m512 row[kVectors == 0 ? 1 : kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) row[v] = _mm512_loadu_ps(b + v * kVector);
    const __m256 last = kHasHalf ? _mm256_loadu_ps(b + kVectors * kVector) : __m256{};
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
      const float x = at[i / 3][i % 3 * k + j];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        sum[i][v] = _mm512_fmadd_ps(_mm512_set1_ps(x), row[v], sum[i][v]);
      if constexpr (kHasHalf) half[i] = _mm256_fmadd_ps(_mm256_set1_ps(x), last, half[i]);
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) finish(to, sum[i][v], i, v * kVector, 0xFFFF);
    if constexpr (kHasHalf) {
      finish(to, _mm512_castps256_ps512(half[i]), i, kVectors * kVector, 0xFF);
    }
  }
}

/// Some rows times a block, kRows at a time: their sums, and a row of the block, fill the
/// registers.
template <int kRows, int kVectors, bool kHasHalf>
void tiles(const float* a, std::int64_t rows, std::int64_t k, const float* b, Finish to) {
  std::int64_t row = 0;
  for (; row + kRows <= rows; row += kRows, to.c += kRows * to.c_row) {
    tile<kRows, kVectors, kHasHalf>(a + row * k, k, b, to);
  }
  for (; row < rows; ++row, to.c += to.c_row) tile<1, kVectors, kHasHalf>(a + row * k, k, b, to);
}

using Tiles = void (*)(const float*, std::int64_t, std::int64_t, const float*, Finish);
/// By the number of half vectors of a block.
constexpr Tiles kTiles[] = {nullptr,
                            tiles<24, 0, true>,
                            tiles<24, 1, false>,
                            tiles<12, 1, true>,
                            tiles<12, 2, false>,
                            tiles<9, 2, true>,
                            tiles<9, 3, false>};

bool leaves_caches(std::int64_t m, std::int64_t n) noexcept {
  return static_cast<std::size_t>(m * n) * sizeof(float) > kPastCachesBytes;
}

/// The rows from `first` on.
void multiply_rows(const PixelProduct& p, bool streams, std::int64_t first, std::int64_t rows) {
  for (std::int64_t column = 0, count = 0; column < p.n; column += count) {
    count = columns_of_block(p.n - column);
    kTiles[count / kHalf](p.a + first * p.k, rows, p.k, p.b + column,
                          {.bias = p.bias != nullptr ? p.bias + column : nullptr,
                           .c = p.c + first * p.n + column,
                           .c_row = p.n,
                           .epilogue = &p.epilogue,
                           .streams = streams});
  }
  if (!is_taken_at_once(p.epilogue.activation)) {
    activate_in_place(p.epilogue, p.c + first * p.n, rows * p.n);
  }
}

}  // namespace

bool takes_pixel_product(std::int64_t m, std::int64_t n, std::int64_t k) noexcept {
  static const bool has_vectors = onednn::uses(dnnl_cpu_isa_avx512_core);
  if (!has_vectors || n % kHalf != 0 || k == 0) return false;
  constexpr std::int64_t kFewColumns = 40, kManyRows = 1024, kMostDepth = 256;
  if (n <= kFewColumns) return m >= kManyRows && k <= kMostDepth;
  // So many that reading the result's lines first takes longer than what the library does better.
  constexpr std::int64_t kLeast = 72, kMost = 144, kLittleDepth = 64;
  return n >= kLeast && n <= kMost && k <= kLittleDepth && leaves_caches(m, n);
}

void pixel_product(const PixelProduct& p) {
  const double rows = kPassRows, columns = static_cast<double>(p.n);
  const double depth = static_cast<double>(p.k);
  const std::int64_t blocks = (p.m + kPassRows - 1) / kPassRows;
  const auto is_aligned = [](const void* at, std::int64_t row) {
    return reinterpret_cast<std::uintptr_t>(at) % sizeof(__m512) == 0 && row % kVector == 0;
  };
  const bool streams =
      is_taken_at_once(p.epilogue.activation) && is_aligned(p.c, p.n) && leaves_caches(p.m, p.n);
  parallel_for(
      0, blocks,
      grain_for({.bytes = 4 * rows * (columns + depth), .flops = 2 * rows * columns * depth},
                blocks),
      [&](std::int64_t lo, std::int64_t hi) {
        for (std::int64_t block = lo; block < hi; ++block) {
          const std::int64_t first = block * kPassRows;
          multiply_rows(p, streams, first, std::min(kPassRows, p.m - first));
        }
        if (streams) fence_streams();
      });
}

#else

bool takes_pixel_product(std::int64_t, std::int64_t, std::int64_t) noexcept { return false; }

void pixel_product(const PixelProduct&) {
  throw InternalError("this build has no products of pixels");
}

#endif

}  // namespace dyad::runtime::cpu
