#include "dyad/optim/optimizer.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"

namespace dyad::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class F>
std::string error_of(F&& action) {
  try {
    action();
  } catch (const ValueError& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected a ValueError";
  return "";
}

Tensor parameter(double value) {
  Tensor p = full({2}, value);
  p.requires_grad();
  return p;
}

TEST(Optimizer, MinimisesASquare) {
  Tensor p = parameter(3);
  Adam optimizer({p}, {.lr = 0.1});
  for (int i = 0; i < 300; ++i) {
    optimizer.zero_grad();
    sum(square(p - 1.0)).backward();
    optimizer.step();
  }
  EXPECT_NEAR(p.to_vector<float>()[0], 1, 1e-3);
}

TEST(Optimizer, ParametersWithoutGradientStay) {
  Tensor used = parameter(1), unused = parameter(2);
  AdamW optimizer({used, unused}, {.lr = 0.1, .weight_decay = 0.5});
  sum(used).backward();
  optimizer.step();
  EXPECT_EQ(unused.to_vector<float>(), std::vector<float>(2, 2));
  EXPECT_LT(used.to_vector<float>()[0], 1);
  optimizer.zero_grad();
  EXPECT_FALSE(used.grad().defined());
}

TEST(Optimizer, UpdatesInPlaceAndLeavesLeaves) {
  Tensor p = parameter(1);
  const Tensor same = p;
  const void* memory = p.raw_data();
  SGD optimizer({p}, {.lr = 0.5, .momentum = 0.9});
  sum(p).backward();
  optimizer.step();
  EXPECT_TRUE(same.is_leaf());
  EXPECT_EQ(same.raw_data(), memory);
  EXPECT_EQ(same.to_vector<float>(), std::vector<float>(2, 0.5));
}

TEST(Optimizer, GoesOnFromItsState) {
  const auto train = [](Tensor& p, Optimizer& optimizer, int steps) {
    for (int i = 0; i < steps; ++i) {
      optimizer.zero_grad();
      sum(square(p) * p).backward();
      optimizer.step();
    }
  };
  Tensor p = parameter(1);
  Adam straight({p}, {.lr = 0.01});
  train(p, straight, 7);

  Tensor q = parameter(1);
  Adam first({q}, {.lr = 0.01});
  train(q, first, 3);
  Tensor r = clone(q.detach());
  r.requires_grad();
  Adam second({r}, {.lr = 0.5});
  second.load_state_dict(first.state_dict());
  EXPECT_FLOAT_EQ(second.lr(), 0.01);
  train(r, second, 4);
  EXPECT_EQ(r.to_vector<float>(), p.to_vector<float>());
}

TEST(Optimizer, StateOfAnotherOptimizerIsAnError) {
  SGD sgd({parameter(1)}, {.momentum = 0.9});
  Adam adam({parameter(1)});
  const std::string message = error_of([&] { adam.load_state_dict(sgd.state_dict()); });
  EXPECT_THAT(message, HasSubstr("missing: mean.0 f32[2]"));
  EXPECT_THAT(message, HasSubstr("unexpected: velocity.0 f32[2]"));
}

TEST(Optimizer, BadArgumentsAreErrors) {
  EXPECT_THAT(error_of([] { SGD({}); }), HasSubstr("SGD: there are no parameters to optimize"));
  EXPECT_THAT(
      error_of([] { SGD({Tensor()}); }),
      HasSubstr("parameter 0 must be a floating leaf with data, found an undefined tensor"));
  EXPECT_THAT(error_of([] { SGD({zeros({2}, i64)}); }), HasSubstr("found i64[2]"));
  const Tensor p = parameter(1);
  EXPECT_THAT(error_of([&] { Adam({p, p}); }), HasSubstr("parameters 0 and 1 are the same tensor"));
  EXPECT_THAT(error_of([&] { Adam({p}, {.lr = -1}); }),
              HasSubstr("Adam: lr must be finite and at least 0, found -1"));
  EXPECT_THAT(error_of([&] { AdamW({p}, {.beta2 = 1}); }),
              HasSubstr("AdamW: beta2 must be at least 0 and below 1, found 1"));
  EXPECT_THAT(error_of([&] { SGD({p}, {.nesterov = true}); }),
              HasSubstr("SGD: momentum must be above 0 for nesterov"));
  EXPECT_THAT(error_of([&] { (void)clip_grad_norm(std::vector{p}, 0); }),
              HasSubstr("clip_grad_norm: max_norm must be above 0, found 0"));
  EXPECT_THAT(error_of([] { (void)cosine_decay(0); }),
              HasSubstr("cosine_decay: steps must be at least 1, found 0"));
}

TEST(Optimizer, TheRateIsATensorWrittenInPlace) {
  const Tensor p = parameter(1);
  SGD optimizer({p}, {.lr = 0.5});
  const Tensor rate = optimizer.state_dict().at("lr");
  optimizer.set_lr(0.25);
  EXPECT_EQ(rate.item(), 0.25);
  p.set_grad(ones({2}));
  optimizer.step();
  EXPECT_EQ(p.to_vector<float>(), std::vector<float>(2, 0.75));
}

TEST(Schedule, GoesOnFromItsPosition) {
  SGD optimizer({parameter(1)}, {.lr = 1});
  Schedule schedule(optimizer, linear_warmup(2, 0, exponential_decay(0.5)));
  std::vector<double> rates;
  for (int i = 0; i < 5; ++i, schedule.step()) rates.push_back(optimizer.lr());
  EXPECT_THAT(rates, ElementsAre(0, 0.5, 1, 0.5, 0.25));
  SGD other({parameter(1)}, {.lr = 1});
  Schedule again(other, linear_warmup(2, 0, exponential_decay(0.5)));
  again.set_position(schedule.position());
  EXPECT_EQ(other.lr(), optimizer.lr());
}

TEST(Clip, ValuesAreMovedIntoTheLimits) {
  const Tensor p = parameter(1), none = parameter(1);
  p.set_grad(full({2}, -3));
  clip_grad_value(std::vector{p, none}, 0.5);
  EXPECT_EQ(p.grad().to_vector<float>(), std::vector<float>(2, -0.5));
  EXPECT_FALSE(none.grad().defined());
}

}  // namespace
}  // namespace dyad::optim
