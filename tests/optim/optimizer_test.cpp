#include "dyad/optim/optimizer.h"

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
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
  EXPECT_THAT(error_of([] { SGD(std::vector<Tensor>{}); }),
              HasSubstr("SGD: there are no parameters to optimize"));
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
  EXPECT_THAT(error_of([&] { SGD({p}, {.weight_decay = -1}); }),
              HasSubstr("SGD: weight_decay must be finite and at least 0, found -1"));
  EXPECT_THAT(error_of([&] { RMSprop({p}, {.alpha = 1}); }),
              HasSubstr("RMSprop: alpha must be at least 0 and below 1, found 1"));
  EXPECT_THAT(error_of([&] { Adadelta({p}, {.rho = 2}); }),
              HasSubstr("Adadelta: rho must be from 0 to 1, found 2"));
  EXPECT_THAT(error_of([&] { Adafactor({p}, {.clip = 0.5}); }),
              HasSubstr("Adafactor: clip must be at least 1, found 0.5"));
  EXPECT_THAT(error_of([&] { LBFGS({p}, {.history = 0}); }),
              HasSubstr("LBFGS: history must be at least 1, found 0"));
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

TEST(Groups, HaveRatesAndDecaysOfTheirOwn) {
  Tensor a = parameter(1), b = parameter(1);
  SGD optimizer({{{a}, {.lr = 0.5}}, {{b}, {.lr = 0.25, .weight_decay = 1}}});
  EXPECT_EQ(optimizer.group_count(), 2u);
  const auto step = [&] {
    a.set_grad(ones({2}));
    b.set_grad(ones({2}));
    optimizer.step();
  };
  step();
  EXPECT_EQ(a.to_vector<float>()[0], 0.5);
  EXPECT_EQ(b.to_vector<float>()[0], 0.5);  // 1 - 0.25 * (1 + 1)
  optimizer.set_group_lr(1, 1);
  optimizer.set_weight_decay(1, 0);
  step();
  EXPECT_EQ(a.to_vector<float>()[0], 0);
  EXPECT_EQ(b.to_vector<float>()[0], -0.5);
  Schedule schedule(optimizer, exponential_decay(0.5));
  schedule.step();
  EXPECT_EQ(optimizer.lr(0), 0.25);
  EXPECT_EQ(optimizer.lr(1), 0.5);
  EXPECT_THROW((void)optimizer.lr(2), IndexError);
  const TensorDict state = optimizer.state_dict();
  EXPECT_EQ(state.at("lr.1").item(), 0.5);
  EXPECT_EQ(state.at("weight_decay.0").item(), 0);
}

// The numbers are those of torch.optim.SGD.
TEST(Groups, MayComeLater) {
  Tensor a = parameter(1), b = parameter(2);
  SGD optimizer({a}, {.lr = 0.5, .momentum = 0.5});
  for (int i = 0; i < 4; ++i) {
    if (i == 2) optimizer.add_param_group({{b}, {.lr = 0.25, .momentum = 0.75}});
    optimizer.zero_grad();
    sum(a * a + b * b).backward();
    optimizer.step();
  }
  EXPECT_EQ(a.to_vector<float>(), std::vector<float>(2, 0.125));
  EXPECT_EQ(b.to_vector<float>(), std::vector<float>(2, -0.25));
  EXPECT_EQ(optimizer.lr(1), 0.25);
}

template <class O>
void expect_later_groups_as_first() {
  const auto trained = [](bool later) {
    Tensor a = parameter(1), b = reshape(parameter(2), {1, 2}).detach();
    b.requires_grad();
    const typename O::Group second{{b}, {.lr = 0.25}};
    std::vector<typename O::Group> groups{{{a}, {.lr = 0.5}}};
    if (!later) groups.push_back(second);
    O optimizer(groups);
    if (later) optimizer.add_param_group(second);
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      (sum(a * a) + sum(b * b)).backward();
      optimizer.step();
    }
    std::map<std::string, std::vector<double>> all{{"a", a.to_vector<double>()},
                                                   {"b", b.to_vector<double>()}};
    for (const auto& [name, x] : optimizer.state_dict()) all[name] = x.template to_vector<double>();
    return all;
  };
  EXPECT_EQ(trained(true), trained(false));
}

