#include "dyad/onnx/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "checker.h"
#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/session.h"
#include "dyad/io/npy.h"
#include "dyad/onnx/load.h"
#include "dyad/optim/optim.h"
#include "tests/models/models.h"
#include "tests/shared/message_of.h"

// Steps of training as ONNX models: ONNX Runtime, and Dyad's own import, train as Dyad does.

namespace dyad::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSteps = 20;

/// The arguments of each step, and the names that they have in the model.
struct Batches {
  std::vector<onnx::Input> inputs;
  std::vector<std::vector<Tensor>> steps;
};

double largest_relative_difference(const Tensor& a, const Tensor& b) {
  const double scale = std::max(1e-3, max(abs(b)).item());
  return max(abs(a.to(f64) - b.to(f64))).item() / scale;
}

/// What training gave: losses and the state by name.
struct Trained {
  std::vector<double> losses;
  TensorDict state;
};

void expect_near(const Trained& got, const Trained& want, double tolerance) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (std::size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], tolerance * std::max(1.0, std::abs(want.losses[i])))
        << "step " << i;
  }
  for (const auto& [name, tensor] : got.state) {
    if (name.starts_with("random.")) continue;
    const Tensor* expected = want.state.find(name);
    ASSERT_NE(expected, nullptr) << name;
    EXPECT_EQ(tensor.shape(), expected->shape()) << name;
    EXPECT_LE(largest_relative_difference(tensor, *expected), tolerance) << name;
  }
}

/// In ONNX Runtime; nothing where Python has none. `changed`: inputs of each step that have
/// defaults.
std::optional<Trained> train_in_runtime(const std::string& path, const Batches& batches,
                                        const TensorDict& changed = {}) {
  TensorDict arrays;
  arrays.add_all("", changed);
  for (std::size_t step = 0; step < batches.steps.size(); ++step) {
    for (std::size_t i = 0; i < batches.inputs.size(); ++i) {
      arrays.add(batches.inputs[i].name + "." + std::to_string(step), batches.steps[step][i]);
    }
  }
  const std::string given = temporary("batches.npz"), result = temporary("trained.npz");
  io::save_npz(given, arrays);
  const auto status =
      run_python("tests/onnx/train_steps.py", {path, given, std::to_string(kSteps), result});
  if (!status) return {};
  EXPECT_EQ(*status, 0);
  if (*status != 0) return {};
  Trained trained;
  for (const auto& [name, tensor] : io::load_npz(result)) {
    if (name != "loss") {
      trained.state.add(name, tensor);
      continue;
    }
    for (int i = 0; i < kSteps; ++i) trained.losses.push_back(tensor[i].item());
  }
  return trained;
}

/// In Dyad, from a model whose state is fed.
Trained train_imported(const std::string& path, const Batches& batches, TensorDict state) {
  const onnx::Model model = onnx::load(path);
  Trained trained;
  for (const auto& arguments : batches.steps) {
    std::vector<Feed> feeds;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      feeds.emplace_back(batches.inputs[i].name, arguments[i]);
    }
    for (const auto& [name, tensor] : state) {
      if (std::ranges::count(model.inputs(), name) > 0) feeds.emplace_back(name, tensor);
    }
    const std::vector<Tensor> results = model.run(feeds);
    TensorDict next;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string& name = model.outputs()[i];
      if (name == "loss") {
        trained.losses.push_back(results[i].item());
      } else {
        next.add(name.substr(5), results[i]);
      }
    }
    for (const auto& [name, tensor] : state) {
      if (!next.contains(name)) next.add(name, tensor);
    }
    state = next;
  }
  trained.state = state;
  return trained;
}

TensorDict copies(const TensorDict& state) {
  TensorDict made;
  for (const auto& [name, tensor] : state) made.add(name, tensor.detach().clone());
  return made;
}

