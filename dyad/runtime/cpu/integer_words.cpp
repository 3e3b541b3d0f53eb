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

// B is packed in panels of kColumns columns: for each pair of its rows the two elements of every
// column as words side by side, so that one instruction multiplies them by the same pair of A and
// adds both. A panel of kDepth rows stays in the first cache while rows of A pass by.
constexpr std::int64_t kColumns = 16, kRows = 4, kDepth = 512, kRowBlock = 12 * kRows;

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

/// `count` bytes as words; a last one without a partner gets 0.
[[gnu::target("avx2")]] void widen(const std::uint8_t* from, std::int64_t count, std::int16_t* to) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_cvtepu8_epi16(bytes));
  }
  for (; i < count; ++i) to[i] = from[i];
  if (count % 2 != 0) to[count] = 0;
}

/// c[rows][kColumns] = or += a[rows][2 pairs] times a panel of as many pairs.
template <int kCount>
[[gnu::target("avx2"), gnu::optimize("O3")]] void multiply(const std::int16_t* a,
                                                           std::int64_t a_row,
                                                           const std::int16_t* panel,
                                                           std::int64_t pairs, bool add,
                                                           std::int32_t* c, std::int64_t c_row) {
  __m256i low[kCount], high[kCount];
  for (int i = 0; i < kCount; ++i) {
    auto* const row = reinterpret_cast<__m256i*>(c + i * c_row);
    low[i] = add ? _mm256_loadu_si256(row) : _mm256_setzero_si256();
    high[i] = add ? _mm256_loadu_si256(row + 1) : _mm256_setzero_si256();
  }
  for (std::int64_t p = 0; p < pairs; ++p, panel += 2 * kColumns) {
    const auto* const columns = reinterpret_cast<const __m256i*>(panel);
    const __m256i left = _mm256_loadu_si256(columns), right = _mm256_loadu_si256(columns + 1);
    for (int i = 0; i < kCount; ++i) {
      std::int32_t pair;
      std::memcpy(&pair, a + i * a_row + 2 * p, sizeof(pair));
      const __m256i both = _mm256_set1_epi32(pair);
      low[i] = _mm256_add_epi32(low[i], _mm256_madd_epi16(both, left));
      high[i] = _mm256_add_epi32(high[i], _mm256_madd_epi16(both, right));
    }
  }
  for (int i = 0; i < kCount; ++i) {
    auto* const row = reinterpret_cast<__m256i*>(c + i * c_row);
    _mm256_storeu_si256(row, low[i]);
    _mm256_storeu_si256(row + 1, high[i]);
  }
}

using Multiply = void (*)(const std::int16_t*, std::int64_t, const std::int16_t*, std::int64_t,
                          bool, std::int32_t*, std::int64_t);
constexpr Multiply kMultiply[kRows] = {multiply<1>, multiply<2>, multiply<3>, multiply<4>};

/// `rows` rows of C, from those of A as words and all panels of B.
void multiply_block(const IntegerGemm& g, const std::int16_t* words, std::int64_t rows,
                    const std::int16_t* panels, std::int32_t* c) {
  const std::int64_t pairs = pairs_of(g.k), words_row = 2 * pairs;
  std::int32_t edge[kRows * kColumns];
  for (std::int64_t j = 0; j < g.n; j += kColumns) {
    const std::int16_t* const panel = panels + j * words_row;
    const std::int64_t width = std::min(kColumns, g.n - j);
    for (std::int64_t k = 0; k < pairs; k += kDepth / 2) {
      const std::int64_t depth = std::min(kDepth / 2, pairs - k);
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

bool integer_words_product(const IntegerGemm& g, const std::uint8_t* a, const std::int8_t* b,
                           std::int32_t* c) {
  if (__builtin_cpu_supports("avx2") == 0) return false;
  const std::int64_t words_row = 2 * pairs_of(g.k), panels = (g.n + kColumns - 1) / kColumns;
  const auto depth = static_cast<double>(g.k);
  std::vector<std::int16_t> packed(static_cast<std::size_t>(panels * kColumns * words_row));
  parallel_for(0, panels, grain_for({.bytes = 3 * kColumns * depth}, panels),
               [&](std::int64_t lo, std::int64_t hi) {
                 for (std::int64_t p = lo; p < hi; ++p) {
                   pack_panel(g, b, p * kColumns, packed.data() + p * kColumns * words_row);
                 }
               });
  const std::int64_t blocks = (g.m + kRowBlock - 1) / kRowBlock;
  const double flops = 2.0 * kRowBlock * static_cast<double>(g.n) * depth;
  parallel_for(0, blocks, grain_for({.bytes = kRowBlock * depth, .flops = flops}, blocks),
               [&](std::int64_t lo, std::int64_t hi) {
                 std::vector<std::int16_t> words(static_cast<std::size_t>(kRowBlock * words_row));
                 for (std::int64_t block = lo; block < hi; ++block) {
                   const std::int64_t first = block * kRowBlock,
                                      rows = std::min(kRowBlock, g.m - first);
                   for (std::int64_t i = 0; i < rows; ++i) {
                     widen(a + (first + i) * g.a_row, g.k, words.data() + i * words_row);
                   }
                   multiply_block(g, words.data(), rows, packed.data(), c + first * g.c_row);
                 }
               });
  return true;
}

#else

bool integer_words_product(const IntegerGemm&, const std::uint8_t*, const std::int8_t*,
                           std::int32_t*) {
  return false;
}

#endif

}  // namespace dyad::runtime::cpu
