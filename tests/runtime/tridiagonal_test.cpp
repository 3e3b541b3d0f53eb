#include "dyad/runtime/cpu/tridiagonal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

template <class W>
struct Matrix {
  std::vector<W> d, e;
};

template <class W>
struct Decomposed {
  std::vector<W> values, vectors;
};

template <class W>
Decomposed<W> decompose(Matrix<W> m) {
  const auto n = static_cast<std::int64_t>(m.d.size());
  // What was in the memory of the result must not matter.
  Decomposed<W> made{m.d,
                     std::vector<W>(m.d.size() * m.d.size(), std::numeric_limits<W>::quiet_NaN())};
  m.e.push_back(0);
  EXPECT_EQ(tridiagonal_eigenvectors(n, made.values.data(), m.e.data(), made.vectors.data()), 0);
  return made;
}

/// That values ascend, vectors are orthonormal and each is an eigenvector.
template <class W>
void expect_eigen(const Matrix<W>& m) {
  const std::size_t n = m.d.size();
  const Decomposed<W> made = decompose(m);
  EXPECT_TRUE(std::ranges::is_sorted(made.values));
  double size = 1e-30;
  for (const W x : m.d) size = std::max(size, std::abs(static_cast<double>(x)));
  for (const W x : m.e) size = std::max(size, std::abs(static_cast<double>(x)));
  const double bound = 30.0 * std::numeric_limits<W>::epsilon() * std::sqrt(static_cast<double>(n));
  const auto at = [&](std::size_t i, std::size_t j) {
    return static_cast<double>(made.vectors[j * n + i]);
  };
  double worst = 0, worst_dot = 0;
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = 0; i < n; ++i) {
      double row = m.d[i] * at(i, j);
      if (i > 0) row += m.e[i - 1] * at(i - 1, j);
      if (i + 1 < n) row += m.e[i] * at(i + 1, j);
      worst = std::max(worst, std::abs(row - made.values[j] * at(i, j)) / size);
      double dot = 0;
      for (std::size_t k = 0; k < n; ++k) dot += at(k, i) * at(k, j);
      worst_dot = std::max(worst_dot, std::abs(dot - (i == j ? 1.0 : 0.0)));
    }
  }
  EXPECT_LT(worst, bound);
  EXPECT_LT(worst_dot, bound);
}

template <class W>
Matrix<W> random_matrix(std::size_t n) {
  std::mt19937 draw(static_cast<unsigned>(n));
  std::uniform_real_distribution<W> uniform(-1, 1);
  Matrix<W> m{std::vector<W>(n), std::vector<W>(n - 1)};
  for (W& x : m.d) x = uniform(draw);
  for (W& x : m.e) x = uniform(draw);
  return m;
}

template <class W>
class Tridiagonal : public ::testing::Test {};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Tridiagonal, Floats);

TYPED_TEST(Tridiagonal, OfAnySize) {
  for (const std::size_t n : {1, 2, 3, 47, 48, 49, 97, 200}) {
    SCOPED_TRACE(n);
    expect_eigen(random_matrix<TypeParam>(n));
  }
}

TYPED_TEST(Tridiagonal, BlocksRepeatedValuesAndExtremes) {
  using W = TypeParam;
  constexpr std::size_t n = 64;
  Matrix<W> m = random_matrix<W>(n);
  m.e[n / 2 - 1] = 0;  // the halves are blocks already
  expect_eigen(m);
  m.e[n / 2 - 1] = std::numeric_limits<W>::min();
  expect_eigen(m);
  expect_eigen<W>({std::vector<W>(n, 3), std::vector<W>(n - 1, 0)});
  expect_eigen<W>({std::vector<W>(n, 0), std::vector<W>(n - 1, 0)});
  expect_eigen<W>({std::vector<W>(n, 1), std::vector<W>(n - 1, W(-1e-3))});
  for (std::size_t i = 0; i < n; ++i) {
    m.d[i] = std::pow(W(10), -static_cast<W>(i) / 4);
    if (i + 1 < n) m.e[i] = m.d[i] / 3;
  }
  expect_eigen(m);
  for (const W scale : {W(1e12), W(1e-12)}) {
    Matrix<W> scaled = random_matrix<W>(n);
    for (auto* of : {&scaled.d, &scaled.e}) {
      for (W& x : *of) x *= scale;
    }
    expect_eigen(scaled);
  }
}

TYPED_TEST(Tridiagonal, SecondDifferences) {
  using W = TypeParam;
  constexpr std::size_t n = 100;
  const Decomposed<W> made = decompose<W>({std::vector<W>(n, 2), std::vector<W>(n - 1, -1)});
  for (std::size_t i = 0; i < n; ++i) {
    const double exact = 2 - 2 * std::cos(static_cast<double>(i + 1) * std::numbers::pi / (n + 1));
    EXPECT_NEAR(made.values[i], exact, 40 * std::numeric_limits<W>::epsilon()) << i;
  }
}

TYPED_TEST(Tridiagonal, ThreadsChangeNoBits) {
  const int before = get_num_threads();
  const Matrix<TypeParam> m = random_matrix<TypeParam>(150);
  set_num_threads(1);
  const Decomposed<TypeParam> one = decompose(m);
  set_num_threads(2);
  const Decomposed<TypeParam> two = decompose(m);
  set_num_threads(before);
  EXPECT_EQ(one.values, two.values);
  EXPECT_EQ(one.vectors, two.vectors);
}

}  // namespace
}  // namespace dyad::runtime::cpu
