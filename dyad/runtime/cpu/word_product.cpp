#include "dyad/runtime/cpu/word_product.h"

#include <algorithm>

#include "dyad/base/error.h"
#include "dyad/runtime/cpu/onednn.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(DYAD_PLAIN_LOOPS)
#define DYAD_WORD_PRODUCTS
#include <immintrin.h>

// Of bf16 there is nothing but what its intrinsics are.
#define DYAD_WORDS_TARGET gnu::target("avx512f,avx512vl,avx512bw,avx512bf16,avx2,fma")
#define DYAD_WORDS [[DYAD_WORDS_TARGET, gnu::optimize("O3")]]
#define DYAD_WORDS_INLINE [[DYAD_WORDS_TARGET, gnu::always_inline]] inline
#endif

namespace dyad::runtime::cpu {

namespace {

constexpr std::int64_t kVectorWords = 16;

constexpr std::int64_t words_of(WordKind kind, std::int64_t k) {
  return kind == WordKind::f32 ? k : (k + 1) / 2;
}

constexpr std::int64_t element_bytes(WordKind kind) { return kind == WordKind::f32 ? 4 : 2; }

}  // namespace

std::int64_t WordPanels::row(std::int64_t number) const noexcept {
  return std::min(kColumns, columns_ - number * kColumns);
}

void WordPanels::resize(std::int64_t k, std::int64_t n) {
  depth_ = words_of(kind_, k);
  columns_ = (n + kVectorWords - 1) / kVectorWords * kVectorWords;
  // One at least, for there to be an address.
  const auto lines =
      static_cast<std::size_t>(std::max<std::int64_t>(1, depth_ * columns_ / kVectorWords));
  if (lines_.size() < lines) lines_.resize(lines);
}

#ifdef DYAD_WORD_PRODUCTS

namespace {

/// Most rows of a tile: their sums and a row of a panel fill the registers.
constexpr int kTileRows = 6;
constexpr int kPanelVectors = static_cast<int>(WordPanels::kColumns / kVectorWords);
/// Rows are fetched so long before they are read: no CPU does that by itself where they lie apart.
constexpr std::int64_t kRowsAhead = 8;

/// As many of 16 lanes.
constexpr __mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>(count >= kVectorWords ? 0xFFFF
                                                      : (1U << static_cast<unsigned>(count)) - 1U);
}

void fetch_row(const std::byte* row, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row + at);
}

// By GCC's vectors, where its intrinsics give warnings.
using WordVector [[gnu::vector_size(64)]] = std::uint32_t;
using LongWordVector [[gnu::vector_size(64)]] = std::uint64_t;
using HalfVector [[gnu::vector_size(32)]] = std::uint16_t;

DYAD_WORDS_INLINE WordVector in_words(__m256i halves) {
  return __builtin_convertvector(__builtin_bit_cast(HalfVector, halves), WordVector);
}

DYAD_WORDS_INLINE __m512i interleaved(__m256i low, __m256i high) {
  return __builtin_bit_cast(__m512i, in_words(low) | in_words(high) << 16);
}

DYAD_WORDS_INLINE __m256i rounded_halves(__m512 wide) {
  return __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(wide));
}

DYAD_WORDS void pack_rows(const std::byte* b, std::int64_t row, std::int64_t k, std::int64_t n,
                          Word* to, std::int64_t to_row) {
  for (std::int64_t i = 0; i < k; ++i, b += row, to += to_row) {
    if (i + kRowsAhead < k) fetch_row(b + kRowsAhead * row, 4 * n);
    for (std::int64_t j = 0; j < n; j += kVectorWords)
      _mm512_store_si512(to + j, _mm512_maskz_loadu_epi32(first_lanes(n - j), b + j * 4));
  }
}

/// Rows of bf16, two at a time.
DYAD_WORDS void pack_pairs(const std::byte* b, std::int64_t row, std::int64_t k, std::int64_t n,
                           Word* to, std::int64_t to_row) {
  for (std::int64_t i = 0; i < k; i += 2, b += 2 * row, to += to_row) {
    for (std::int64_t ahead = kRowsAhead; ahead < std::min(kRowsAhead + 2, k - i); ++ahead)
      fetch_row(b + ahead * row, 2 * n);
    const __mmask16 second = i + 1 < k ? 0xFFFF : 0;
    for (std::int64_t j = 0; j < n; j += kVectorWords) {
      const __mmask16 some = first_lanes(n - j);
      const std::byte* const at = b + j * 2;
      _mm512_store_si512(to + j, interleaved(_mm256_maskz_loadu_epi16(some, at),
                                             _mm256_maskz_loadu_epi16(some & second, at + row)));
    }
  }
}

