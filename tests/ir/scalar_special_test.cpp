#include <gtest/gtest.h>

#include <numbers>

#include "dyad/base/error.h"
#include "scalar_accuracy.h"

namespace dyad::scalar {
namespace {

constexpr long double kPi = std::numbers::pi_v<long double>;

class ScalarSpecial : public ::testing::TestWithParam<Function> {};

TEST_P(ScalarSpecial, F32IsWithinItsBound) { check<float>(GetParam(), GetParam().bound32); }
TEST_P(ScalarSpecial, F64IsWithinItsBound) { check<double>(GetParam(), GetParam().bound64); }

/// Halley's method on erf, or on erfc where erf is near 1.
long double erfinv_exact(long double x) {
  if (std::fabs(x) == 1) return x * INFINITY;
  if (!(std::fabs(x) < 1)) return NAN;
  const long double size = std::fabs(x);
  if (size < 1e-12L) return x * (std::sqrt(kPi) / 2);
  const long double log_rest = std::log1p(-size * size), a = 0.147L;
  const long double b = 2 / (kPi * a) + log_rest / 2;
  long double y = std::sqrt(std::sqrt(b * b - log_rest / a) - b);
  for (int i = 0; i < 8; ++i) {
    const long double error = size < 0.5L ? std::erf(y) - size : (1 - size) - std::erfc(y);
    const long double slope = 2 / std::sqrt(kPi) * std::exp(-y * y), step = error / slope;
    y -= step / (1 + y * step);
  }
  return std::copysign(y, x);
}

/// n! times the sum of 1 / (x + k)^(n + 1), x > 0: 200 terms and an integral.
long double zeta_sum(int n, long double x) {
  long double sum = 0, factorial = std::tgamma(n + 1.0L);
  for (int k = 199; k >= 0; --k) sum += std::pow(x + k, -(n + 1.0L));
  const long double y = x + 200, s = n + 1;
  return factorial *
         (sum + std::pow(y, -s) *
                    (y / n + 0.5L + s / (12 * y) - s * (s + 1) * (s + 2) / (720 * y * y * y) +
                     s * (s + 1) * (s + 2) * (s + 3) * (s + 4) / (30240 * std::pow(y, 5.0L))));
}
long double polygamma_exact(int n, long double x) {
  if (std::isnan(x)) return x;
  if (!(x > 0)) return NAN;
  if (x == INFINITY) return n % 2 == 0 ? -0.0L : 0.0L;
  return (n % 2 == 0 ? -1 : 1) * zeta_sum(n, x);
}

long double digamma_exact(long double x) {
  if (x == 0) return -std::copysign(INFINITY, x);
  if (x == INFINITY) return x;
  if (std::isnan(x) || (x < 0 && std::floor(x) == x)) return NAN;
  if (x < 0) {
    const long double angle = kPi * (x - std::rint(x));
    return digamma_exact(1 - x) - kPi / std::tan(angle);
  }
  long double sum = 0;
  for (; x < 40; x += 1) sum += 1 / x;
  const long double z = 1 / (x * x);
  return std::log(x) - 1 / (2 * x) - sum -
         z * (1 / 12.0L - z * (1 / 120.0L - z * (1 / 252.0L - z * (1 / 240.0L - z / 132))));
}

long double positive(long double x, long double y) { return x > 0 || std::isnan(x) ? y : NAN; }
/// A function on its positive numbers.
Scalar above_zero(Scalar x, Scalar y) { return select((x > 0.0) | (x != x), y, NAN); }

INSTANTIATE_TEST_SUITE_P(
    All, ScalarSpecial,
    ::testing::Values(
        Function{"asin", [](Scalar x) { return asin(x); },
                 [](long double x) { return std::asin(x); }, -1, 1, 1, 2},
        Function{"acos", [](Scalar x) { return acos(x); },
                 [](long double x) { return std::acos(x); }, -1, 1, 1, 2},
        Function{"atan", [](Scalar x) { return atan(x); },
                 [](long double x) { return std::atan(x); }, -3, 3, 1, 2},
        Function{"sinh", [](Scalar x) { return sinh(x); },
                 [](long double x) { return std::sinh(x); }, -30, 30, 1, 3},
        Function{"sinh_near_0", [](Scalar x) { return sinh(x); },
                 [](long double x) { return std::sinh(x); }, -1, 1, 1, 3},
        Function{"cosh", [](Scalar x) { return cosh(x); },
                 [](long double x) { return std::cosh(x); }, -30, 30, 1, 3},
        Function{"asinh", [](Scalar x) { return asinh(x); },
                 [](long double x) { return std::asinh(x); }, -3, 3, 1, 4},
        Function{"acosh", [](Scalar x) { return acosh(x); },
                 [](long double x) { return std::acosh(x); }, 1, 5, 1, 4},
        Function{"atanh", [](Scalar x) { return atanh(x); },
                 [](long double x) { return std::atanh(x); }, -1, 1, 1, 4},
        // What is below the smallest normal number has lost bits before it is scaled.
        Function{"erfc", [](Scalar x) { return erfc(x); },
                 [](long double x) { return std::erfc(x); }, -6, 26.5, 1, 4},
        Function{"erfinv", [](Scalar x) { return erfinv(x); }, erfinv_exact, -1, 1, 1, 6},
        Function{"lgamma", [](Scalar x) { return above_zero(x, lgamma(x)); },
                 [](long double x) { return positive(x, std::lgamma(x)); }, 0, 20, 1, 6},
        Function{"polygamma1", [](Scalar x) { return above_zero(x, polygamma(1, x)); },
                 [](long double x) { return polygamma_exact(1, x); }, 0.01, 30, 1, 16},
        Function{"polygamma2", [](Scalar x) { return above_zero(x, polygamma(2, x)); },
                 [](long double x) { return polygamma_exact(2, x); }, 0.01, 30, 1, 24},
        Function{"polygamma5", [](Scalar x) { return above_zero(x, polygamma(5, x)); },
                 [](long double x) { return polygamma_exact(5, x); }, 0.01, 30, 1, 48}),
    [](const auto& info) { return std::string(info.param.name); });

/// The largest error of a function of one f64, in units of the larger of 1 and the result.
double worst_unit(const std::function<Scalar(Scalar)>& f,
                  const std::function<long double(long double)>& exact, double low, double high) {
  ScalarProgram p;
  p.output(f(p.input(f64)));
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> uniform(low, high);
  double worst = 0;
  for (int i = 0; i < 4000; ++i) {
    const double x = uniform(random);
    const std::uint64_t in = to_bits(x);
    const long double want = exact(x);
    const long double error = from_bits<double>(evaluate(p, {&in, 1})[0]) - want;
    worst = std::max(worst, static_cast<double>(std::fabs(error) / std::fmax(1, std::fabs(want))));
  }
  return worst / 0x1p-52;
}

TEST(ScalarGamma, NearZerosOfTheFunctions) {
  const auto lgamma_of = [](Scalar x) { return lgamma(x); };
  const auto digamma_of = [](Scalar x) { return digamma(x); };
  EXPECT_LE(worst_unit(lgamma_of, [](long double x) { return std::lgamma(x); }, -20, 0), 16);
  EXPECT_LE(worst_unit(digamma_of, digamma_exact, 0, 30), 8);
  EXPECT_LE(worst_unit(digamma_of, digamma_exact, -10, 0), 16);
}

template <class T>
double run(const std::function<Scalar(Scalar, Scalar)>& f, T a, T b) {
  ScalarProgram p;
  const Scalar x = p.input(dtype_of<T>), y = p.input(dtype_of<T>);
  p.output(f(x, y));
  const std::uint64_t in[] = {to_bits(a), to_bits(b)};
  return static_cast<double>(from_bits<T>(evaluate(p, in)[0]));
}

TEST(ScalarGamma, Poles) {
  const auto f = [](double x) {
    return run<double>([](Scalar v, Scalar) { return lgamma(v); }, x, 0);
  };
  for (const double x : {0.0, -0.0, -1.0, -2.0, -1e300}) EXPECT_EQ(f(x), INFINITY) << x;
  // Next to the one at 0, where the square of x is none.
  for (const double x : {1e-10, 1e-18, 0x1p-60, 1e-19, 1e-155, 1e-200, 1e-310, 0x1p-1074}) {
    EXPECT_NEAR(f(-x), -std::log(x), 1e-13 + x) << x;
    EXPECT_NEAR(f(x), -std::log(x), 1e-13 + x) << x;
  }
  const auto psi = [](double x) {
    return run<double>([](Scalar v, Scalar) { return digamma(v); }, x, 0);
  };
  EXPECT_EQ(psi(0.0), -INFINITY);
  EXPECT_EQ(psi(-0.0), INFINITY);
  EXPECT_TRUE(std::isnan(psi(-3)));
  const auto psi_n = [](int n, double x) {
    return run<double>([&](Scalar v, Scalar) { return polygamma(n, v); }, x, 0);
  };
  EXPECT_EQ(psi_n(1, -2), INFINITY);
  EXPECT_TRUE(std::isnan(psi_n(2, -2)));
  // psi_1(-1/2) = pi^2 / 2 + 4, psi_2(1/2) = -14 zeta(3), psi_2(-1/2) = psi_2(1/2) + 16.
  EXPECT_NEAR(psi_n(1, -0.5), 8.934802200544679, 1e-14);
  EXPECT_NEAR(psi_n(2, 0.5), -16.828796644234319996, 1e-13);
  EXPECT_NEAR(psi_n(2, -0.5), -0.828796644234319996, 1e-13);
  ScalarProgram p;
  EXPECT_THROW((void)polygamma(21, p.input(f64)), ValueError);
}

using Binary = std::function<Scalar(Scalar, Scalar)>;
using Exact = long double (*)(long double, long double);

template <class T>
double worst_pair(const Binary& f, Exact exact, double scale) {
  ScalarProgram p;
  const Scalar x = p.input(dtype_of<T>), y = p.input(dtype_of<T>);
  p.output(f(x, y));
  std::vector<std::pair<T, T>> pairs;
  const std::vector<T> edges{0,
                             -T(0),
                             1,
                             -1,
                             T(2.5),
                             T(-0.3),
                             std::numeric_limits<T>::infinity(),
                             -std::numeric_limits<T>::infinity(),
                             std::numeric_limits<T>::quiet_NaN(),
                             std::numeric_limits<T>::max(),
                             -std::numeric_limits<T>::max(),
                             std::numeric_limits<T>::min(),
                             std::numeric_limits<T>::denorm_min()};
  for (const T a : edges) {
    for (const T b : edges) pairs.emplace_back(a, b);
  }
  std::mt19937_64 random(9);
  std::uniform_real_distribution<double> uniform(-scale, scale), exponent(-30, 30);
  for (int i = 0; i < 6000; ++i) {
    pairs.emplace_back(static_cast<T>(uniform(random)), static_cast<T>(uniform(random)));
    pairs.emplace_back(static_cast<T>(std::ldexp(uniform(random), int(exponent(random)))),
                       static_cast<T>(uniform(random)));
  }
  double worst = 0;
  for (const auto& [a, b] : pairs) {
    const std::uint64_t in[] = {to_bits(a), to_bits(b)};
    const T got = from_bits<T>(evaluate(p, in)[0]);
    const double error = ulps(got, exact(a, b));
    EXPECT_LE(error, 2) << std::hexfloat << a << ", " << b << ": " << got;
    worst = std::max(worst, error);
  }
  return worst;
}

TEST(ScalarPairs, AngleAndLength) {
  const Binary angle = [](Scalar y, Scalar x) { return atan2(y, x); };
  const Binary length = [](Scalar y, Scalar x) { return hypot(y, x); };
  const Exact exact_angle = [](long double y, long double x) { return std::atan2(y, x); };
  const Exact exact_length = [](long double y, long double x) { return std::hypot(y, x); };
  EXPECT_LE(worst_pair<float>(angle, exact_angle, 3), 1);
  EXPECT_LE(worst_pair<double>(angle, exact_angle, 3), 2);
  EXPECT_LE(worst_pair<float>(length, exact_length, 3), 1);
  EXPECT_LE(worst_pair<double>(length, exact_length, 3), 2);
}

TEST(ScalarPairs, RemaindersAreExact) {
  const Binary f = [](Scalar x, Scalar y) { return fmod(x, y); };
  const Exact exact = [](long double x, long double y) { return std::fmod(x, y); };
  EXPECT_EQ(worst_pair<float>(f, exact, 9), 0);
  EXPECT_EQ(worst_pair<double>(f, exact, 9), 0);
  std::mt19937_64 random(11);
  constexpr double kEdges[] = {
      0x1p-1074, 0x5p-1074, 0x1.8p-1030, 0x1p-1022,  0x1.fffffffffffffp-1022,
      0x1p-140,  1,         3,           0x1.8p1000, 0x1.fffffffffffffp1023};
  for (const double x : kEdges) {
    for (const double y : kEdges) {
      EXPECT_EQ(run<double>(f, x, y), std::fmod(x, y)) << x << " by " << y;
      // And numbers of as many bits.
      const double a = std::ldexp(1 + static_cast<double>(random() >> 12) * 0x1p-52, std::ilogb(x));
      const double b = std::ldexp(1 + static_cast<double>(random() >> 12) * 0x1p-52, std::ilogb(y));
      EXPECT_EQ(run<double>(f, -a, b), std::fmod(-a, b)) << std::hexfloat << a << " by " << b;
    }
  }
  EXPECT_EQ(run<double>(f, -7.5, 2), -1.5);
  EXPECT_EQ(run<float>(f, 3e38f, 1e-40f), std::fmod(3e38f, 1e-40f));
}

TEST(ScalarPairs, FloorDivisionOfFloatsIsPythons) {
  const Binary quotient = [](Scalar a, Scalar b) { return floor_div(a, b); };
  const Binary rest = [](Scalar a, Scalar b) { return floor_mod(a, b); };
  EXPECT_EQ(run<double>(quotient, 7.5, 2), 3);
  EXPECT_EQ(run<double>(quotient, -7.5, 2), -4);
  EXPECT_EQ(run<double>(rest, -7.5, 2), 0.5);
  EXPECT_EQ(run<double>(rest, 7.5, -2), -0.5);
  // 0.3 is less than 3 times 0.1.
  EXPECT_EQ(run<double>(quotient, 0.3, 0.1), 2);
  EXPECT_NEAR(run<double>(rest, 0.3, 0.1), 0.1, 1e-15);
  EXPECT_EQ(run<double>(quotient, 1, 0), INFINITY);
  EXPECT_TRUE(std::isnan(run<double>(rest, 1, 0)));
  EXPECT_EQ(run<double>(rest, -1, INFINITY), INFINITY);
  EXPECT_EQ(run<double>(quotient, -1, INFINITY), -1);
  EXPECT_TRUE(std::signbit(run<double>(quotient, -0.0, 5)));
  EXPECT_TRUE(std::signbit(run<double>(rest, 4, -2)));
}

}  // namespace
}  // namespace dyad::scalar
