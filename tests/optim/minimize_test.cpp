// Optimizers inside static graphs: forward, backward and update in one run.
#include <gmock/gmock.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"

namespace dyad::optim {
namespace {

using ::testing::HasSubstr;

struct DenseNet {
  nn::Linear first{4, 8};
  nn::BatchNorm norm{8};
  nn::Linear second{8, 3};

  Tensor operator()(const Tensor& x) const { return second(tanh(norm(first(x)))); }
};

DenseNet make_dense() {
  manual_seed(4);
  return DenseNet();
}

std::pair<Tensor, Tensor> dense_batch(int step) {
  manual_seed(100 + static_cast<std::uint64_t>(step));
  Tensor x = normal({6, 4});
  Tensor y = randint(0, 3, {6});
  return {x, y};
}

template <class O, class Options>
void expect_same_training(const Options& options) {
  const DenseNet eager = make_dense();
  O eager_optimizer(nn::parameters(eager), options);
  std::vector<float> expected;
  for (int i = 0; i < 4; ++i) {
    const auto [x, y] = dense_batch(i);
    eager_optimizer.zero_grad();
    Tensor loss = cross_entropy(eager(x), y);
    loss.backward();
    eager_optimizer.step();
    expected.push_back(loss.item<float>());
  }

  const DenseNet model = make_dense();
  O optimizer(nn::parameters(model), options);
  Graph graph;
  auto [loss, trained] = graph.define([&] {
    Tensor x = placeholder("x", f32, {"batch", 4});
    Tensor y = placeholder("y", i64, {"batch"});
    Tensor loss = cross_entropy(model(x), y);
    return std::pair{loss, optimizer.minimize(loss)};
  });
  Session session(graph);
  for (int i = 0; i < 4; ++i) {
    const auto [x, y] = dense_batch(i);
    const float before = session.run({loss}, {{"x", x}, {"y", y}})[0].template item<float>();
    EXPECT_EQ(before, expected[static_cast<std::size_t>(i)]) << "only looking, step " << i;
    EXPECT_EQ(session.run({trained}, {{"x", x}, {"y", y}})[0].template item<float>(), before)
        << "step " << i;
  }
  const TensorDict left = nn::state_dict(eager), right = nn::state_dict(model);
  for (const auto& [name, tensor] : left) {
    EXPECT_EQ(right.at(name).template to_vector<float>(), tensor.template to_vector<float>())
        << name;
  }
}

TEST(Minimize, TrainsAsEagerStepsDoBitForBit) {
  expect_same_training<SGD>(SGDOptions{.lr = 0.1});
  expect_same_training<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true});
  expect_same_training<SGD>(
      SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.2, .maximize = true});
  expect_same_training<Adam>(AdamOptions{.lr = 0.01});
  expect_same_training<Adam>(AdamOptions{.lr = 0.01, .weight_decay = 0.1, .amsgrad = true});
  expect_same_training<AdamW>(AdamWOptions{.lr = 0.01});
  expect_same_training<NAdam>(NAdamOptions{.lr = 0.01, .weight_decay = 0.1, .decoupled = true});
  expect_same_training<RAdam>(RAdamOptions{.lr = 0.01, .beta2 = 0.9});
  expect_same_training<Adamax>(AdamaxOptions{.lr = 0.01});
  expect_same_training<Lion>(LionOptions{.lr = 0.01, .weight_decay = 0.1});
  expect_same_training<Adagrad>(AdagradOptions{.lr = 0.1, .lr_decay = 0.1});
  expect_same_training<RMSprop>(RMSpropOptions{.lr = 0.01, .momentum = 0.5, .centered = true});
  expect_same_training<Adadelta>(AdadeltaOptions{.lr = 0.5});
  expect_same_training<Adafactor>(AdafactorOptions{.lr = 0.05, .weight_decay = 0.1});
}

TEST(Minimize, SeesANewRate) {
  Tensor p = ones({2});
  p.requires_grad();
  SGD optimizer({p}, {.lr = 0.5});
  Graph graph;
  auto trained = graph.define([&] { return optimizer.minimize(sum(p * 1.0f)); });
  Session session(graph);
  session.run({trained});
  EXPECT_EQ(p.to_vector<float>(), std::vector<float>(2, 0.5));
  optimizer.set_lr(0.25);
  session.run({trained});
  EXPECT_EQ(p.to_vector<float>(), std::vector<float>(2, 0.25));
}

TEST(Minimize, AnEagerLossIsAnErrorThatNamesTheOtherWay) {
  Tensor p = ones({2});
  p.requires_grad();
  SGD optimizer({p});
  try {
    (void)optimizer.minimize(sum(p));
    FAIL();
  } catch (const GraphError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("SGD::minimize takes a loss that is a value of a graph, inside "
                          "Graph::define, found f32[]; in eager mode call loss.backward() and "
                          "step()"));
  }
}

}  // namespace
}  // namespace dyad::optim
