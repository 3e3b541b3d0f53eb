#include "dyad/runtime/cpu/integer_words.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "dyad/runtime/threads.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(DYAD_PLAIN_LOOPS)
#define DYAD_INTEGER_WORDS
#include <immintrin.h>
#endif

namespace dyad::runtime::cpu {

#ifdef DYAD_INTEGER_WORDS

namespace {

constexpr std::int64_t kColumns = kWordColumns, kRows = kWordRows, kRowBlock = 8 * kRows;

constexpr std::int64_t pairs_of(std::int64_t k) { return (k + 1) / 2; }

void pack_column_pairs(const IntegerGemm& g, const std::int8_t* b, std::int64_t first,
                       std::int64_t row, std::int16_t* to) {
  std::fill_n(to, (g.k - row + 1) / 2 * kColumns * 2, std::int16_t{0});
  const std::int64_t width = std::min(kColumns, g.n - first);
  for (std::int64_t k = row; k < g.k; ++k) {
    std::int16_t* const pairs = to + (k - row) / 2 * kColumns * 2 + (k - row) % 2;
    const std::int8_t* const from = b + k * g.b_row + first * g.b_column;
    for (std::int64_t j = 0; j < width; ++j) pairs[2 * j] = from[j * g.b_column];
  }
}

/// The panel of columns from `first` on.
[[gnu::target("avx2")]] void pack_panel(const IntegerGemm& g, const std::int8_t* b,
                                        std::int64_t first, std::int16_t* to) {
  std::int64_t k = 0;
  if (g.b_column == 1 && first + kColumns <= g.n) {
    const auto row_of = [&](std::int64_t row) __attribute__((always_inline, target("avx2"))) {
      const auto* const bytes = reinterpret_cast<const __m128i*>(b + row * g.b_row + first);
      return _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes));
    };
    for (; k + 2 <= g.k; k += 2, to += 2 * kColumns) {
      const __m256i even = row_of(k), odd = row_of(k + 1);
      const __m256i low = _mm256_unpacklo_epi16(even, odd), high = _mm256_unpackhi_epi16(even, odd);
      auto* const pairs = reinterpret_cast<__m256i*>(to);
      _mm256_storeu_si256(pairs, _mm256_permute2x128_si256(low, high, 0x20));
      _mm256_storeu_si256(pairs + 1, _mm256_permute2x128_si256(low, high, 0x31));
    }
  }
  pack_column_pairs(g, b, first, k, to);
}

/// c[rows][kColumns] = or += a[rows][2 pairs] times a panel of as many pairs. One pair a round: of
/// several GCC would add up the products first, for which there are no registers.
template <int kCount>
[[gnu::target("avx2"), gnu::optimize("O3")]] void multiply(const std::int16_t* a,
                                                           std::int64_t a_row,
                                                           const std::int16_t* panel,
                                                           std::int64_t pairs, bool add,
                                                           std::int32_t* c, std::int64_t c_row) {
  __m256i low[kCount], high[kCount];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    auto* const row = reinterpret_cast<__m256i*>(c + i * c_row);
    low[i] = add ? _mm256_loadu_si256(row) : _mm256_setzero_si256();
    high[i] = add ? _mm256_loadu_si256(row + 1) : _mm256_setzero_si256();
  }
  // Rows from the fourth on have a pointer of their own: an instruction adds an index to one.
  const std::int16_t* later = kCount > 3 ? a + 3 * a_row : a;
#pragma GCC unroll 1
  for (; pairs > 0; --pairs, a += 2, later += 2, panel += 2 * kColumns) {
    const auto* const columns = reinterpret_cast<const __m256i*>(panel);
    const __m256i left = _mm256_loadu_si256(columns), right = _mm256_loadu_si256(columns + 1);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      std::int32_t pair = 0;
      std::memcpy(&pair, i < 3 ? a + i * a_row : later + (i - 3) * a_row, sizeof(pair));
      const __m256i both = _mm256_set1_epi32(pair);
      // NOLINTBEGIN(portability-simd-intrinsics): of four elements, + would add i64
      low[i] = _mm256_add_epi32(low[i], _mm256_madd_epi16(both, left));
      high[i] = _mm256_add_epi32(high[i], _mm256_madd_epi16(both, right));
      // NOLINTEND(portability-simd-intrinsics)
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    auto* const row = reinterpret_cast<__m256i*>(c + i * c_row);
    _mm256_storeu_si256(row, low[i]);
    _mm256_storeu_si256(row + 1, high[i]);
  }
}

using Multiply = void (*)(const std::int16_t*, std::int64_t, const std::int16_t*, std::int64_t,
                          bool, std::int32_t*, std::int64_t);
constexpr Multiply kMultiply[kRows] = {multiply<1>, multiply<2>, multiply<3>,
                                       multiply<4>, multiply<5>, multiply<6>};

