#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/allocation_limit.h"
#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::message_of;
using ::testing::HasSubstr;

constexpr std::size_t kAll = 0, kNone = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kMega = 1 << 20;

/// Numbers between -2 and 2 that differ.
Tensor numbers(std::initializer_list<std::int64_t> shape, double step = 0.37) {
  const Tensor count = arange(Shape(shape).numel()).to(DType::f32);
  return reshape(sin(count * step) * 2, Shape(shape));
}

std::vector<std::vector<float>> bits_of(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<float>> all;
  for (const Tensor& t : tensors)
    all.push_back(t.defined() ? t.to(DType::f32).to_vector<float>() : std::vector<float>());
  return all;
}

using Network = std::function<Tensor(std::span<const Tensor> leaves)>;

/// The loss and its gradients by all leaves.
std::vector<std::vector<float>> loss_and_gradients(const Network& network,
                                                   std::vector<Tensor> leaves, std::size_t from) {
  const RematerializeFrom scope(from);
  for (Tensor& leaf : leaves) leaf = leaf.detach().clone().requires_grad();
  const Tensor loss = sum(network(leaves));
  std::vector<Tensor> found = grad(loss, leaves, {.allow_unused = true});
  found.push_back(loss);
  return bits_of(found);
}

/// Bytes that the tape of the network holds between its forward and its backward part.
std::size_t held(const Network& network, std::vector<Tensor> leaves, std::size_t from) {
  const RematerializeFrom scope(from);
  for (Tensor& leaf : leaves) leaf = leaf.detach().clone().requires_grad();
  const std::size_t before = memory_stats().in_use;
  const Tensor loss = sum(network(leaves));
  return memory_stats().in_use - before;
}

TEST(Rematerialize, WhatCheapOperatorsGiveIsComputedAgainToTheSameBits) {
  const Tensor x = numbers({64, 128}), w = numbers({128, 128}, 0.11), b = numbers({128}, 0.7);
  const std::vector<std::pair<const char*, Network>> networks{
      {"gelu", [](auto l) { return linear(gelu(linear(l[0], l[1])), l[1], l[2]); }},
      {"layer_norm", [](auto l) { return linear(layer_norm(l[0] * l[0], l[2], l[2]), l[1]); }},
      {"rms_norm", [](auto l) { return matmul(rms_norm(l[0] * l[0], l[2]), l[1]); }},
      {"cast",
       [](auto l) {
         const Tensor h = layer_norm(l[0] * l[0], l[2], l[2]).to(DType::bf16);
         return linear(h, l[1].to(DType::bf16)).to(DType::f32);
       }},
      {"gated",
       [](auto l) {
         const Tensor gate = matmul(l[0], l[1]), up = matmul(l[0], transpose(l[1], 0, 1));
         return matmul(silu(gate) * up, l[1]);
       }},
      {"a copy of a view",
       [](auto l) {
         const Tensor h = reshape(linear(l[0], l[1]), {64, 2, 64});
         return matmul(reshape(permute(tanh(h), {1, 0, 2}), {64, 128}), l[1]);
       }},
      {"read by many",
       [](auto l) {
         const Tensor h = layer_norm(l[0] * l[0], l[2], l[2]);
         return matmul(h, l[1]) * matmul(h, l[1] * 2) + h * h;
       }},
      {"one on the other",
       [](auto l) {
         const Tensor h = layer_norm(matmul(l[0], l[1]), l[2], l[2]);
         return matmul(gelu(h), l[1]) + matmul(relu(h), l[1]);
       }},
  };
  for (const auto& [name, network] : networks) {
    EXPECT_EQ(loss_and_gradients(network, {x, w, b}, kAll),
              loss_and_gradients(network, {x, w, b}, kNone))
        << name;
  }
}

TEST(Rematerialize, TakesTheMemoryThatCannotBeMadeAgainOnly) {
  const Tensor x = numbers({1024, 256}), w = numbers({256, 256}, 0.11), b = numbers({256}, 0.7);
  const Network network = [](auto l) {
    const Tensor h = linear(layer_norm(linear(l[0], l[1]), l[2], l[2]), l[1]);
    return linear(gelu(h), l[1]);
  };
  // Kept: what layer_norm and gelu read; not what they give.
  EXPECT_NEAR(static_cast<double>(held(network, {x, w, b}, kNone)), 4.0 * kMega, 0.2 * kMega);
  EXPECT_NEAR(static_cast<double>(held(network, {x, w, b}, kAll)), 2.0 * kMega, 0.2 * kMega);
}

