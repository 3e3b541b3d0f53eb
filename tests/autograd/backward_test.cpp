#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/storage.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Backward, ProductOfTwoScalars) {
  Tensor a = tensor(15.0f).requires_grad(), b = tensor(20.0f).requires_grad();
  Tensor c = a * b;
  EXPECT_EQ(c.item<float>(), 300);
  c.backward();
  EXPECT_EQ(a.grad().item<float>(), 20);
  EXPECT_EQ(b.grad().item<float>(), 15);
}

TEST(Backward, AccumulatesIntoLeaves) {
  Tensor x = tensor({1.0f, 2.0f}).requires_grad();
  sum(x * x).backward();
  sum(x * 3).backward();
  EXPECT_THAT(x.grad().to_vector<float>(), ElementsAre(5, 7));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
}

/// The gradient of a loss by a matrix of three rows: a leaf, and what was computed from one.
template <class Loss>
void expect_gradient(const Loss& loss, const std::vector<float>& expected) {
  for (const bool is_leaf : {true, false}) {
    Tensor x = reshape(tensor({1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}), {3, 2}).requires_grad();
    loss(is_leaf ? x : x * 1).backward();
    EXPECT_EQ(x.grad().to_vector<float>(), expected) << (is_leaf ? "a leaf" : "computed");
  }
}

TEST(Backward, SlicesComeTogether) {
  const auto row = [](const Tensor& x, std::int64_t i) { return sum(select(x, 0, i)); };
  expect_gradient([&](const Tensor& x) { return row(x, 0) + row(x, 1) * 2 + row(x, 2) * 3; },
                  {1, 1, 2, 2, 3, 3});
  expect_gradient([&](const Tensor& x) { return row(x, 2) * 3 + row(x, 0); }, {1, 1, 0, 0, 3, 3});
  expect_gradient([&](const Tensor& x) { return row(x, 1); }, {0, 0, 1, 1, 0, 0});
  expect_gradient([&](const Tensor& x) { return row(x, 1) + row(x, 1) * 5; }, {0, 0, 6, 6, 0, 0});
  expect_gradient(
      [](const Tensor& x) { return sum(slice(x, 0, 0, 2)) + sum(slice(x, 0, 1, 3)) * 10; },
      {1, 1, 11, 11, 10, 10});
  expect_gradient([&](const Tensor& x) { return row(x, 0) + sum(select(x, 1, 1)) * 10; },
                  {1, 11, 0, 10, 0, 10});
  expect_gradient([&](const Tensor& x) { return row(x, 0) + sum(x) * 100 + row(x, 2) * 5; },
                  {101, 101, 100, 100, 105, 105});
  expect_gradient([&](const Tensor& x) { return sum(slice(x, 0, 0, 3, 2)) * 4 + row(x, 1) * 7; },
                  {4, 4, 7, 7, 4, 4});
}

TEST(Backward, SlicesThatComeTogetherLeaveNoNegativeZero) {
  // As a sum of padded slices does: -0 + 0 is 0.
  Tensor x = tensor({1.0f, 2.0f}).requires_grad();
  (select(x, 0, 0) * -0.0f + select(x, 0, 1)).backward();
  EXPECT_FALSE(std::signbit(x.grad().to_vector<float>()[0]));
  Tensor alone = tensor({1.0f, 2.0f}).requires_grad();
  (select(alone, 0, 0) * -0.0f).backward();
  EXPECT_TRUE(std::signbit(alone.grad().to_vector<float>()[0]));
}

TEST(Backward, ALeafUsedTwiceGetsBothShares) {
  Tensor x = tensor(3.0f).requires_grad();
  Tensor y = x * x + x;
  y.backward();
  EXPECT_EQ(x.grad().item<float>(), 7);
}

TEST(Backward, BroadcastInputsGetTheirShapeBack) {
  Tensor x = ones({2, 3}).requires_grad(), row = ones({3}).requires_grad(),
         column = ones({2, 1}).requires_grad();
  sum(x * row * column * 2).backward();
  EXPECT_THAT(row.grad().to_vector<float>(), ElementsAre(4, 4, 4));
  EXPECT_THAT(column.grad().to_vector<float>(), ElementsAre(6, 6));
  EXPECT_EQ(type_string(column.grad()), "f32[2, 1]");
}

