#include "dyad/exec/update.h"

#include <gmock/gmock.h>

#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/storage.h"
#include "dyad/exec/compile.h"
#include "dyad/ops/attrs/optimizer_steps.h"
#include "dyad/ops/ops.h"
#include "dyad/ops/registry.h"

namespace dyad::exec {
namespace {

const OpInfo& momentum_step() {
  ops::register_builtin_ops();
  return *find_op("sgd_momentum_step");
}

struct Operands {
  Tensor p, g, v, lr = full({}, 0.5), decay = zeros({}), share = ones({});

  [[nodiscard]] std::vector<const Tensor*> inputs() const {
    return {&p, &g, &v, &lr, &decay, &share};
  }
};

void step(const Operands& o, const std::vector<Tensor>& targets) {
  const NoGrad no_grad;
  const ops::MomentumAttrs attrs;
  update(momentum_step(), o.inputs(), &attrs, targets, std::source_location::current());
}

Tensor line(std::int64_t count) { return arange(count, f32) + 1; }

TEST(Update, WritesResultsWhereTheTargetsLie) {
  const Operands o{.p = line(4), .g = ones({4}), .v = zeros({4})};
  const void* const memory = o.p.raw_data();
  step(o, {o.p, o.v});
  EXPECT_EQ(o.p.raw_data(), memory);
  EXPECT_EQ(o.p.to_vector<float>(), (std::vector<float>{0.5, 1.5, 2.5, 3.5}));
  EXPECT_EQ(o.v.to_vector<float>(), std::vector<float>(4, 1));
}

TEST(Update, TargetsOfAnyLayout) {
  const Tensor whole = reshape(line(12), {3, 4}), kept = zeros({4, 3});
  const Operands o{.p = whole.t(), .g = ones({4, 3}), .v = kept};
  step(o, {o.p, o.v});
  EXPECT_EQ(whole.to_vector<float>(), (line(12) - 0.5).to_vector<float>());
}

/// What is read beside the element itself must not have been overwritten.
TEST(Update, OverlappingOperandsAreReadBefore) {
  const Tensor memory = line(5);
  const Operands o{.p = slice(memory, 0, 1, 5), .g = slice(memory, 0, 0, 4), .v = zeros({4})};
  step(o, {o.p, o.v});
  EXPECT_EQ(memory.to_vector<float>(), (std::vector<float>{1, 1.5, 2, 2.5, 3}));
  EXPECT_EQ(o.v.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Update, SavedTensorsNoticeTheWrite) {
  Tensor p = line(2);
  p.requires_grad();
  const Tensor y = sum(square(p));
  step({.p = p, .g = ones({2}), .v = zeros({2})}, {p, zeros({2})});
  EXPECT_THROW(y.backward(), GradError);
}

TEST(Update, TakesNoMemoryWhileItIsRecorded) {
  constexpr std::int64_t kCount = 1 << 20;
  const Operands o{.p = zeros({kCount}), .g = {}, .v = zeros({kCount})};
  const auto fast = compile(
      [&](const Tensor& g) {
        Operands now = o;
        now.g = g;
        step(now, {o.p, o.v});
        return sum(o.v);
      },
      {.recheck = false, .background = Background::never});
  const Tensor g = ones({kCount});
  reset_peak_memory();
  const std::size_t before = memory_stats().in_use;
  EXPECT_EQ(fast(g).item<float>(), kCount);
  EXPECT_LT(memory_stats().peak, before + kCount);  // a quarter of one result
  EXPECT_NEAR(fast(g).item<float>(), 1.9 * kCount, 1e-4 * kCount);
  EXPECT_EQ(fast.explain().replays, 1);
}

TEST(Update, OfAStateThatTheFunctionMakes) {
  const Operands o{.p = line(3), .g = ones({3}), .v = zeros({3})};
  const auto run = [](const Operands& with, const Tensor& g) {
    Operands now = with;
    now.g = g;
    now.v = tensor(std::vector<float>{1, 2, 3});  // written where it lies
    step(now, {now.p, now.v});
    return now.v * 1;
  };
  const auto fast = compile([&](const Tensor& g) { return run(o, g); }, {.recheck = false});
  const Operands eager{.p = line(3), .g = ones({3}), .v = zeros({3})};
  for (int i = 0; i < 3; ++i) {
    const Tensor g = ones({3}) * (i + 1);
    EXPECT_EQ(fast(g).to_vector<float>(), run(eager, g).to_vector<float>());
    EXPECT_EQ(o.p.to_vector<float>(), eager.p.to_vector<float>());
  }
}

TEST(Update, IsAPartOfCompiledFunctions) {
  const Operands o{.p = line(3), .g = ones({3}), .v = zeros({3})};
  const auto fast = compile([&](const Tensor& g) {
    Operands now = o;
    now.g = g;
    step(now, {o.p, o.v});
    return sum(o.p);
  });
  for (int i = 0; i < 3; ++i) (void)fast(ones({3}));
  // 0.5 * (1 + 1.9 + 2.71)
  EXPECT_FLOAT_EQ(o.p.to_vector<float>()[0], 1 - 2.805f);
  EXPECT_FLOAT_EQ(o.v.to_vector<float>()[0], 2.71f);
}

TEST(Update, RefusesOperandsThatDoNotFit) {
  const Operands o{.p = line(4), .g = ones({3}), .v = zeros({4})};
  try {
    step(o, {o.p, o.v});
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("sgd_momentum_step(p: f32[4], g: f32[3], velocity: "
                                     "f32[4], lr: f32[], decay: f32[], share: f32[]): "
                                     "g must have the shape of p, [4], or be a number "
                                     "of shape []"));
  }
}

}  // namespace
}  // namespace dyad::exec