TEST(Rematerialize, IsForValuesFromOneMegabyteOn) {
  const Network network = [](auto l) { return matmul(gelu(matmul(l[0], l[1])), l[1]); };
  const auto bytes = [&](std::int64_t rows) {
    std::vector<Tensor> leaves{numbers({rows, 256}).requires_grad(),
                               numbers({256, 256}, 0.11).requires_grad()};
    const std::size_t before = memory_stats().in_use;
    const Tensor loss = sum(network(leaves));
    return static_cast<double>(memory_stats().in_use - before) / (1024.0 * rows);
  };
  EXPECT_NEAR(bytes(1023), 2, 0.3);
  EXPECT_NEAR(bytes(1024), 1, 0.3);
}

TEST(Rematerialize, WhatSharesMemoryThatIsKeptAnywayStays) {
  // softmax keeps its result, of which the product reads a view.
  const Network network = [](auto l) { return matmul(transpose(softmax(l[0], 1), 0, 1), l[1]); };
  const Tensor x = numbers({64, 64}), w = numbers({64, 64}, 0.1);
  EXPECT_EQ(loss_and_gradients(network, {x, w}, kAll), loss_and_gradients(network, {x, w}, kNone));
  EXPECT_EQ(held(network, {x, w}, kAll), held(network, {x, w}, kNone));
}

// --- writes

struct Layer {
  Tensor x = numbers({8, 16}).requires_grad(), w = numbers({16, 16}, 0.11).requires_grad(),
         scale = numbers({16}, 0.7).requires_grad();
  Tensor h, y, z;
  Layer() {
    h = x * 2;
    y = layer_norm(h, scale, scale);
    z = sum(matmul(y, w));
  }
};

std::vector<std::vector<float>> weight_gradient(const Layer& layer) {
  return bits_of(grad(layer.z, {layer.w}, {.retain_graph = true}));
}

TEST(Rematerialize, AWriteToWhatAValueIsComputedFromComesAfterIt) {
  std::vector<std::vector<float>> expected;
  {
    const RematerializeFrom keeps(kNone);
    expected = weight_gradient(Layer());
  }
  const RematerializeFrom scope(kAll);
  const std::vector<std::pair<const char*, std::function<void(Layer&)>>> writes{
      {"fill", [](Layer& layer) { layer.scale.fill_(3); }},
      {"in place", [](Layer& layer) { layer.h += 1; }},
      {"a view", [](Layer& layer) { layer.h.select(0, 2).fill_(0); }},
      {"an alias", [](Layer& layer) { layer.h.detach().mul_(5); }},
      {"copy", [](Layer& layer) { layer.scale.copy_(zeros({16})); }},
  };
  for (const auto& [name, write] : writes) {
    Layer layer;
    {
      const NoGrad no_grad;
      write(layer);
    }
    EXPECT_EQ(weight_gradient(layer), expected) << name;
    EXPECT_THAT(message_of<GradError>([&] { (void)grad(layer.z, {layer.x}); }),
                HasSubstr("was overwritten in place after it was saved"))
        << name;
  }
}

TEST(Rematerialize, AWriteToTheValueIsTheErrorThatItIsWhereItIsKept) {
  const auto error = [](std::size_t from) {
    const RematerializeFrom scope(from);
    Layer layer;
    {
      const NoGrad no_grad;
      layer.y += 1;
    }
    return message_of<GradError>([&] { (void)weight_gradient(layer); });
  };
  EXPECT_EQ(error(kAll), error(kNone));
  EXPECT_THAT(error(kAll), HasSubstr("backward of matmul: input 0 (f32[8, 16]) was overwritten in "
                                     "place after it was saved; call backward() before"));
}

TEST(Rematerialize, AWriteToTheValueBeforeItIsReadCounts) {
  const auto found = [](std::size_t from) {
    const RematerializeFrom scope(from);
    Layer layer;
    Tensor y = layer_norm(layer.h, layer.scale, layer.scale);
    {
      const NoGrad no_grad;
      y.mul_(3);
    }
    return bits_of(grad(sum(matmul(y, layer.w)), {layer.w}));
  };
  EXPECT_EQ(found(kAll), found(kNone));
}

TEST(Rematerialize, ATensorThatTookAValueIsNotThatValueForEver) {
  const auto found = [](std::size_t from) {
    const RematerializeFrom scope(from);
    Tensor x = numbers({4, 8}).requires_grad(), w = numbers({4, 4}, 0.11).requires_grad();
    Tensor y = zeros({8, 4});
    {
      const NoGrad no_grad;
      x += 1;
      x += 1;
    }
    y.copy_(transpose(x, 0, 1));  // y has the place of that view on the tape now
    {
      const NoGrad no_grad;
      y.mul_(3);  // and as many writes as x had
    }
    return bits_of(grad(sum(matmul(y, w)) + sum(matmul(gelu(y), w)), {w}));
  };
  EXPECT_EQ(found(kAll), found(kNone));
}

