#include "dyad/ir/scalar_math.h"

#include <gtest/gtest.h>

#include "dyad/base/error.h"
#include "scalar_accuracy.h"

namespace dyad::scalar {
namespace {

class ScalarMath : public ::testing::TestWithParam<Function> {};

TEST_P(ScalarMath, F32IsWithinItsBound) { check<float>(GetParam(), GetParam().bound32); }
TEST_P(ScalarMath, F64IsWithinItsBound) { check<double>(GetParam(), GetParam().bound64); }

long double sigmoid_exact(long double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

INSTANTIATE_TEST_SUITE_P(
    All, ScalarMath,
    ::testing::Values(
        Function{"exp", [](Scalar x) { return exp(x); }, [](long double x) { return std::exp(x); },
                 -105, 90, 1, 1},
        Function{"exp2", [](Scalar x) { return exp2(x); },
                 [](long double x) { return std::exp2(x); }, -151, 129, 1, 1},
        Function{"expm1", [](Scalar x) { return expm1(x); },
                 [](long double x) { return std::expm1(x); }, -3, 3, 2, 2},
        Function{"log", [](Scalar x) { return log(x); }, [](long double x) { return std::log(x); },
                 0, 4, 1, 1},
        Function{"log2", [](Scalar x) { return log2(x); },
                 [](long double x) { return std::log2(x); }, 0, 4, 1, 2},
        Function{"log10", [](Scalar x) { return log10(x); },
                 [](long double x) { return std::log10(x); }, 0, 4, 1, 2},
        Function{"log1p", [](Scalar x) { return log1p(x); },
                 [](long double x) { return std::log1p(x); }, -1, 3, 2, 2},
        Function{"tanh", [](Scalar x) { return tanh(x); },
                 [](long double x) { return std::tanh(x); }, -3, 3, 2.5, 2.5},
        Function{"sigmoid", [](Scalar x) { return sigmoid(x); }, sigmoid_exact, -20, 20, 2, 2},
        Function{"erf", [](Scalar x) { return erf(x); }, [](long double x) { return std::erf(x); },
                 -4, 4, 2, 2},
        Function{"rsqrt", [](Scalar x) { return rsqrt(x); },
                 [](long double x) { return 1 / std::sqrt(x); }, 0, 9, 1.5, 1.5},
        Function{"sin", [](Scalar x) { return sin(x); }, [](long double x) { return std::sin(x); },
                 -50, 50, 1, 2},
        Function{"cos", [](Scalar x) { return cos(x); }, [](long double x) { return std::cos(x); },
                 -50, 50, 1, 2},
        Function{"tan", [](Scalar x) { return tan(x); }, [](long double x) { return std::tan(x); },
                 -50, 50, 3, 3},
        Function{"round", [](Scalar x) { return round(x); },
                 [](long double x) { return std::rint(x); }, -9, 9, 0.5, 0.5},
        Function{"sign", [](Scalar x) { return sign(x); },
                 [](long double x) { return x > 0   ? 1.0L
                                            : x < 0 ? -1.0L
                                                    : x; }, -9, 9, 0, 0}),
    [](const auto& info) { return std::string(info.param.name); });

template <class T>
void check_pow(double bound) {
  ScalarProgram p;
  const Scalar x = p.input(dtype_of<T>), y = p.input(dtype_of<T>);
  p.output(pow(x, y));
  p.prune();
  const auto error = [&](T a, T b) {
    const std::uint64_t in[] = {to_bits(a), to_bits(b)};
    const T got = from_bits<T>(evaluate(p, in)[0]);
    return ulps(got, std::pow(static_cast<long double>(a), static_cast<long double>(b)));
  };
  constexpr T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  for (T a :
       {T(0), -T(0), T(1), T(-1), T(2), T(-2), T(0.5), T(-0.5), inf, -inf, nan, T(3e30), T(-8)}) {
    for (T b : {T(0), -T(0), T(1), T(-1), T(2), T(-2), T(3), T(-3), T(0.5), T(-0.5), inf, -inf, nan,
                T(1e20), T(2.5)}) {
      EXPECT_LE(error(a, b), bound) << a << " ** " << b;
    }
  }
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> base(0.001, 20), exponent(-30, 30), near(0.9, 1.1),
      large(-3000, 3000);
  for (int i = 0; i < 8000; ++i) {
    const T a = static_cast<T>(base(random)), b = static_cast<T>(exponent(random));
    EXPECT_LE(error(a, b), bound) << std::hexfloat << a << " ** " << b;
    const T c = static_cast<T>(near(random)), d = static_cast<T>(large(random));
    EXPECT_LE(error(c, d), bound) << std::hexfloat << c << " ** " << d;
  }
}

TEST(ScalarPow, F32) { check_pow<float>(1); }
TEST(ScalarPow, F64) { check_pow<double>(1); }

TEST(ScalarPhilox, KnownAnswers) {  // Random123, kat_vectors, philox4x32-10
  ScalarProgram p;
  const Scalar key = p.input(ScalarType::i64), counter = p.input(ScalarType::i64);
  for (const Scalar& word : philox(key, counter)) p.output(word);
  const std::uint64_t zero[] = {0, 0};
  EXPECT_EQ(evaluate(p, zero),
            (std::vector<std::uint64_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(ScalarRandom, UniformAndNormalHaveTheirMoments) {
  for (ScalarType type : {ScalarType::f32, ScalarType::f64}) {
    ScalarProgram p;
    const Scalar key = p.input(ScalarType::i64), counter = p.input(ScalarType::i64);
    p.output(uniform(key, counter, type));
    p.output(normal(key, counter, type));
    double sum[2] = {}, square[2] = {};
    constexpr int n = 4000;
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t in[] = {42, i};
      const auto out = evaluate(p, in);
      for (int k = 0; k < 2; ++k) {
        const double v =
            type == ScalarType::f32 ? from_bits<float>(out[k]) : from_bits<double>(out[k]);
        sum[k] += v;
        square[k] += v * v;
        if (k == 0) {
          EXPECT_GE(v, 0);
          EXPECT_LT(v, 1);
        }
      }
    }
    EXPECT_NEAR(sum[0] / n, 0.5, 0.02);
    EXPECT_NEAR(square[0] / n, 1.0 / 3, 0.02);
    EXPECT_NEAR(sum[1] / n, 0, 0.06);
    EXPECT_NEAR(square[1] / n, 1, 0.08);
  }
}

TEST(ScalarMathSmall, MinimumAndMaximumGiveNan) {
  ScalarProgram p;
  const Scalar a = p.input(ScalarType::f32), b = p.input(ScalarType::f32);
  p.output(minimum(a, b));
  p.output(maximum(a, b));
  for (auto [x, y] : {std::pair{NAN, 1.0f}, {1.0f, NAN}}) {
    const std::uint64_t in[] = {to_bits(x), to_bits(y)};
    for (std::uint64_t out : evaluate(p, in)) EXPECT_TRUE(std::isnan(from_bits<float>(out)));
  }
}

TEST(ScalarMathSmall, FloorDivisionFollowsTheDivisor) {
  ScalarProgram p;
  const Scalar a = p.input(ScalarType::i32), b = p.input(ScalarType::i32);
  p.output(floor_div(a, b));
  p.output(floor_mod(a, b));
  const auto run = [&](std::int32_t x, std::int32_t y) {
    const std::uint64_t in[] = {to_bits(x), to_bits(y)};
    const auto out = evaluate(p, in);
    return std::pair{from_bits<std::int32_t>(out[0]), from_bits<std::int32_t>(out[1])};
  };
  EXPECT_EQ(run(7, 2), std::pair(3, 1));
  EXPECT_EQ(run(-7, 2), std::pair(-4, 1));
  EXPECT_EQ(run(7, -2), std::pair(-4, -1));
  EXPECT_EQ(run(-7, -2), std::pair(3, -1));
  EXPECT_EQ(run(7, 0), std::pair(0, 0));
}

TEST(ScalarMathSmall, IntegersAreRefused) {
  ScalarProgram p;
  const Scalar n = p.input(ScalarType::i32);
  try {
    (void)exp(n);
    FAIL();
  } catch (const DTypeError& e) {
    EXPECT_EQ(e.message(), "exp(i32): takes f32 or f64; convert first");
  }
}

}  // namespace
}  // namespace dyad::scalar
