#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/core/allocation_limit.h"
#include "dyad/core/generator.h"
#include "dyad/core/storage.h"
#include "dyad/exec/autocast.h"
#include "dyad/exec/compile.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"

// The memory of training steps.

namespace dyad {
namespace {

/// What the trained network is like.
struct Kind {
  bool images;           ///< whether a convolution, normalised, comes first
  bool narrow;           ///< under autocast
  bool keeps_gradients;  ///< in .grad after a step
};

/// Layers of 512, so that the memory of values is counted in the large.
struct Trainer {
  Kind kind;
  nn::Conv2d conv{1, 4, 3, {.padding = 1}};
  nn::BatchNorm norm{4};
  nn::Linear first{784, 512}, second{512, 512}, third{512, 10};
  optim::Adam optimizer{parameters(), {}};

  [[nodiscard]] std::vector<Tensor> parameters() const {
    std::vector<Tensor> all{first.weight, first.bias,   second.weight,
                            second.bias,  third.weight, third.bias};
    if (kind.images) all.insert(all.end(), {conv.weight, conv.bias, norm.weight, norm.bias});
    return all;
  }
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    const Tensor h =
        kind.images ? flatten(max_pool2d(relu(norm(conv(reshape(x, {-1, 1, 28, 28})))), 2), 1) : x;
    return third(relu(second(relu(first(h)))));
  }
  Tensor step(const Tensor& x, const Tensor& y) {
    if (kind.keeps_gradients) optimizer.zero_grad();
    Tensor loss;
    {
      const Autocast scope(bf16, kind.narrow);
      loss = cross_entropy(forward(x), y);
    }
    loss.backward();
    optimizer.step();
    if (!kind.keeps_gradients) optimizer.zero_grad();
    return loss;
  }
};

std::size_t most_of(const std::function<void()>& run) {
  for (int i = 0; i < 3; ++i) run();
  reset_peak_memory();
  run();
  return memory_stats().peak;
}

class StepMemory : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    manual_seed(2);
    x_ = uniform({128, 784});
    y_ = randint(0, 10, {128});
  }
  Tensor x_, y_;
};

TEST_P(StepMemory, OfACompiledStepIsNotAboveThatOfAnEagerOne) {
  constexpr std::size_t kCounted = 128 << 10;  // what the counts of two threads are good to
  Trainer trainer{GetParam()};
  const std::size_t eager = most_of([&] { (void)trainer.step(x_, y_); });
  const auto fast = compile([&](const Tensor& x, const Tensor& y) { return trainer.step(x, y); },
                            {.recheck = false, .background = Background::never});
  const std::size_t compiled = most_of([&] { (void)fast(x_, y_); });
  // The second layer's gradient, a megabyte, makes way for the first one's.
  constexpr std::size_t kSecond = sizeof(float) * 512 * 512;
  const std::size_t saved = GetParam().keeps_gradients ? 0 : kSecond;
  EXPECT_LE(compiled + saved, eager + kCounted);
}

/// Layers of 512, as many as there are, of which the activations take as much as the weights.
struct DeepTrainer {
  bool smooth, keeps_gradients;
  std::vector<nn::Linear> layers;
  optim::Adam optimizer;

  DeepTrainer(int count, bool smooth, bool keeps_gradients)
      : smooth(smooth),
        keeps_gradients(keeps_gradients),
        layers(make(count)),
        optimizer(parameters(), {}) {}

  static std::vector<nn::Linear> make(int count) {
    std::vector<nn::Linear> made;
    for (int i = 0; i < count; ++i) made.emplace_back(512, 512);
    return made;
  }
  [[nodiscard]] std::vector<Tensor> parameters() const {
    std::vector<Tensor> all;
    for (const nn::Linear& layer : layers) all.insert(all.end(), {layer.weight, layer.bias});
    return all;
  }
  Tensor step(Tensor x, const Tensor& y) {
    if (keeps_gradients) optimizer.zero_grad();
    for (const nn::Linear& layer : layers) x = smooth ? gelu(layer(x)) : relu(layer(x));
    const Tensor loss = cross_entropy(x, y);
    loss.backward();
    optimizer.step();
    if (!keeps_gradients) optimizer.zero_grad();
    return loss;
  }
};

