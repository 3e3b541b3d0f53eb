#include "dyad/onnx/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checker.h"
#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/data/digits.h"
#include "dyad/exec/compile.h"
#include "dyad/nn/nn.h"
#include "dyad/onnx/verify.h"
#include "dyad/optim/optim.h"
#include "tests/models/models.h"
#include "tests/shared/message_of.h"

// Imported models as layers: the same results in every mode, parameters that train, and another
// export.

namespace dyad::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kHalfDigits = "data/models/half_digits.onnx";

double difference(const Tensor& a, const Tensor& b) {
  return max(abs(a.detach() - b.detach())).item();
}

/// What a file gives as a model and as a layer: eagerly, compiled, in a graph and exported again.
void expect_same(const std::string& path, const Tensor& x, const Type& type) {
  const onnx::Model model = onnx::load(path);
  const onnx::Network network(model);
  const Tensor want = model.run({{model.inputs()[0], x}})[0];
  EXPECT_LE(difference(network(x), want), 1e-6);
  const auto fast = compile([&](const Tensor& t) { return network(t); });
  for (int i = 0; i < 3; ++i) EXPECT_LE(difference(fast(x), want), 1e-6);
  const std::string again = temporary("again.onnx");
  onnx::save(again, network, {{"x", type.dtype(), type.shape()}});
  EXPECT_LE(difference(onnx::load(again).run({{"x", x}})[0], want), 1e-6);
  const auto report = onnx::verify(again, network, {x});
  EXPECT_TRUE(report) << to_string(report);
}

TEST(Network, ModelsAndOpenSizes) {
  const Encoder encoder;
  const std::string path = temporary("model.onnx");
  onnx::save(path, encoder, {{"tokens", i64, {"batch", "time"}}});
  expect_same(path, random_tensor(i64, {2, 5}, 0, 20, 1), Type(i64, {"n", "t"}));
  const Lstm lstm;
  onnx::save(path, lstm, {{"x", f32, {"time", "batch", 6}}});
  expect_same(path, random_tensor(f32, {5, 3, 6}, -1, 1, 1), Type(f32, {"t", "n", 6}));
}

TEST(Network, ControlFlow) {
  const auto model = [](const Tensor& x) {
    const Tensor y = cond(sum(x) > 0, [&] { return tanh(x); }, [&] { return x * 2; });
    const Tensor z = while_loop([](const Tensor& s) { return sum(s) < 40; },
                                [&](const Tensor& s) { return s * 2 + y; }, y * y + 1);
    return scan([&](const Tensor& c, const Tensor& row) { return std::pair(c + row, c * row); },
                sum(y, {0}), z)
        .second;
  };
  const std::string path = temporary("model.onnx");
  onnx::save(path, model, {{"x", f32, {"n", 3}}});
  for (const double low : {-1.0, 0.0}) {
    expect_same(path, random_tensor(f32, {4, 3}, low, low + 1, 1), Type(f32, {"n", 3}));
  }
}

/// A loop that keeps its states, as many as data tell.
TEST(Network, LoopsThatStack) {
  const auto model = [](const Tensor& x) {
    const Tensor end = while_loop([](const Tensor& s) { return sum(s) < 40; },
                                  [&](const Tensor& s) { return s * s * 0.5 + x + 1; }, x * 2);
    return grad(sum(square(end)), {x})[0];
  };
  const std::string path = temporary("model.onnx");
  onnx::save(path, model, {{"x", f32, {"n", 3}}});
  for (const double low : {0.0, 20.0}) {
    expect_same(path, random_tensor(f32, {2, 3}, low, low + 1, 1), Type(f32, {"n", 3}));
  }
}

TEST(Network, GradientsOfLoopsThatStack) {
  const onnx::Network network(onnx::load("tests/onnx/cases/loop_without_bound_stacks/model.onnx"));
  for (const float first : {0.3f, 30.0f}) {  // one step, too
    const Tensor x = tensor({first, 0.1f}).requires_grad();
    const std::vector<Tensor> results = network.run({&x, 1});
    const Tensor &end = results[0], &states = results[1];
    sum(square(states)).backward();
    // The state doubles in each step.
    const double steps = static_cast<double>(states.shape().numbers()[0]);
    EXPECT_EQ(end.detach()[0].item(), first * std::pow(2, steps));
    EXPECT_LE(difference(x.grad(), x * (2 * (std::pow(4, steps) - 1) / 3)), 1e-3 * first);
  }
}