TEST(Groups, ThatComeBeforeTheFirstStepAreAsIfTheyHadBeenGiven) {
  expect_later_groups_as_first<SGD>();
  expect_later_groups_as_first<Adam>();
  expect_later_groups_as_first<AdamW>();
  expect_later_groups_as_first<NAdam>();
  expect_later_groups_as_first<RAdam>();
  expect_later_groups_as_first<Adamax>();
  expect_later_groups_as_first<Lion>();
  expect_later_groups_as_first<Adagrad>();
  expect_later_groups_as_first<RMSprop>();
  expect_later_groups_as_first<Adadelta>();
  expect_later_groups_as_first<Adafactor>();
}

TEST(Groups, ThatAreRefusedChangeNothing) {
  Tensor a = parameter(1), b = parameter(2);
  Adam optimizer({a});
  EXPECT_THAT(error_of([&] { optimizer.add_param_group({{b}, {.beta1 = 1}}); }),
              HasSubstr("Adam: beta1 must be at least 0 and below 1, found 1"));
  EXPECT_THAT(error_of([&] { optimizer.add_param_group({{b}, {.lr = -1}}); }),
              HasSubstr("Adam: lr must be finite and at least 0, found -1"));
  EXPECT_THAT(error_of([&] { optimizer.add_param_group({{b, a}, {}}); }),
              HasSubstr("Adam: parameters 0 and 2 are the same tensor"));
  EXPECT_EQ(optimizer.group_count(), 1u);
  EXPECT_EQ(optimizer.parameters().size(), 1u);
  EXPECT_TRUE(optimizer.state_dict().contains("lr"));
}

TEST(State, OfLaterGroupsHasTheirNumbers) {
  const nn::Linear body(2, 2), head(2, 1);
  SGD optimizer(nn::named_parameters(body), {.momentum = 0.9});
  EXPECT_TRUE(optimizer.state_dict().contains("velocity.weight"));
  optimizer.add_param_group({nn::named_parameters(head), {.lr = 0.5, .momentum = 0.9}});
  const TensorDict state = optimizer.state_dict();
  EXPECT_EQ(state.at("velocity.0.weight").shape(), Shape({2, 2}));
  EXPECT_EQ(state.at("velocity.1.weight").shape(), Shape({1, 2}));
  EXPECT_EQ(state.at("lr.1").item(), 0.5);
  SGD same({{nn::named_parameters(body), {.momentum = 0.9}},
            {nn::named_parameters(head), {.momentum = 0.9}}});
  same.load_state_dict(state);
  EXPECT_EQ(same.lr(1), 0.5);
}

TEST(State, OfGroupsWithNamesInCommonHasTheirNumbers) {
  const nn::Linear body(2, 2), head(2, 1);
  const SGD optimizer({{nn::named_parameters(body), {.lr = 0.1, .momentum = 0.9}},
                       {nn::named_parameters(head), {.lr = 0.2, .momentum = 0.9}}});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : optimizer.state_dict()) names.push_back(name);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"velocity.0.weight", "velocity.0.bias",
                                              "velocity.1.weight", "velocity.1.bias"}));
}

TEST(State, GoesByTheNamesOfParameters) {
  struct Model {
    nn::Linear first{2, 3};
    nn::Linear second{3, 1};
  };
  const Model model;
  Adam optimizer(nn::named_parameters(model), {.amsgrad = true});
  const TensorDict state = optimizer.state_dict();
  EXPECT_TRUE(state.contains("mean.first.weight"));
  EXPECT_TRUE(state.contains("largest.second.bias"));
  EXPECT_EQ(state.at("square.first.weight").shape(), Shape({3, 2}));
}

