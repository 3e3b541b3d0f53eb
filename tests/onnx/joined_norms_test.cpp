// Models whose normalisations are written out, as exporters of old opsets write them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "checker.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/onnx/load.h"
#include "dyad/ops/ops.h"
#include "dyad/passes/lower.h"
#include "model_bytes.h"

namespace dyad::testing {
namespace {

using namespace bytes;

constexpr std::int64_t kRow = 512;  // long enough for each of them to be one call

std::vector<float> again_and_again(const std::vector<float>& values) {
  std::vector<float> all;
  while (all.size() < kRow) all.insert(all.end(), values.begin(), values.end());
  return all;
}

/// A model of x, [n, 3, kRow], with numbers, a weight and a bias for its nodes.
std::string of_x(const Names& nodes) {
  Names all{node("Constant", {}, {"two"}, {of_tensor("value", floats("", {}, {2}))}),
            node("Constant", {}, {"eps"}, {of_tensor("value", floats("", {}, {1e-5F}))})};
  all.insert(all.end(), nodes.begin(), nodes.end());
  return model({.nodes = all,
                .inputs = {value("x", kFloat, {-1, 3, kRow})},
                .outputs = {value("y", kFloat, {-1, 3, kRow})},
                .tensors = {tensor_proto("last", {-1}),
                            floats("weight", {kRow}, again_and_again({0.5, 1, -2, 3})),
                            floats("bias", {kRow}, again_and_again({1, 0, -1, 0.25}))}});
}

/// That a model runs as `op` and `others` more operators, and gives what its operators give one by
/// one.
void expect_call(const Names& nodes, std::string_view op, int others) {
  SCOPED_TRACE(op);
  const std::string bytes = of_x(nodes);
  for (const bool trainable : {true, false}) {
    const onnx::Model joined = onnx::parse(bytes, {.trainable = trainable});
    const onnx::Model apart = onnx::parse(bytes, {.trainable = trainable, .fast_math = false});
    const Ref<GraphImpl> lowered = passes::lower(*joined.graph().impl(), {.fast_math = true});
    int calls = 0, computed = 0;
    for (const auto& node : lowered->nodes()) {
      calls += node->is(op) ? 1 : 0;
      computed += node->op().kind == BodyKind::structural ? 0 : 1;
    }
    EXPECT_EQ(calls, 1) << to_string(*lowered);
    EXPECT_EQ(computed, 1 + others) << to_string(*lowered);
    for (const std::int64_t n : {2, 5, 1, 0}) {
      const Tensor x = random_tensor(f32, {n, 3, kRow}, -3, 5, 1);
      const Tensor given = joined.run({{"x", x}})[0], want = apart.run({{"x", x}})[0];
      ASSERT_EQ(type_string(given), type_string(want));
      if (n > 0) {
        EXPECT_LT(max(abs(given - want)).item<float>(), 1e-5F);
      }
    }
  }
}

TEST(OnnxJoinedNorms, LayerNormalizationOfNineNodes) {
  expect_call(
      {node("ReduceMean", {"x", "last"}, {"mean"}), node("Sub", {"x", "mean"}, {"d"}),
       node("Pow", {"d", "two"}, {"q"}), node("ReduceMean", {"q", "last"}, {"v"}),
       node("Add", {"v", "eps"}, {"a"}), node("Sqrt", {"a"}, {"r"}), node("Div", {"d", "r"}, {"z"}),
       node("Mul", {"z", "weight"}, {"s"}), node("Add", {"s", "bias"}, {"y"})},
      "layer_norm", 0);
}

TEST(OnnxJoinedNorms, LayerNormalizationAsAFactorAndASum) {
  expect_call({node("ReduceMean", {"x", "last"}, {"mean"}), node("Sub", {"x", "mean"}, {"d"}),
               node("Mul", {"d", "d"}, {"q"}), node("ReduceMean", {"q", "last"}, {"v"}),
               node("Add", {"v", "eps"}, {"a"}), node("Sqrt", {"a"}, {"r"}),
               node("Reciprocal", {"r"}, {"i"}), node("Mul", {"i", "weight"}, {"f"}),
               node("Mul", {"x", "f"}, {"s"}), node("Mul", {"mean", "f"}, {"c"}),
               node("Sub", {"bias", "c"}, {"o"}), node("Add", {"s", "o"}, {"y"})},
              "layer_norm", 0);
}

TEST(OnnxJoinedNorms, RmsNormalization) {
  expect_call({node("Pow", {"x", "two"}, {"q"}), node("ReduceMean", {"q", "last"}, {"v"}),
               node("Add", {"v", "eps"}, {"a"}), node("Sqrt", {"a"}, {"r"}),
               node("Reciprocal", {"r"}, {"i"}), node("Mul", {"x", "i"}, {"z"}),
               node("Mul", {"weight", "z"}, {"y"})},
              "rms_norm", 0);
}

TEST(OnnxJoinedNorms, SoftmaxAndItsLog) {
  const Names powers{node("ReduceMax", {"x", "last"}, {"m"}), node("Sub", {"x", "m"}, {"s"}),
                     node("Exp", {"s"}, {"e"}), node("ReduceSum", {"e", "last"}, {"t"})};
  Names softmax = powers, logs = powers;
  softmax.push_back(node("Div", {"e", "t"}, {"y"}));
  expect_call(softmax, "softmax", 0);
  logs.push_back(node("Log", {"t"}, {"l"}));
  logs.push_back(node("Sub", {"s", "l"}, {"y"}));
  expect_call(logs, "log_softmax", 0);
  expect_call({node("ReduceLogSumExp", {"x", "last"}, {"l"}), node("Sub", {"x", "l"}, {"y"})},
              "log_softmax", 0);
  expect_call({node("Softmax", {"x"}, {"p"}), node("Log", {"p"}, {"y"})}, "log_softmax", 0);
}

}  // namespace
}  // namespace dyad::testing