TEST(Network, ParametersAndBuffers) {
  onnx::Network network(onnx::load(kHalfDigits));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : nn::named_parameters(network)) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias",
                                 "4.weight", "4.bias", "9.weight", "9.bias"));
  EXPECT_TRUE(nn::state_dict(network).contains("1.running_mean"));

  // In training the stored statistics are used, and stay.
  nn::train(network);
  const Tensor mean = nn::state_dict(network).at("1.running_mean").clone();
  const Tensor image = random_tensor(f32, {4, 1, 8, 8}, 0, 1, 1);
  const Tensor trained = network(image);
  nn::eval(network);
  EXPECT_EQ(difference(trained, network(image)), 0);
  EXPECT_EQ(difference(mean, nn::state_dict(network).at("1.running_mean")), 0);

  sum(network(image)).backward();
  for (const auto& [name, tensor] : nn::named_parameters(network)) {
    EXPECT_TRUE(tensor.grad().defined()) << name;
  }
}

TEST(Network, APartOfAModel) {
  const onnx::Model cut = onnx::load(kHalfDigits, {.outputs = {"/8/Flatten_output_0"}});
  EXPECT_THAT(cut.outputs(), ElementsAre("/8/Flatten_output_0"));
  EXPECT_FALSE(cut.weights().contains("9.weight"));
  const Tensor image = random_tensor(f32, {2, 1, 8, 8}, 0, 1, 1);
  const Tensor features = cut.run({{"image", image}})[0];
  const onnx::Model whole = onnx::load(kHalfDigits);
  const TensorDict weights = whole.weights();
  const Tensor logits = linear(features, weights.at("9.weight"), weights.at("9.bias"));
  EXPECT_LE(difference(logits, whole.run({{"image", image}})[0]), 1e-5);
  EXPECT_THAT(bare_message_of<OnnxError>(
                  [] { static_cast<void>(onnx::load(kHalfDigits, {.outputs = {"features"}})); }),
              HasSubstr("'half_digits.onnx': no node gives \"features\", which "
                        "LoadOptions::outputs names"));
}

TEST(Network, WrongInputs) {
  const onnx::Network network(onnx::load(kHalfDigits));
  EXPECT_THROW(static_cast<void>(network(ones({1, 1, 8, 8}, f64))), DTypeError);
  EXPECT_THROW(static_cast<void>(network(ones({8, 8}))), ShapeError);
  EXPECT_THROW(static_cast<void>(network(ones({1, 1, 8, 8}), ones({1}))), GraphError);
}

struct Classifier {
  onnx::Network features;
  nn::Linear head{512, 10};
  Tensor operator()(const Tensor& image) const { return head(features(image)); }
};

/// The head of another framework's network is replaced and trained; the body stays.
TEST(Network, FineTuning) {
  manual_seed(1);
  const data::Digits digits = data::load_digits("data/digits");
  Classifier model{
      .features = onnx::Network(onnx::load(kHalfDigits, {.outputs = {"/8/Flatten_output_0"}}))};
  nn::freeze(model.features);
  const TensorDict body = nn::state_dict(model.features);
  const Tensor kernel = body.at("0.weight").clone();
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 1e-2});  // passes frozen ones over
  const auto step = compile([&](const Tensor& images, const Tensor& labels) {
    optimizer.zero_grad();
    Tensor loss = cross_entropy(model(images), labels);
    loss.backward();
    optimizer.step();
    return loss;
  });
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (std::int64_t i = 0; i < 1400; i += 100) {
      step(digits.train_images.slice(0, i, i + 100), digits.train_labels.slice(0, i, i + 100));
    }
  }
  EXPECT_EQ(difference(kernel, body.at("0.weight")), 0);
  const Tensor logits = model(digits.test_images).detach();
  EXPECT_GT(mean((argmax(logits, 1) == digits.test_labels).to(f32)).item(), 0.92);

  const std::string path = temporary("tuned.onnx");
  onnx::save(path, model, {{"image", f32, {"batch", 1, 8, 8}}}, {.outputs = {"logits"}});
  const auto report = onnx::verify(path, model, {digits.test_images});
  EXPECT_TRUE(report) << to_string(report);
  ModelCase expected;
  expected.inputs.add("image", digits.test_images);
  expected.outputs.add("logits", logits);
  const auto checked = check(ModelFile{.path = path, .cases = {expected}, .tolerance = 1e-4});
  SKIP_WITHOUT(checked);
  EXPECT_EQ((*checked)["error"], "");
  EXPECT_TRUE((*checked)["weights"].contains("features.0.weight"));
  EXPECT_TRUE((*checked)["weights"].contains("head.weight"));
}

}  // namespace
}  // namespace dyad::testing