TEST(State, OfEveryOptimizerGoesOn) {
  const auto check = [](auto make) {
    const auto train = [](Tensor& p, Optimizer& optimizer, int steps) {
      for (int i = 0; i < steps; ++i) {
        optimizer.zero_grad();
        sum(square(p) * p).backward();
        optimizer.step();
      }
    };
    Tensor p = parameter(1), q = parameter(1);
    const auto straight = make(p), first = make(q);
    train(p, *straight, 7);
    train(q, *first, 3);
    Tensor r = clone(q.detach());
    r.requires_grad();
    const auto second = make(r);
    second->load_state_dict(first->state_dict());
    train(r, *second, 4);
    EXPECT_EQ(r.to_vector<float>(), p.to_vector<float>());
  };
  using Made = std::unique_ptr<Optimizer>;
  check([](const Tensor& p) -> Made {
    return std::make_unique<SGD>(Parameters{p}, SGDOptions{.momentum = 0.9, .dampening = 0.5});
  });
  check([](const Tensor& p) -> Made {
    return std::make_unique<Adam>(Parameters{p}, AdamOptions{.amsgrad = true});
  });
  check([](const Tensor& p) -> Made { return std::make_unique<NAdam>(Parameters{p}); });
  check([](const Tensor& p) -> Made { return std::make_unique<RAdam>(Parameters{p}); });
  check([](const Tensor& p) -> Made { return std::make_unique<Adamax>(Parameters{p}); });
  check([](const Tensor& p) -> Made { return std::make_unique<Lion>(Parameters{p}); });
  check([](const Tensor& p) -> Made { return std::make_unique<Adagrad>(Parameters{p}); });
  check([](const Tensor& p) -> Made {
    return std::make_unique<RMSprop>(Parameters{p},
                                     RMSpropOptions{.momentum = 0.5, .centered = true});
  });
  check([](const Tensor& p) -> Made { return std::make_unique<Adadelta>(Parameters{p}); });
  check([](const Tensor& p) -> Made { return std::make_unique<Adafactor>(Parameters{p}); });
}

TEST(State, OfLBFGSGoesOn) {
  const auto run = [](LBFGS& optimizer, Tensor& p, int steps) {
    for (int i = 0; i < steps; ++i) {
      (void)optimizer.step([&] {
        optimizer.zero_grad();
        Tensor loss = sum(square(square(p) - 2.0)) + sum(p);
        loss.backward();
        return loss;
      });
    }
  };
  const LBFGSOptions options{.max_iterations = 2, .history = 3, .strong_wolfe = true};
  Tensor p = parameter(3), q = parameter(3);
  LBFGS straight({p}, options), first({q}, options);
  run(straight, p, 4);
  run(first, q, 2);
  Tensor r = clone(q.detach());
  r.requires_grad();
  LBFGS second({r}, options);
  second.load_state_dict(first.state_dict());
  run(second, r, 2);
  EXPECT_EQ(r.to_vector<float>(), p.to_vector<float>());
}

TEST(LBFGS, WithoutAFunctionIsAnError) {
  Tensor p = parameter(1);
  LBFGS optimizer({p});
  sum(p).backward();
  Optimizer& any = optimizer;
  try {
    any.step();
    FAIL();
  } catch (const GraphError& error) {
    EXPECT_THAT(error.what(), HasSubstr("LBFGS evaluates the loss as often as it needs"));
  }
}

TEST(Optimizer, HalfPrecisionIsComputedInF32) {
  for (const DType dtype : {bf16, f16}) {
    Tensor p = ones({3}, dtype);
    p.requires_grad();
    Tensor q = ones({3});
    q.requires_grad();
    AdamW half({p}, {.lr = 0.1}), single({q}, {.lr = 0.1});
    for (int i = 0; i < 3; ++i) {
      p.set_grad(full({3}, 0.5, dtype));
      q.set_grad(full({3}, 0.5));
      half.step();
      single.step();
    }
    EXPECT_NEAR(p.to_vector<float>()[0], q.to_vector<float>()[0], 0.01);
    EXPECT_EQ(p.dtype(), dtype);
  }
}

