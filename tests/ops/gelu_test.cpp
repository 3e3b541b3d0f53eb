#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "cases.h"
#include "dyad/autograd/gradients.h"
#include "dyad/core/create.h"
#include "dyad/ops/ops.h"

// gelu far from 0, where forms with 1 + erf(x) lose their digits, and at infinity.

namespace dyad::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// (1 + erf(x / sqrt(2))) / 2, exact on both sides, or the logistic function of 2u.
double cumulative(double x, bool tanh_form) {
  if (!tanh_form) return std::erfc(-x / std::numbers::sqrt2) / 2;
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 1 / (1 + std::exp(-2 * u));
}
double derivative(double x, bool tanh_form) {
  if (!tanh_form) {
    return cumulative(x, false) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  }
  const double slope = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
  return cumulative(x, true) + x * cumulative(x, true) * cumulative(-x, true) * 2 * slope;
}

class Gelu : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Forms, Gelu, ::testing::Bool(),
                         [](const auto& form) { return form.param ? "tanh" : "erf"; });

TEST_P(Gelu, IsExactOnBothSides) {
  std::vector<double> points;
  for (double x = -6; x <= 6; x += 0x1p-9) points.push_back(x);
  for (const DType dtype : {f32, f64}) {
    Tensor x = tensor(points).to(dtype).requires_grad();
    const Tensor y = gelu(x, GetParam());
    const std::vector<double> values = elements(y), slopes = elements(grad(sum(y), {x})[0]);
    const double unit = dtype == f32 ? 0x1p-23 : 0x1p-52;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double want = points[i] * cumulative(points[i], GetParam());
      // To a few last places; far on the left to what is little beside the values around 0.
      EXPECT_NEAR(values[i], want, 24 * unit * std::abs(want) + 0x1p-5 * unit) << points[i];
      EXPECT_NEAR(slopes[i], derivative(points[i], GetParam()), 8 * unit) << points[i];
    }
  }
}

TEST_P(Gelu, HasItsLimitsAtInfinity) {
  for (const DType dtype : {f32, f64}) {
    Tensor x = tensor({kInf, 1e30, -1e30, -kInf, -0.0, 0.0}).to(dtype).requires_grad();
    const Tensor y = gelu(x, GetParam());
    const std::vector<double> values = elements(y), slopes = elements(grad(sum(y), {x})[0]);
    EXPECT_EQ(values, (std::vector<double>{kInf, elements(x)[1], 0, 0, 0, 0}));
    EXPECT_TRUE(std::signbit(values[4]));
    EXPECT_FALSE(std::signbit(values[5]));
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(slopes[i], i < 2 ? 1 : 0, 1e-40) << i;
    EXPECT_EQ(slopes[4], 0.5);
    EXPECT_EQ(slopes[5], 0.5);
  }
}

}  // namespace
}  // namespace dyad::testing
