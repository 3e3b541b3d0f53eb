#include "dyad/runtime/cpu/word_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/runtime/support.h"

namespace dyad::testing {
namespace {

using runtime::cpu::as_factor;
using runtime::cpu::as_transposed_factor;
using runtime::cpu::Word;
using runtime::cpu::word_product;
using runtime::cpu::WordKind;
using runtime::cpu::WordPanels;
using runtime::cpu::WordRows;

class WordProduct : public ::testing::TestWithParam<WordKind> {
 protected:
  void SetUp() override {
    if (!runtime::cpu::has_word_products(GetParam())) GTEST_SKIP() << "not on this CPU";
  }
  [[nodiscard]] static DType dtype() { return GetParam() == WordKind::f32 ? f32 : bf16; }
};
INSTANTIATE_TEST_SUITE_P(Kinds, WordProduct, ::testing::Values(WordKind::f32, WordKind::bf16_pair),
                         [](const auto& kind) {
                           return kind.param == WordKind::f32 ? "f32" : "bf16";
                         });

std::int64_t row_of(const Tensor& t) {
  return t.impl()->strides[0] * static_cast<std::int64_t>(size_of(t.dtype()));
}
const std::byte* bytes(const Tensor& t) { return static_cast<const std::byte*>(t.raw_data()); }
const float* floats(const Tensor& t) { return static_cast<const float*>(t.raw_data()); }

Tensor transposed(const Tensor& t) {
  const auto sizes = t.shape().numbers();
  const Tensor made = make(t.dtype(), {sizes[1], sizes[0]});
  for_each_index(made.shape().numbers(),
                 [&](auto at) { set_value(made, at, value_at(t, std::array{at[1], at[0]})); });
  return made;
}

/// C must have `scale` A B, or what was there plus that; in the column behind its last one, what
/// was there.
void expect_product(const Tensor& c, const Tensor& a, const Tensor& b, std::int64_t k,
                    const Tensor& before, bool adds, double scale = 1) {
  const std::int64_t m = c.impl()->shape[0].number(), n = c.impl()->shape[1].number() - 1;
  int different = 0;
  for_each_index(c.shape().numbers(), [&](auto at) {
    const bool is_behind = at[1] == n;
    double sum = adds || is_behind ? value_at(before, at) : 0;
    for (std::int64_t p = 0; p < k && !is_behind; ++p)
      sum += value_at(a, std::array{at[0], p}) * value_at(b, std::array{p, at[1]}) * scale;
    different += value_at(c, at) != sum ? 1 : 0;
  });
  EXPECT_EQ(different, 0) << m << " x " << n << " x " << k;
}

// Of factors whose products and sums are exact.
TEST_P(WordProduct, EverySizeFromBothKindsOfPanels) {
  for (const std::int64_t m : {1, 2, 5, 13}) {
    for (const std::int64_t n : {1, 16, 17, 48, 63, 65, 130}) {
      for (const std::int64_t k : {2, 30, 34}) {
        const Tensor a = random(dtype(), {m, k}, 1), b = random(dtype(), {k, n}, 2),
                     turned = transposed(b), before = random(f32, {m, n + 1}, 3);
        for (const bool from_transpose : {false, true}) {
          WordPanels panels(GetParam());
          if (from_transpose) {
            panels.pack_transposed(bytes(turned), row_of(turned), k, n);
          } else {
            panels.pack(bytes(b), row_of(b), k, n);
          }
          for (const bool adds : {false, true}) {
            const Tensor c = random(f32, {m, n + 1}, 3);
            const float scale = adds ? 1 : 0.5F;
            word_product(m, n, k, {.at = bytes(a), .row = row_of(a)}, panels, adds,
                         static_cast<float*>(c.raw_data()), n + 1, scale);
            expect_product(c, a, b, k, before, adds, scale);
          }
        }
      }
    }
  }
}

TEST_P(WordProduct, FirstRowsAndColumnsOfLargerPanels) {
  const Tensor a = random(dtype(), {7, 20}, 4), b = random(dtype(), {50, 140}, 5),
               before = random(f32, {7, 101}, 6), c = random(f32, {7, 101}, 6);
  WordPanels panels(GetParam());
  panels.pack(bytes(b), row_of(b), 50, 140);
  word_product(7, 100, 20, {.at = bytes(a), .row = row_of(a)}, panels, true,
               static_cast<float*>(c.raw_data()), 101);
  expect_product(c, a, b, 20, before, true);
}

TEST_P(WordProduct, NothingToAddUp) {
  const Tensor none = make(dtype(), {7, 0}), before = random(f32, {7, 21}, 6);
  for (const bool from_transpose : {false, true}) {
    WordPanels panels(GetParam());
    if (from_transpose) {
      panels.pack_transposed(bytes(none), 0, 0, 20);
    } else {
      panels.pack(bytes(none), 0, 0, 20);
    }
    for (const bool adds : {false, true}) {
      const Tensor c = random(f32, {7, 21}, 6);
      word_product(7, 20, 0, {.at = bytes(none)}, panels, adds, static_cast<float*>(c.raw_data()),
                   21);
      expect_product(c, none, none, 0, before, adds);
    }
  }
}

TEST_P(WordProduct, AnOddKHasAZeroBehindIt) {
  const Tensor b = random(dtype(), {5, 40}, 7), x = random(f32, {3, 5}, 8), turned = transposed(x),
               before = random(f32, {3, 41}, 9);
  WordPanels panels(GetParam());
  // What was packed before is nothing to what is packed now.
  const Tensor other = make(dtype(), {6, 64});
  for_each_index(other.shape().numbers(),
                 [&](auto at) { set_value(other, at, std::numeric_limits<float>::infinity()); });
  panels.pack(bytes(other), row_of(other), 6, 64);
  panels.pack(bytes(b), row_of(b), 5, 40);
  std::vector<Word> room;
  for (const bool from_transpose : {false, true}) {
    const Tensor c = random(f32, {3, 41}, 9);
    const WordRows a = from_transpose ? as_transposed_factor(GetParam(), floats(turned), 5, 3, room)
                                      : as_factor(GetParam(), floats(x), 3, 5, room);
    word_product(3, 40, 5, a, panels, false, static_cast<float*>(c.raw_data()), 41);
    expect_product(c, x, b, 5, before, false);
  }
}

// Each step of a sum of f32 is rounded once; of a pair each CPU rounds in its own way.
TEST(WordProductOfF32, SumsInTheOrderOfK) {
  if (!runtime::cpu::has_word_products(WordKind::f32)) GTEST_SKIP() << "not on this CPU";
  const Tensor a = waves(f32, {9, 70}, 10), b = waves(f32, {70, 81}, 20), c = make(f32, {9, 81});
  WordPanels panels(WordKind::f32);
  panels.pack(bytes(b), row_of(b), 70, 81);
  word_product(9, 81, 70, {.at = bytes(a), .row = row_of(a)}, panels, false,
               static_cast<float*>(c.raw_data()), 81);
  for_each_index(c.shape().numbers(), [&](auto at) {
    float sum = 0;
    for (std::int64_t p = 0; p < 70; ++p)
      sum = std::fma(floats(a)[at[0] * 70 + p], floats(b)[p * 81 + at[1]], sum);
    EXPECT_EQ(value_at(c, at), sum);
  });
}

// Rounded to the nearest, halves to even; NaN and infinities stay.
TEST(WordProductOfBf16, FactorsAreRounded) {
  constexpr WordKind kind = WordKind::bf16_pair;
  if (!runtime::cpu::has_word_products(kind)) GTEST_SKIP() << "not on this CPU";
  for (const std::int64_t m : {1, 2, 7}) {
    for (const std::int64_t n : {1, 16, 33}) {
      const Tensor x = waves(f32, {m, n}, 50), halves = make(bf16, {m, n});
      set_value(x, std::array<std::int64_t, 2>{0, 0}, -std::numeric_limits<double>::infinity());
      set_value(x, std::array<std::int64_t, 2>{m - 1, n - 1}, 1 + 0x1p-8);
      std::vector<Word> along, across;
      const WordRows rows = as_factor(kind, floats(x), m, n, along),
                     columns = as_transposed_factor(kind, floats(x), m, n, across);
      const auto half = [](const WordRows& of, std::int64_t i, std::int64_t k) {
        std::uint16_t bits = 0;
        std::copy_n(of.at + i * of.row + k / 2 * of.word + k % 2 * 2, 2,
                    reinterpret_cast<std::byte*>(&bits));
        return bits;
      };
      for_each_index(halves.shape().numbers(),
                     [&](auto at) { set_value(halves, at, rounded(value_at(x, at), bf16)); });
      const auto* const expected = static_cast<const std::uint16_t*>(halves.raw_data());
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          EXPECT_EQ(half(rows, i, j), expected[i * n + j]);
          EXPECT_EQ(half(columns, j, i), expected[i * n + j]);
        }
        EXPECT_TRUE(n % 2 == 0 || half(rows, i, n) == 0);
      }
      for (std::int64_t j = 0; j < n && m % 2 == 1; ++j) EXPECT_EQ(half(columns, j, m), 0);
    }
  }
}

}  // namespace
}  // namespace dyad::testing