/// Saves the step, trains in ONNX Runtime, in the import and in Dyad, and compares.
template <class Step>
void expect_same_training(const Step& step, std::initializer_list<onnx::Input> inputs,
                          const TensorDict& state, const Batches& batches, double tolerance = 1e-4,
                          int opset = 21) {
  const std::string path = temporary("step.onnx"), plain = temporary("plain.onnx");
  const TensorDict before = copies(state);
  const RandomKey random = default_generator().state();
  onnx::save_training(path, step, inputs, {.state = state, .save = {.opset = opset}});
  onnx::save_training(plain, step, inputs,
                      {.state = state, .initial_values = false, .save = {.opset = opset}});
  for (const auto& [name, tensor] : state) {  // saving has not trained
    EXPECT_EQ(largest_relative_difference(tensor, before.at(name)), 0) << name;
  }
  EXPECT_EQ(default_generator().state(), random);

  Trained want;
  const auto compiled = compile(step);
  for (const auto& arguments : batches.steps) {
    want.losses.push_back(compiled(arguments[0], arguments[1]).item());
  }
  want.state = state;
  const auto some = [&](auto from) { return std::accumulate(from, from + 4, 0.0); };
  EXPECT_LT(some(want.losses.end() - 4), some(want.losses.begin()));

  TensorDict fed = before;
  fed.add("random.seed", tensor(random.seed, i64));
  fed.add("random.offset", tensor(random.offset, i64));
  const Trained imported = train_imported(plain, batches, fed);
  expect_near(imported, want, tolerance);
  const auto runtime = train_in_runtime(path, batches);
  SKIP_WITHOUT(runtime);
  EXPECT_GT(runtime->state.size(), 2u);
  expect_near(*runtime, want, tolerance);
}

Batches classes(const onnx::Input& x, const Sizes& sizes, std::int64_t count) {
  Batches made{.inputs = {x, {"y", i64, {"batch"}}}, .steps = {}};
  for (unsigned step = 0; step < kSteps; ++step) {
    const bool whole = x.dtype == DType::i64;
    made.steps.push_back({random_tensor(x.dtype, with_sizes(x.shape, sizes), whole ? 0 : -1,
                                        whole ? 20 : 1, step % 4),
                          random_tensor(i64, with_sizes({"batch"}, sizes), 0,
                                        static_cast<double>(count), step % 4 + 100)});
  }
  return made;
}

template <class Model>
auto step_of(Model& model, optim::Optimizer& optimizer) {
  return [&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    Tensor loss;
    if constexpr (requires { model(x); }) {
      loss = cross_entropy(model(x), y);
    } else {
      loss = cross_entropy(model.forward(x), y);
    }
    loss.backward();
    optimizer.step();
    return loss;
  };
}

TEST(Training, PerceptronAndMomentum) {
  manual_seed(3);
  Perceptron model;
  optim::SGD optimizer(nn::named_parameters(model), {.lr = 0.1, .momentum = 0.9});
  const onnx::Input x{"x", f32, {"batch", 12}};
  expect_same_training(step_of(model, optimizer), {x, {"y", i64, {"batch"}}},
                       onnx::training_state(model, optimizer), classes(x, {{"batch", 8}}, 5));
}

/// Batch statistics, both kinds of pools, groups, strides. No bias goes into the normalisation: its
/// gradient is rounding errors, which Adam would make large.
struct ConvNet {
  nn::Conv2d first{1, 4, 3, {.padding = 1, .bias = false}};
  nn::BatchNorm norm{4};
  nn::Conv2d second{4, 6, 3, {.stride = 2, .padding = 1, .groups = 2}};
  nn::Linear out{6 * 2 * 2, 10};
  Tensor operator()(const Tensor& x) const {
    const Tensor h = max_pool2d(relu(norm(first(x))), 3, 2);
    return out(flatten(avg_pool2d(gelu(second(h)), 2, 1, 1), 1).slice(1, 0, 6 * 2 * 2));
  }
};

TEST(Training, ConvolutionsAndAdam) {
  manual_seed(4);
  ConvNet model;
  optim::Adam optimizer(nn::named_parameters(model), {.lr = 1e-2});
  const onnx::Input x{"x", f32, {"batch", 1, 9, 10}};
  expect_same_training(step_of(model, optimizer), {x, {"y", i64, {"batch"}}},
                       onnx::training_state(model, optimizer), classes(x, {{"batch", 6}}, 10),
                       1e-3);
}