TEST(WeightAverage, SwapsInPlaceAndGoesOnFromItsState) {
  Tensor p = full({2}, 4);
  p.requires_grad();
  WeightAverage average(TensorDict{{"w", p}}, {.decay = 0.5});
  average.update();
  {
    const NoGrad no_grad;
    p.fill_(8);
  }
  average.update();
  average.swap();
  EXPECT_EQ(p.to_vector<float>(), std::vector<float>(2, 6));
  average.swap();
  EXPECT_EQ(p.to_vector<float>(), std::vector<float>(2, 8));
  WeightAverage again(TensorDict{{"w", p}}, {.decay = 0.5});
  again.load_state_dict(average.state_dict());
  again.update();
  EXPECT_EQ(again.averages().at("w").to_vector<float>(), std::vector<float>(2, 7));
  EXPECT_THAT(error_of([&] { WeightAverage({p}, {.decay = 1}); }),
              HasSubstr("WeightAverage: decay must be at least 0 and below 1, found 1"));
}

TEST(Schedule, BadArgumentsAreErrors) {
  EXPECT_THAT(error_of([] { (void)multi_step_decay({3, 3}); }),
              HasSubstr("multi_step_decay: milestones must rise, found 3 after 3"));
  EXPECT_THAT(error_of([] { (void)sequential({exponential_decay(0.5)}, {3}); }),
              HasSubstr("one more factor than milestones is needed, found 1 factors and 1"));
  EXPECT_THAT(error_of([] { (void)one_cycle(10, {.rise = 1}); }),
              HasSubstr("one_cycle: rise must be between 0 and 1, found 1"));
  EXPECT_THAT(error_of([] { (void)cosine_restarts(3, 0); }),
              HasSubstr("cosine_restarts: growth must be at least 1, found 0"));
  SGD optimizer({parameter(1)});
  EXPECT_THAT(error_of([&] { ReduceOnPlateau(optimizer, {.factor = 2}); }),
              HasSubstr("ReduceOnPlateau: factor must be between 0 and 1, found 2"));
}

TEST(Schedule, OneCycleMayRiseForASingleStep) {
  const LrFactor factor = one_cycle(10, {.rise = 0.1});
  EXPECT_EQ(factor(0), 1);
  EXPECT_LT(factor(1), 1);
  EXPECT_DOUBLE_EQ(factor(9), 1 / 25.0e4);
}

/// A run may restore its optimizer before it makes the schedule, or after.
TEST(Schedule, OfARestoredOptimizerScalesTheRateThatWasGiven) {
  SGD first({parameter(1)}, {.lr = 1});
  Schedule schedule(first, exponential_decay(0.5));
  for (int i = 0; i < 3; ++i) schedule.step();
  SGD second({parameter(1)}, {.lr = 1});
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(second.lr(), 0.125);
  Schedule again(second, exponential_decay(0.5));
  again.set_position(schedule.position());
  EXPECT_EQ(second.lr(), 0.125);
  second.set_lr(3);
  const Schedule third(second, exponential_decay(0.5));
  EXPECT_EQ(second.lr(), 3);
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

TEST(Clip, GradientsInF64KeepTheirDigits) {
  Tensor p = zeros({2}, f64);
  p.requires_grad();
  p.set_grad(tensor({3e30, 4e30}, f64));
  const Tensor norm = clip_grad_norm({p}, 1.0);
  EXPECT_DOUBLE_EQ(norm.item(), 5e30);
  EXPECT_DOUBLE_EQ(p.grad().to_vector<double>()[1], 0.8);
  p.set_grad(tensor({3.0 / 7, 4.0 / 7}, f64));
  EXPECT_DOUBLE_EQ(clip_grad_norm({p}, 0.5).item(), 5.0 / 7);
  EXPECT_DOUBLE_EQ(p.grad().to_vector<double>()[0], 3.0 / 7 * (0.5 / (5.0 / 7 + 1e-6)));
}

TEST(Clip, ValuesAreMovedIntoTheLimits) {
  const Tensor p = parameter(1), none = parameter(1);
  p.set_grad(full({2}, -3));
  clip_grad_value({p, none}, 0.5);
  EXPECT_EQ(p.grad().to_vector<float>(), std::vector<float>(2, -0.5));
  EXPECT_FALSE(none.grad().defined());
}

}  // namespace
}  // namespace dyad::optim
