#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "checker.h"
#include "dyad/base/error.h"
#include "dyad/onnx/conformance.h"
#include "dyad/onnx/network.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

// The operators that ONNX Runtime writes in the place of several: Dyad gives what ONNX Runtime
// gives (make_fused_models.py writes both), and gradients flow through them.

namespace dyad::testing {
namespace {

TEST(OnnxFused, OperatorsGiveWhatTheirRuntimeGives) {
  const auto cases = onnx::find_cases("tests/onnx/data/fused");
  EXPECT_GE(cases.size(), 83u);
  for (const std::string& path : cases) {
    const onnx::CaseResult result = onnx::run_case(path);
    EXPECT_EQ(result.outcome, onnx::CaseResult::Outcome::passed)
        << result.name << ": " << result.reason;
  }
}

/// The gradient by the first input along a random direction, beside the difference of two results.
void expect_gradient(const std::string& name, std::vector<Tensor> inputs) {
  const onnx::Network network(onnx::load("tests/onnx/data/fused/" + name + "/model.onnx"));
  const Tensor x = inputs[0], along = random_tensor(f32, x.shape(), -1, 1, 8);
  const auto loss = [&](const Tensor& at) {
    inputs[0] = at;
    const Tensor y = network.run(inputs)[0];
    return sum(y * random_tensor(f32, y.shape(), -1, 1, 9));
  };
  Tensor leaf = x.clone();
  leaf.requires_grad();
  loss(leaf).backward();
  ASSERT_TRUE(leaf.grad().defined()) << name;
  const double step = 1e-2;
  const double want =
      (loss(x + along * step) - loss(x - along * step)).detach().item() / (2 * step);
  EXPECT_NEAR(sum(leaf.grad() * along).item(), want, 1e-2 * (1 + std::abs(want))) << name;
}

TEST(OnnxFused, GradientsFlow) {
  const Tensor x = random_tensor(f32, {2, 5, 7}, -1, 1, 1);
  expect_gradient("skip_layer_norm", {x, random_tensor(f32, {2, 5, 7}, -1, 1, 2)});
  expect_gradient("simplified_layer_norm_axis", {x});
  expect_gradient("bias_gelu", {random_tensor(f32, {2, 5, 6}, -1, 1, 3)});
  const Tensor tokens = random_tensor(f32, {2, 5, 8}, -1, 1, 4);
  expect_gradient("attention_keys", {tokens, ones({2, 5}, i32)});
  expect_gradient("rotary_offset", {tokens, full({1}, 2, i64)});
  expect_gradient("group_query_rotary", {random_tensor(f32, {2, 5, 64}, -1, 1, 5),
                                         random_tensor(f32, {2, 5, 32}, -1, 1, 6),
                                         random_tensor(f32, {2, 5, 32}, -1, 1, 7)});
}

TEST(OnnxFused, WhatIsNotSupportedIsListed) {
  EXPECT_EQ(
      bare_message_of<OnnxError>([] { (void)onnx::load("tests/onnx/refused/fused/model.onnx"); }),
      "'model.onnx': 6 nodes cannot be run:\n"
      "  com.microsoft.Attention 1, \"turns\": it sets do_rotary\n"
      "  com.microsoft.MultiHeadAttention 1, \"no_heads\": num_heads must be 1 or more, but is "
      "0\n"
      "  com.microsoft.GroupQueryAttention 1, \"smooth\": it sets smooth_softmax\n"
      "  com.microsoft.RotaryEmbedding 1, \"scaled\": its scale is not 1\n"
      "  com.microsoft.SkipSimplifiedLayerNormalization 1, \"mean\": its second result, the "
      "mean, is not computed\n"
      "  com.microsoft.FusedGemm 1, \"sine\": its activation is 'Sin'");
}

}  // namespace
}  // namespace dyad::testing
