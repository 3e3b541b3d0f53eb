#include "dyad/onnx/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "checker.h"
#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/io/npy.h"
#include "tests/models/models.h"

// A file is compared with its source, node by node: in Dyad, and what Dyad found in ONNX Runtime.

namespace dyad::testing {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A file with some bytes, which stand there after `mark`, replaced by as many others.
void damage(const std::string& path, const std::string& mark, const std::string& from,
            const std::string& to) {
  std::stringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  std::string text = bytes.str();
  const std::size_t at = text.find(from, text.find(mark));
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(from.size(), to.size());
  text.replace(at, to.size(), to);
  std::ofstream(path, std::ios::binary) << text;
}

/// As ONNX has it in a file.
std::string bits(float x) { return {reinterpret_cast<const char*>(&x), sizeof x}; }
std::string op_type(const std::string& op) {
  return "\x22" + std::string(1, static_cast<char>(op.size())) + op;
}

TEST(Verify, WholeModels) {
  Cnn cnn;
  nn::eval(cnn);
  const std::string path = temporary("model.onnx");
  onnx::save(path, cnn, {{"image", f32, {"batch", 1, 9, 10}}}, {.outputs = {"logits"}});
  const Tensor image = random_tensor(f32, {3, 1, 9, 10}, -1, 1, 1);
  const auto report = onnx::verify(path, cnn, {image});
  EXPECT_TRUE(report) << to_string(report);
  EXPECT_EQ(report.results, 1);
  EXPECT_GE(report.values, 7);
  EXPECT_LT(report.largest, 1e-5);
  EXPECT_THAT(to_string(report),
              HasSubstr("'model.onnx' gives what its source gives: 1 result and "));

  const Encoder encoder;
  onnx::save(path, encoder, {{"tokens", i64, {"batch", "time"}}}, {.external_data = true});
  const Tensor tokens = random_tensor(i64, {2, 5}, 0, 20, 1);
  const auto of_encoder = onnx::verify(path, encoder, {tokens});
  EXPECT_TRUE(of_encoder) << to_string(of_encoder);
  EXPECT_GT(of_encoder.values, 20);
}

TEST(Verify, GraphsAndControlFlow) {
  Graph graph;
  static_cast<void>(graph.define([] {
    const Tensor x = placeholder("x", f32, {"n", 3});
    const Tensor y = cond(sum(x) > 0, [&] { return tanh(x); }, [&] { return x * 2; });
    const Tensor w = variable("w", full({3}, 0.5));
    return std::pair(y, while_loop([](const Tensor& s) { return sum(s) < 40; },
                                   [&](const Tensor& s) { return s * 2 + w; }, y * y + 1));
  }));
  const std::string bytes = onnx::to_bytes(graph);
  for (const double low : {-1.0, 0.0}) {
    const Tensor x = random_tensor(f32, {4, 3}, low, low + 1, 1);
    const auto report = onnx::verify_bytes(bytes, graph, {{"x", x}});
    EXPECT_TRUE(report) << to_string(report);
    EXPECT_EQ(report.results, 2);
  }
  EXPECT_THROW(static_cast<void>(onnx::verify_bytes("no model", graph, {})), OnnxError);
}

TEST(Verify, NamesTheFirstNodeThatDiffers) {
  Cnn model;
  nn::eval(model);
  const std::string path = temporary("model.onnx");
  onnx::save(path, model, {{"image", f32, {"batch", 1, 9, 10}}});
  damage(path, "count_include_pad", "\x18\x01", "\x18\x00"s);
  damage(path, "epsilon", bits(1e-5F), bits(0.5F));
  const Tensor image = random_tensor(f32, {2, 1, 9, 10}, -1, 1, 1);
  const auto report = onnx::verify(path, model, {image});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.first->node, "BatchNormalization");
  EXPECT_EQ(report.first->dyad_op, "batch_norm");
  EXPECT_GT(report.first->largest, 0.01);
  EXPECT_EQ(report.first->index.size(), 4u);
  EXPECT_THAT(report.first->source, HasSubstr("models.h:"));
  EXPECT_THAT(to_string(report),
              AllOf(HasSubstr("'model.onnx': the first node that differs is "
                              "\"BatchNormalization\" (a BatchNormalization, part of batch_norm "
                              "(models.h:"),
                    HasSubstr("of f32[2, 4, 9, 10] is "), HasSubstr("elements differ)")));
}

