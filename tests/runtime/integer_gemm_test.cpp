#include "dyad/runtime/cpu/integer_gemm.h"

#include <gtest/gtest.h>

#include <vector>

#include "dyad/runtime/cpu/integer_words.h"

namespace dyad::testing {
namespace {

using runtime::cpu::IntegerGemm;

/// Bytes that hold both ends of their range often: sums of two products of those overflow 16 bits.
template <class T>
std::vector<T> bytes(std::int64_t count, std::uint64_t seed) {
  std::vector<T> made(static_cast<std::size_t>(count));
  for (T& x : made) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const auto drawn = static_cast<std::uint8_t>(seed >> 40);
    const std::uint64_t kind = seed >> 60;
    x = static_cast<T>(kind < 4 ? 0x80 : kind < 8 ? 0xff : kind < 12 ? 0x7f : drawn);
  }
  return made;
}

std::vector<std::int32_t> by_definition(const IntegerGemm& g, const std::vector<std::uint8_t>& a,
                                        const std::vector<std::int8_t>& b,
                                        std::vector<std::int32_t> c) {
  for (std::int64_t i = 0; i < g.m; ++i) {
    for (std::int64_t j = 0; j < g.n; ++j) {
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < g.k; ++k) {
        sum += a[static_cast<std::size_t>(i * g.a_row + k)] *
               b[static_cast<std::size_t>(k * g.b_row + j * g.b_column)];
      }
      c[static_cast<std::size_t>(i * g.c_row + j)] = sum;
    }
  }
  return c;
}

/// Both ways to lie for B, rows of A and C with gaps; what is between C's rows stays.
void check(std::int64_t m, std::int64_t n, std::int64_t k) {
  for (const bool turned : {false, true}) {
    const IntegerGemm g{.m = m,
                        .n = n,
                        .k = k,
                        .a_row = k + 3,
                        .b_row = turned ? 1 : n + 2,
                        .b_column = turned ? k + 2 : 1,
                        .c_row = n + 5};
    const auto a = bytes<std::uint8_t>(m * g.a_row, 1);
    const auto b = bytes<std::int8_t>((n + 2) * (k + 2), 2);
    const std::vector<std::int32_t> before(static_cast<std::size_t>(m * g.c_row), 77);
    std::vector<std::int32_t> c = before;
    if (!runtime::cpu::integer_words_product(g, a.data(), b.data(), c.data())) {
      GTEST_SKIP() << "needs AVX2";
    }
    EXPECT_EQ(c, by_definition(g, a, b, before)) << m << ' ' << n << ' ' << k << ' ' << turned;
    std::vector<std::int32_t> d = before;
    runtime::cpu::integer_gemm(g, a.data(), b.data(), d.data());
    EXPECT_EQ(d, c);
    IntegerGemm packed = g;
    const std::vector<std::int16_t> words = runtime::cpu::pack_words(g, b.data());
    packed.b_words = words.data();
    std::vector<std::int32_t> e = before;
    EXPECT_TRUE(runtime::cpu::integer_words_product(packed, a.data(), nullptr, e.data()));
    EXPECT_EQ(e, c);
  }
}

TEST(IntegerGemm, WordsAreExactAtEveryEdge) {
  for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 48, 49}) {
    for (const std::int64_t n : {1, 7, 15, 16, 17, 33}) {
      for (const std::int64_t k : {1, 2, 3, 16, 31}) check(m, n, k);
    }
  }
}

TEST(IntegerGemm, WordsAddUpOverSeveralDepths) {
  check(6, 20, 511);
  check(6, 20, 513);
  check(50, 18, 1537);
}

}  // namespace
}  // namespace dyad::testing