// In each quarter of a vector, as the CPU does it.
DYAD_WORDS_INLINE WordVector lower_words(WordVector a, WordVector b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
DYAD_WORDS_INLINE WordVector upper_words(WordVector a, WordVector b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
DYAD_WORDS_INLINE WordVector lower_long_words(WordVector a, WordVector b) {
  return __builtin_bit_cast(
      WordVector,
      __builtin_shufflevector(__builtin_bit_cast(LongWordVector, a),
                              __builtin_bit_cast(LongWordVector, b), 0, 8, 2, 10, 4, 12, 6, 14));
}
DYAD_WORDS_INLINE WordVector upper_long_words(WordVector a, WordVector b) {
  return __builtin_bit_cast(
      WordVector,
      __builtin_shufflevector(__builtin_bit_cast(LongWordVector, a),
                              __builtin_bit_cast(LongWordVector, b), 1, 9, 3, 11, 5, 13, 7, 15));
}
/// Two quarters of a, from quarter kFirst on every kStep, and the same of b.
template <int kFirst, int kStep>
DYAD_WORDS_INLINE WordVector quarters(WordVector a, WordVector b) {
  constexpr int p = 2 * kFirst, q = p + 2 * kStep;
  return __builtin_bit_cast(
      WordVector, __builtin_shufflevector(__builtin_bit_cast(LongWordVector, a),
                                          __builtin_bit_cast(LongWordVector, b), p, p + 1, q, q + 1,
                                          8 + p, 9 + p, 8 + q, 9 + q));
}

/// 16 rows of 16 words become columns.
DYAD_WORDS_INLINE void transpose(WordVector (&rows)[16]) {
  WordVector next[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    next[i] = lower_words(rows[i], rows[i + 1]);
    next[i + 1] = upper_words(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 4) {
    rows[i] = lower_long_words(next[i], next[i + 2]);
    rows[i + 1] = upper_long_words(next[i], next[i + 2]);
    rows[i + 2] = lower_long_words(next[i + 1], next[i + 3]);
    rows[i + 3] = upper_long_words(next[i + 1], next[i + 3]);
  }
  // Quarter q of rows[4 g + j] is column 4 q + j of rows 4 g to 4 g + 3.
#pragma GCC unroll 8
  for (int j = 0; j < 4; ++j) {
    const WordVector low = quarters<0, 1>(rows[j], rows[4 + j]),
                     high = quarters<2, 1>(rows[j], rows[4 + j]),
                     more_low = quarters<0, 1>(rows[8 + j], rows[12 + j]),
                     more_high = quarters<2, 1>(rows[8 + j], rows[12 + j]);
    next[j] = quarters<0, 2>(low, more_low);
    next[4 + j] = quarters<1, 2>(low, more_low);
    next[8 + j] = quarters<0, 2>(high, more_high);
    next[12 + j] = quarters<1, 2>(high, more_high);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) rows[i] = next[i];
}

DYAD_WORDS void pack_columns(const std::byte* b, std::int64_t row, std::int64_t depth,
                             std::int64_t n, Word* to, std::int64_t to_row) {
  for (std::int64_t j = 0; j < n; j += kVectorWords) {
    for (std::int64_t p = 0; p < depth; p += kVectorWords) {
      const __mmask16 some = first_lanes(depth - p);
      WordVector rows[16];
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < kVectorWords; ++i) {
        rows[i] = j + i < n ? __builtin_bit_cast(WordVector, _mm512_maskz_loadu_epi32(
                                                                 some, b + (j + i) * row + p * 4))
                            : WordVector{};
      }
      if (p == 0) {
        for (std::int64_t i = j + kVectorWords; i < std::min(j + 2 * kVectorWords, n); ++i)
          fetch_row(b + i * row, 4 * depth);
      }
      transpose(rows);
      const std::int64_t count = std::min(kVectorWords, depth - p);
      for (std::int64_t i = 0; i < count; ++i)
        _mm512_store_si512(to + (p + i) * to_row + j, __builtin_bit_cast(__m512i, rows[i]));
    }
  }
}

/// What a tile's sums go to.
struct WordSums {
  float* c;
  std::int64_t c_row;
  __mmask16 last;  ///< of the last vector
  bool adds;
  float scale;
};

/// sum += a word, or the products of its pair.
template <WordKind kKind>
DYAD_WORDS_INLINE __m512 multiply_add(__m512 sum, __m512 a, __m512 b) {
  if constexpr (kKind == WordKind::f32) return _mm512_fmadd_ps(a, b, sum);
  return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, a), __builtin_bit_cast(__m512bh, b));
}

