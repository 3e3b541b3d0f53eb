#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "dyad/ir/scalar_evaluate.h"
#include "dyad/ir/scalar_math.h"

/// Measures functions of scalar_math.h against exact values.
namespace dyad::scalar {

/// Units in the last place between a result and the exact value; 0 when both are NaN or the same
/// infinity.
template <class T>
double ulps(T got, long double exact) {
  if (std::isnan(got) && std::isnan(exact)) return 0;
  const T rounded = static_cast<T>(exact);
  if (got == rounded && std::signbit(got) == std::signbit(rounded)) {
    if (std::isinf(rounded) || rounded == 0) return 0;
  } else if (std::isnan(got) || std::isnan(exact) || std::isinf(got) ||
             (got == 0 && rounded == 0)) {
    return std::numeric_limits<double>::infinity();
  }
  const T magnitude = std::max(std::fabs(rounded), std::numeric_limits<T>::min());
  const long double unit =
      std::isinf(magnitude)
          ? std::ldexp(1.0L, std::numeric_limits<T>::max_exponent - std::numeric_limits<T>::digits)
          : std::ldexp(1.0L, std::ilogb(magnitude) - std::numeric_limits<T>::digits + 1);
  const long double target = std::isinf(exact) && std::isinf(rounded) && !std::isinf(got)
                                 ? static_cast<long double>(std::numeric_limits<T>::max())
                                 : exact;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - target) / unit);
}

struct Function {
  const char* name;
  std::function<Scalar(Scalar)> scalar;
  std::function<long double(long double)> exact;
  double low, high;  // dense samples here
  double bound32, bound64;
};

template <class T>
std::vector<T> samples(double low, double high, int count) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<T> x;
  for (double edge :
       {0.0,  -0.0,  1.0,   -1.0,   0.5,    -0.5,  2.0,   -2.0,   0.625,  0.92,  1e-6, -1e-6, 1e-30,
        88.7, 88.73, -87.4, -103.9, -104.1, 709.7, 709.8, -745.1, -745.2, 710.0, 1e10, -1e10}) {
    for (double side : {edge, std::nextafter(edge, 1e300), std::nextafter(edge, -1e300)})
      x.push_back(static_cast<T>(side));
  }
  using Limits = std::numeric_limits<T>;
  for (T edge : {Limits::infinity(), Limits::quiet_NaN(), Limits::max(), Limits::min(),
                 Limits::denorm_min(), Limits::min() / 2, Limits::epsilon()}) {
    x.push_back(edge);
    x.push_back(-edge);
  }
  for (int i = 0; i < count; ++i) {
    x.push_back(static_cast<T>(uniform(random)));
    x.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
  }
  return x;
}

template <class T>
void check(const Function& f, double bound) {
  ScalarProgram p;
  p.output(f.scalar(p.input(dtype_of<T>)));
  p.prune();
  double worst = 0;
  T at = 0;
  for (T x : samples<T>(f.low, f.high, 6000)) {
    const std::uint64_t in = to_bits(x);
    const double error = ulps(from_bits<T>(evaluate(p, {&in, 1})[0]), f.exact(x));
    if (error > worst) {
      worst = error;
      at = x;
    }
  }
  EXPECT_LE(worst, bound) << f.name << " of " << (sizeof(T) * 8) << " bits at " << std::hexfloat
                          << at;
}

inline void PrintTo(const Function& f, std::ostream* out) { *out << f.name; }

}  // namespace dyad::scalar
