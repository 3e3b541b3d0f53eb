#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/ops/ops.h"
#include "exec_for_tests.h"

// CompileOptions::memory_limit: less memory, the same bits.

namespace dyad {
namespace {

using exec::bits;
using ::testing::HasSubstr;

TEST(MemoryLimit, PointwiseValuesAreComputedAgain) {
  // Of each layer the product and its tanh are kept for the gradient; the latter follows from the
  // former.
  Tensor w = full({64, 64}, 0.01f).requires_grad();
  const auto fn = [&](Tensor x) {
    w.set_grad(Tensor());
    for (int layer = 0; layer < 6; ++layer) x = tanh(matmul(x, w));
    const Tensor loss = sum(x * x);
    loss.backward();
    return w.grad();
  };
  const auto free = compile(fn, {.recheck = false});
  const auto tight = compile(fn, {.recheck = false, .memory_limit = 1});
  const Tensor x = normal({512, 64});
  const std::vector<float> expected = bits(fn(x));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(bits(free(x)), expected);
    EXPECT_EQ(bits(tight(x)), expected);
  }
  const std::int64_t most = free.explain().recordings[0].memory;
  EXPECT_GT(most, 10 * 512 * 64 * 4);
  EXPECT_LT(tight.explain().recordings[0].memory, most * 3 / 4);
  EXPECT_THAT(to_string(tight.explain()), HasSubstr(" MB for intermediate values"));
}

TEST(MemoryLimit, OfASession) {
  Graph graph;
  const Tensor w = full({64, 64}, 0.01f);
  const Tensor made = graph.define([&] {
    Tensor x = placeholder("x", f32, {"n", 64});
    const Tensor weight = variable("w", w);
    for (int layer = 0; layer < 6; ++layer) x = tanh(matmul(x, weight));
    return grad(sum(x * x), {weight})[0];
  });
  Session free(graph), tight(graph, {.memory_limit = 1});
  const Tensor x = normal({512, 64});
  EXPECT_EQ(bits(tight.run({made}, {{"x", x}})[0]), bits(free.run({made}, {{"x", x}})[0]));
  const std::int64_t most = free.explain().recordings[0].memory;
  EXPECT_GT(most, 10 * 512 * 64 * 4);
  EXPECT_LT(tight.explain().recordings[0].memory, most * 3 / 4);
}

TEST(MemoryLimit, AGradientsKernelMakesTheValueToo) {
  // The gelu is needed for the gradient of `down`, just before its own gradient is computed from
  // what it was computed from.
  Tensor up = (normal({64, 256}) * 0.05f).requires_grad();
  Tensor down = (normal({256, 64}) * 0.05f).requires_grad();
  const auto fn = [&](Tensor x) {
    up.set_grad(Tensor());
    down.set_grad(Tensor());
    for (int layer = 0; layer < 3; ++layer) x = x + matmul(gelu(matmul(x, up)), down);
    sum(x * x).backward();
    return stack({up.grad(), transpose(down.grad(), 0, 1)});
  };
  const auto tight = compile(fn, {.recheck = false, .memory_limit = 1});
  const Tensor x = normal({512, 64});
  const std::vector<float> expected = bits(fn(x));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bits(tight(x)), expected);
  int together = 0;
  const Explanation told = tight.explain();
  for (const ExplainedKernel& kernel : told.recordings[0].table) {
    const auto has = [&](const char* op) {
      return std::ranges::find(kernel.parts, op, &ExplainedKernel::Part::op) != kernel.parts.end();
    };
    if (has("gelu") && has("gelu_backward")) ++together;
  }
  EXPECT_GE(together, 2);
}

/// The memory of the recording, after a few calls that must give `expected`.
template <class F>
std::int64_t memory(F fn, const Tensor& x, std::int64_t limit, const std::vector<float>& expected) {
  const auto c = compile(fn, {.recheck = false, .memory_limit = limit});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bits(c(x)), expected) << "limit " << limit;
  return c.explain().recordings[0].memory;
}

TEST(MemoryLimit, ResidualChainsKeepWhatPassesBetweenSegments) {
  // Every layer's input and product are kept for the gradient, and each of them is made from the
  // layer before: all but a few are computed again, a segment at a time.
  Tensor w = (normal({64, 64}) * 0.05f).requires_grad();
  const auto fn = [&](Tensor x) {
    w.set_grad(Tensor());
    for (int layer = 0; layer < 32; ++layer) x = x + gelu(matmul(x, w));
    const Tensor loss = sum(x * x);
    loss.backward();
    return w.grad();
  };
  const Tensor x = normal({512, 64});
  const std::vector<float> expected = bits(fn(x));
  constexpr std::int64_t kLayer = 512 * 64 * 4;
  const std::int64_t most = memory(fn, x, 0, expected), half = memory(fn, x, most / 2, expected);
  EXPECT_GT(most, 60 * kLayer);
  EXPECT_LE(half, most / 2);
  EXPECT_GT(half, most / 4);  // no more is computed again than the limit asks for
  EXPECT_LT(memory(fn, x, 1, expected), 24 * kLayer);
}

TEST(MemoryLimit, WritesAndRandomNumbersHappenOnce) {
  Tensor w = (normal({64, 64}) * 0.05f).requires_grad(), running = zeros({64});
  const auto fn = [&](Tensor x) {
    w.set_grad(Tensor());
    for (int layer = 0; layer < 12; ++layer) {
      {
        const NoGrad statistics;
        running.copy_(running * 0.9f + mean(x, {0}) * 0.1f);
      }
      x = x + dropout(layer_norm(matmul(x, w), ones({64}), zeros({64})), 0.3);
    }
    const Tensor loss = sum(x * x);
    loss.backward();
    return w.grad();
  };
  const Tensor x = normal({256, 64});
  std::vector<std::vector<float>> expected;
  manual_seed(5);
  for (int i = 0; i < 4; ++i) {
    expected.push_back(bits(fn(x)));
    expected.push_back(bits(running));
  }
  running.zero_();
  const auto c = compile(fn, {.recheck = false, .memory_limit = 1});
  manual_seed(5);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(bits(c(x)), expected[2 * i]) << i;
    EXPECT_EQ(bits(running), expected[2 * i + 1]) << i;
  }
  EXPECT_EQ(c.explain().replays, 3);
}

}  // namespace
}  // namespace dyad
