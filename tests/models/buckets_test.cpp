#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"
#include "tests/exec/buckets_for_tests.h"

// CompileOptions::buckets on layers and training steps.

namespace dyad {
namespace {

using exec::expect_close;
using exec::padding;
using ::testing::IsEmpty;

TEST(Buckets, ATrainingStep) {
  manual_seed(3);
  struct Net {
    nn::Linear first{6, 8}, second{8, 3};
    Tensor operator()(const Tensor& x) const { return second(relu(first(x))); }
    std::vector<Tensor> all() const {
      return {first.weight, first.bias, second.weight, second.bias};
    }
  };
  Net padded, eager;
  {
    const NoGrad copy;
    for (std::size_t i = 0; i < 4; ++i) eager.all()[i].copy_(padded.all()[i]);
  }
  optim::Adam by_compiled(padded.all(), {.lr = 0.01}), by_eager(eager.all(), {.lr = 0.01});
  const auto step = [](const Net& net, optim::Adam& optimizer, const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  };
  const auto c = compile([&](Tensor x, Tensor y) { return step(padded, by_compiled, x, y); },
                         padding({{0, 0}, {1, 0}}));
  for (const std::int64_t n : {5, 8, 11, 16, 3, 9, 2, 30}) {
    const Tensor x = normal({n, 6}), y = randint(0, 3, {n});
    expect_close(c(x, y), step(eager, by_eager, x, y), "loss of " + std::to_string(n));
  }
  for (std::size_t i = 0; i < 4; ++i)
    expect_close(padded.all()[i], eager.all()[i], "parameter " + std::to_string(i));
  EXPECT_THAT(c.explain().recordings[0].unpadded, IsEmpty());
  EXPECT_EQ(c.explain().recordings[0].plans, 3);
}

TEST(Buckets, NormsAndAttentionWithGradients) {
  nn::LayerNorm norm(8);
  const Tensor w = (normal({8, 24}) * 0.3f).requires_grad();
  for (const bool causal : {true, false}) {
    const auto fn = [&](Tensor x) {  // [2, n, 8]
      const Dim n = x.size(1);
      const Tensor parts = permute(reshape(matmul(norm(x), w), {2, n, 3, 2, 4}), {2, 0, 3, 1, 4});
      const Tensor y =
          scaled_dot_product_attention(parts[0], parts[1], parts[2], {.is_causal = causal});
      return reshape(transpose(y, 1, 2), {2, n, 8}) + x;
    };
    const auto step = [&](Tensor x) {
      w.set_grad(Tensor());
      norm.weight.set_grad(Tensor());
      sum(square(fn(x))).backward();
      return std::pair(w.grad(), norm.weight.grad());
    };
    const auto c = compile(step, padding({{0, 1}}));
    for (const std::int64_t n : {5, 7, 12, 16}) {
      const Tensor x = normal({2, n, 8});
      const auto got = c(x), want = step(x);
      expect_close(got.first, want.first, "product, " + std::to_string(n));
      expect_close(got.second, want.second, "norm, " + std::to_string(n));
    }
    EXPECT_THAT(c.explain().recordings[0].unpadded, IsEmpty());
  }
}

/// Gradients of a recurrent network and of an embedding in front of it, for texts [steps, samples].
template <class Network>
void expect_padded_network(const nn::RnnOptions& options, const std::vector<ArgumentAxis>& axes) {
  manual_seed(4);
  Network network(3, 5, options);
  const Tensor table = normal({11, 3}).requires_grad();
  std::vector<Tensor> leaves{table};
  for (const Tensor& parameter : nn::parameters(network)) leaves.push_back(parameter);
  const auto step = [&](Tensor text) {
    for (const Tensor& leaf : leaves) leaf.zero_grad();
    const nn::RnnResult made = network(embedding(text, table));
    const Tensor loss = sum(square(made.y)) + sum(exp(made.h));
    loss.backward();
    std::vector<Tensor> all{loss, made.y.detach(), made.h.detach()};
    for (const Tensor& leaf : leaves) all.push_back(leaf.grad());
    return all;
  };
  const auto c = compile(step, padding(axes));
  for (const auto& [steps, samples] :
       {std::pair(5, 6), std::pair(12, 7), std::pair(9, 15), std::pair(3, 3), std::pair(16, 8)}) {
    const Tensor text = randint(0, 11,
                                {axes.size() > 1 || axes[0].axis == 0 ? steps : 4,
                                 axes.size() > 1 || axes[0].axis == 1 ? samples : 2});
    const std::vector<Tensor> got = c(text), want = step(text);
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_close(got[i], want[i], "value " + std::to_string(i), 1e-4);
  }
  const Explanation told = c.explain();
  EXPECT_THAT(told.recordings[0].no_buckets, IsEmpty());
  EXPECT_THAT(told.recordings[0].unpadded, IsEmpty());
  EXPECT_EQ(told.recordings.size(), 1u);
}

TEST(Buckets, RecurrentNetworks) {
  const std::vector<ArgumentAxis> steps{{0, 0}}, samples{{0, 1}}, both{{0, 0}, {0, 1}};
  for (const auto& axes : {steps, samples, both}) {
    expect_padded_network<nn::LSTM>({}, axes);
    expect_padded_network<nn::GRU>({.layers = 2}, axes);
    expect_padded_network<nn::RNN>({.bias = false, .bidirectional = true}, axes);
    expect_padded_network<nn::LSTM>({.bidirectional = true}, axes);
  }
}

TEST(Buckets, RecurrentNetworksInF64WithStatesFromOutside) {
  manual_seed(6);
  const nn::LSTM network(3, 4, {.dtype = f64});
  const auto fn = [&](Tensor x, Tensor h, Tensor c) {
    const nn::RnnResult made = network(x, {.h = h, .c = c});
    return std::vector<Tensor>{made.y, made.h, made.c};
  };
  const auto fast = compile(fn, padding({{0, 0}, {0, 1}, {1, 1}, {2, 1}}));
  for (const auto& [steps, samples] : {std::pair(5, 6), std::pair(12, 7), std::pair(9, 15)}) {
    const Tensor x = normal({steps, samples, 3}, 0, 1, f64), h = normal({1, samples, 4}, 0, 1, f64),
                 c = normal({1, samples, 4}, 0, 1, f64);
    const std::vector<Tensor> got = fast(x, h, c), want = fn(x, h, c);
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_close(got[i], want[i], "value " + std::to_string(i), 1e-12);
  }
  EXPECT_THAT(fast.explain().recordings[0].unpadded, IsEmpty());
}

TEST(Buckets, RecurrentNetworksOfTextsWithLengths) {
  manual_seed(5);
  nn::LSTM network(3, 4, {.bidirectional = true});
  const auto step = [&](Tensor x, Tensor lengths) {
    for (const Tensor& leaf : nn::parameters(network)) leaf.zero_grad();
    const nn::RnnResult made = network(x, {.h = {}, .c = {}, .lengths = lengths});
    sum(square(made.y) + sum(made.c)).backward();
    std::vector<Tensor> all{made.y.detach(), made.h.detach(), made.c.detach()};
    for (const Tensor& leaf : nn::parameters(network)) all.push_back(leaf.grad());
    return all;
  };
  const auto c = compile(step, padding({{0, 0}, {0, 1}, {1, 0}}));
  for (const auto& [steps, samples] : {std::pair(5, 6), std::pair(12, 7), std::pair(9, 15)}) {
    const Tensor x = normal({steps, samples, 3}), lengths = randint(0, steps + 1, {samples});
    const std::vector<Tensor> got = c(x, lengths), want = step(x, lengths);
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_close(got[i], want[i], "value " + std::to_string(i), 1e-4);
  }
  EXPECT_THAT(c.explain().recordings[0].unpadded, IsEmpty());
}

TEST(Buckets, ImagesByBatch) {
  nn::Conv2d conv(2, 3, 3, {.padding = 1});
  nn::BatchNorm norm(3);
  const auto images = [](std::int64_t n) { return normal({n, 2, 6, 6}); };
  const auto net = [&](Tensor x) { return max_pool2d(relu(norm(conv(x))), 2); };
  const auto step = [&](Tensor x) {
    conv.weight.set_grad(Tensor());
    sum(square(net(x))).backward();
    return conv.weight.grad();
  };
  Tensor mean_before = norm.running_mean.clone();
  const auto c = compile(step, padding({{0, 0}}));
  for (const std::int64_t n : {5, 7, 12}) {
    const Tensor x = images(n);
    norm.running_mean.copy_(mean_before);
    const Tensor got = c(x);
    const Tensor running = norm.running_mean.clone();
    norm.running_mean.copy_(mean_before);
    expect_close(got, step(x), std::to_string(n), 1e-4);
    expect_close(running, norm.running_mean, "running mean");
  }
}

}  // namespace
}  // namespace dyad
