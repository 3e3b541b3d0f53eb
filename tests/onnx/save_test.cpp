#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "checker.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/exec/session.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

// The file itself: names, external data, what a failure leaves behind, and the texts of errors.

namespace dyad::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string bytes_of_file(const std::string& path) {
  std::stringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

struct Model {
  nn::Linear up{8, 64}, down{64, 2};
  Tensor operator()(const Tensor& x) const { return down(tanh(up(x))); }
};

const std::initializer_list<onnx::Input> kInputs{{"x", f32, {"batch", 8}}};

TEST(Save, ExternalDataIsAFileOfAlignedWeights) {
  const Model model;
  const std::string path = temporary("model.onnx");
  onnx::save(path, model, kInputs, {.external_data = true});
  const auto function = [&](std::span<const Tensor> t) { return std::vector{model(t[0])}; };
  const std::span<const onnx::Input> inputs(kInputs.begin(), 1);
  const auto report =
      check(ModelFile{.path = path, .cases = {eager_case(inputs, {{"batch", 3}}, function)}});
  SKIP_WITHOUT(report);
  EXPECT_EQ((*report)["error"], "");
  const auto& weights = (*report)["weights"];
  EXPECT_EQ(weights["up.weight"]["external"]["location"], "model.onnx.data");
  EXPECT_EQ(weights["up.weight"]["external"]["offset"], "0");
  EXPECT_EQ(weights["up.weight"]["external"]["length"], "2048");
  EXPECT_TRUE(weights["up.bias"]["external"].empty());  // less than a kB
  EXPECT_EQ(std::filesystem::file_size(path + ".data"), 2048u);
  EXPECT_LT(std::filesystem::file_size(path), 2048u);

  onnx::save(path, model, kInputs, {.external_data = true, .external_threshold = 0});
  const auto all =
      check(ModelFile{.path = path, .cases = {eager_case(inputs, {{"batch", 2}}, function)}});
  EXPECT_EQ((*all)["error"], "");
  for (const auto& [name, weight] : (*all)["weights"].items()) {
    const std::string offset = weight["external"]["offset"];
    EXPECT_EQ(std::stoll(offset) % 4096, 0) << name;
  }
}

TEST(Save, ReplacesAFileOnlyWhenTheNewOneIsWhole) {
  const Model model;
  const std::string path = temporary("model.onnx");
  onnx::save(path, model, kInputs, {.external_data = true});
  const std::string before = bytes_of_file(path), data = bytes_of_file(path + ".data");

  const auto random = [](const Tensor& x) { return dropout(x, 0.5); };
  EXPECT_THROW(onnx::save(path, random, kInputs), OnnxError);
  EXPECT_EQ(bytes_of_file(path), before);

  // The model cannot be put in its place: the weights stay as they are too.
  const std::string folder = temporary("folder.onnx");
  std::filesystem::create_directories(folder);
  std::ofstream(folder + ".data") << "old";
  EXPECT_THROW(onnx::save(folder, model, kInputs, {.external_data = true}), IoError);
  EXPECT_EQ(bytes_of_file(folder + ".data"), "old");

  EXPECT_THROW(onnx::save(temporary("missing/model.onnx"), model, kInputs), IoError);
  EXPECT_EQ(bytes_of_file(path), before);
  EXPECT_EQ(bytes_of_file(path + ".data"), data);
}

TEST(Save, EqualModelsAreEqualBytes) {
  const Model model;
  onnx::save(temporary("a.onnx"), model, kInputs);
  onnx::save(temporary("b.onnx"), model, kInputs);
  EXPECT_EQ(bytes_of_file(temporary("a.onnx")), bytes_of_file(temporary("b.onnx")));
}

TEST(Save, NamesOfTensorsThatAFunctionCaptures) {
  const Model model;
  const auto function = [&](const Tensor& x) { return model(x) * 2; };
  const std::string path = temporary("model.onnx");
  onnx::save(path, function, kInputs, {.weights = nn::state_dict(model)});
  const auto report = check(ModelFile{.path = path, .cases = {}});
  SKIP_WITHOUT(report);
  EXPECT_EQ((*report)["error"], "");
  EXPECT_TRUE((*report)["weights"].contains("up.weight"));
  EXPECT_TRUE((*report)["weights"].contains("down.bias"));
}

TEST(Save, AStaticGraph) {
  Graph graph;
  static_cast<void>(graph.define([] {
    const Tensor x = placeholder("x", f32, {"n", 3});
    const Tensor w = variable("w", full({3, 2}, 0.5));
    static_cast<void>(assign(w, w * 0.9));  // not among the results
    return matmul(x, w);
  }));
  const std::string path = temporary("graph.onnx");
  onnx::save(path, graph, {.outputs = {"y"}});
  ModelCase expected;
  const Tensor x = random_tensor(f32, {2, 3}, -1, 1, 1);
  expected.inputs.add("x", x);
  expected.outputs.add("y", matmul(x, full({3, 2}, 0.5)));
  const auto report = check(ModelFile{.path = path, .cases = {expected}});
  SKIP_WITHOUT(report);
  EXPECT_EQ((*report)["error"], "");
  EXPECT_TRUE((*report)["weights"].contains("w"));
  EXPECT_EQ(onnx::to_bytes(graph, {.outputs = {"y"}}), bytes_of_file(path));
}

TEST(SaveErrors, ATrainingModel) {
  struct Net {
    nn::Linear linear{8, 8};
    nn::BatchNorm norm{8};
    nn::Dropout dropout{0.5};
    Tensor operator()(const Tensor& x) const { return dropout(norm(linear(x))); }
  };
  Net net;
  const std::string path = temporary("model.onnx");
  std::filesystem::remove(path);  // of an earlier run
  const int line = __LINE__ + 1;
  const std::string text = message_of<OnnxError>([&] { onnx::save(path, net, kInputs); });
  EXPECT_THAT(text,
              AllOf(HasSubstr("onnx::save: "), HasSubstr("operators cannot be written as ONNX:"),
                    HasSubstr("batch_norm_train (save_test.cpp:"),
                    HasSubstr("statistics of the batch, as in training; call eval(model)"),
                    HasSubstr("dropout (save_test.cpp:"),
                    HasSubstr("it draws random numbers, which ONNX cannot repeat; call "
                              "eval(model) before exporting, or make them an input"),
                    HasSubstr("assign (save_test.cpp:"), Not(HasSubstr("random_key")),
                    HasSubstr("at save_test.cpp:" + std::to_string(line))));
  EXPECT_FALSE(std::filesystem::exists(path));
  nn::eval(net);
  onnx::save(path, net, kInputs);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(SaveErrors, EveryOperatorThatHasNoCounterpart) {
  Graph graph;
  static_cast<void>(graph.define([] {
    const Tensor x = placeholder("x", f32, {3, 3});
    return inverse(cholesky(x));
  }));
  const std::string text = message_of<OnnxError>([&] { static_cast<void>(onnx::to_bytes(graph)); });
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("2 operators cannot be written"), HasSubstr("inverse (save_test.cpp:"),
            HasSubstr("cholesky (save_test.cpp:"), HasSubstr("it has no counterpart in ONNX")));
}