TEST(Backward, PromotedInputsGetTheirDtypeBack) {
  Tensor x = ones({2}, f32).requires_grad(), y = ones({2}, f64).requires_grad();
  sum(x * y).backward();
  EXPECT_EQ(x.grad().dtype(), f32);
  EXPECT_EQ(y.grad().dtype(), f64);
}

TEST(Backward, GradientsOfTwoLeavesNeverShareMemory) {
  Tensor a = ones({2}).requires_grad(), b = ones({2}).requires_grad();
  sum(a + b).backward();
  no_grad([&] { a.grad().mul_(10); });
  EXPECT_THAT(b.grad().to_vector<float>(), ElementsAre(1, 1));
}

TEST(Backward, HigherDerivatives) {
  Tensor x = tensor(2.0).requires_grad();
  Tensor y = x * x * x * x;
  Tensor first = grad(y, {x}, {.create_graph = true})[0];
  Tensor second = grad(first, {x}, {.create_graph = true})[0];
  Tensor third = grad(second, {x})[0];
  EXPECT_EQ(first.item(), 32);
  EXPECT_EQ(second.item(), 48);
  EXPECT_EQ(third.item(), 48);
}

TEST(Backward, SecondDerivativeThroughASavedOutput) {
  Tensor x = tensor(0.5).requires_grad();
  Tensor first = grad(tanh(x), {x}, {.create_graph = true})[0];
  Tensor second = grad(first, {x})[0];
  const double t = std::tanh(0.5);
  EXPECT_NEAR(second.item(), -2 * t * (1 - t * t), 1e-14);
}

TEST(Backward, FunctionalGradLeavesGradAlone) {
  Tensor x = tensor({1.0f, 2.0f}).requires_grad(), unused = tensor(1.0f).requires_grad();
  Tensor y = sum(x * x);
  EXPECT_THAT(grad(y, {x}, {.retain_graph = true})[0].to_vector<float>(), ElementsAre(2, 4));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_THAT(message_of<GradError>([&] { (void)grad(y, {x, unused}, {.retain_graph = true}); }),
              HasSubstr("do not depend on input 1 (f32[])"));
  EXPECT_FALSE(grad(y, {unused}, {.allow_unused = true})[0].defined());
}

TEST(Backward, FunctionalGradTakesAVector) {
  const std::vector<Tensor> inputs{tensor(2.0f).requires_grad(), tensor(3.0f).requires_grad()};
  const Tensor y = inputs[0] * inputs[1];
  const std::vector<Tensor> g = grad(y, inputs, {.create_graph = true});
  EXPECT_EQ(g[0].item<float>(), 3);
  EXPECT_EQ(grad(g[1], {inputs[0]})[0].item<float>(), 1);
}

TEST(Backward, ByAnIntermediateValue) {
  Tensor x = tensor(3.0f).requires_grad();
  Tensor h = x * x;
  Tensor y = h * h;
  const std::vector<Tensor> g = grad(y, {h, x});
  EXPECT_EQ(g[0].item<float>(), 18);
  EXPECT_EQ(g[1].item<float>(), 108);
}

TEST(Backward, DetachAndNoGradStopTheGradient) {
  Tensor x = tensor(3.0f).requires_grad();
  Tensor y = x * x.detach();
  y.backward();
  EXPECT_EQ(x.grad().item<float>(), 3);
  Tensor z = no_grad([&] { return x * 2; });
  EXPECT_FALSE(z.tracks_grad());
  EXPECT_TRUE((x * 2).tracks_grad());
}

TEST(Backward, HooksSeeAndReplaceGradients) {
  Tensor x = tensor(2.0f).requires_grad();
  Tensor h = x * 3;
  float seen = 0;
  h.register_hook([&](const Tensor& g) {
    seen = g.item<float>();
    return g * 10;
  });
  x.register_hook([](const Tensor& g) { return g + 1; });
  (h * h).backward();
  EXPECT_EQ(seen, 12);
  EXPECT_EQ(x.grad().item<float>(), 361);
}

TEST(Backward, AStaleSavedTensorIsAnErrorNotAWrongGradient) {
  for (int call = 0; call < 2; ++call) {  // the second write works in the memory itself
    Tensor w = ones({2}).requires_grad();
    Tensor x = ones({2});
    Tensor y = sum(w * x);
    x.mul_(2);
    const std::string text = message_of<GradError>([&] { y.backward(); });
    EXPECT_THAT(text,
                HasSubstr("backward of mul: input 1 (f32[2]) was overwritten in place after it "
                          "was saved; call backward() before the write"));
    EXPECT_THAT(text, HasSubstr("backward_test.cpp"));
  }
}

