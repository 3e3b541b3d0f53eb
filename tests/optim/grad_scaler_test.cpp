#include "dyad/optim/grad_scaler.h"

#include <gmock/gmock.h>

#include <limits>
#include <string>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/exec/autocast.h"
#include "dyad/exec/compile.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/adam.h"
#include "dyad/optim/clip.h"
#include "dyad/optim/sgd.h"
#include "tests/shared/message_of.h"

namespace dyad::optim {
namespace {

using dyad::testing::message_of;
using ::testing::HasSubstr;

TEST(GradScaler, SmallGradientsOfHalvesDoNotVanish) {
  const auto gradient = [](bool scaled) {
    const Tensor w = full({1, 1}, 1e-3).requires_grad();
    SGD optimizer({w}, {.lr = 1});
    GradScaler scaler({.init_scale = 1024, .enabled = scaled});
    Tensor loss;
    {
      const Autocast scope(f16);
      loss = sum(matmul(full({1, 1}, 1e-4), w) * 1e-4);
    }
    scaler.scale(loss).backward();
    scaler.unscale(optimizer);
    return w.grad().item<float>();
  };
  EXPECT_EQ(gradient(false), 0.0f);
  EXPECT_NEAR(gradient(true), 1e-8f, 1e-10f);
}

/// Steps with the gradients that `factors` give, an infinite one among them.
std::vector<float> steps(bool compiled) {
  Tensor w = ones({2}).requires_grad();
  Adam optimizer({w}, {.lr = 0.1});
  GradScaler scaler({.init_scale = 8, .growth_interval = 2});
  const auto body = [&](const Tensor& x) {
    optimizer.zero_grad();
    scaler.scale(sum(w * x)).backward();
    scaler.step(optimizer);
    scaler.update();
    return w.detach().clone();
  };
  const auto fast = compile(body);
  std::vector<float> seen;
  const float infinite = std::numeric_limits<float>::infinity();
  for (const float factor : {1.0f, 2.0f, infinite, 1.0f, -1.0f, 3.0f, infinite, 1.0f, 2.0f, 5.0f}) {
    const Tensor x = full({2}, factor);
    for (const float v : (compiled ? fast(x) : body(x)).to_vector<float>()) seen.push_back(v);
    seen.push_back(scaler.current_scale().item<float>());
  }
  return seen;
}

TEST(GradScaler, SkipsInfiniteStepsAndMovesTheScale) {
  const std::vector<float> seen = steps(false);
  const auto scale_after = [&](int step) { return seen[static_cast<std::size_t>(step * 3 + 2)]; };
  EXPECT_EQ(scale_after(0), 8.0f);
  EXPECT_EQ(scale_after(1), 16.0f);  // two in a row
  EXPECT_EQ(scale_after(2), 8.0f);   // infinite
  EXPECT_EQ(seen[2 * 3], seen[1 * 3]) << "an infinite gradient moved the parameter";
  EXPECT_EQ(scale_after(3), 8.0f);
  EXPECT_EQ(scale_after(4), 16.0f);
  EXPECT_NE(seen[3 * 3], seen[2 * 3]);
}

TEST(GradScaler, TheSameBitsCompiled) { EXPECT_EQ(steps(true), steps(false)); }

TEST(GradScaler, UnscaledGradientsMayBeClipped) {
  Tensor w = ones({1}).requires_grad();
  SGD optimizer({w}, {.lr = 1});
  GradScaler scaler;
  scaler.scale(sum(w * 4.0f)).backward();
  EXPECT_EQ(w.grad().item<float>(), 4.0f * 65536);
  scaler.unscale(optimizer);
  EXPECT_EQ(w.grad().item<float>(), 4.0f);
  clip_grad_value(optimizer.parameters(), 0.5);
  EXPECT_TRUE(scaler.step(optimizer));
  EXPECT_EQ(w.item<float>(), 0.5f);
}

/// Parts of a step in compiled functions, the rest outside: replayed calls tell the scaler what was
/// done, too.
TEST(GradScaler, StepsThatAreCompiledInPartDoTheSame) {
  enum class Compiled { nothing, unscale, step };
  const auto trained = [](Compiled part) {
    Tensor w = ones({2}).requires_grad();
    SGD optimizer({w}, {.lr = 0.125});
    GradScaler scaler({.init_scale = 8, .growth_interval = 3});
    const auto gradients = [&](const Tensor& x) {
      optimizer.zero_grad();
      const Tensor loss = sum(w * x);
      scaler.scale(loss).backward();
      scaler.unscale(optimizer);
      return loss;
    };
    const auto step = [&](const Tensor& x) {
      scaler.step(optimizer);
      scaler.update();
      return x + scaler.current_scale();
    };
    const auto fast_gradients = compile(gradients, {.background = Background::never});
    const auto fast_step = compile(step, {.background = Background::never});
    std::vector<float> seen;
    for (int i = 0; i < 9; ++i) {
      const Tensor x = full({2}, i == 5 ? std::numeric_limits<float>::infinity() : 1.0f + i);
      (void)(part == Compiled::unscale ? fast_gradients(x) : gradients(x));
      (void)(part == Compiled::step ? fast_step(x) : step(x));
      for (const float value : w.to_vector<float>()) seen.push_back(value);
      seen.push_back(scaler.current_scale().item<float>());
    }
    return seen;
  };
  const std::vector<float> eager = trained(Compiled::nothing);
  EXPECT_EQ(trained(Compiled::unscale), eager);
  EXPECT_EQ(trained(Compiled::step), eager);
}

TEST(GradScaler, StateGoesOnWhereItWas) {
  GradScaler first({.init_scale = 4, .growth_interval = 2}), second;
  Tensor w = ones({1}).requires_grad();
  SGD optimizer({w}, {.lr = 1});
  first.scale(sum(w)).backward();
  first.step(optimizer);
  first.update();
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(second.current_scale().item<float>(), 4.0f);
  EXPECT_EQ(second.state_dict().at("growth_tracker").item<int>(), 1);
  EXPECT_THAT(message_of<ValueError>([&] { second.load_state_dict({{"scale", ones({2})}}); }),
              HasSubstr("growth_tracker"));
}

TEST(GradScaler, WrongUseIsAnError) {
  Tensor w = ones({1}).requires_grad();
  SGD optimizer({w}, {.lr = 1});
  GradScaler scaler;
  EXPECT_THAT(message_of<GradError>([&] { scaler.step(optimizer); }),
              HasSubstr("no parameter of the optimizer has a gradient"));
  EXPECT_THAT(message_of<GradError>([&] { scaler.update(); }),
              HasSubstr("update() without a step"));
  scaler.scale(sum(w)).backward();
  scaler.unscale(optimizer);
  EXPECT_THAT(message_of<GradError>([&] { scaler.unscale(optimizer); }),
              HasSubstr("unscale() was called already"));
  EXPECT_THAT(message_of<ValueError>([] { const GradScaler bad({.growth_factor = 1}); }),
              HasSubstr("growth_factor must be above 1, found 1"));
}

}  // namespace
}  // namespace dyad::optim