TEST(Rematerialize, AWriteThatIsRefusedCountsAsNone) {
  const RematerializeFrom scope(kAll);
  Layer layer;
  EXPECT_THROW(layer.y.copy_(zeros({3})), Error);
  EXPECT_NO_THROW((void)weight_gradient(layer));
}

// --- passes

TEST(Rematerialize, PassesThatKeepTheTapeRepeatIt) {
  const RematerializeFrom scope(kAll);
  Layer layer;
  layer.z.backward({}, true);
  const auto once = bits_of({layer.w.grad(), layer.x.grad()});
  layer.w.zero_grad();
  layer.x.zero_grad();
  layer.z.backward();
  EXPECT_EQ(bits_of({layer.w.grad(), layer.x.grad()}), once);
  EXPECT_THAT(message_of<GradError>([&] { layer.z.backward(); }), HasSubstr("a second time"));
}

TEST(Rematerialize, WhatAnotherPassReleasesIsComputedBefore) {
  const auto found = [](std::size_t from) {
    const RematerializeFrom scope(from);
    Layer layer;
    const Tensor other = sum(layer.y * layer.y);
    other.backward();  // releases layer_norm and what it read
    return weight_gradient(layer);
  };
  EXPECT_EQ(found(kAll), found(kNone));
}

TEST(Rematerialize, WhatAnotherPassReleasesOnTheWayIsComputedBefore) {
  // tanh(h), whose copy the product reads, and exp, which keeps its result, have h in common.
  const auto found = [](std::size_t from) {
    const RematerializeFrom scope(from);
    Tensor x = numbers({8, 16}).requires_grad(), w = numbers({8, 8}, 0.11).requires_grad();
    const Tensor h = exp(x);
    const Tensor z = sum(matmul(reshape(transpose(h, 0, 1), {16, 8}), w));
    sum(h * 2).backward();  // releases exp's result
    return bits_of(grad(z, {w}));
  };
  EXPECT_EQ(found(kAll), found(kNone));
}

TEST(Rematerialize, SecondDerivatives) {
  const auto found = [](std::size_t from) {
    const RematerializeFrom scope(from);
    Tensor x = numbers({4, 8}).requires_grad(), w = numbers({8, 8}, 0.11).requires_grad();
    const Tensor h = gelu(matmul(x, w));
    const Tensor z = sum(matmul(h, w) * h);
    const std::vector<Tensor> first = grad(z, {x, w}, {.create_graph = true});
    return bits_of(grad(sum(first[0] * first[0]) + sum(first[1] * first[1]), {x, w}));
  };
  EXPECT_EQ(found(kAll), found(kNone));
}

TEST(Rematerialize, ThreadsMayShareATape) {
  const RematerializeFrom scope(kAll);
  Layer layer;
  const Tensor again = sum(matmul(layer.y, layer.w * 2));
  const auto expected = bits_of(grad(layer.z, {layer.w, layer.x}, {.retain_graph = true}));
  std::vector<std::vector<std::vector<float>>> found(4);
  std::vector<std::thread> threads;
  for (auto& mine : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i)
        mine = bits_of(grad(layer.z, {layer.w, layer.x}, {.retain_graph = true}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : found) EXPECT_EQ(mine, expected);
}

TEST(Rematerialize, WithoutMemoryThereIsAnErrorAndNothingIsLost) {
  const RematerializeFrom scope(kAll);
  Tensor x = numbers({1024, 256}).requires_grad(), w = numbers({256, 256}, 0.11).requires_grad();
  Tensor h = matmul(x, w);
  const Tensor z = sum(matmul(gelu(h), w));
  {
    const AllocationLimit none(0);
    const NoGrad no_grad;
    EXPECT_THROW(h += 1, MemoryError);  // would have to keep what gelu gave
  }
  {
    const AllocationLimit none(0);
    EXPECT_THROW((void)grad(z, {w}, {.retain_graph = true}), MemoryError);
  }
  EXPECT_NO_THROW((void)grad(z, {w}));
}

TEST(Rematerialize, ALeftOutValueThatNobodyReadsCostsNothing) {
  const RematerializeFrom scope(kAll);
  Layer layer;
  {
    const Tensor unused = sum(matmul(layer.y, layer.w));
  }
  layer.y = Tensor();
  EXPECT_NO_THROW((void)grad(layer.z, {layer.x, layer.w, layer.scale}));
  const NoGrad no_grad;
  layer.scale.fill_(1);  // no value is waiting for it any more
}

}  // namespace
}  // namespace dyad