TEST(Backward, ASecondPassNeedsRetainGraph) {
  Tensor x = tensor(2.0f).requires_grad();
  Tensor y = x * x;
  y.backward({}, true);
  y.backward();
  EXPECT_EQ(x.grad().item<float>(), 8);
  EXPECT_THAT(message_of<GradError>([&] { y.backward(); }), HasSubstr("pass retain_graph = true"));
}

TEST(Backward, WrongUseIsNamed) {
  Tensor x = ones({2}).requires_grad();
  EXPECT_THAT(message_of<GradError>([&] { (x * 2).backward(); }),
              HasSubstr("needs the gradient of the output"));
  EXPECT_THAT(message_of<GradError>([&] { ones({}).backward(); }),
              HasSubstr("does not track gradients"));
  EXPECT_THAT(message_of<ShapeError>([&] { (x * 2).backward(ones({3})); }),
              HasSubstr("f32[2] with a gradient of f32[3]"));
  EXPECT_THAT(message_of<DTypeError>([&] { ones({2}, i64).requires_grad(); }),
              HasSubstr("only floating and complex tensors"));
  EXPECT_THAT(message_of<GradError>([&] { (x * 2).requires_grad(); }),
              HasSubstr("only a leaf can be marked"));
  EXPECT_THAT(message_of<GradError>([&] { (x * 2).set_grad(ones({2})); }),
              HasSubstr("set_grad(f32[2]): only a leaf keeps a gradient"));
  EXPECT_THAT(message_of<GradError>([&] { x.mul_(2); }), HasSubstr("in-place write to a leaf"));
  EXPECT_THAT(
      message_of<GradError>([&] { ones({2}).register_hook([](const Tensor& g) { return g; }); }),
      HasSubstr("does not track gradients"));
}

TEST(Backward, InPlaceWritesPassTheGradientOn) {
  Tensor x = ones({2}).requires_grad();
  Tensor y = x * 2;
  y.mul_(3);
  sum(y).backward();
  EXPECT_THAT(x.grad().to_vector<float>(), ElementsAre(6, 6));
}

TEST(Backward, AWriteUnderAViewThatTracksGradientsIsAnError) {
  Tensor x = ones({2, 2}).requires_grad();
  Tensor y = x * 2;
  Tensor view = y[0];
  EXPECT_THAT(message_of<GradError>([&] { y.mul_(3); }), HasSubstr("shares memory with a view"));
}

TEST(Backward, AMillionNodesAreReleasedWithoutRecursion) {
  Tensor x = tensor(1.0f).requires_grad();
  Tensor y = x;
  for (int i = 0; i < 1'000'000; ++i) y = y + 1;
  y.backward();
  EXPECT_EQ(x.grad().item<float>(), 1);
  Tensor z = x;
  for (int i = 0; i < 1'000'000; ++i) z = z + 1;
  z = Tensor();
}

TEST(Backward, AMillionNodesThatSaveTheirInputsAreReleasedWithoutRecursion) {
  Tensor x = tensor(1.0f).requires_grad();
  Tensor y = x;
  for (int i = 0; i < 1'000'000; ++i) y = y * x;
  y.backward({}, /*retain_graph=*/true);
  EXPECT_EQ(x.grad().item<float>(), 1'000'001);
  y = Tensor();
}

TEST(Backward, AGraphMadeInSeveralThreads) {
  Tensor x = tensor(2.0f).requires_grad();
  Tensor a, b, c;
  const auto in_thread = [](auto body) { std::thread(body).join(); };
  in_thread([&] {
    a = x * 2;
    for (int i = 0; i < 100; ++i) a = a + 1;
  });
  in_thread([&] { b = x * 3; });
  in_thread([&] { c = a * b; });  // its nodes come after those of the longer chain
  (c * x).backward();
  // x * (2x + 100) * 3x
  EXPECT_EQ(x.grad().item<float>(), 18 * 2 * 2 + 600 * 2);
}

