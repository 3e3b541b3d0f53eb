#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"

/// Checks of layers against what PyTorch computed for them (make_fixtures.py).
namespace dyad::nn::testing {

inline void expect_near(const Tensor& actual, const Tensor& expected, const std::string& what,
                        double tolerance = 2e-6) {
  ASSERT_TRUE(actual.defined()) << what;
  ASSERT_EQ(type_string(actual), type_string(expected)) << what;
  const auto a = actual.to_vector<double>(), e = expected.to_vector<double>();
  double scale = 0;
  for (const double value : e) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], e[i], tolerance * scale + 1e-6 * std::abs(e[i])) << what << " element " << i;
  }
}

/// Loads the state, runs `call` on the inputs, and compares outputs, derivatives and the state
/// after.
template <class L, class Call>
void check(const TensorDict& all, const std::string& name, const L& layer, Call&& call) {
  load_state_dict(layer, all.below(name + "/state/"));
  std::vector<Tensor> inputs;
  for (int i = 0; const Tensor* x = all.find(name + "/in/" + std::to_string(i)); ++i) {
    inputs.push_back(clone(*x));
    if (is_floating(x->dtype())) inputs.back().requires_grad();
  }
  const std::vector<Tensor> outputs = call(inputs);
  Tensor loss = zeros({});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string key = std::to_string(i);
    expect_near(outputs[i], all.at(name + "/out/" + key), name + " output " + key);
    loss = loss + sum(outputs[i] * all.at(name + "/weights/" + key));
  }
  loss.backward();
  for (const auto& [key, expected] : all.below(name + "/grad/")) {
    const Tensor& of = key.starts_with("in") ? inputs[static_cast<std::size_t>(key[2] - '0')]
                                             : named_parameters(layer).at(key);
    expect_near(of.grad(), expected, name + " gradient of " + key);
  }
  const TensorDict state = state_dict(layer);
  for (const auto& [key, expected] : all.below(name + "/after/")) {
    expect_near(state.at(key), expected, name + " afterwards " + key);
  }
}

/// The same of a layer from one tensor to one tensor, or from all inputs.
template <class L>
void check(const TensorDict& all, const std::string& name, const L& layer) {
  check(all, name, layer, [&](const std::vector<Tensor>& in) {
    if constexpr (requires { layer(in[0]); }) {
      return std::vector<Tensor>{layer(in[0])};
    } else {
      return std::vector<Tensor>{layer(in[0], in[1])};
    }
  });
}

}  // namespace dyad::nn::testing
