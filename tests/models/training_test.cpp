// Models of every kind, trained eagerly, by a compiled step and by a static graph: the same bits,
// with one thread and with two.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "dyad/core/generator.h"
#include "dyad/dyad.h"
#include "tests/models/models.h"

namespace dyad::testing {
namespace {

enum class Mode { eager, compiled, graph };

/// Everything that a training run leaves behind.
struct Outcome {
  std::vector<float> losses;
  std::vector<std::vector<float>> state;
  Explanation told;
};

constexpr int kSteps = 6;

/// The numbers of one batch, the same in every mode. The last batch is a smaller one.
using MakeBatch = std::function<std::pair<Tensor, Tensor>(std::int64_t size)>;
template <class Model>
using Loss = std::function<Tensor(const Model&, const Tensor& x, const Tensor& y)>;

template <class Model>
Outcome train(Mode mode, const MakeBatch& make_batch, const Loss<Model>& loss_of) {
  manual_seed(11);
  const Model model;
  optim::Adam optimizer(nn::parameters(model), {.lr = 0.01});
  std::vector<std::pair<Tensor, Tensor>> batches;
  for (int i = 0; i < kSteps; ++i) batches.push_back(make_batch(i + 1 < kSteps ? 5 : 3));

  Outcome outcome;
  const auto step = [&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    Tensor loss = loss_of(model, x, y);
    loss.backward();
    optimizer.step();
    return loss;
  };
  const auto fast = compile(step);
  if (mode == Mode::graph) {
    const auto open = [](const Tensor& sample) {
      Shape shape = sample.shape();
      shape[0] = Dim("batch");
      return shape;
    };
    Graph graph;
    const Tensor trained = graph.define([&] {
      const auto& [x, y] = batches.front();
      const Tensor loss = loss_of(model, placeholder("x", x.dtype(), open(x)),
                                  placeholder("y", y.dtype(), open(y)));
      return optimizer.minimize(loss);
    });
    Session session(graph);
    for (const auto& [x, y] : batches) {
      outcome.losses.push_back(
          session.run({trained}, {{"x", x}, {"y", y}})[0].template item<float>());
    }
  } else {
    for (const auto& [x, y] : batches) {
      const Tensor loss = mode == Mode::compiled ? fast(x, y) : step(x, y);
      outcome.losses.push_back(loss.template item<float>());
    }
  }
  const TensorDict state = nn::state_dict(model);
  for (const auto& [name, tensor] : state)
    outcome.state.push_back(tensor.template to_vector<float>());
  outcome.told = fast.explain();
  return outcome;
}

class Training : public ::testing::TestWithParam<int> {
 protected:
  Training() : before_(get_num_threads()) { set_num_threads(GetParam()); }
  ~Training() override { set_num_threads(before_); }

  template <class Model>
  void expect_same_bits(const MakeBatch& make_batch, const Loss<Model>& loss_of) {
    const Outcome eager = train<Model>(Mode::eager, make_batch, loss_of);
    const Outcome compiled = train<Model>(Mode::compiled, make_batch, loss_of);
    const Outcome graph = train<Model>(Mode::graph, make_batch, loss_of);
    EXPECT_EQ(compiled.losses, eager.losses);
    EXPECT_EQ(compiled.state, eager.state);
    EXPECT_EQ(graph.losses, eager.losses);
    EXPECT_EQ(graph.state, eager.state);
    EXPECT_NE(eager.losses.front(), eager.losses.back());

    // After each kind of batch was seen, no operator ran eagerly, and fewer kernels than operators.
    EXPECT_EQ(compiled.told.eager, 0) << to_string(compiled.told);
    EXPECT_GT(compiled.told.replays, 0);
    const ExplainedRecording& first = compiled.told.recordings.front();
    EXPECT_LT(first.kernels, first.nodes);
  }

 private:
  int before_;
};

std::pair<Tensor, Tensor> regression_batch(const Tensor& x, std::int64_t outputs) {
  return {x, normal({x.size(0), outputs})};
}

TEST_P(Training, Mlp) {
  expect_same_bits<Mlp>(
      [](std::int64_t n) { return std::pair{normal({n, 12}), randint(0, 5, {n})}; },
      [](const Mlp& model, const Tensor& x, const Tensor& y) {
        return cross_entropy(model(x), y);
      });
}

TEST_P(Training, Cnn) {
  expect_same_bits<Cnn>(
      [](std::int64_t n) { return std::pair{normal({n, 1, 9, 10}), randint(0, 10, {n})}; },
      [](const Cnn& model, const Tensor& x, const Tensor& y) {
        return cross_entropy(model.forward(x), y);
      });
}

TEST_P(Training, LstmByScan) {
  // The first axis, whose size varies, is time.
  expect_same_bits<Lstm>(
      [](std::int64_t n) { return std::pair{normal({n, 4, 6}), normal({n, 4, 3})}; },
      [](const Lstm& model, const Tensor& x, const Tensor& y) { return mse_loss(model(x), y); });
}

TEST_P(Training, TransformerEncoder) {
  expect_same_bits<Encoder>(
      [](std::int64_t n) { return std::pair{randint(0, 20, {n, 7}), normal({n, 7, 16})}; },
      [](const Encoder& model, const Tensor& x, const Tensor& y) { return mse_loss(model(x), y); });
}

TEST_P(Training, AHostBranch) {
  expect_same_bits<Branching>(
      [way = 0](std::int64_t n) mutable {
        return regression_batch(normal({n, 4}, way++ % 3 == 0 ? 1.5 : -1.5), 3);
      },
      [](const Branching& model, const Tensor& x, const Tensor& y) {
        return mse_loss(model.forward(x), y);
      });
}

INSTANTIATE_TEST_SUITE_P(Threads, Training, ::testing::Values(1, 2),
                         [](const auto& info) { return "Threads" + std::to_string(info.param); });

}  // namespace
}  // namespace dyad::testing