TEST(DeepStepMemory, IsBelowThatOfEagerSteps) {
  const Tensor x = uniform({256, 512}), y = randint(0, 10, {256});
  for (const int count : {2, 4, 8}) {
    for (const bool smooth : {false, true}) {
      for (const bool keeps_gradients : {false, true}) {
        DeepTrainer trainer(count, smooth, keeps_gradients);
        const std::size_t eager = most_of([&] { (void)trainer.step(x, y); });
        const auto fast =
            compile([&](const Tensor& a, const Tensor& b) { return trainer.step(a, b); },
                    {.recheck = false, .background = Background::never});
        EXPECT_LT(most_of([&] { (void)fast(x, y); }), eager)
            << count << " layers" << (smooth ? ", gelu" : ", relu")
            << (keeps_gradients ? ", gradients kept" : "");
      }
    }
  }
}

TEST_P(StepMemory, ThatRunsOutInTheMiddleLosesNothing) {
  Trainer trainer{GetParam()};
  const auto fast = compile([&](const Tensor& x, const Tensor& y) { return trainer.step(x, y); },
                            {.recheck = false, .background = Background::never});
  for (int i = 0; i < 3; ++i) (void)fast(x_, y_);
  trainer.optimizer.zero_grad();
  std::vector<std::vector<float>> before;
  for (const Tensor& p : trainer.parameters()) before.push_back(p.to_vector<float>());
  int refused = 0;
  // Each limit is reached at another step, the last one at none.
  for (std::size_t limit = 64 << 10;; limit += 64 << 10) {
    bool done = true;
    try {
      const AllocationLimit least(limit);
      (void)fast(x_, y_);
    } catch (const MemoryError&) {
      done = false;
      ++refused;
    }
    if (done) break;
    for (std::size_t i = 0; i < before.size(); ++i)
      ASSERT_EQ(trainer.parameters()[i].to_vector<float>(), before[i]) << "limit " << limit;
  }
  EXPECT_GT(refused, 4);
  EXPECT_NE(trainer.parameters()[0].to_vector<float>(), before[0]);
}

TEST_P(StepMemory, ValuesThatMakeWayKeepTheBits) {
  Trainer by_eager{GetParam()}, by_compiled{GetParam()};
  {
    const NoGrad copy;
    for (std::size_t i = 0; i < by_eager.parameters().size(); ++i)
      by_compiled.parameters()[i].copy_(by_eager.parameters()[i]);
  }
  const auto fast =
      compile([&](const Tensor& x, const Tensor& y) { return by_compiled.step(x, y); },
              {.recheck = false, .background = Background::never});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(fast(x_, y_).item<float>(), by_eager.step(x_, y_).item<float>()) << "step " << i;
    for (std::size_t k = 0; k < by_eager.parameters().size(); ++k) {
      const Tensor found = by_compiled.parameters()[k], expected = by_eager.parameters()[k];
      EXPECT_EQ(found.to_vector<float>(), expected.to_vector<float>())
          << "parameter " << k << " after step " << i;
      ASSERT_EQ(found.grad().defined(), GetParam().keeps_gradients);
      if (!GetParam().keeps_gradients) continue;
      EXPECT_EQ(found.grad().to_vector<float>(), expected.grad().to_vector<float>())
          << "gradient " << k << " in step " << i;
    }
  }
}

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const bool images : {false, true}) {
    for (const bool narrow : {false, true}) {
      for (const bool keeps_gradients : {true, false})
        all.push_back({images, narrow, keeps_gradients});
    }
  }
  return all;
}
std::string name_of(const ::testing::TestParamInfo<Kind>& info) {
  const Kind& kind = info.param;
  return std::string(kind.images ? "images_" : "") + (kind.narrow ? "bf16" : "f32") +
         (kind.keeps_gradients ? "" : "_without_gradients");
}
INSTANTIATE_TEST_SUITE_P(Kinds, StepMemory, ::testing::ValuesIn(kinds()), name_of);

}  // namespace
}  // namespace dyad
