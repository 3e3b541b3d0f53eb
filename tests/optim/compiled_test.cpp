// Training steps under compile(): the same bits as eager steps, whatever the layers and optimizers
// keep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"

namespace dyad::optim {
namespace {

struct ConvNet {
  nn::Conv2d conv{1, 3, 3, {.padding = 1}};
  nn::BatchNorm norm{3};
  nn::Dropout dropout{0.2};
  nn::Linear out{3 * 4 * 4, 5};

  Tensor operator()(const Tensor& x) const { return out(dropout(relu(norm(conv(x)))).flatten(1)); }
};

std::pair<Tensor, Tensor> image_batch(int step) {
  Generator& generator = default_generator();
  const RandomKey before = generator.state();
  generator.manual_seed(1000 + static_cast<std::uint64_t>(step));
  std::pair made{normal({6, 1, 4, 4}), randint(0, 5, {6})};
  generator.set_state(before);
  return made;
}

struct Result {
  std::vector<float> losses;
  std::vector<std::vector<float>> state;
  std::size_t recordings = 0;
};

/// Eight steps from the same start; the rate changes at each, clipping included when asked for.
template <class O, class Options>
Result train(const Options& options, bool compiled, bool clip) {
  manual_seed(9);
  const ConvNet model;
  O optimizer(nn::parameters(model), options);
  Schedule schedule(optimizer, cosine_decay(10, 0.1));
  const auto step = [&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    if (clip) (void)clip_grad_norm(optimizer.parameters(), 0.5);
    optimizer.step();
    return loss;
  };
  const auto fast = compile(step);
  Result result;
  for (int i = 0; i < 8; ++i) {
    const auto [x, y] = image_batch(i);
    const Tensor loss = compiled ? fast(x, y) : step(x, y);
    result.losses.push_back(loss.item<float>());
    schedule.step();
  }
  const TensorDict state = nn::state_dict(model);
  for (const auto& [name, tensor] : state) {
    result.state.push_back(tensor.template to_vector<float>());
  }
  result.recordings = fast.explain().recordings.size();
  return result;
}

template <class O, class Options>
void expect_same(const Options& options, bool clip = false) {
  const Result eager = train<O>(options, false, clip), compiled = train<O>(options, true, clip);
  EXPECT_EQ(eager.losses, compiled.losses);
  EXPECT_EQ(eager.state, compiled.state);
  EXPECT_EQ(compiled.recordings, 1u) << "a new learning rate must not need a new recording";
}

TEST(CompiledTraining, SGD) { expect_same<SGD>(SGDOptions{.lr = 0.1}); }
TEST(CompiledTraining, Momentum) {
  expect_same<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
}
TEST(CompiledTraining, Adam) { expect_same<Adam>(AdamOptions{.lr = 0.01}); }
TEST(CompiledTraining, VariantsOfAdam) {
  expect_same<Adam>(AdamOptions{.lr = 0.01, .weight_decay = 0.1, .amsgrad = true});
  expect_same<NAdam>(NAdamOptions{.lr = 0.01});
  expect_same<RAdam>(RAdamOptions{.lr = 0.01, .beta2 = 0.9});
  expect_same<Adamax>(AdamaxOptions{.lr = 0.01});
  expect_same<Lion>(LionOptions{.lr = 0.01, .weight_decay = 0.1});
}
TEST(CompiledTraining, AdaptiveRates) {
  expect_same<Adagrad>(AdagradOptions{.lr = 0.1, .lr_decay = 0.1});
  expect_same<RMSprop>(RMSpropOptions{.lr = 0.01, .momentum = 0.5, .centered = true});
  expect_same<Adadelta>(AdadeltaOptions{.lr = 0.5});
  expect_same<Adafactor>(AdafactorOptions{.lr = 0.05});
}
TEST(CompiledTraining, AdamWWithClipping) { expect_same<AdamW>(AdamWOptions{.lr = 0.01}, true); }

TEST(CompiledModel, TrainAndEvalAreGuards) {
  manual_seed(3);
  const ConvNet model;
  const auto fast = compile([&](const Tensor& x) { return model(x); });
  const Tensor x = image_batch(0).first;
  for (int i = 0; i < 2; ++i) {
    nn::train(model);
    const Tensor trained = fast(x);
    nn::eval(model);
    const Tensor expected = model(x);
    EXPECT_EQ(fast(x).to_vector<float>(), expected.to_vector<float>());
    EXPECT_NE(trained.to_vector<float>(), expected.to_vector<float>());
  }
}

TEST(CompiledModel, RecurrentCells) {
  manual_seed(5);
  struct Cells {
    nn::LSTMCell lstm{3, 4};
    nn::GRUCell gru{4, 2};
  };
  const Cells cells;
  const auto run = [&](const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& g) {
    const auto [next_h, next_c] = cells.lstm(x, h, c);
    return std::tuple{next_h, next_c, cells.gru(next_h, g)};
  };
  const auto fast = compile(run);
  for (const std::int64_t n : {2, 5, 3, 7}) {
    const Tensor x = normal({n, 3}), h = normal({n, 4}), c = normal({n, 4}), g = normal({n, 2});
    const auto [h1, c1, g1] = run(x, h, c, g);
    const auto [h2, c2, g2] = fast(x, h, c, g);
    EXPECT_EQ(h1.to_vector<float>(), h2.to_vector<float>());
    EXPECT_EQ(c1.to_vector<float>(), c2.to_vector<float>());
    EXPECT_EQ(g1.to_vector<float>(), g2.to_vector<float>());
  }
}

/// Inside, it would happen when the function is recorded alone.
TEST(CompiledTraining, AScheduleStepsOutside) {
  Tensor p = ones({2}).requires_grad();
  SGD optimizer({p}, {.lr = 1});
  Schedule schedule(optimizer, step_decay(3));
  ReduceOnPlateau plateau(optimizer);
  const auto refused = [&](const auto& action) {
    try {
      (void)compile([&](const Tensor& x) {
        action();
        return x + 1;
      })(p.detach());
    } catch (const GraphError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(
      refused([&] { schedule.step(); }),
      ::testing::StartsWith("Schedule: a step in a compiled function or a graph would happen "
                            "once, when it is recorded: call it outside, after the step"));
  EXPECT_THAT(refused([&] { plateau.step(1); }),
              ::testing::StartsWith("ReduceOnPlateau: a step in a compiled function"));
  EXPECT_EQ(schedule.position(), 0);
}

}  // namespace
}  // namespace dyad::optim
