#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/derivatives.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/ops/ops.h"

// Floats of 8 and 4 bits pass gradients on, in f32.

namespace dyad {
namespace {

using Floats = std::vector<float>;

constexpr DType kSmallFloats[] = {DType::f8e4m3fn,   DType::f8e4m3fnuz, DType::f8e5m2,
                                  DType::f8e5m2fnuz, DType::f8e8m0,     DType::f4e2m1};

TEST(SmallFloatGradients, GoThroughCasts) {
  for (const DType dtype : kSmallFloats) {
    SCOPED_TRACE(name_of(dtype));
    const Tensor x = tensor({0.5, 1.0, 2.0}, f32).requires_grad(),
                 w = tensor({3.0, -4.0, 5.5}, f32);
    const auto loss = [&](const Tensor& t) { return sum(to(to(t, dtype), f32) * w); };
    loss(x).backward();
    EXPECT_EQ(x.grad().dtype(), f32);
    EXPECT_EQ(x.grad().to_vector<float>(), (Floats{3, -4, 5.5}));
    const auto compiled = compile([&](const Tensor& t) { return gradients(loss(t), {t})[0]; });
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(compiled(tensor({0.5, 1.0, 2.0}, f32).requires_grad()).to_vector<float>(),
                (Floats{3, -4, 5.5}));
    }
  }
}

TEST(SmallFloatGradients, GoThroughWhatMovesThem) {
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}}, f64).requires_grad();
  const Tensor small = to(x, DType::f8e5m2),
               rows = transpose(concat({small, small[0].unsqueeze(0)}, 0), 0, 1);
  EXPECT_TRUE(rows.tracks_grad());
  sum(to(rows, f64) * tensor({{1.0, 10.0, 100.0}, {2.0, 20.0, 200.0}}, f64)).backward();
  EXPECT_EQ(x.grad().dtype(), f64);
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{101, 202, 10, 20}));
}

TEST(SmallFloatGradients, OfALeafAreF32) {
  const Tensor x = tensor({1.0, 2.0}, f32).to(DType::f8e4m3fn).detach().requires_grad();
  sum(square(to(x, f32))).backward();
  EXPECT_EQ(x.grad().dtype(), f32);
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{2, 4}));
  x.set_grad(zeros({2}));
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{0, 0}));
}

TEST(SmallFloatGradients, OfHigherOrder) {
  const Tensor x = tensor({2.0}, f64).requires_grad();
  const Tensor first =
      grad(sum(to(to(x * x, DType::f8e5m2), f64) * x), {x}, {.create_graph = true})[0];
  EXPECT_EQ(first.to_vector<double>(), std::vector<double>{12});
  EXPECT_EQ(gradients(sum(first), {x})[0].to_vector<double>(), std::vector<double>{12});
}

/// A loop whose state is f8, and a branch that gives f8.
Tensor through_control_flow(const Tensor& x, const Tensor& steps) {
  const auto [h, ys] = scan(
      [](const Tensor& state, const Tensor& step) {
        const Tensor next = to(to(state, f32) * step, DType::f8e5m2);
        return std::pair(next, next);
      },
      to(x, DType::f8e5m2), steps);
  const Tensor chosen = cond(
      sum(x) > 0, [&](const Tensor& t) { return t; },
      [&](const Tensor& t) { return to(to(t, f32) * 0.5, DType::f8e5m2); }, ys.select(0, 1));
  return sum(to(h, f32) + to(chosen, f32));
}

TEST(SmallFloatGradients, InGraphsAndTheirLoops) {
  const Tensor x = ones({3}).requires_grad(), steps = full({3}, 2).requires_grad();
  through_control_flow(x, steps).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{12, 12, 12}));
  Graph graph;
  std::vector<Tensor> by;
  graph.define([&] {
    const Tensor a = placeholder("a", f32, {3}), b = placeholder("b", f32, {3});
    by = gradients(through_control_flow(a, b), {a, b});
    return by;
  });
  EXPECT_EQ(by[0].dtype(), f32);
  Session session(graph);
  const std::vector<Tensor> found = session.run(by, {{"a", x.detach()}, {"b", steps.detach()}});
  EXPECT_EQ(found[0].to_vector<float>(), x.grad().to_vector<float>());
  EXPECT_EQ(found[1].to_vector<float>(), steps.grad().to_vector<float>());
}

TEST(SmallFloatGradients, Forwards) {
  const auto [y, along] = jvp([](const Tensor& t) { return to(to(t, DType::f8e4m3fn), f32) * 3; },
                              tensor({1.0, 2.0}, f32), tensor({1.0, 0.5}, f32));
  EXPECT_EQ(along.to_vector<float>(), (Floats{3, 1.5}));
}

}  // namespace
}  // namespace dyad
