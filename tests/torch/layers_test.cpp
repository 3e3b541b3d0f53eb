// Layers against what PyTorch computes (fixtures/layers.safetensors, made by make_fixtures.py).
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "dyad/io/safetensors.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"

namespace dyad::nn {
namespace {

const TensorDict& fixtures() {
  static const TensorDict tensors = io::load_safetensors("tests/torch/fixtures/layers.safetensors");
  return tensors;
}

void expect_near(const Tensor& actual, const Tensor& expected, const std::string& what) {
  ASSERT_TRUE(actual.defined()) << what;
  ASSERT_EQ(type_string(actual), type_string(expected)) << what;
  const auto a = actual.to_vector<double>(), e = expected.to_vector<double>();
  double scale = 0;
  for (const double value : e) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], e[i], 2e-6 * scale + 1e-6 * std::abs(e[i])) << what << " element " << i;
  }
}

/// Loads the state, runs `call` on the inputs, and compares outputs, derivatives and the state
/// after.
template <class L, class Call>
void check(const std::string& name, const L& layer, Call&& call) {
  const TensorDict& all = fixtures();
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

template <class L>
void check(const std::string& name, const L& layer) {
  check(name, layer, [&](const std::vector<Tensor>& in) { return std::vector{layer(in[0])}; });
}

TEST(TorchLayers, Linear) {
  check("linear", Linear(5, 3));
  check("linear_no_bias", Linear(5, 3, {.bias = false}));
}
TEST(TorchLayers, Conv2d) {
  check("conv", Conv2d(2, 4, {3, 2}));
  check("conv_grouped", Conv2d(4, 6, 3, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2}));
}
TEST(TorchLayers, BatchNorm) {
  check("batch_norm", BatchNorm2d(3));
  const BatchNorm2d trained(3);
  eval(trained);
  check("batch_norm_eval", trained);
}
TEST(TorchLayers, LayerNorm) { check("layer_norm", LayerNorm({3, 4})); }
TEST(TorchLayers, Embedding) { check("embedding", Embedding(7, 3)); }
TEST(TorchLayers, LSTMCell) {
  const LSTMCell cell(3, 4);
  check("lstm_cell", cell, [&](const std::vector<Tensor>& in) {
    const auto [h, c] = cell(in[0], in[1], in[2]);
    return std::vector{h, c};
  });
}
TEST(TorchLayers, GRUCell) {
  const GRUCell cell(3, 4);
  check("gru_cell", cell,
        [&](const std::vector<Tensor>& in) { return std::vector{cell(in[0], in[1])}; });
}
TEST(TorchLayers, Activations) {
  check("relu", ReLU());
  check("tanh", Tanh());
  check("sigmoid", Sigmoid());
  check("gelu", GELU());
  check("gelu_tanh", GELU{.tanh_form = true});
  check("silu", SiLU());
  check("softmax", Softmax());
  check("log_softmax", LogSoftmax{.axis = 1});
  check("flatten", Flatten());
}
TEST(TorchLayers, Pools) {
  check("max_pool", MaxPool2d(3, 2, 1));
  check("avg_pool", AvgPool2d(2));
}
TEST(TorchLayers, Sequential) {
  check("sequential", nn::Sequential(Linear(4, 8), Tanh(), Linear(8, 2)));
}

}  // namespace
}  // namespace dyad::nn
