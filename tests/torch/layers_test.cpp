// Layers against what PyTorch computes (fixtures/layers.safetensors, made by make_fixtures.py).
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "dyad/io/safetensors.h"
#include "layer_check.h"

namespace dyad::nn {
namespace {

/// testing::check of this file's fixtures.
template <class... More>
void check_layer(More&&... more) {
  static const TensorDict tensors = io::load_safetensors("tests/torch/fixtures/layers.safetensors");
  testing::check(tensors, std::forward<More>(more)...);
}

TEST(TorchLayers, Linear) {
  check_layer("linear", Linear(5, 3));
  check_layer("linear_no_bias", Linear(5, 3, {.bias = false}));
}
TEST(TorchLayers, Conv2d) {
  check_layer("conv", Conv2d(2, 4, {3, 2}));
  check_layer("conv_grouped",
              Conv2d(4, 6, 3, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2}));
}
TEST(TorchLayers, BatchNorm) {
  check_layer("batch_norm", BatchNorm2d(3));
  const BatchNorm2d trained(3);
  eval(trained);
  check_layer("batch_norm_eval", trained);
}
TEST(TorchLayers, LayerNorm) { check_layer("layer_norm", LayerNorm({3, 4})); }
TEST(TorchLayers, Embedding) { check_layer("embedding", Embedding(7, 3)); }
TEST(TorchLayers, LSTMCell) {
  const LSTMCell cell(3, 4);
  check_layer("lstm_cell", cell, [&](const std::vector<Tensor>& in) {
    const auto [h, c] = cell(in[0], in[1], in[2]);
    return std::vector{h, c};
  });
}
TEST(TorchLayers, GRUCell) {
  const GRUCell cell(3, 4);
  check_layer("gru_cell", cell,
              [&](const std::vector<Tensor>& in) { return std::vector{cell(in[0], in[1])}; });
}
TEST(TorchLayers, RNNCell) {
  const RNNCell cell(3, 4), relu_cell(3, 4, {.bias = false, .activation = "relu"});
  check_layer("rnn_cell", cell,
              [&](const std::vector<Tensor>& in) { return std::vector{cell(in[0], in[1])}; });
  check_layer("rnn_cell_relu", relu_cell,
              [&](const std::vector<Tensor>& in) { return std::vector{relu_cell(in[0], in[1])}; });
}
TEST(TorchLayers, CellsBeginWithZeros) {
  check_layer("rnn_cell_zeros", RNNCell(3, 4));
  check_layer("gru_cell_zeros", GRUCell(3, 4));
  const LSTMCell cell(3, 4);
  check_layer("lstm_cell_zeros", cell, [&](const std::vector<Tensor>& in) {
    const auto [h, c] = cell(in[0]);
    return std::vector{h, c};
  });
}
TEST(TorchLayers, Activations) {
  check_layer("relu", ReLU());
  check_layer("tanh", Tanh());
  check_layer("sigmoid", Sigmoid());
  check_layer("gelu", GELU());
  check_layer("gelu_tanh", GELU{.tanh_form = true});
  check_layer("silu", SiLU());
  check_layer("softmax", Softmax());
  check_layer("log_softmax", LogSoftmax{.axis = 1});
  check_layer("flatten", Flatten());
}
TEST(TorchLayers, Pools) {
  check_layer("max_pool", MaxPool2d(3, 2, 1));
  check_layer("avg_pool", AvgPool2d(2));
}
TEST(TorchLayers, Sequential) {
  check_layer("sequential", nn::Sequential(Linear(4, 8), Tanh(), Linear(8, 2)));
}

}  // namespace
}  // namespace dyad::nn
