#include "dyad/runtime/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace dyad::testing {
namespace {

namespace vector_math = runtime::cpu::vector_math;

template <int kBytes, class T>
[[gnu::always_inline]] inline void exp_loop(const T* x, T* out, std::int64_t n) {
  constexpr std::int64_t kWidth = vector_math::kVectorLanes<T, kBytes>;
  using U = vector_math::Unaligned<T, kBytes>;
  for (std::int64_t i = 0; i + kWidth <= n; i += kWidth) {
    vector_math::Vector<T, kBytes> v = *reinterpret_cast<const U*>(x + i);
    vector_math::exp_of_negative<T, kBytes>(v);
    *reinterpret_cast<U*>(out + i) = v;
  }
}

/// Loops over vectors of each size that this CPU has.
template <class T>
std::vector<std::vector<T>> exp_in_each_size(const std::vector<T>& x) {
  const auto run = [&x](auto loop) {
    std::vector<T> y(x.size());
    loop(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    return y;
  };
  std::vector<std::vector<T>> results;
  results.push_back(run([](const T* a, T* b, std::int64_t n) { exp_loop<16>(a, b, n); }));
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    results.push_back(run([](const T* a, T* b, std::int64_t n)
                              __attribute__((target("avx2,fma"))) { exp_loop<32>(a, b, n); }));
  }
  if (__builtin_cpu_supports("avx512f")) {
    results.push_back(run([](const T* a, T* b, std::int64_t n)
                              __attribute__((target("avx512f"))) { exp_loop<64>(a, b, n); }));
  }
#endif
  return results;
}

/// Units in the last place of the exact result, or of the least normal number.
template <class T>
double ulps(T value, long double exact) {
  if (static_cast<T>(exact) == value) return 0;
  const long double size = std::max(std::abs(exact), 1.0L * std::numeric_limits<T>::min());
  const int exponent = std::ilogb(size);
  const long double unit = std::ldexp(1.0L, exponent + 1 - std::numeric_limits<T>::digits);
  return static_cast<double>(std::abs(value - exact) / unit);
}

/// Numbers of all sizes below the largest, as many as fill vectors.
template <class T>
std::vector<T> sizes_up_to(double largest) {
  std::vector<T> x;
  constexpr double kLeast = 1e-30, kStep = 1.0007;
  const auto steps = static_cast<int>(std::log(largest / kLeast) / std::log(kStep));
  for (int k = 0; k < steps; ++k) x.push_back(static_cast<T>(kLeast * std::pow(kStep, k)));
  x.resize(x.size() / 16 * 16);
  return x;
}

template <class T>
void exp_of_negative_is_exact_and_the_same_in_all_vectors(double largest) {
  std::vector<T> x = sizes_up_to<T>(largest);
  for (T& v : x) v = -v;
  for (std::size_t i = 0; i < 16; ++i) {
    x.push_back(i % 2 == 0 ? T(0) : -std::numeric_limits<T>::infinity());
  }
  const auto results = exp_in_each_size(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_LE(ulps(results[0][i], std::exp(static_cast<long double>(x[i]))), 2) << x[i];
  }
  for (const std::vector<T>& other : results) {
    ASSERT_EQ(std::memcmp(other.data(), results[0].data(), x.size() * sizeof(T)), 0);
  }
  const std::vector<T> nans(16, std::numeric_limits<T>::quiet_NaN());
  for (const std::vector<T>& other : exp_in_each_size(nans)) {
    for (const T v : other) ASSERT_TRUE(std::isnan(v));
  }
}

TEST(VectorMath, ExpOfNegativeIsExactAndTheSameInAllVectors) {
  exp_of_negative_is_exact_and_the_same_in_all_vectors<float>(200);
  exp_of_negative_is_exact_and_the_same_in_all_vectors<double>(1000);
}

template <class T>
void functions_are_exact(double largest) {
  for (const T size : sizes_up_to<T>(largest)) {
    for (const T x : {size, -size}) {
      const auto exact = static_cast<long double>(x);
      if (std::exp(exact) <= std::numeric_limits<T>::max()) {
        ASSERT_LE(ulps(vector_math::exp(x), std::exp(exact)), 2) << x;
      } else {
        ASSERT_EQ(vector_math::exp(x), std::numeric_limits<T>::infinity()) << x;
      }
      ASSERT_LE(ulps(vector_math::tanh(x), std::tanh(exact)), 3) << x;
      if (std::exp(-exact) <= std::numeric_limits<T>::max()) {
        ASSERT_LE(ulps(vector_math::sigmoid(x), 1 / (1 + std::exp(-exact))), 4) << x;
      } else {
        ASSERT_EQ(vector_math::sigmoid(x), 0) << x;
      }
    }
  }
}

TEST(VectorMath, FunctionsAreExact) {
  functions_are_exact<float>(200);
  functions_are_exact<double>(1000);
}

TEST(VectorMath, LogarithmsFrom1To3AreExact) {
  for (int i = 0; i <= 20000; ++i) {
    const double x = 1 + i * 1e-4;
    const auto narrow = static_cast<float>(x);
    ASSERT_NEAR(vector_math::log_1_to_3(narrow), std::log(static_cast<double>(narrow)), 2.4e-7);
    ASSERT_NEAR(vector_math::log_1_to_3(x), std::log(x), 4.5e-16);
  }
}

}  // namespace
}  // namespace dyad::testing