struct Tagger {
  nn::Embedding words{20, 6};
  nn::LSTM lstm{6, 8};
  nn::Linear out{8, 5};
  Tensor operator()(const Tensor& tokens) const {
    const Tensor outputs = lstm(words(tokens)).y;
    return out(outputs[-1]);
  }
};

TEST(Training, RecurrentLayerAndAdamW) {
  manual_seed(5);
  Tagger model;
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 1e-2});
  const onnx::Input x{"x", i64, {7, "batch"}};
  expect_same_training(step_of(model, optimizer), {x, {"y", i64, {"batch"}}},
                       onnx::training_state(model, optimizer), classes(x, {{"batch", 4}}, 5), 1e-3);
}

/// The numbers of the generator, made by ONNX operators.
TEST(Training, DropoutIsTheSameInARuntime) {
  manual_seed(6);
  Mlp model;
  optim::SGD optimizer(nn::named_parameters(model), {.lr = 0.2});
  const onnx::Input x{"x", f32, {"batch", 12}};
  expect_same_training(step_of(model, optimizer), {x, {"y", i64, {"batch"}}},
                       onnx::training_state(model, optimizer), classes(x, {{"batch", 8}}, 5));
}

TEST(Training, OtherOpsets) {
  for (const int opset : {17, 19, 23}) {
    manual_seed(3);
    Perceptron model;
    optim::AdamW optimizer(nn::named_parameters(model), {.lr = 1e-2});
    const onnx::Input x{"x", f32, {"batch", 12}};
    expect_same_training(step_of(model, optimizer), {x, {"y", i64, {"batch"}}},
                         onnx::training_state(model, optimizer), classes(x, {{"batch", 8}}, 5),
                         1e-4, opset);
  }
}

TEST(Training, EveryOptimizer) {
  const onnx::Input x{"x", f32, {"batch", 12}};
  const Batches batches = classes(x, {{"batch", 8}}, 5);
  const auto train = [&](auto make) {
    manual_seed(3);
    Perceptron model;
    auto optimizer = make(nn::named_parameters(model));
    expect_same_training(step_of(model, *optimizer), {x, {"y", i64, {"batch"}}},
                         onnx::training_state(model, *optimizer), batches, 1e-3);
  };
  train([](auto p) { return std::make_unique<optim::SGD>(p, optim::SGDOptions{.lr = 0.1}); });
  train([](auto p) { return std::make_unique<optim::NAdam>(p); });
  train([](auto p) { return std::make_unique<optim::RAdam>(p); });
  train([](auto p) { return std::make_unique<optim::Adamax>(p); });
  train([](auto p) { return std::make_unique<optim::Adagrad>(p); });
  train([](auto p) { return std::make_unique<optim::RMSprop>(p); });
  train([](auto p) { return std::make_unique<optim::Adadelta>(p); });
  train([](auto p) { return std::make_unique<optim::Lion>(p); });
  train([](auto p) { return std::make_unique<optim::Adafactor>(p); });
}

TEST(Training, ALearningRateOfASchedule) {
  manual_seed(3);
  Perceptron model;
  optim::SGD optimizer(nn::named_parameters(model), {.lr = 0.1, .momentum = 0.9});
  optim::Schedule schedule(optimizer, optim::cosine_decay(kSteps));
  const onnx::Input x{"x", f32, {"batch", 12}};
  const Batches batches = classes(x, {{"batch", 8}}, 5);
  const auto step = step_of(model, optimizer);
  const std::string path = temporary("step.onnx");
  onnx::save_training(path, step, {x, {"y", i64, {"batch"}}},
                      {.state = onnx::training_state(model, optimizer)});
  Trained want;
  TensorDict rates;
  for (const auto& arguments : batches.steps) {
    rates.add("optimizer.lr." + std::to_string(want.losses.size()), tensor(optimizer.lr(), f64));
    want.losses.push_back(step(arguments[0], arguments[1]).item());
    schedule.step();
  }
  want.state = onnx::training_state(model, optimizer);
  const auto runtime = train_in_runtime(path, batches, rates);
  SKIP_WITHOUT(runtime);
  expect_near(*runtime, want, 1e-4);
}