template <WordKind kKind, int kRows, int kVectors>
DYAD_WORDS void multiply_words(const WordRows& a, const Word* b, std::int64_t b_row,
                               std::int64_t depth, const WordSums& to) {
  __m512 sum[kRows][kVectors];
  const auto mask = [&](int v) {
    return v + 1 < kVectors ? static_cast<__mmask16>(0xFFFF) : to.last;
  };
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sum[i][v] = to.adds ? _mm512_maskz_loadu_ps(mask(v), to.c + i * to.c_row + v * kVectorWords)
                          : _mm512_setzero_ps();
    }
  }
  const std::byte* low = a.at;
  const std::byte* high = a.at + (kRows > 3 ? 3 * a.row : 0);
  for (std::int64_t p = 0; p < depth; ++p, b += b_row, low += a.word, high += a.word) {
    __m512 row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) row[v] = _mm512_load_ps(b + v * kVectorWords);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      float word = 0;
      __builtin_memcpy(&word, i < 3 ? low + i * a.row : high + (i - 3) * a.row, sizeof word);
      const __m512 x = _mm512_set1_ps(word);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[i][v] = multiply_add<kKind>(sum[i][v], x, row[v]);
    }
  }
  const __m512 scale = _mm512_set1_ps(to.scale);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      _mm512_mask_storeu_ps(to.c + i * to.c_row + v * kVectorWords, mask(v),
                            to.scale == 1 ? sum[i][v] : sum[i][v] * scale);
    }
  }
}

using MultiplyWords = void (*)(const WordRows&, const Word*, std::int64_t, std::int64_t,
                               const WordSums&);
template <WordKind kKind, int kRows>
constexpr MultiplyWords kMultiplyRows[kPanelVectors] = {
    multiply_words<kKind, kRows, 1>, multiply_words<kKind, kRows, 2>,
    multiply_words<kKind, kRows, 3>, multiply_words<kKind, kRows, 4>};
template <WordKind kKind>
constexpr const MultiplyWords* kMultiplyWords[kTileRows] = {
    kMultiplyRows<kKind, 1>, kMultiplyRows<kKind, 2>, kMultiplyRows<kKind, 3>,
    kMultiplyRows<kKind, 4>, kMultiplyRows<kKind, 5>, kMultiplyRows<kKind, 6>};

DYAD_WORDS void round_row(const float* from, std::int64_t n, std::byte* to) {
  for (std::int64_t j = 0; j < n; j += kVectorWords) {
    const __m256i halves = rounded_halves(_mm512_maskz_loadu_ps(first_lanes(n - j), from + j));
    _mm256_mask_storeu_epi16(to + j * 2, first_lanes(2 * words_of(WordKind::bf16_pair, n) - j),
                             halves);
  }
}

DYAD_WORDS void round_two_rows(const float* low, const float* high, std::int64_t n, Word* to) {
  for (std::int64_t j = 0; j < n; j += kVectorWords) {
    const __mmask16 some = first_lanes(n - j);
    const __m256i first = rounded_halves(_mm512_maskz_loadu_ps(some, low + j));
    const __m256i second = high != nullptr ? rounded_halves(_mm512_maskz_loadu_ps(some, high + j))
                                           : _mm256_setzero_si256();
    _mm512_mask_storeu_epi32(to + j, some, interleaved(first, second));
  }
}

}  // namespace

bool has_word_products(WordKind kind) noexcept {
  return kind == WordKind::f32 ? onednn::uses(dnnl_cpu_isa_avx512_core)
                               : onednn::takes(DType::bf16);
}

template <class Pack>
void WordPanels::each_panel(std::int64_t n, Pack pack) {
  for (std::int64_t column = 0; column < n; column += kColumns) {
    pack(column, std::min(kColumns, n - column), lines_.data()->words + column * depth_,
         row(column / kColumns));
  }
}

