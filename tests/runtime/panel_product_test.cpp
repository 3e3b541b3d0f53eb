#include "dyad/runtime/cpu/panel_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "dyad/runtime/cpu/packed_product.h"
#include "tests/runtime/support.h"

namespace dyad::testing {
namespace {

using runtime::cpu::Epilogue;
using runtime::cpu::PackedProduct;
using runtime::cpu::PanelProduct;

std::vector<float> waves(std::int64_t count, double step) {
  std::vector<float> made(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i] = static_cast<float>(std::sin(step * static_cast<double>(i + 1)));
  }
  return made;
}

/// B in panels, by what the header says of them.
std::vector<float> in_panels(const std::vector<float>& b, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kColumns = PanelProduct::kColumns;
  std::vector<float> made(static_cast<std::size_t>((n + kColumns - 1) / kColumns * kColumns * k));
  for (std::int64_t row = 0; row < k; ++row) {
    for (std::int64_t j = 0; j < n; ++j) {
      made[static_cast<std::size_t>((j / kColumns * k + row) * kColumns + j % kColumns)] =
          b[static_cast<std::size_t>(row * n + j)];
    }
  }
  return made;
}

/// A product whose rows of A and C lie apart.
struct Problem {
  std::int64_t m, n, k, a_row, c_row;
  std::vector<float> a, b, panels, bias, before;

  Problem(std::int64_t rows, std::int64_t columns, std::int64_t depth, std::int64_t apart = 0)
      : m(rows),
        n(columns),
        k(depth),
        a_row(depth + apart),
        c_row(columns + apart),
        a(waves(m * a_row, 0.7)),
        b(waves(k * n, 1.3)),
        panels(in_panels(b, n, k)),
        bias(waves(n, 0.3)),
        before(waves(m * c_row, 2.1)) {}

  [[nodiscard]] std::vector<float> run(bool with_bias = false,
                                       const Epilogue& epilogue = {}) const {
    std::vector<float> c = before;
    runtime::cpu::panel_product({.m = m,
                                 .n = n,
                                 .factors = {k, a.data(), a_row, panels.data()},
                                 .bias = with_bias ? bias.data() : nullptr,
                                 .c = c.data(),
                                 .c_row = c_row,
                                 .epilogue = epilogue});
    return c;
  }
  [[nodiscard]] float at_a(std::int64_t i, std::int64_t p) const {
    return a[static_cast<std::size_t>(i * a_row + p)];
  }
  [[nodiscard]] float at_b(std::int64_t p, std::int64_t j) const {
    return b[static_cast<std::size_t>(p * n + j)];
  }
  [[nodiscard]] double sum(std::int64_t i, std::int64_t j) const {
    double made = 0;
    for (std::int64_t p = 0; p < k; ++p) made += static_cast<double>(at_a(i, p)) * at_b(p, j);
    return made;
  }
  /// In the order and with the roundings that the header promises.
  [[nodiscard]] float sum_in_order(std::int64_t i, std::int64_t j) const {
    float made = 0;
    for (std::int64_t p = 0; p < k; ++p) made = std::fma(at_a(i, p), at_b(p, j), made);
    return made;
  }
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class PanelProductTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!runtime::cpu::has_panel_products()) GTEST_SKIP() << "no AVX2 and FMA";
  }
};

TEST_F(PanelProductTest, SumsInTheOrderOfKForEverySize) {
  for (const std::int64_t n : {1, 15, 16, 50, 81}) {
    for (const std::int64_t k : {1, 7, 261}) {
      // All m have their rows from this one.
      const Problem whole(130, n, k, 3);
      std::vector<float> expected = whole.before;
      for (std::int64_t i = 0; i < whole.m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          const float sum = whole.sum_in_order(i, j);
          expected[static_cast<std::size_t>(i * whole.c_row + j)] = sum;
          ASSERT_NEAR(sum, whole.sum(i, j), 1e-4);
        }
      }
      Problem part = whole;
      const auto check = [&](std::int64_t m) {
        part.m = m;
        const std::vector<float> got = part.run();
        const auto elements = static_cast<std::size_t>(m * whole.c_row);
        ASSERT_EQ(std::memcmp(got.data(), expected.data(), elements * sizeof(float)), 0)
            << m << " x " << n << " x " << k;
        // Nothing is written beside or behind C.
        ASSERT_TRUE(std::equal(got.begin() + static_cast<std::ptrdiff_t>(elements), got.end(),
                               whole.before.begin() + static_cast<std::ptrdiff_t>(elements)));
      };
      for (std::int64_t m = 1; m <= 70; ++m) check(m);
      for (const std::int64_t m : {119, 120, 121, 130}) check(m);
    }
  }
}

TEST_F(PanelProductTest, ThreadsDoNotChangeBits) {
  for (const std::int64_t m : {1, 2, 3, 16, 61, 200}) {
    const Problem p(m, 1000, 300);
    std::vector<float> first;
    for (const int threads : {1, 2}) {
      const Threads scope(threads);
      const std::vector<float> got = p.run(true, {.activation = Epilogue::Activation::silu});
      if (first.empty()) first = got;
      EXPECT_TRUE(same(got, first)) << m << " rows";
    }
  }
}

