// Optimizers against what PyTorch computes (fixtures/optimizers.safetensors, made by
// make_fixtures.py).
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "dyad/io/safetensors.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"

namespace dyad::optim {
namespace {

const TensorDict& optimizer_fixtures() {
  static const TensorDict tensors =
      io::load_safetensors("tests/torch/fixtures/optimizers.safetensors");
  return tensors;
}

void expect_near_f32(const Tensor& actual, const Tensor& expected, const std::string& what) {
  const auto a = actual.to_vector<double>(), e = expected.to_vector<double>();
  ASSERT_EQ(a.size(), e.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], e[i], 2e-6 * std::abs(e[i]) + 1e-7) << what << " element " << i;
  }
}

std::vector<Tensor> first_pair() {
  std::vector<Tensor> parameters;
  for (const char* name : {"start/a", "start/b"}) {
    parameters.push_back(clone(optimizer_fixtures().at(name)));
    parameters.back().requires_grad();
  }
  return parameters;
}

void set_grads(const std::vector<Tensor>& parameters, int step) {
  const std::string prefix = "grad/" + std::to_string(step) + "/";
  parameters[0].set_grad(clone(optimizer_fixtures().at(prefix + "a")));
  parameters[1].set_grad(clone(optimizer_fixtures().at(prefix + "b")));
}

template <class O, class Options>
void check_optimizer(const std::string& name, const Options& options) {
  const std::vector<Tensor> parameters = first_pair();
  O optimizer(parameters, options);
  for (int t = 0; t < 6; ++t) {
    set_grads(parameters, t);
    optimizer.step();
    const std::string at = name + "/" + std::to_string(t) + "/";
    expect_near_f32(parameters[0], optimizer_fixtures().at(at + "a"), at + "a");
    expect_near_f32(parameters[1], optimizer_fixtures().at(at + "b"), at + "b");
  }
}

TEST(TorchOptimizers, SGD) {
  check_optimizer<SGD>("sgd", SGDOptions{.lr = 0.1});
  check_optimizer<SGD>("sgd_momentum", SGDOptions{.lr = 0.1, .momentum = 0.9});
  check_optimizer<SGD>(
      "sgd_nesterov",
      SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
}

TEST(TorchOptimizers, Adam) {
  check_optimizer<Adam>("adam", AdamOptions{.lr = 0.01});
  check_optimizer<Adam>(
      "adam_decay",
      AdamOptions{.lr = 0.01, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1});
  check_optimizer<AdamW>("adamw", AdamWOptions{.lr = 0.01, .weight_decay = 0.1});
}

TEST(TorchOptimizers, ClipGradNorm) {
  for (const auto& [name, limit] : {std::pair{"clip_norm", 1.5}, {"clip_norm_above", 100.0}}) {
    const std::vector<Tensor> parameters = first_pair();
    set_grads(parameters, 0);
    const std::string prefix = std::string(name) + "/";
    expect_near_f32(clip_grad_norm(parameters, limit), optimizer_fixtures().at(prefix + "norm"),
                    name);
    expect_near_f32(parameters[0].grad(), optimizer_fixtures().at(prefix + "a"), name);
    expect_near_f32(parameters[1].grad(), optimizer_fixtures().at(prefix + "b"), name);
  }
}

TEST(TorchOptimizers, Schedules) {
  const auto check_rates = [](const std::string& name, const LrFactor& factor) {
    SGD optimizer(first_pair(), {.lr = 0.2});
    Schedule schedule(optimizer, factor);
    const auto expected = optimizer_fixtures().at("schedule/" + name).to_vector<double>();
    for (const double rate : expected) {
      EXPECT_NEAR(optimizer.lr(), rate, 1e-12) << name;
      schedule.step();
    }
  };
  check_rates("step", step_decay(3, 0.5));
  check_rates("exponential", exponential_decay(0.9));
  check_rates("cosine", cosine_decay(10, 0.1));
  check_rates("warmup", linear_warmup(4, 0.25));
}

}  // namespace
}  // namespace dyad::optim
