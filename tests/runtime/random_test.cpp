#include "dyad/ops/attrs/random.h"

#include <gtest/gtest.h>

#include <cmath>

#include "dyad/core/generator.h"
#include "tests/runtime/support.h"

namespace dyad::testing {
namespace {

Tensor scalar(std::int64_t value) {
  Tensor t = make_empty(i64, Shape());
  *t.data<std::int64_t>() = value;
  return t;
}

Tensor draw(DType dtype, std::int64_t seed, std::int64_t offset, std::int64_t count) {
  const ops::UniformAttrs attrs{Shape{count}, dtype};
  return run_kernel("uniform", &attrs, {scalar(seed), scalar(offset)}, dtype, {count});
}

TEST(Uniform, ElementsAreThoseOfTheGenerator) {
  // Offsets around 2^32 carry into the counter's upper word.
  for (const std::int64_t seed : {std::int64_t{0}, std::int64_t{1} << 40, std::int64_t{-7}}) {
    for (const std::int64_t offset : {std::int64_t{0}, (std::int64_t{1} << 32) - 5}) {
      for (const std::int64_t count : {0, 1, 15, 16, 37}) {
        const Tensor floats = draw(f32, seed, offset, count),
                     doubles = draw(f64, seed, offset, count);
        const Tensor halves = draw(f16, seed, offset, count),
                     brains = draw(bf16, seed, offset, count);
        for (std::int64_t i = 0; i < count; ++i) {
          const auto words = random_words({seed, offset}, i);
          const double exact = (words[0] >> 8) * 0x1p-24;
          EXPECT_EQ(value_at(floats, {&i, 1}), exact);
          EXPECT_EQ(
              value_at(doubles, {&i, 1}),
              static_cast<double>((std::uint64_t{words[0]} << 21) | (words[1] >> 11)) * 0x1p-53);
          EXPECT_EQ(value_at(halves, {&i, 1}), std::floor(exact * 2048) / 2048);
          EXPECT_EQ(value_at(brains, {&i, 1}), std::floor(exact * 256) / 256);
        }
      }
    }
  }
}

TEST(Uniform, DoesNotDependOnThreads) {
  Tensor results[2];
  for (const int threads : {1, 2}) {
    const Threads scope(threads);
    results[threads - 1] = draw(f32, 3, 1000, 100003);
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
}

TEST(RandomKey, TakesPlacesFromTheDefaultGenerator) {
  manual_seed(42);
  const ops::RandomKeyAttrs attrs{10};
  for (const std::int64_t offset : {0, 10}) {
    const std::vector<Tensor> key = run_kernel("random_key", &attrs, {}, {scalar(0), scalar(0)});
    EXPECT_EQ(values(key[0]), std::vector<double>{42});
    EXPECT_EQ(values(key[1]), std::vector<double>{static_cast<double>(offset)});
  }
}

}  // namespace
}  // namespace dyad::testing