/// `rows` rows of C, from those of A as words and all panels of B.
void multiply_block(const IntegerGemm& g, const std::int16_t* words, std::int64_t rows,
                    const std::int16_t* panels, std::int32_t* c) {
  const std::int64_t pairs = pairs_of(g.k), words_row = 2 * pairs;
  std::int32_t edge[kRows * kColumns];
  for (std::int64_t j = 0; j < g.n; j += kColumns) {
    const std::int16_t* const panel = panels + j * words_row;
    const std::int64_t width = std::min(kColumns, g.n - j);
    for (std::int64_t k = 0; k < pairs; k += kWordDepth / 2) {
      const std::int64_t depth = std::min(kWordDepth / 2, pairs - k);
      for (std::int64_t i = 0; i < rows; i += kRows) {
        const std::int64_t count = std::min(kRows, rows - i);
        std::int32_t* const to = c + i * g.c_row + j;
        const bool whole = width == kColumns;
        // A panel that reaches beyond C goes by a copy, which holds sums from one depth to the
        // next.
        for (std::int64_t r = 0; r < count && !whole && k > 0; ++r) {
          std::copy_n(to + r * g.c_row, width, edge + r * kColumns);
        }
        kMultiply[count - 1](words + i * words_row + 2 * k, words_row, panel + 2 * k * kColumns,
                             depth, k > 0, whole ? to : edge, whole ? g.c_row : kColumns);
        for (std::int64_t r = 0; r < count && !whole; ++r) {
          std::copy_n(edge + r * kColumns, width, to + r * g.c_row);
        }
      }
    }
  }
}

}  // namespace

bool has_integer_words() noexcept { return __builtin_cpu_supports("avx2") != 0; }

std::vector<std::int16_t> pack_words(const IntegerGemm& g, const std::int8_t* b) {
  const std::int64_t words_row = 2 * pairs_of(g.k), panels = (g.n + kColumns - 1) / kColumns;
  std::vector<std::int16_t> packed(static_cast<std::size_t>(panels * kColumns * words_row));
  const double bytes = 3.0 * kColumns * static_cast<double>(g.k);
  parallel_for(0, panels, grain_for({.bytes = bytes}, panels),
               [&](std::int64_t lo, std::int64_t hi) {
                 for (std::int64_t p = lo; p < hi; ++p) {
                   pack_panel(g, b, p * kColumns, packed.data() + p * kColumns * words_row);
                 }
               });
  return packed;
}

[[gnu::target("avx2")]] void widen_to_words(const std::uint8_t* from, std::int64_t count,
                                            std::int16_t* to) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_cvtepu8_epi16(bytes));
  }
  for (; i < count; ++i) to[i] = from[i];
  if (count % 2 != 0) to[count] = 0;
}

void multiply_words(std::int64_t rows, const std::int16_t* a, std::int64_t a_row,
                    const std::int16_t* panel, std::int64_t pairs, bool add, std::int32_t* c,
                    std::int64_t c_row) {
  kMultiply[rows - 1](a, a_row, panel, pairs, add, c, c_row);
}

bool integer_words_product(const IntegerGemm& g, const std::uint8_t* a, const std::int8_t* b,
                           std::int32_t* c) {
  if (!has_integer_words()) return false;
  std::vector<std::int16_t> own;
  if (g.b_words == nullptr) own = pack_words(g, b);
  const std::int16_t* const words = g.b_words != nullptr ? g.b_words : own.data();
  const std::int64_t words_row = 2 * pairs_of(g.k), blocks = (g.m + kRowBlock - 1) / kRowBlock;
  const auto depth = static_cast<double>(g.k);
  const double flops = 2.0 * kRowBlock * static_cast<double>(g.n) * depth;
  parallel_for(0, blocks, grain_for({.bytes = kRowBlock * depth, .flops = flops}, blocks),
               [&](std::int64_t lo, std::int64_t hi) {
                 std::vector<std::int16_t> left(static_cast<std::size_t>(kRowBlock * words_row));
                 for (std::int64_t block = lo; block < hi; ++block) {
                   const std::int64_t first = block * kRowBlock,
                                      rows = std::min(kRowBlock, g.m - first);
                   for (std::int64_t i = 0; i < rows; ++i) {
                     widen_to_words(a + (first + i) * g.a_row, g.k, left.data() + i * words_row);
                   }
                   multiply_block(g, left.data(), rows, words, c + first * g.c_row);
                 }
               });
  return true;
}

#else

bool has_integer_words() noexcept { return false; }
std::vector<std::int16_t> pack_words(const IntegerGemm&, const std::int8_t*) { return {}; }
void widen_to_words(const std::uint8_t*, std::int64_t, std::int16_t*) {}
void multiply_words(std::int64_t, const std::int16_t*, std::int64_t, const std::int16_t*,
                    std::int64_t, bool, std::int32_t*, std::int64_t) {}
bool integer_words_product(const IntegerGemm&, const std::uint8_t*, const std::int8_t*,
                           std::int32_t*) {
  return false;
}

#endif

}  // namespace dyad::runtime::cpu