void WordPanels::pack(const std::byte* b, std::int64_t row, std::int64_t k, std::int64_t n) {
  resize(k, n);
  each_panel(n, [&](std::int64_t column, std::int64_t count, Word* to, std::int64_t to_row) {
    const auto pack_some = kind_ == WordKind::f32 ? pack_rows : pack_pairs;
    pack_some(b + column * element_bytes(kind_), row, k, count, to, to_row);
  });
}

void WordPanels::pack_transposed(const std::byte* b, std::int64_t row, std::int64_t k,
                                 std::int64_t n) {
  resize(k, n);
  each_panel(n, [&](std::int64_t column, std::int64_t count, Word* to, std::int64_t to_row) {
    pack_columns(b + column * row, row, depth_, count, to, to_row);
  });
}

void word_product(std::int64_t m, std::int64_t n, std::int64_t k, const WordRows& a,
                  const WordPanels& b, bool adds, float* c, std::int64_t c_row, float scale) {
  const auto& multiply = b.kind() == WordKind::f32 ? kMultiplyWords<WordKind::f32>
                                                   : kMultiplyWords<WordKind::bf16_pair>;
  for (std::int64_t column = 0; column < n; column += WordPanels::kColumns) {
    const std::int64_t number = column / WordPanels::kColumns,
                       columns = std::min(WordPanels::kColumns, n - column),
                       vectors = (columns + kVectorWords - 1) / kVectorWords;
    for (std::int64_t i = 0; i < m; i += kTileRows) {
      const std::int64_t rows = std::min<std::int64_t>(kTileRows, m - i);
      multiply[rows - 1][vectors - 1]({.at = a.at + i * a.row, .row = a.row, .word = a.word},
                                      b.panel(number), b.row(number), words_of(b.kind(), k),
                                      {.c = c + i * c_row + column,
                                       .c_row = c_row,
                                       .last = first_lanes(columns - (vectors - 1) * kVectorWords),
                                       .adds = adds,
                                       .scale = scale});
    }
  }
}

WordRows as_factor(WordKind kind, const float* x, std::int64_t m, std::int64_t n,
                   std::vector<Word>& room) {
  const std::int64_t words = words_of(kind, n), row = words * std::int64_t{sizeof(Word)};
  if (kind == WordKind::f32) return {.at = reinterpret_cast<const std::byte*>(x), .row = row};
  room.resize(static_cast<std::size_t>(m * words));
  auto* const at = reinterpret_cast<std::byte*>(room.data());
  for (std::int64_t i = 0; i < m; ++i) round_row(x + i * n, n, at + i * row);
  return {.at = at, .row = row};
}

WordRows as_transposed_factor(WordKind kind, const float* x, std::int64_t m, std::int64_t n,
                              std::vector<Word>& room) {
  const std::byte* at = reinterpret_cast<const std::byte*>(x);
  if (kind == WordKind::bf16_pair) {
    room.resize(static_cast<std::size_t>(words_of(kind, m) * n));
    for (std::int64_t i = 0; i < m; i += 2) {
      round_two_rows(x + i * n, i + 1 < m ? x + (i + 1) * n : nullptr, n, room.data() + i / 2 * n);
    }
    at = reinterpret_cast<const std::byte*>(room.data());
  }
  return {.at = at, .row = sizeof(Word), .word = n * std::int64_t{sizeof(Word)}};
}

#else

namespace {

[[noreturn]] void no_word_products() { throw InternalError("this build has no products of words"); }

}  // namespace

bool has_word_products(WordKind) noexcept { return false; }

void WordPanels::pack(const std::byte*, std::int64_t, std::int64_t, std::int64_t) {
  no_word_products();
}

void WordPanels::pack_transposed(const std::byte*, std::int64_t, std::int64_t, std::int64_t) {
  no_word_products();
}

void word_product(std::int64_t, std::int64_t, std::int64_t, const WordRows&, const WordPanels&,
                  bool, float*, std::int64_t, float) {
  no_word_products();
}

WordRows as_factor(WordKind, const float*, std::int64_t, std::int64_t, std::vector<Word>&) {
  no_word_products();
}

WordRows as_transposed_factor(WordKind, const float*, std::int64_t, std::int64_t,
                              std::vector<Word>&) {
  no_word_products();
}

#endif

}  // namespace dyad::runtime::cpu