TEST(Hooks, MustReplaceByTheSameType) {
  const Tensor x = tensor({1.0f, 2.0f}).requires_grad();
  const Tensor y = x * 2;
  y.register_hook([](const Tensor&) { return ones({3}); });
  EXPECT_THAT(message_of<ShapeError>([&] { sum(y).backward(); }),
              HasSubstr("a hook replaced the gradient f32[2] by f32[3]: the two must have the same "
                        "shape\n  at backward_test.cpp"));
  const Tensor z = tensor({1.0f, 2.0f}).requires_grad();
  z.register_hook([](const Tensor& g) { return g.to(f64); });
  EXPECT_THAT(message_of<DTypeError>([&] { sum(z).backward(); }),
              HasSubstr("f32[2] by f64[2]: the two must have the same dtype\n  at backward_test"));
  EXPECT_FALSE(z.grad().defined());
}

/// The others would hold the value without its gradient.
TEST(Versions, AValueThatTracksIsNotWrittenToSharedMemory) {
  const Tensor w = tensor({1.0f, 2.0f}).requires_grad();
  const Tensor table = zeros({2, 2});
  Tensor row = table[0];
  EXPECT_THAT(message_of<GradError>([&] { row.copy_(w); }),
              HasSubstr("in-place write of a value that tracks gradients to f32[2], whose memory "
                        "other tensors share"));
  EXPECT_EQ(table.to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
  row.copy_(w.detach());
  {
    const NoGrad scope;
    row.add_(w);
  }
  EXPECT_EQ(table.to_vector<float>(), (std::vector<float>{2, 4, 0, 0}));

  Tensor alone = zeros({2});
  alone.copy_(w);
  sum(alone * alone).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{2, 4}));
}

TEST(DetectAnomaly, NamesTheOperatorAndTheLineForward) {
  const DetectAnomaly scope;
  Tensor x = tensor({1.0f, -1.0f});
  const std::string text = message_of<AnomalyError>([&] { (void)log(x); });
  EXPECT_THAT(text, HasSubstr("log(x: f32[2]) made a NaN at element 1 of f32[2]"));
  EXPECT_THAT(text, HasSubstr("backward_test.cpp"));
}

TEST(DetectAnomaly, NamesTheRuleBackward) {
  Tensor x = tensor(0.0f).requires_grad();
  Tensor y = sqrt(x);
  const DetectAnomaly scope;
  EXPECT_THAT(message_of<AnomalyError>([&] { y.backward(); }),
              HasSubstr("in the backward pass of sqrt"));
}

TEST(InPlace, WhatWasWrittenDoesNotOwnItself) {
  Tensor w = full({1 << 16}, 2.0f).requires_grad();
  const std::vector<std::pair<const char*, void (*)(Tensor&, const Tensor&)>> writes{
      {"mul_", [](Tensor& y, const Tensor&) { y.mul_(2); }},
      {"tanh", [](Tensor& y, const Tensor&) { y.copy_(tanh(y)); }},
      {"square", [](Tensor& y, const Tensor&) { y.copy_(y * y); }},
      {"twice",
       [](Tensor& y, const Tensor&) {
         y.mul_(3);
         y.copy_(sin(y) * y);
       }},
      {"through others", [](Tensor& y, const Tensor& w) { y.copy_(exp(sin(y) * w) + cos(y)); }},
  };
  for (const bool begins_on_tape : {true, false}) {
    for (const auto& [name, write] : writes) {
      const std::size_t before = memory_stats().in_use;
      for (int i = 0; i < 40; ++i) {
        Tensor y = begins_on_tape ? 2.0f / w : full({1 << 16}, 0.5f);
        if (!begins_on_tape) y.copy_(y * w);
        write(y, w);
      }
      EXPECT_LT(memory_stats().in_use, before + (1 << 20)) << name;
    }
  }
  Tensor y = w + 1.0f;
  const Tensor z = sin(y);
  y.mul_(2);
  EXPECT_THAT(
      message_of<GradError>([&] { static_cast<void>(grad(sum(z), {w})); }),
      ::testing::HasSubstr("backward of sin: input 0 (f32[65536]) was overwritten in place"));
  EXPECT_EQ(grad(sum(y), {w})[0].to_vector<float>()[0], 2.0f);
  // Nothing else has its memory: it may leave the tape and come back.
  Tensor again = w + 1.0f;
  again.add_(again * again);
  again.fill_(0);
  again.copy_(w * 4.0f);
  EXPECT_EQ(grad(sum(again), {w})[0].to_vector<float>()[0], 4.0f);
}

}  // namespace
}  // namespace dyad
