// Optimizers step by step in f64 against PyTorch (fixtures/trajectories.safetensors, made by
// make_fixtures.py).
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "dyad/io/safetensors.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"

namespace dyad::optim {
namespace {

const TensorDict& trajectory_fixtures() {
  static const TensorDict tensors =
      io::load_safetensors("tests/torch/fixtures/trajectories.safetensors");
  return tensors;
}

void expect_near_f64(const Tensor& actual, const Tensor& expected, const std::string& what,
                     double tolerance = 1e-12) {
  const auto a = actual.to_vector<double>(), e = expected.to_vector<double>();
  ASSERT_EQ(a.size(), e.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], e[i], tolerance * (std::abs(e[i]) + 1)) << what << " element " << i;
  }
}

constexpr const char* kNames[] = {"a", "b", "c"};

TensorDict first_parameters() {
  TensorDict parameters;
  for (const char* name : kNames) {
    Tensor p = clone(trajectory_fixtures().at(std::string("start/") + name));
    p.requires_grad();
    parameters.add(name, p);
  }
  return parameters;
}

void check_trajectory(const std::string& name, const TensorDict& parameters, Optimizer& optimizer) {
  for (int t = 0; t < 8; ++t) {
    for (const auto& [p, tensor] : parameters) {
      tensor.set_grad(clone(trajectory_fixtures().at("grad/" + std::to_string(t) + "/" + p)));
    }
    optimizer.step();
    for (const auto& [p, tensor] : parameters) {
      const std::string at = name + "/" + std::to_string(t) + "/" + p;
      expect_near_f64(tensor, trajectory_fixtures().at(at), at);
    }
  }
}

template <class O>
void check_trajectory(const std::string& name, const typename O::Options& options) {
  const TensorDict parameters = first_parameters();
  O optimizer(parameters, options);
  check_trajectory(name, parameters, optimizer);
}

TEST(Trajectories, SGD) {
  check_trajectory<SGD>("sgd_decay", {.lr = 0.1, .weight_decay = 0.01, .maximize = true});
  check_trajectory<SGD>("sgd_dampening", {.lr = 0.1, .momentum = 0.9, .dampening = 0.3});
  check_trajectory<SGD>("sgd_nesterov",
                        {.lr = 0.1, .momentum = 0.8, .nesterov = true, .weight_decay = 0.01});
}

TEST(Trajectories, Adam) {
  check_trajectory<Adam>("adam", {.lr = 0.01});
  check_trajectory<Adam>("adam_amsgrad", {.lr = 0.01, .weight_decay = 0.1, .amsgrad = true});
  check_trajectory<Adam>("adam_maximize",
                         {.lr = 0.01, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-3, .maximize = true});
  check_trajectory<AdamW>("adamw", {.lr = 0.01, .weight_decay = 0.1});
  check_trajectory<Adam>("adamw", {.lr = 0.01, .weight_decay = 0.1, .decoupled = true});
  check_trajectory<AdamW>("adamw_amsgrad", {.lr = 0.01, .weight_decay = 0.1, .amsgrad = true});
}

TEST(Trajectories, VariantsOfAdam) {
  check_trajectory<NAdam>("nadam", {.lr = 0.01, .weight_decay = 0.1});
  check_trajectory<NAdam>(
      "nadam_decoupled",
      {.lr = 0.01, .weight_decay = 0.1, .momentum_decay = 0.1, .decoupled = true});
  check_trajectory<RAdam>("radam", {.lr = 0.01, .weight_decay = 0.1});
  check_trajectory<RAdam>(
      "radam_decoupled",
      {.lr = 0.01, .beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.1, .decoupled = true});
  check_trajectory<Adamax>("adamax", {.lr = 0.01, .weight_decay = 0.1});
  check_trajectory<Lion>("lion", {.lr = 0.01, .weight_decay = 0.1});
}

TEST(Trajectories, AdaptiveRates) {
  check_trajectory<Adagrad>("adagrad",
                            {.lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.1, .initial_sum = 0.2});
  check_trajectory<RMSprop>("rmsprop", {.lr = 0.01, .weight_decay = 0.1});
  check_trajectory<RMSprop>("rmsprop_centered", {.lr = 0.01, .alpha = 0.9, .centered = true});
  check_trajectory<RMSprop>("rmsprop_momentum", {.lr = 0.01, .momentum = 0.8});
  check_trajectory<RMSprop>("rmsprop_both", {.lr = 0.01, .momentum = 0.8, .centered = true});
  check_trajectory<Adadelta>("adadelta", {.lr = 0.5, .weight_decay = 0.1});
  check_trajectory<Adafactor>("adafactor", {.lr = 0.05});
  check_trajectory<Adafactor>(
      "adafactor_decay",
      {.lr = 0.5, .beta2_decay = -0.5, .eps1 = 1e-4, .eps2 = 1e-2, .clip = 2, .weight_decay = 0.1});
}