/// A composite is several nodes; the source knows only what they come to.
TEST(Verify, NamesTheNodeInsideAComposite) {
  const auto model = [](const Tensor& x) { return relu(expm1(x * 2)) + 1; };
  const std::string path = temporary("model.onnx");
  onnx::save(path, model, {{"x", f32, {"n"}}});
  damage(path, "Exp", op_type("Exp"), op_type("Abs"));
  const auto report = onnx::verify(path, model, {random_tensor(f32, {5}, 0.1, 1, 1)});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.first->node, "Exp");
  EXPECT_EQ(report.first->op, "Abs");
  EXPECT_EQ(report.first->dyad_op, "expm1");
}

/// What comes after it does not even run.
TEST(Verify, ANodeWhoseTypeDiffers) {
  const auto model = [](const Tensor& x) { return matmul(x.t() * 2, x) + 1; };
  const std::string path = temporary("model.onnx");
  onnx::save(path, model, {{"x", f32, {4, 3}}});
  damage(path, "perm", "\x40\x01\x40\x00"s, "\x40\x00\x40\x01"s);
  const Tensor x = random_tensor(f32, {4, 3}, -1, 1, 1);
  const auto report = onnx::verify(path, model, {x});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.first->op, "Transpose");
  EXPECT_EQ(report.first->problem, "is f32[4, 3], not f32[3, 4]");

  onnx::save(path, model, {{"x", f32, {4, 3}}});
  damage(path, "MatMul", op_type("MatMul"), op_type("Concat"));
  const auto other = onnx::verify(path, model, {x});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.first->op, "Concat");
  EXPECT_THAT(other.first->problem, HasSubstr("cannot be run: "));
}

TEST(Verify, AWeightThatDiffers) {
  Perceptron model;
  const std::string path = temporary("model.onnx");
  onnx::save(path, model, {{"x", f32, {"n", 12}}});
  {
    const NoGrad no_grad;
    model.hidden.weight[1][2].add_(0.5);
  }
  const auto report = onnx::verify(path, model, {random_tensor(f32, {2, 12}, -1, 1, 1)});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.first->value, "hidden.weight");
  EXPECT_EQ(report.first->index, (std::vector<std::int64_t>{1, 2}));
  EXPECT_NEAR(report.first->largest, 0.5, 1e-6);
  EXPECT_THAT(to_string(report),
              HasSubstr("weight \"hidden.weight\" element [1, 2] of f32[16, 12]"));
}

TEST(Verify, AnotherRuntimeNodeByNode) {
  const Encoder model;
  const std::string path = temporary("model.onnx"), given = temporary("in.npz"),
                    values = temporary("values.npz"), result = temporary("report.json");
  onnx::save(path, model, {{"tokens", i64, {"batch", "time"}}});
  TensorDict inputs;
  inputs.add("tokens", random_tensor(i64, {2, 5}, 0, 20, 1));
  io::save_npz(given, inputs);
  const TensorDict mine = onnx::node_values(path, {{"tokens", inputs.at("tokens")}});
  io::save_npz(values, mine);
  const auto compare = [&] {
    const auto status = run_python("tests/onnx/first_difference.py", {path, given, values}, result);
    if (!status) return std::optional<nlohmann::json>();
    EXPECT_EQ(*status, 0);
    return std::optional(nlohmann::json::parse(std::ifstream(result)));
  };
  const auto equal = compare();
  SKIP_WITHOUT(equal);
  EXPECT_TRUE((*equal)["first"].empty()) << *equal;
  EXPECT_EQ((*equal)["compared"], mine.size());

  damage(path, "epsilon", bits(1e-5F), bits(0.1F));
  const auto different = compare();
  EXPECT_EQ((*different)["first"]["op"], "LayerNormalization") << *different;
  EXPECT_EQ((*different)["first"]["operator"], "layer_norm");
  EXPECT_THAT(std::string((*different)["first"]["source"]), HasSubstr("models.h:"));
}

}  // namespace
}  // namespace dyad::testing
