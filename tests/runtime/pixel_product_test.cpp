#include "dyad/runtime/cpu/pixel_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "dyad/ops/attrs/nn.h"
#include "dyad/runtime/caches.h"
#include "tests/runtime/support.h"

namespace dyad::testing {
namespace {

using runtime::cpu::Epilogue;
using Activation = Epilogue::Activation;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                kInfinity = std::numeric_limits<float>::infinity();

/// Rows of A and B whose sums depend on their order.
struct Pixels {
  std::int64_t m, n, k;
  Tensor a, b, bias, before;

  Pixels(std::int64_t rows, std::int64_t columns, std::int64_t depth)
      : m(rows), n(columns), k(depth) {
    std::int64_t next = 0;
    const auto filled = [&](std::initializer_list<std::int64_t> sizes) {
      const Tensor t = make(f32, sizes);
      auto* const elements = static_cast<float*>(t.raw_data());
      for (std::int64_t i = 0; i < t.numel(); ++i)
        elements[i] = 0.013f * static_cast<float>(++next * 37 % 101 - 50);
      return t;
    };
    a = filled({m, k});
    b = filled({k, n});
    bias = filled({n});
    before = filled({m, n});
  }
  [[nodiscard]] static const float* of(const Tensor& t) {
    return static_cast<const float*>(t.raw_data());
  }
  /// `at_once` rows at a time.
  [[nodiscard]] Tensor run(bool with_bias, const Epilogue& epilogue, std::int64_t at_once) const {
    const Tensor c = make(f32, {m, n});
    auto* const to = static_cast<float*>(c.raw_data());
    std::copy_n(of(before), m * n, to);
    for (std::int64_t row = 0; row < m; row += at_once) {
      runtime::cpu::pixel_product({.m = std::min(at_once, m - row),
                                   .n = n,
                                   .k = k,
                                   .a = of(a) + row * k,
                                   .b = of(b),
                                   .bias = with_bias ? of(bias) : nullptr,
                                   .c = to + row * n,
                                   .epilogue = epilogue});
    }
    return c;
  }
  [[nodiscard]] Tensor run(bool with_bias, const Epilogue& epilogue) const {
    return run(with_bias, epilogue, m);
  }
  /// By what the header promises.
  [[nodiscard]] Tensor expected(bool with_bias, const Epilogue& epilogue) const {
    const Tensor c = make(f32, {m, n});
    auto* to = static_cast<float*>(c.raw_data());
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::int64_t p = 0; p < k; ++p) {
          sum = std::fma(of(a)[i * k + p], of(b)[p * n + j], sum);
        }
        if (with_bias) sum += of(bias)[j];
        if (epilogue.adds) sum += of(before)[i * n + j];
        *to++ = sum;
      }
    }
    runtime::cpu::activate_in_place(epilogue, static_cast<float*>(c.raw_data()), m * n);
    return c;
  }
};

class PixelProductTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!runtime::cpu::takes_pixel_product(4096, 24, 16)) GTEST_SKIP() << "no AVX-512";
  }
};

TEST_F(PixelProductTest, SumsInTheOrderOfKForEverySize) {
  for (std::int64_t n = 8; n <= 144; n += 8) {
    for (const std::int64_t k : {1, 7, 61}) {
      for (const std::int64_t m : {1, 11, 72, 150}) {
        const Pixels pixels(m, n, k);
        ASSERT_TRUE(same_bits(pixels.run(false, {}), pixels.expected(false, {})))
            << m << " x " << n << " x " << k;
      }
    }
  }
}

TEST_F(PixelProductTest, BiasThenWhatWasThereThenTheActivation) {
  for (const std::int64_t n : {8, 24, 40, 96}) {
    const Pixels pixels(100, n, 5);
    for (const bool with_bias : {false, true}) {
      for (const bool adds : {false, true}) {
        for (const Activation activation :
             {Activation::none, Activation::relu, Activation::leaky_relu, Activation::clamp,
              Activation::sigmoid, Activation::silu, Activation::hardswish}) {
          const Epilogue epilogue{
              .adds = adds, .activation = activation, .alpha = -0.25f, .beta = 0.5f};
          EXPECT_TRUE(
              same_bits(pixels.run(with_bias, epilogue), pixels.expected(with_bias, epilogue)))
              << n << " columns, activation " << static_cast<int>(activation);
        }
      }
    }
  }
}

TEST_F(PixelProductTest, NansAndZerosPassThroughActivations) {
  const Pixels pixels(8, 8, 1);
  const float inputs[] = {kNan, -0.0f, 0.0f, -1.0f, 1.0f, -kInfinity, kInfinity, -3e38f};
  std::ranges::copy(inputs, static_cast<float*>(pixels.a.raw_data()));
  std::fill_n(static_cast<float*>(pixels.b.raw_data()), 8, 1.0f);
  for (const Activation activation :
       {Activation::relu, Activation::leaky_relu, Activation::clamp}) {
    const Epilogue epilogue{.activation = activation, .alpha = -0.5f, .beta = 0.5f};
    const std::vector<double> got = values(pixels.run(false, epilogue)),
                              expected = values(pixels.expected(false, epilogue));
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i])));
    }
  }
}

TEST_F(PixelProductTest, ResultsThatLeaveTheCaches) {
  const std::int64_t n = 96, m = static_cast<std::int64_t>(runtime::kPastCachesBytes) / 4 / n + 50;
  const Pixels pixels(m, n, 2);
  for (const bool adds : {false, true}) {
    const Epilogue epilogue{.adds = adds, .activation = Activation::relu};
    const Tensor expected = pixels.run(true, epilogue, 5000);
    for (const int threads : {1, 2}) {
      const Threads scope(threads);
      const Tensor got = pixels.run(true, epilogue);
      EXPECT_EQ(std::memcmp(got.raw_data(), expected.raw_data(),
                            static_cast<std::size_t>(m * n) * sizeof(float)),
                0);
    }
  }
}

TEST_F(PixelProductTest, IsWhatConvolutionsOfOneElementAre) {
  // 2 images of 40 x 30 pixels, 12 channels to 24.
  const Pixels pixels(2400, 24, 12);
  const Tensor x = make(f32, {2, 12, 40, 30}, Lie::channels_last),
               weight = make(f32, {24, 12, 1, 1});
  std::memcpy(x.raw_data(), pixels.a.raw_data(),
              static_cast<std::size_t>(pixels.m * pixels.k) * sizeof(float));
  for (std::int64_t o = 0; o < 24; ++o) {
    for (std::int64_t c = 0; c < 12; ++c) {
      set_value(weight, std::array<std::int64_t, 4>{o, c, 0, 0}, Pixels::of(pixels.b)[c * 24 + o]);
    }
  }
  const ops::ConvAttrs attrs;
  const Tensor out = run_kernel("conv", &attrs, {x, weight, pixels.bias}, f32, {2, 24, 40, 30});
  EXPECT_EQ(std::memcmp(out.raw_data(), pixels.expected(true, {}).raw_data(),
                        static_cast<std::size_t>(pixels.m * pixels.n) * sizeof(float)),
            0);
}

}  // namespace
}  // namespace dyad::testing