TEST(Trajectories, GroupsWithOptionsOfTheirOwn) {
  const TensorDict parameters = first_parameters();
  const TensorDict first{{"a", parameters.at("a")}},
      rest{{"b", parameters.at("b")}, {"c", parameters.at("c")}};
  AdamW optimizer({{first, {.lr = 0.1}}, {rest, {.lr = 0.01, .weight_decay = 0.5}}});
  check_trajectory("groups", parameters, optimizer);
}

TEST(Trajectories, LBFGS) {
  const auto run = [](const std::string& name, const LBFGSOptions& options, double tolerance) {
    Tensor x = clone(trajectory_fixtures().at(name + "/start"));
    x.requires_grad();
    LBFGS optimizer({x}, options);
    for (int t = 0; t < 8; ++t) {
      const Tensor loss = optimizer.step([&] {
        optimizer.zero_grad();
        const Tensor a = slice(x, 0, 0, 3), b = slice(x, 0, 1, 4);
        Tensor value = sum(square(b - square(a)) * 100 + square(1 - a));
        value.backward();
        return value;
      });
      const std::string at = name + "/" + std::to_string(t);
      expect_near_f64(loss, trajectory_fixtures().at(at + "/loss"), at, tolerance);
      expect_near_f64(x, trajectory_fixtures().at(at + "/x"), at, tolerance);
    }
  };
  run("lbfgs", {.lr = 0.001, .max_iterations = 5, .history = 3}, 1e-9);
  run("lbfgs_wolfe", {.max_iterations = 4, .history = 5, .strong_wolfe = true}, 1e-10);
}

TEST(Trajectories, Averages) {
  for (const auto& [name, decay] :
       {std::pair<std::string, std::optional<double>>{"ema", 0.9}, {"swa", std::nullopt}}) {
    const Tensor p = clone(trajectory_fixtures().at("start/a"));
    WeightAverage average({p}, {.decay = decay});
    for (int t = 0; t < 8; ++t) {
      Tensor(p).copy_(trajectory_fixtures().at("grad/" + std::to_string(t) + "/a"));
      average.update();
      const std::string at = name + "/" + std::to_string(t) + "/a";
      expect_near_f64(average.averages().at("0"), trajectory_fixtures().at(at), at);
    }
  }
}

TEST(Trajectories, Schedules) {
  const auto check_rates = [](const std::string& name, const LrFactor& factor) {
    SGD optimizer(first_parameters(), {.lr = 0.2});
    Schedule schedule(optimizer, factor);
    for (const double rate : trajectory_fixtures().at("schedule/" + name).to_vector<double>()) {
      EXPECT_NEAR(optimizer.lr(), rate, 1e-12) << name << " at " << schedule.position();
      schedule.step();
    }
  };
  check_rates("multi_step", multi_step_decay({2, 5, 6}, 0.5));
  check_rates("restarts", cosine_restarts(3, 1, 0.1));
  check_rates("restarts_growing", cosine_restarts(2, 2, 0.1));
  check_rates("polynomial", polynomial_decay(7, 2));
  check_rates("linear", linear(5, 0.9, 0.2));
  check_rates("one_cycle", one_cycle(14));
  check_rates("one_cycle_linear",
              one_cycle(14, {.rise = 0.5, .first = 0.1, .last = 0.001, .linear = true}));
  check_rates("sequential",
              sequential({[](std::int64_t) { return 0.1; }, exponential_decay(0.9)}, {4}));
}

TEST(Trajectories, ReduceOnPlateau) {
  const auto measures = trajectory_fixtures().at("plateau/measures").to_vector<double>();
  const auto run = [&](const std::string& name, const ReduceOnPlateauOptions& options) {
    SGD optimizer(first_parameters(), {.lr = 0.2});
    ReduceOnPlateau schedule(optimizer, options);
    const auto rates = trajectory_fixtures().at(name + "/rates").to_vector<double>();
    for (std::size_t i = 0; i < measures.size(); ++i) {
      schedule.step(measures[i]);
      EXPECT_NEAR(optimizer.lr(), rates[i], 1e-15) << name << " after " << i;
    }
  };
  run("plateau", {.factor = 0.5, .patience = 1, .cooldown = 1, .min_lr = 0.02});
  run("plateau_max", {.factor = 0.5,
                      .patience = 1,
                      .relative = false,
                      .larger_is_better = true,
                      .cooldown = 1,
                      .min_lr = 0.02});
}

}  // namespace
}  // namespace dyad::optim
