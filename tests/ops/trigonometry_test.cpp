#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cases.h"
#include "dyad/autograd/gradients.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/ops/ops.h"

namespace dyad::testing {
namespace {

// By mpmath, of 1e22, 2^1000, the largest f64 and pi.
const std::vector<double> kAngles = {1e22, 0x1p1000, 0x1.fffffffffffffp1023, 0x1.921fb54442d18p1};
const std::vector<double> kSines = {-0.85220084976718880177, -0.15920170308624243824,
                                    0.0049619547891840617905, 0x1.1a62633145c07p-53};
const std::vector<double> kCosines = {0.5232147853951389455, 0.98724607759891348424,
                                      -0.99998768942655993746, -1};
const std::vector<double> kTangents = {-1.6287782256068988785, -0.1612583799506580567,
                                       -0.0049620158744448949005, -0x1.1a62633145c07p-53};

void expect_near(const Tensor& got, const std::vector<double>& want, double ulps) {
  const std::vector<double> values = elements(got);
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(values[i], want[i], ulps * 0x1p-52 * std::abs(want[i])) << i;
}

TEST(HugeAngles, HaveValuesAndGradients) {
  Tensor x = tensor(kAngles).requires_grad();
  const Tensor s = sin(x), c = cos(x), t = tan(x);
  expect_near(s, kSines, 2);
  expect_near(c, kCosines, 2);
  expect_near(t, kTangents, 3);
  expect_near(grad(sum(s), {x})[0], kCosines, 2);
  expect_near(-grad(sum(c), {x})[0], kSines, 2);
  expect_near(grad(sum(t), {x})[0], elements(t.detach() * t.detach() + 1), 2);
}

TEST(HugeAngles, OfComplexNumbers) {
  const Tensor turned = exp(complex(zeros({4}, f64), tensor(kAngles)));
  expect_near(real(turned), kCosines, 3);
  expect_near(imag(turned), kSines, 3);
}

/// Ordinary angles and a few huge ones, in every mode and cut in any places.
TEST(HugeAngles, HaveTheSameBitsInEveryModeAndPlace) {
  const auto f = [](const Tensor& x) { return sin(x) + cos(x * 3) * tan(x); };
  const auto compiled = compile(f);
  for (const DType dtype : {f64, f32, bf16}) {
    const int largest = dtype == f64 ? 1000 : 120;
    std::vector<double> angles;
    for (int i = 0; i < 1000; ++i)
      angles.push_back(i % 37 == 5 ? std::ldexp(1 + i * 0x1p-10, i % largest) : 0.37 * i);
    const Tensor x = tensor(angles).to(dtype);
    const std::vector<double> all = elements(f(x));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(elements(compiled(x)), all);
    for (const std::int64_t begin : {0, 1, 5, 42}) {
      for (const std::int64_t size : {1, 3, 17, 100}) {
        const auto first = all.begin() + begin;
        const std::vector<double> want(first, first + size);
        EXPECT_EQ(elements(f(slice(x, 0, begin, begin + size))), want) << begin << " " << size;
      }
    }
  }
}

}  // namespace
}  // namespace dyad::testing
