/// What the tape computes again, in functions that are recorded and beside compiled ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <tuple>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "dyad/ops/ops.h"
#include "exec_for_tests.h"

namespace dyad {
namespace {

constexpr std::size_t kAll = 0, kNone = std::numeric_limits<std::size_t>::max();

struct Model {
  Tensor w = sin(reshape(arange(256).to(DType::f32), {16, 16})).requires_grad();
  Tensor scale = cos(arange(16).to(DType::f32)).requires_grad();

  Tensor loss(const Tensor& x) const {
    const Tensor h = gelu(linear(layer_norm(linear(x, w), scale, scale), w));
    return sum(linear(reshape(permute(tanh(h), {1, 0}), {-1, 16}), w));
  }
  Tensor step(const Tensor& x) {
    w.zero_grad();
    scale.zero_grad();
    const Tensor l = loss(x);
    l.backward();
    const NoGrad apart;
    w.sub_(w.grad() * 0.01);
    scale.sub_(scale.grad() * 0.01);
    return l;
  }
};

std::vector<float> after_steps(std::size_t from, bool compiled) {
  const RematerializeFrom scope(from);
  Model model;
  const auto eager = [&](const Tensor& x) { return model.step(x); };
  const auto fast = compile(eager);
  std::vector<float> all;
  for (int i = 0; i < 4; ++i) {
    const std::int64_t rows = i < 2 ? 16 : 32;
    const Tensor x = sin(reshape(arange(16 * rows).to(DType::f32), {rows, 16}) * 0.3);
    const Tensor loss = compiled ? fast(x) : eager(x);
    for (const Tensor& t : {loss, model.w, model.scale}) {
      const std::vector<float> values = t.detach().to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

TEST(CompiledRematerialize, RecordedStepsHaveTheSameBits) {
  const std::vector<float> expected = after_steps(kNone, false);
  EXPECT_EQ(after_steps(kAll, false), expected);
  EXPECT_EQ(after_steps(kNone, true), expected);
  EXPECT_EQ(after_steps(kAll, true), expected);
}

TEST(CompiledRematerialize, TheRecordingDoesNotTell) {
  const auto recorded = [](std::size_t from) {
    const RematerializeFrom scope(from);
    Model model;
    const auto fast =
        compile([&](const Tensor& x) { return model.step(x); }, {.passes_off = {"cse"}});
    (void)fast(ones({16, 16}));
    (void)fast(ones({16, 16}));
    const ExplainedRecording recording = fast.explain().recordings.at(0);
    EXPECT_TRUE(recording.refusal.empty()) << recording.refusal;
    return std::tuple(recording.nodes, recording.kernels, recording.guards, recording.memory);
  };
  EXPECT_EQ(recorded(kAll), recorded(kNone));
}

TEST(CompiledRematerialize, ABackwardPassAfterTheCall) {
  const auto found = [](std::size_t from) {
    const RematerializeFrom scope(from);
    Model model;
    const auto fast = compile([&](const Tensor& x) { return model.loss(x); });
    std::vector<std::vector<float>> all;
    for (int i = 0; i < 3; ++i) {
      model.w.zero_grad();
      fast(ones({16, 16}) * (i + 1)).backward();
      all.push_back(model.w.grad().to_vector<float>());
    }
    return all;
  };
  EXPECT_EQ(found(kAll), found(kNone));
}

TEST(CompiledRematerialize, WhatACompiledFunctionWritesIsReadBefore) {
  const auto found = [](std::size_t from) {
    const RematerializeFrom scope(from);
    Model model;
    const auto shrink = compile([&](const Tensor& by) {
      const NoGrad apart;
      model.scale.mul_(by);
      return by;
    });
    std::vector<std::vector<float>> all;
    for (int i = 0; i < 3; ++i) {  // recorded, compiled, replayed
      const Tensor x = ones({16, 16}) * (i + 1);
      const Tensor y = layer_norm(linear(x, model.w), model.scale, model.scale);
      const Tensor loss = sum(linear(y, model.w * 2));
      (void)shrink(tensor(0.5f));
      const Tensor last = model.w * 2;
      all.push_back(loss.to_vector<float>());
      // By the second weight alone: what layer_norm read has changed.
      Tensor weight = (model.w.detach() * 2).requires_grad();
      const Tensor other =
          sum(linear(layer_norm(linear(x, model.w), model.scale, model.scale), weight));
      (void)shrink(tensor(0.5f));
      all.push_back(grad(other, {weight})[0].to_vector<float>());
    }
    return all;
  };
  EXPECT_EQ(found(kAll), found(kNone));
}

}  // namespace
}  // namespace dyad
