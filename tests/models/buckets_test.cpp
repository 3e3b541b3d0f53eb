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