TEST_F(PanelProductTest, BiasResidualAndActivation) {
  using Activation = Epilogue::Activation;
  struct Case {
    Activation activation;
    double (*function)(double);
  };
  constexpr Case kCases[] = {
      {Activation::none, [](double x) { return x; }},
      {Activation::relu, [](double x) { return x > 0 ? x : 0; }},
      {Activation::leaky_relu, [](double x) { return x > 0 ? x : -0.25 * x; }},
      {Activation::clamp, [](double x) { return std::clamp(x, -0.25, 0.5); }},
      {Activation::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {Activation::silu, [](double x) { return x / (1 + std::exp(-x)); }},
      {Activation::hardswish, [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }}};
  for (const std::int64_t m : {1, 2, 16, 67}) {
    const Problem p(m, 53, 40, 5);
    for (const Case& c : kCases) {
      for (const bool with_bias : {false, true}) {
        for (const bool adds : {false, true}) {
          const std::vector<float> got = p.run(
              with_bias, {.adds = adds, .activation = c.activation, .alpha = -0.25f, .beta = 0.5f});
          for (std::int64_t i = 0; i < p.m; ++i) {
            for (std::int64_t j = 0; j < p.c_row; ++j) {
              const auto at = static_cast<std::size_t>(i * p.c_row + j);
              if (j >= p.n) {
                ASSERT_EQ(got[at], p.before[at]);
                continue;
              }
              double x = p.sum(i, j);
              if (with_bias) x += p.bias[static_cast<std::size_t>(j)];
              if (adds) x += p.before[at];
              ASSERT_NEAR(got[at], c.function(x), 2e-5) << static_cast<int>(c.activation);
            }
          }
        }
      }
    }
  }
}

TEST_F(PanelProductTest, EmptySizes) {
  for (const Problem& p : {Problem(0, 5, 3), Problem(3, 0, 5)})
    EXPECT_TRUE(same(p.run(), p.before));
  const Problem p(3, 20, 0);
  const std::vector<float> got = p.run(true);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], p.bias[i % 20]);
}

TEST_F(PanelProductTest, LongSumsAreInOrderToo) {
  for (const std::int64_t m : {1, 7}) {
    const Problem p(m, 17, 2050);
    const std::vector<float> got = p.run();
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        EXPECT_EQ(got[static_cast<std::size_t>(i * p.c_row + j)], p.sum_in_order(i, j));
      }
    }
  }
}

TEST_F(PanelProductTest, TwoPairsOfFactorsAreOneSum) {
  for (const std::int64_t m : {1, 2, 16, 70}) {
    // The columns of A from 9 on are those of A', and the rows of B likewise.
    const Problem p(m, 53, 40);
    constexpr std::int64_t kFirst = 9;
    const auto middle = p.b.begin() + kFirst * p.n;
    const std::vector<float> above = in_panels({p.b.begin(), middle}, p.n, kFirst),
                             below = in_panels({middle, p.b.end()}, p.n, p.k - kFirst);
    std::vector<float> c = p.before;
    runtime::cpu::panel_product({.m = m,
                                 .n = p.n,
                                 .factors = {kFirst, p.a.data(), p.a_row, above.data()},
                                 .more = {p.k - kFirst, p.a.data() + kFirst, p.a_row, below.data()},
                                 .bias = p.bias.data(),
                                 .c = c.data(),
                                 .c_row = p.c_row});
    EXPECT_TRUE(same(c, p.run(true)));
  }
}

TEST(PackedProduct, AddsAndSetsWithAnyLayoutOfB) {
  for (const std::int64_t m : {1, 2, 5, 16, 130}) {
    const Problem p(m, 37, 29, 2);
    std::vector<float> turned(p.b.size());
    for (std::int64_t row = 0; row < p.k; ++row) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        turned[static_cast<std::size_t>(j * p.k + row)] = p.at_b(row, j);
      }
    }
    for (const bool transposed : {false, true}) {
      PackedProduct product(DType::f32, m, p.n, p.k, transposed ? turned.data() : p.b.data(),
                            transposed ? p.k : p.n, transposed);
      std::vector<float> added = p.before, set = p.before;
      product.add(p.a.data(), p.a_row, added.data(), p.c_row);
      product.set(p.a.data(), p.a_row, p.bias.data(), set.data(), p.c_row);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < p.n; ++j) {
          const auto at = static_cast<std::size_t>(i * p.c_row + j);
          EXPECT_NEAR(added[at], p.before[at] + p.sum(i, j), 1e-5);
          EXPECT_NEAR(set[at], p.bias[static_cast<std::size_t>(j)] + p.sum(i, j), 1e-5);
        }
      }
      PackedProduct other(DType::f32, m, p.n, p.k - 3, p.b.data(), p.n, false);
      product.set(p.a.data(), p.a_row, other, p.a.data(), p.a_row, p.bias.data(), set.data(),
                  p.c_row);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < p.n; ++j) {
          double sum = p.bias[static_cast<std::size_t>(j)] + 2 * p.sum(i, j);
          for (std::int64_t k = p.k - 3; k < p.k; ++k) {
            sum -= static_cast<double>(p.at_a(i, k)) * p.at_b(k, j);
          }
          EXPECT_NEAR(set[static_cast<std::size_t>(i * p.c_row + j)], sum, 1e-5);
        }
      }
    }
  }
}

}  // namespace
}  // namespace dyad::testing
