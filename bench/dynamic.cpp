#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/models.h"
#include "bench/training.h"
#include "dyad/autograd/grad_mode.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"

// What a graph that is not the same at each call costs; bench/peers/dynamic.py has the same
// programs. The small call and the branch have no floor: next to nothing of their time is
// arithmetic or memory, and what a call costs beside is what they measure.

namespace dyad::bench {
namespace {

/// A layer with or without ReLU, which the mean of the input decides, and another layer.
struct Branching {
  nn::Linear l1{64, 64}, l2{64, 64};
  Tensor operator()(const Tensor& x) const {
    const bool plain = mean(x).item() > 0.5;
    return l2(plain ? l1(x) : relu(l1(x)));
  }
};

void branch(Results& results, int threads) {
  const std::string name = "branch on data, 32x64";
  manual_seed(3);
  Branching model;
  const std::vector<Tensor> parameters = nn::parameters(model);
  // Each call takes the other side.
  const Tensor inputs[] = {uniform({32, 64}) + 0.1, uniform({32, 64}) - 0.1};
  const auto forward = [&](const Tensor& x) { return model(x); };
  const auto step = [&](const Tensor& x) {
    for (const Tensor& p : parameters) p.zero_grad();
    sum(model(x)).backward();
  };
  const auto compiled_forward = compile(forward, {.recheck = false});
  const auto compiled_step = compile(step, {.recheck = false});
  for (const Tensor& x : inputs) {
    const bool same = no_grad([&] {
      return compiled_forward(x).to_vector<float>() == forward(x).to_vector<float>() &&
             compiled_forward(x).to_vector<float>() == forward(x).to_vector<float>();
    });
    step(x);
    const std::vector<float> wanted = parameters[0].grad().to_vector<float>();
    for (int i = 0; i < 2; ++i) compiled_step(x);
    if (!same || parameters[0].grad().to_vector<float>() != wanted)
      results.fail(name, "eager and compiled differ");
  }
  std::size_t next = 0;
  const auto microseconds = [&](const auto& call) {
    return 1e6 * median_seconds([&] { call(inputs[next++ % 2]); });
  };
  no_grad([&] {
    results.add({name, "dyad-eager", threads, microseconds(forward), "us", 0});
    results.add({name, "dyad-compiled", threads, microseconds(compiled_forward), "us", 0});
    return 0;
  });
  const std::string with_gradient = name + ", with gradients";
  results.add({with_gradient, "dyad-eager", threads, microseconds(step), "us", 0});
  results.add({with_gradient, "dyad-compiled", threads, microseconds(compiled_step), "us", 0});
}

/// A call that does nearly nothing.
void small_call(Results& results, int threads) {
  const std::string name = "call of a compiled sum of 16 elements";
  const auto f =
      compile([](const Tensor& x, const Tensor& y) { return x + y; }, {.recheck = false});
  const Tensor x = uniform({16}), y = uniform({16});
  no_grad([&] {
    for (int i = 0; i < 3; ++i) {
      if (f(x, y).to_vector<float>() != (x + y).to_vector<float>()) results.fail(name, "the sum");
    }
    results.add(
        {name, "dyad-compiled", threads, 1e6 * median_seconds([&] { (void)f(x, y); }), "us", 0});
    return 0;
  });
}

/// 100 steps of a language model over texts of 5 to 60 characters: seconds for all of them, the
/// first time with recording and compiling, and later. The floor is that of as many steps of the
/// mean length.
template <class Model>
void lengths(Results& results, int threads, const std::string& name) {
  constexpr int kSteps = 100;
  constexpr std::int64_t kBatch = 16;
  manual_seed(4);
  std::vector<Batch> data;
  std::int64_t characters = 0;
  for (int i = 0; i < kSteps; ++i) {
    const std::int64_t length = 5 + i * 37 % 46;
    characters += length;
    const Tensor x = randint(0, kCharacters, {kBatch, length});
    data.push_back({x, randint(0, kCharacters, {kBatch * length})});
  }
  const double floor =
      kSteps * floor_seconds(lstm_layers(kBatch, characters / kSteps), f32, lstm_update_bytes());
  struct Trainer {
    Model model;
    optim::Adam optimizer{nn::parameters(model)};
    Tensor operator()(const Tensor& x, const Tensor& y) {
      optimizer.zero_grad();
      const Tensor loss = cross_entropy(model(x), y);
      loss.backward();
      optimizer.step();
      return loss;
    }
  };
  const auto pass = [&](const auto& step) {
    const auto start = std::chrono::steady_clock::now();
    double loss = 0;
    for (const Batch& batch : data) loss = step(batch.x, batch.y).item();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    return std::pair(took.count(), loss);
  };
  manual_seed(5);
  Trainer eager;
  const auto eager_step = [&](const Tensor& x, const Tensor& y) { return eager(x, y); };
  const auto [eager_first, eager_loss] = pass(eager_step);
  results.add({name + ", first pass", "dyad-eager", threads, eager_first, "s", floor});
  results.add({name + ", later", "dyad-eager", threads, pass(eager_step).first, "s", floor});

  manual_seed(5);
  Trainer trainer;
  const auto compiled =
      compile([&](const Tensor& x, const Tensor& y) { return trainer(x, y); }, {.recheck = false});
  const auto [first, loss] = pass(compiled);
  if (loss != eager_loss) results.fail(name, "eager and compiled differ");
  results.add({name + ", first pass", "dyad-compiled", threads, first, "s", floor});
  results.add({name + ", later", "dyad-compiled", threads, pass(compiled).first, "s", floor});
}

/// Inference on batches of 2 to 399 samples, each size once: seconds for all of them, the first
/// time with recording and compiling, and later. The floor is that of as many batches of the mean
/// size.
void batch_sizes(Results& results, int threads) {
  const std::string name = "MLP on 398 batch sizes";
  constexpr std::int64_t kSizes = 398, kMean = 2 + kSizes / 2;
  manual_seed(6);
  const Mlp model;
  const Tensor all = normal({kSizes + 2, 784});
  const auto forward = [&](const Tensor& x) { return softmax(model(x), 1); };
  const auto batch = [&](std::int64_t i) { return slice(all, 0, 0, 2 + i * 37 % kSizes); };
  const std::vector<Layer> layers = {linear(kMean, 784, 512, Passes::forward),
                                     linear(kMean, 512, 512, Passes::forward),
                                     linear(kMean, 512, 10, Passes::forward)};
  const double floor = kSizes * floor_seconds(layers, f32, 0);
  const auto measure = [&](const std::string& system, const auto& f, double allowed) {
    for (const char* const when : {", first pass", ", later"}) {
      const auto start = std::chrono::steady_clock::now();
      for (std::int64_t i = 0; i < kSizes; ++i) static_cast<void>(f(batch(i)));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      results.add({name + when, system, threads, took.count(), "s", floor});
    }
    for (std::int64_t i = 0; i < kSizes; i += 20) {
      const double apart = max(abs(f(batch(i)) - forward(batch(i)))).item();
      if (!(apart <= allowed)) results.fail(name, system + " and eager differ");
    }
  };
  no_grad([&] {
    measure("dyad-eager", forward, 0);
    measure("dyad-compiled", compile(forward, {.recheck = false}), 0);
    measure("dyad-buckets",
            compile(forward, {.buckets = {{{0, 0}, {16, 32, 64, 96, 128, 192, 256, 320, 400}}},
                              .recheck = false}),
            1e-5);
    return 0;
  });
}

}  // namespace

void dynamic(Results& results, int threads) {
  small_call(results, threads);
  branch(results, threads);
  lengths<LstmModel>(results, threads, "LSTM steps of 46 lengths");
  lengths<LstmCellModel>(results, threads, "LSTM cell by hand, steps of 46 lengths");
  batch_sizes(results, threads);
}

}  // namespace dyad::bench