template <class Model>
void expect_same_training_of_a_graph(Model& model) {
  optim::SGD optimizer(nn::named_parameters(model), {.lr = 0.1, .momentum = 0.9});
  Graph graph;
  const Tensor loss = graph.define([&] {
    const Tensor x = placeholder("x", f32, {"batch", 12}), y = placeholder("y", i64, {"batch"});
    return optimizer.minimize(cross_entropy(model(x), y));
  });
  const onnx::Input x{"x", f32, {"batch", 12}};
  const Batches batches = classes(x, {{"batch", 8}}, 5);
  const std::string path = temporary("step.onnx"), plain = temporary("plain.onnx");
  const TensorDict state = onnx::training_state(model, optimizer), before = copies(state);
  onnx::save_training(path, graph, {.state = state});
  onnx::save_training(plain, graph, {.state = state, .initial_values = false});
  Trained want;
  Session session(graph);
  for (const auto& arguments : batches.steps) {
    const auto results = session.run({loss}, {{"x", arguments[0]}, {"y", arguments[1]}});
    want.losses.push_back(results[0].item());
  }
  want.state = state;
  expect_near(train_imported(plain, batches, before), want, 1e-4);
  const auto runtime = train_in_runtime(path, batches);
  SKIP_WITHOUT(runtime);
  expect_near(*runtime, want, 1e-4);
}

TEST(Training, AStaticGraph) {
  manual_seed(3);
  Perceptron model;
  expect_same_training_of_a_graph(model);
}

/// Its layer is applied as often as the data want.
struct Refining {
  nn::Linear in{12, 16}, step{16, 16}, out{16, 5};
  Tensor operator()(const Tensor& x) const {
    const Tensor h =
        while_loop(
            [](const Tensor& h, const Tensor& n) { return (mean(square(h)) > 0.02) & (n < 6); },
            [&](const Tensor& h, const Tensor& n) { return std::pair(tanh(step(h)), n + 1); },
            std::pair(in(x), tensor(0, i64)))
            .first;
    return out(h);
  }
};

TEST(Training, AStaticGraphWithALoopOnData) {
  manual_seed(5);
  Refining model;
  expect_same_training_of_a_graph(model);
}

template <class F>
std::string refusal(F&& step) {
  return message_of<OnnxError>(
      [&] { onnx::save_training(temporary("refused.onnx"), step, {{"x", f32, {"n", 3}}}); });
}

TEST(TrainingErrors, WhatAStepMayNotDo) {
  Tensor weight = ones({3});
  weight.requires_grad();
  const auto loss_of = [&](const Tensor& x) { return sum(square(x * weight)); };
  const int branch = __LINE__ + 3;
  const auto branching = [&](const Tensor& x) {
    Tensor loss = loss_of(x);
    if (loss > 1) loss = loss * 2;
    return loss;
  };
  EXPECT_THAT(refusal(branching),
              AllOf(HasSubstr("onnx::save_training: the step reads a number on the host"),
                    HasSubstr("training_test.cpp:" + std::to_string(branch))));
  const int write = __LINE__ + 2;
  const auto writing = [&](Tensor x) {
    x.mul_(2);
    return loss_of(x);
  };
  EXPECT_THAT(refusal(writing),
              AllOf(HasSubstr("writes to its argument 0; return the value instead"),
                    HasSubstr("training_test.cpp:" + std::to_string(write))));
  EXPECT_THAT(refusal([&](const Tensor& x) { return loss_of(x) / x.size(0).value(); }),
              HasSubstr("depends on the number that the size n is"));
  weight.set_grad(ones({3}));
  EXPECT_THAT(refusal([&](const Tensor& x) {
                Tensor loss = loss_of(x);
                loss.backward();
                return loss + sum(weight.grad());
              }),
              HasSubstr("adds to gradients from before it: call zero_grad() in it"));
  EXPECT_EQ(sum(weight.grad()).item(), 3);  // as it was
  EXPECT_THAT(refusal([&](const Tensor& x) {
                const auto decomposed = qr(x);
                return sum(decomposed.r);
              }),
              HasSubstr("qr (training_test.cpp:"));
}

}  // namespace
}  // namespace dyad::testing
