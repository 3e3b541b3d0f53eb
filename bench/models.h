#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "dyad/exec/control_flow.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"

// The models of the training benchmarks; bench/peers/models.py has the same ones.

namespace dyad::bench {

/// 784-512-512-10 with ReLU.
struct Mlp {
  nn::Linear l1{784, 512}, l2{512, 512}, l3{512, 10};
  Tensor operator()(const Tensor& x) const { return l3(relu(l2(relu(l1(x))))); }
};

/// The CNN that `dyad demo` trains, on 28x28 images.
struct DemoCnn {
  nn::Conv2d conv1{1, 16, 3, {.padding = 1}}, conv2{16, 32, 3, {.padding = 1}};
  nn::Linear fc1{6272, 64}, fc2{64, 10};
  Tensor operator()(const Tensor& x) const {
    Tensor h = max_pool2d(relu(conv2(relu(conv1(x)))), 2);
    return fc2(relu(fc1(flatten(h, 1))));
  }
};

/// The CNN of PyTorch's MNIST example without dropout.
struct ExampleCnn {
  nn::Conv2d conv1{1, 32, 3}, conv2{32, 64, 3};
  nn::Linear fc1{9216, 128}, fc2{128, 10};
  Tensor operator()(const Tensor& x) const {
    Tensor h = max_pool2d(relu(conv2(relu(conv1(x)))), 2);
    return fc2(relu(fc1(flatten(h, 1))));
  }
};

/// A convolution without a bias, and the normalisation of its channels.
struct ConvNorm {
  nn::Conv2d conv;
  nn::BatchNorm norm;
  ConvNorm(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride)
      : conv(in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false}),
        norm(out) {}
  Tensor operator()(const Tensor& x) const { return norm(conv(x)); }
  void visit(nn::Visitor& v) {
    v("conv", conv);
    v("norm", norm);
  }
};

/// Two convolutions and what goes around them (He et al., 2015).
struct ResidualBlock {
  ConvNorm first, second;
  std::optional<ConvNorm> around;
  ResidualBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : first(in, out, 3, stride), second(out, out, 3, 1) {
    if (in != out) around.emplace(in, out, 1, stride);
  }
  Tensor operator()(const Tensor& x) const {
    return relu(second(relu(first(x))) + (around ? (*around)(x) : x));
  }
  void visit(nn::Visitor& v) {
    v("first", first);
    v("second", second);
    v("around", around);
  }
};

/// ResNet-18 for 32x32 images: a 3x3 stem without pooling.
struct ResNet18 {
  ConvNorm stem{3, 64, 3, 1};
  std::vector<ResidualBlock> blocks{{64, 64, 1},   {64, 64, 1},   {64, 128, 2},  {128, 128, 1},
                                    {128, 256, 2}, {256, 256, 1}, {256, 512, 2}, {512, 512, 1}};
  nn::Linear head{512, 10};
  Tensor operator()(const Tensor& x) const {
    Tensor h = relu(stem(x));
    for (const ResidualBlock& block : blocks) h = block(h);
    return head(mean(h, {2, 3}));
  }
};

/// Characters that the language models know.
constexpr std::int64_t kCharacters = 65;

/// Causal attention and two linear layers, each behind a normalisation and with a residual.
struct GptLayer {
  static constexpr std::int64_t kWidth = 256, kHeads = 4;
  nn::LayerNorm norm1{kWidth}, norm2{kWidth};
  nn::Linear qkv{kWidth, 3 * kWidth}, proj{kWidth, kWidth};
  nn::Linear up{kWidth, 4 * kWidth}, down{4 * kWidth, kWidth};

  Tensor attend(const Tensor& x) const {
    const Dim n = x.size(0), t = x.size(1);
    const Tensor parts =
        permute(reshape(qkv(x), {n, t, 3, kHeads, kWidth / kHeads}), {2, 0, 3, 1, 4});
    const Tensor y =
        scaled_dot_product_attention(parts[0], parts[1], parts[2], {.is_causal = true});
    return proj(reshape(transpose(y, 1, 2), {n, t, kWidth}));
  }
  Tensor operator()(const Tensor& given) const {
    const Tensor x = given + attend(norm1(given));
    return x + down(gelu(up(norm2(x)), true));
  }
};

/// A language model of 4 layers, 256 wide, over 128 characters.
struct Gpt {
  nn::Embedding tokens{kCharacters, GptLayer::kWidth}, places{128, GptLayer::kWidth};
  std::vector<GptLayer> layers = std::vector<GptLayer>(4);
  nn::LayerNorm norm{GptLayer::kWidth};
  nn::Linear head{GptLayer::kWidth, kCharacters};
  Tensor operator()(const Tensor& given) const {
    Tensor x = tokens(given) + slice(places.weight, 0, 0, given.size(1));
    for (const GptLayer& layer : layers) x = layer(x);
    return reshape(head(norm(x)), {-1, kCharacters});
  }
};

/// A language model of one LSTM of 256 cells.
struct LstmModel {
  nn::Embedding embedding{kCharacters, 128};
  nn::LSTM lstm{128, 256, {.batch_first = true}};
  nn::Linear head{256, kCharacters};
  Tensor operator()(const Tensor& given) const {
    return reshape(head(lstm(embedding(given)).y), {-1, kCharacters});
  }
};

/// The same with its cell written out, step after step.
struct LstmCellModel {
  nn::Embedding embedding{kCharacters, 128};
  nn::Linear input{128, 1024}, hidden{256, 1024};
  nn::Linear head{256, kCharacters};
  Tensor operator()(const Tensor& given) const {
    const auto cell = [&](const std::pair<Tensor, Tensor>& state, const Tensor& x) {
      const std::vector<Tensor> gates = chunk(input(x) + hidden(state.first), 4, 1);
      const Tensor c = sigmoid(gates[1]) * state.second + sigmoid(gates[0]) * tanh(gates[2]);
      const Tensor h = sigmoid(gates[3]) * tanh(c);
      return std::pair(std::pair(h, c), h);
    };
    const Tensor none = zeros({given.size(0), 256});
    const Tensor y = scan(cell, std::pair(none, none), transpose(embedding(given), 0, 1)).second;
    return reshape(head(transpose(y, 0, 1)), {-1, kCharacters});
  }
};

}  // namespace dyad::bench