/// Pointwise operators are written by what they compute.
TEST(Save, Gradients) {
  const auto model = [](const Tensor& x) {
    return gradients(sum(gelu(x) * tanh(silu(x)) * lgamma(abs(x) + 1)), {x});
  };
  const std::initializer_list<onnx::Input> inputs{{"x", f32, {"n"}}};
  const std::string path = temporary("model.onnx");
  onnx::save(path, model, inputs, {.opset = 17});
  ModelCase expected;
  const Tensor x = random_tensor(f32, {40}, -3, 3, 1);
  Graph graph;
  const auto slopes = graph.define([&] { return model(placeholder("x", f32, {40})); });
  expected.inputs.add("x", x);
  expected.outputs.add("output0", Session(graph).run(slopes, {{"x", x}})[0]);
  const auto report = check(ModelFile{.path = path, .cases = {expected}});
  SKIP_WITHOUT(report);
  EXPECT_EQ((*report)["error"], "");
}

TEST(SaveErrors, RandomNumbersInsideAComposite) {
  const auto noisy = [](const Tensor& x) { return x + normal({x.size(0)}); };
  const std::string text =
      message_of<OnnxError>([&] { onnx::save(temporary("m.onnx"), noisy, {{"x", f32, {"n"}}}); });
  EXPECT_THAT(text,
              AllOf(HasSubstr("1 operator cannot be written"), HasSubstr("normal (save_test.cpp:"),
                    HasSubstr("it draws random numbers")));
}

TEST(SaveErrors, WritesToTensorsFromOutside) {
  Tensor calls = zeros({});
  const auto counting = [&](const Tensor& x) {
    calls += 1;
    return x * 2;
  };
  const std::string text =
      message_of<OnnxError>([&] { onnx::save(temporary("m.onnx"), counting, kInputs); });
  EXPECT_THAT(text, AllOf(HasSubstr("assign (save_test.cpp:"),
                          HasSubstr("ONNX models have no state to write to")));
  EXPECT_EQ(calls.item(), 0);
}

TEST(SaveErrors, HostReadsOfNumbers) {
  const auto reading = [](const Tensor& x) { return x * sum(x).item(); };
  EXPECT_THROW(onnx::save(temporary("m.onnx"), reading, kInputs), GraphError);
}

TEST(SaveErrors, Options) {
  const Model model;
  const std::string path = temporary("model.onnx");
  const auto text = [&](const onnx::SaveOptions& options) {
    return message_of<OnnxError>([&] { onnx::save(path, model, kInputs, options); });
  };
  EXPECT_THAT(text({.opset = 16}),
              HasSubstr("onnx::save: opset 16 cannot be written; choose one from 17 to 23"));
  EXPECT_THAT(text({.opset = 24}), HasSubstr("opset 24 cannot be written"));
  EXPECT_THAT(text({.outputs = {"a", "b"}}),
              HasSubstr("onnx::save: the model has 1 results but 2 names for them"));
  EXPECT_THAT(
      text({.outputs = {"x"}}),
      HasSubstr("onnx::save: two inputs or results are called \"x\"; give the results names "
                "of their own in SaveOptions::outputs"));
  EXPECT_THAT(text({.outputs = {""}}), HasSubstr("the name of a result is empty"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(SaveErrors, Arity) {
  const Model model;
  EXPECT_THAT(message_of<ValueError>([&] {
                onnx::save(temporary("m.onnx"), model, {{"a", f32, {8}}, {"b", f32, {8}}});
              }),
              HasSubstr("onnx::save: 2 inputs are described, but the model cannot be called with 2 "
                        "tensors"));
  Graph empty;
  EXPECT_THAT(message_of<OnnxError>([&] { static_cast<void>(onnx::to_bytes(empty)); }),
              HasSubstr("onnx::save: the model gives no results"));
}

}  // namespace
}  // namespace dyad::testing
