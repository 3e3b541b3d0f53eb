// What random programs (tests/random_programs) once did otherwise in another mode: sizes that only
// the recording knows to be equal, tensors that are one eagerly, and static graphs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/exec/vmap.h"
#include "exec_for_tests.h"

namespace dyad {
namespace {

using exec::compile_now;
using exec::count_up;
using exec::expect_replays_as_eagerly;
using exec::same_bits;
using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;

// --- bodies of no steps -------------------------------------------------------------------------

TEST(BodiesOfNoSteps, HaveTheSizesOfTensorsFromOutside) {
  const auto f = [](Tensor x) -> Tensors {
    const auto [last, ys] = scan(
        [&](const Tensors& s, const Tensor& row) {
          const Tensor next = s[0] * x + zeros({x.size(1)});
          return std::pair(Tensors{next}, concat({row, sum(x, {0})}, 0));
        },
        Tensors{x}, x);
    return {last[0], ys};
  };
  const auto c = compile_now([&](Tensor x) { return f(x); });
  for (const std::int64_t n : {1, 2, 2, 3, 4, 3, 5}) {
    const Tensor x = zeros({0, n});
    const Tensors eager = f(x), compiled = c(x);
    for (std::size_t i = 0; i < eager.size(); ++i)
      EXPECT_TRUE(same_bits(eager[i], compiled[i])) << n << " " << i;
  }
  EXPECT_EQ(c.explain().recordings.size(), 2);
}

TEST(BodiesOfNoSteps, CompareSizesOfOtherNames) {
  const auto f = [](Tensor x) -> Tensors {
    const Tensor front = x.slice(1, 0, -1), back = x.slice(1, 1), other = x.slice(1, 0, 2);
    const auto [last, ys] = scan(
        [&](const Tensors& s, const Tensor& row) {
          const auto [inner, sums] = scan(
              [&](const Tensors& t, const Tensor& back_row) {
                return std::pair(Tensors{t[0] + back_row}, row + back_row);
              },
              Tensors{s[0]}, back);
          const std::int64_t most = other.size(1).value();
          return std::pair(inner, cond(
                                      sum(row) > 0, [&] { return row + back[0]; },
                                      [&] { return row * static_cast<float>(most); }));
        },
        Tensors{back[0]}, front.slice(0, 0, 0));
    return {last[0], ys, x * 2};
  };
  EXPECT_GT(expect_replays_as_eagerly(f, {count_up({1, 3}), count_up({1, 4}), count_up({1, 5}),
                                          count_up({1, 6}), count_up({1, 2}), count_up({1, 5})}),
            0);
}

TEST(Samples, HaveTheSizesOfTensorsFromOutside) {
  const auto f = [](Tensor x) -> Tensors {
    const auto each = vmap([&](Tensor row) {
      const Tensor spread = softmax(x, 1) * sum(row) + zeros({x.size(1)});
      return concat({spread, ones_like(x), expand(sum(row), {2, x.size(1)})}, 0);
    });
    return {each(ones({3, 2}))};
  };
  Tensors inputs;
  for (const std::int64_t n : {2, 3, 4, 5, 3, 6}) inputs.push_back(count_up({2, n}));
  EXPECT_GE(expect_replays_as_eagerly(f, inputs), 1);
}

// --- products -----------------------------------------------------------------------------------

TEST(Einsum, RepeatsWhatHasTheSizeOneByAnExpression) {
  const auto f = [](Tensor x) -> Tensors {
    const Tensor first = narrow(x, 0, 0, 1), second = narrow(x, 0, 1, 1);
    return {einsum("bij,bjk->ki", {second, x}), einsum("bij,bjk->bki", {x, first}),
            einsum("b...,b...,b...->b", {first, second, x})};
  };
  Tensors inputs;
  for (const std::int64_t n : {2, 3, 4, 2, 5}) inputs.push_back(count_up({n, 2, 2}));
  EXPECT_GE(expect_replays_as_eagerly(f, inputs), 1);
}

TEST(Einsum, ReshapesAxesThatAreEqualByAGuard) {
  const auto f = [](Tensor x) -> Tensors { return {einsum("bij,bjk->ki", {x, x})}; };
  Tensors inputs{count_up({1, 1, 1}), count_up({7, 7, 1})};
  for (const std::int64_t n : {6, 2, 3, 4}) inputs.push_back(count_up({1, n, n}));
  EXPECT_GE(expect_replays_as_eagerly(f, inputs), 1);
}

TEST(Einsum, TakesTheOrderOfTheSizes) {
  const auto f = [](Tensor x) -> Tensors {
    const Tensor turned = x.transpose(0, 1);
    return {einsum("ij,jk,kl->il", {x / 3, turned / 7, x / 11}),
            einsum("ij,jk,kl,lm,mn->in", {x / 3, turned / 7, x / 11, turned, x})};
  };
  for (const bool tracked : {false, true}) {
    const auto c = compile_now(f);
    for (const std::int64_t n : {3, 50, 40, 2, 60, 5, 2, 50}) {
      const Tensor x = tracked ? count_up({7, n}).requires_grad() : count_up({7, n});
      const Tensors eager = f(x), compiled = c(x);
      for (std::size_t i = 0; i < eager.size(); ++i)
        EXPECT_TRUE(same_bits(eager[i].detach(), compiled[i].detach())) << n << " " << i;
    }
  }
  const auto few = [](Tensor x) -> Tensors {
    return {einsum("ij,jk,kl->il", {x / 3, x.transpose(0, 1) / 7, x / 11})};
  };
  const auto c = compile_now(few);
  for (const std::int64_t n : {3, 50, 40, 2, 60, 5, 6, 7, 30}) {
    const Tensor x = count_up({7, n});
    EXPECT_TRUE(same_bits(few(x)[0], c(x)[0])) << n;
  }
  EXPECT_LE(c.explain().recordings.size(), 4) << "one for each order, not for each size";
}

// --- contiguous() -------------------------------------------------------------------------------

TEST(Contiguous, IsTheSameTensorOnTheTape) {
  const auto f = [](Tensor x, Tensor w) -> Tensors {
    Tensor made = x * 2;
    Tensor same = contiguous(made), again = contiguous(same);
    again.add_(w);  // on the tape from here on, by any of its names
    Tensor y = made * 3 + same;
    made.copy_(x);  // and no longer
    return {y, same * 2, again};
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 6; ++i) {
    const Tensor x = count_up({2, 3}) + i;
    Tensor w = (count_up({2, 3}) - i).requires_grad(), same = w.detach().clone().requires_grad();
    const Tensors eager = f(x, w), compiled = c(x, same);
    for (std::size_t k = 0; k < eager.size(); ++k) {
      EXPECT_TRUE(same_bits(eager[k], compiled[k])) << i << " " << k;
      EXPECT_EQ(eager[k].tracks_grad(), compiled[k].tracks_grad()) << i << " " << k;
    }
    sum(square(eager[0])).backward();
    sum(square(compiled[0])).backward();
    EXPECT_TRUE(same_bits(w.grad(), same.grad())) << i;
  }
  EXPECT_EQ(c.explain().replays, 3);
}

TEST(Contiguous, OfAnArgumentIsWrittenWithItsGradient) {
  const auto f = [](Tensor x, Tensor w) { contiguous(x).add_(w); };
  const auto c = compile_now(f);
  for (int i = 0; i < 4; ++i) {
    Tensor x = count_up({3}), same = count_up({3});
    Tensor w = (count_up({3}) + i).requires_grad(), v = (count_up({3}) + i).requires_grad();
    f(x, w);
    c(same, v);
    EXPECT_TRUE(same_bits(x.detach(), same.detach())) << i;
    sum(square(x)).backward();
    sum(square(same)).backward();
    EXPECT_TRUE(same_bits(w.grad(), v.grad())) << i;
  }
}

TEST(Contiguous, HoldsAnotherViewAsItDoesEagerly) {
  const auto f = [](Tensor x, Tensor w) {
    Tensor made = x * 2;
    const Tensor view = made[0];
    contiguous(made).add_(w);
    return made + view;
  };
  const Tensor w = ones({2, 3}).requires_grad();
  const auto c = compile_now(f);
  EXPECT_THROW(f(count_up({2, 3}), w), GradError);
  EXPECT_THROW(c(count_up({2, 3}), w), GradError);
}

// --- static graphs ------------------------------------------------------------------------------

/// What `f` gives of `x` eagerly, and as a graph in which x has this shape.
void expect_graph_does_as_eagerly(const std::function<Tensors(Tensor)>& f, const Tensor& x,
                                  const Shape& shape) {
  const Tensors eager = f(x.clone().requires_grad());
  Graph graph;
  const Tensors made = graph.define([&] { return f(placeholder("x", x.dtype(), shape)); });
  const Tensors got = Session(graph).run(made, {{"x", x}});
  for (std::size_t i = 0; i < eager.size(); ++i)
    EXPECT_TRUE(same_bits(eager[i].detach(), got[i])) << i << " of " << type_string(x);
}

TEST(StaticGraphs, GradientsOfWhatIsNotRepeatedKeepTheirSign) {
  const auto f = [](Tensor x) -> Tensors {
    const Tensor some = ones({1, 1}) * sum(x) * 0 + 2;  // to be repeated, or not
    return {grad(sum((x * 0) / some), {some})[0], grad(sum((x * 0) / some), {x})[0]};
  };
  for (const std::int64_t n : {1, 2, 5}) {
    for (const std::int64_t m : {1, 3})
      expect_graph_does_as_eagerly(f, count_up({n, m}) + 3, {"n", "m"});
  }
}

TEST(StaticGraphs, GradientsOfContiguousTensorsAddUpInOneRow) {
  const auto f = [](Tensor x) -> Tensors {
    const Tensor y = 2.0f / x, same = contiguous(y), again = contiguous(x);
    const Tensor loss = sum(y * y * 0.3f + y) + sum(same * same * 0.7f + exp(same)) +
                        sum(again * y) + sum(normalize(same, 2, 0) * x);
    const Tensors slopes = grad(loss, {x, same});
    return {slopes[0], slopes[1], same, again};
  };
  const Tensor x = (count_up({8, 9}) + 2) / 7;
  expect_graph_does_as_eagerly(f, x, {8, 9});
  expect_graph_does_as_eagerly(f, x, {"n", "m"});
  // What is not row-major is copied when the graph runs.
  Graph graph;
  const Tensor made = graph.define([] { return contiguous(placeholder("x", f32, {"n", "m"})); });
  const Tensor turned = Session(graph).run({made}, {{"x", x.transpose(0, 1)}})[0];
  EXPECT_TRUE(turned.is_contiguous());
  EXPECT_TRUE(same_bits(turned, x.transpose(0, 1)));
}

TEST(StaticGraphs, ADetachedLeafFromOutsideHasNoGradient) {
  Tensor w = count_up({3}).requires_grad();
  Graph graph;
  const auto [slope, none, written] = graph.define([&] {
    Tensor plain = w.detach();
    const Tensor slope = gradients(sum(w * w + plain * 5), {w})[0];
    const Tensor none = gradients(sum(w * 0.0f) + sum(detach(w) * 5), {w})[0];
    plain.add_(1);
    return std::tuple{slope, none, plain};
  });
  Session session(graph);
  const Tensors got = session.run({slope, none}, {});
  EXPECT_TRUE(same_bits(got[0], count_up({3}) * 2));
  EXPECT_TRUE(same_bits(got[1], zeros({3})));
  static_cast<void>(session.run({written}, {}));
  EXPECT_TRUE(same_bits(w.detach(), count_up({3}) + 1)) << "it is the leaf's memory";
}

TEST(StaticGraphs, LinesBehindAConvolutionMayLieInAnotherOrder) {
  Graph graph;
  const auto write = [] {
    const Tensor x = placeholder("x", f32, {2, 1, 1});
    Tensor y = conv1d(x, x, {}, 1, 1);
    const Tensor flat = reshape(y, {-1});
    y.mul_(y);
    return flat;
  };
  try {
    static_cast<void>(graph.define(write));
    ADD_FAILURE() << "eagerly the reshape copies, in a graph nobody knows";
  } catch (const GraphError& error) {
    EXPECT_THAT(error.message(), HasSubstr("made by reshape of f32[2, 2, 3], or does not: that "
                                           "depends on strides"));
  }
}

TEST(FoundSizes, WhatSizesOfTheCallDecidedInsideOfAnOperatorIsCompiledForThem) {
  // einsum() reshapes r, of which one size is the smaller of two, as it was when it was recorded.
  const auto f = [](const Tensor& x) { return einsum("bij,bjk->ki", {x, qr(x).r}); };
  const auto c = compile_now(f);
  manual_seed(3);
  for (const std::int64_t n : {1, 2, 2, 2, 2, 2}) {
    const Tensor x = normal({1, 2, n});
    EXPECT_TRUE(same_bits(f(x), c(x))) << n;
  }
  for (const std::int64_t n : {3, 5, 3, 4, 5, 3}) {
    const Tensor x = normal({1, n, n});
    EXPECT_TRUE(same_bits(f(x), c(x))) << n;
  }
  EXPECT_LE(c.explain().recordings.size(), 3U);
}

}  // namespace
}  // namespace dyad
