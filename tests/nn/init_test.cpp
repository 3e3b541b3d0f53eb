#include "dyad/nn/init.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

namespace dyad::nn {
namespace {

using dyad::testing::message_of;
using ::testing::HasSubstr;

struct Moments {
  double mean = 0, std = 0, least = 0, most = 0;
};

Moments moments_of(const Tensor& x) {
  const auto values = x.to_vector<double>();
  Moments m{.least = values[0], .most = values[0]};
  for (const double v : values) {
    m.mean += v / static_cast<double>(values.size());
    m.least = std::min(m.least, v);
    m.most = std::max(m.most, v);
  }
  for (const double v : values) {
    m.std += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
  }
  m.std = std::sqrt(m.std);
  return m;
}

class Init : public ::testing::Test {
 protected:
  Init() { manual_seed(12); }
  Tensor x = zeros({100, 200});
};

TEST_F(Init, EvenAndNormalNumbers) {
  Moments m = moments_of(init::uniform_(x, -1, 3));
  EXPECT_NEAR(m.mean, 1, 0.05);
  EXPECT_NEAR(m.std, 4 / std::sqrt(12.0), 0.02);
  EXPECT_GE(m.least, -1);
  EXPECT_LE(m.most, 3);
  m = moments_of(init::normal_(x, 2, 0.5));
  EXPECT_NEAR(m.mean, 2, 0.02);
  EXPECT_NEAR(m.std, 0.5, 0.01);
  m = moments_of(init::truncated_normal_(x, 0, 1, -1, 0.5));
  EXPECT_GE(m.least, -1);
  EXPECT_LE(m.most, 0.5);
  // (phi(-1) - phi(0.5)) / (Phi(0.5) - Phi(-1))
  EXPECT_NEAR(m.mean, -0.2067, 0.01);
}

TEST_F(Init, XavierAndKaiming) {
  EXPECT_NEAR(moments_of(init::xavier_normal_(x, 2)).std, 2 * std::sqrt(2.0 / 300), 0.003);
  Moments m = moments_of(init::xavier_uniform_(x));
  EXPECT_NEAR(m.std, std::sqrt(2.0 / 300), 0.002);
  EXPECT_LE(m.most, std::sqrt(6.0 / 300));
  EXPECT_NEAR(moments_of(init::kaiming_normal_(x, {.nonlinearity = "relu"})).std,
              std::sqrt(2.0 / 200), 0.002);
  m = moments_of(init::kaiming_uniform_(x, {.slope = 1, .fan = init::FanMode::out}));
  EXPECT_NEAR(m.std, std::sqrt(1.0 / 100), 0.002);
  const init::Fan fan = init::fan_of(zeros({6, 4, 3, 2}));
  EXPECT_EQ(fan.in, 24);
  EXPECT_EQ(fan.out, 36);
  EXPECT_DOUBLE_EQ(init::gain_of("tanh"), 5.0 / 3);
  EXPECT_DOUBLE_EQ(init::gain_of("leaky_relu", 0.5), std::sqrt(2 / 1.25));
}

TEST_F(Init, OrthogonalRowsOrColumns) {
  for (const Shape& shape : {Shape{5, 3}, Shape{3, 5}, Shape{4, 2, 3}}) {
    Tensor w = zeros(shape, f64);
    init::orthogonal_(w, 2);
    Tensor flat = reshape(w, {shape[0], -1});
    if (flat.shape()[0].number() > flat.shape()[1].number()) flat = flat.t();
    const auto product = matmul(flat, flat.t()).to_vector<double>();
    const auto n = static_cast<std::size_t>(flat.shape()[0].number());
    for (std::size_t i = 0; i < product.size(); ++i) {
      EXPECT_NEAR(product[i], i % (n + 1) == 0 ? 4 : 0, 1e-12);
    }
  }
}

TEST_F(Init, FixedPatterns) {
  Tensor square = ones({2, 3});
  EXPECT_EQ(init::eye_(square).to_vector<float>(), (std::vector<float>{1, 0, 0, 0, 1, 0}));
  Tensor w = ones({4, 2, 3});
  const Tensor x = normal({1, 4, 5});
  init::dirac_(w, 2);
  // Two groups that each pass on their two channels.
  EXPECT_EQ(w.select(0, 3).to_vector<float>(), (std::vector<float>{0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(sum(w).item(), 4);
  Tensor thin = zeros({10, 4});
  init::sparse_(thin, 0.3, 1);
  const auto values = thin.to_vector<float>();
  for (std::size_t c = 0; c < 4; ++c) {
    int zeros_seen = 0;
    for (std::size_t r = 0; r < 10; ++r) zeros_seen += values[r * 4 + c] == 0;
    EXPECT_EQ(zeros_seen, 3);
  }
  EXPECT_EQ(init::constant_(thin, 7).to_vector<float>(), std::vector<float>(40, 7));
}

TEST_F(Init, ParametersInPlace) {
  Linear layer(3, 2);
  const void* memory = layer.weight.raw_data();
  init::ones_(layer.weight);
  init::zeros_(layer.bias);
  EXPECT_EQ(layer.weight.raw_data(), memory);
  EXPECT_TRUE(layer.weight.tracks_grad());
  EXPECT_EQ(layer(ones({1, 3})).to_vector<float>(), std::vector<float>(2, 3));
  Tensor half = zeros({50}, bf16);
  EXPECT_EQ(init::normal_(half).dtype(), bf16);
}

TEST_F(Init, BadArgumentsAreErrors) {
  Tensor line = zeros({3});
  EXPECT_THAT(message_of<ShapeError>([&] { init::xavier_normal_(line); }),
              HasSubstr("a weight of at least two axes [out, in, ...] is needed, found f32[3]"));
  EXPECT_THAT(message_of<ShapeError>([&] { init::eye_(line); }),
              HasSubstr("eye_: a matrix is needed, found f32[3]"));
  EXPECT_THAT(message_of<ShapeError>([&] { init::orthogonal_(line); }),
              HasSubstr("orthogonal_: at least two axes are needed, found f32[3]"));
  EXPECT_THAT(message_of<ValueError>([&] { init::truncated_normal_(x, 0, 1, 2, 1); }),
              HasSubstr("truncated_normal_: low must be below high, found 2"));
  EXPECT_THAT(message_of<ValueError>([&] { init::sparse_(x, 2); }),
              HasSubstr("sparse_: sparsity must be from 0 to 1, found 2"));
  EXPECT_THAT(
      message_of<ValueError>([&] { (void)init::gain_of("gelu"); }),
      HasSubstr("gain_of: 'gelu' is none of linear, sigmoid, tanh, relu, leaky_relu, selu"));
}

}  // namespace
}  // namespace dyad::nn
