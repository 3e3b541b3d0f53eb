// What random programs (tests/random_programs) beyond those that are kept once did otherwise when
// compiled.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::message_of;
using exec::compile_now;
using exec::same_bits;
using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;

/// Of all results at once, with more than one part of the gradient for each.
Tensor loss_of(const Tensors& results) {
  Tensor total = zeros({});
  for (const Tensor& y : results) total = total + sum(y * y * 0.5f + y);
  return total;
}

TEST(FoundByOtherSeeds, AComputedArgumentThatLosesItsTape) {
  const auto f = [](Tensor v) {
    const Tensor twice = v + v;
    v.fill_(2.0f);
    return twice;
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 4; ++i) {
    const Tensor m = full({}, 2.0f + static_cast<float>(i)).requires_grad();
    Tensor argument = m * 1.5f;
    (c(argument) * 7).backward();
    EXPECT_EQ(m.grad().item<float>(), 21.0f) << i;
  }
}

TEST(FoundByOtherSeeds, OneTensorThatIsReturnedTwice) {
  const auto f = [](const Tensor& x) -> Tensors {
    const Tensor scaled = x * 0.1f, view = transpose(scaled, 0, 0);
    return {view, scaled, view};
  };
  const auto c = compile_now(f);
  manual_seed(4);
  for (int i = 0; i < 6; ++i) {
    const Tensor x = normal({9}).requires_grad(), same = x.detach().clone().requires_grad();
    loss_of(f(x)).backward();
    const Tensors results = c(same);
    EXPECT_TRUE(results[0].is_same(results[2])) << i;
    EXPECT_FALSE(results[0].is_same(results[1])) << i;
    loss_of(results).backward();
    EXPECT_TRUE(same_bits(x.grad(), same.grad())) << i;
  }
}

TEST(FoundByOtherSeeds, AScanThatWritesToWhatItSlices) {
  const auto f = [](Tensor x) {
    static_cast<void>(scan(
        [&](const Tensor& s, const Tensor& row) {
          const Tensor next = tanh(s * row);
          const NoGrad apart;
          x.sub_(s * 0.125f);
          return std::pair(next, next + row);
        },
        x, x));
    return x.detach() * 1;
  };
  const auto c = compile_now(f);
  manual_seed(5);
  for (int i = 0; i < 5; ++i) {
    const Tensor x = normal({3}).requires_grad(), same = x.detach().clone().requires_grad();
    EXPECT_TRUE(same_bits(f(x), c(same))) << i;
    EXPECT_TRUE(same_bits(x.detach(), same.detach())) << i;
  }
}

TEST(FoundByOtherSeeds, PassesInTheStepsOfAScan) {
  const auto f = [](const Tensor& x) {
    const auto [last, all] = scan(
        [&](const Tensor& s, const Tensor& row) {
          const Tensor next = s + row / x;
          sum(next * next * 0.5f).backward({}, true);
          return std::pair(next, next);
        },
        x, x);
    return grad(sum(last * last * 0.5f + last), {x})[0];
  };
  const auto c = compile_now(f);
  manual_seed(6);
  for (int i = 0; i < 5; ++i) {
    const Tensor x = normal({3}).requires_grad(), same = x.detach().clone().requires_grad();
    EXPECT_TRUE(same_bits(f(x), c(same))) << i;
    EXPECT_TRUE(same_bits(x.grad(), same.grad())) << i;
  }
}

TEST(FoundByOtherSeeds, AnEmptyArgumentThatIsContiguousAndWrittenOnTheTape) {
  const auto f = [](const Tensor& x, const Tensor& s) {
    Tensor same = contiguous(x);
    same -= s;
    return s * 2;
  };
  const auto c = compile_now(f);
  const Tensor s = ones({}).requires_grad();
  for (int i = 0; i < 3; ++i) {
    const Tensor x = zeros({0}), y = zeros({0});
    f(x, s);
    c(y, s);
    EXPECT_TRUE(x.tracks_grad()) << i;
    EXPECT_TRUE(y.tracks_grad()) << i;
  }
}

TEST(FoundByOtherSeeds, RowsThatComeBetweenOtherPartsOfALeafsGradient) {
  const auto f = [](const Tensor& at, const Tensor& table) -> Tensors {
    const Tensor ratio = table / table;
    return {sparse_embedding(at, table), table, ratio};
  };
  const auto c = compile_now(f);
  manual_seed(3);
  const Tensor at = tensor({std::int64_t{0}});
  for (int i = 0; i < 4; ++i) {
    const Tensor x = normal({3, 5}).requires_grad(), same = x.detach().clone().requires_grad();
    loss_of(f(at, x)).backward();
    loss_of(c(at, same)).backward();
    EXPECT_TRUE(same_bits(x.grad() + zeros({3, 5}), same.grad() + zeros({3, 5}))) << i;
  }
}

TEST(FoundByOtherSeeds, WhatIsRolledLiesAsItsPartsDo) {
  const auto f = [](const Tensor& x) {
    Tensor rolled = roll(x, {1}, {0});
    rolled.fill_(2.0f);
    return rolled + x;
  };
  const auto c = compile_now(f);
  for (const int rows : {1, 2, 3, 2, 4, 5, 1, 3}) {
    const Tensor x = normal({2, rows}).transpose(0, 1);
    EXPECT_TRUE(same_bits(f(x), c(x))) << rows;
    EXPECT_EQ(f(x).strides(), c(x).strides()) << rows;
  }
}

TEST(FoundByOtherSeeds, StatesWhoseSizesAreEqualByChance) {
  const auto told_by_data = [](const Tensor& x) {
    const Tensor mask = x > 0;
    return while_loop([](const Tensor& n, const Tensor&) { return n < 2; },
                      [&](const Tensor& n, const Tensor&) {
                        return std::pair(n + 1, masked_select(x, mask));
                      },
                      std::pair(tensor(std::int64_t{0}), x))
        .first;
  };
  const auto of_the_argument = [](const Tensor& x) {
    return scan([&](const Tensor&, const Tensor& row) { return std::pair(ones({3}), row * 2); },
                x[0] * 0, x)
        .second;
  };
  const auto counted = compile_now(told_by_data);
  const auto scanned = compile_now(of_the_argument);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(counted(ones({3})).item<int>(), 2);
    EXPECT_THAT(message_of<ShapeError>([&] { counted(-ones({3})); }),
                HasSubstr("tensor 1 is f32[3] by the state but f32[0] by the body"));
    EXPECT_TRUE(same_bits(scanned(ones({2 + i, 3})), full({2 + i, 3}, 2.0f)));
    EXPECT_THAT(message_of<ShapeError>([&] { scanned(ones({2, 4 + i})); }),
                HasSubstr("is f32[" + std::to_string(4 + i) + "] by init but f32[3] by the body"));
  }
}

TEST(FoundByOtherSeeds, NumbersBeforeABranchOfTheHostAndACondThatDraws) {
  const auto f = [](const Tensor& x) -> Tensors {
    const Tensor drawn = randint(-100, 100, {});
    const Tensor noisy =
        cond(any(x > 0), [&] { return x; }, [&] { return x * drawn + randn({1}); });
    if (sum(x) > 3) return {drawn, noisy * 2};
    return {drawn, noisy};
  };
  Graph g;
  const Tensor x = g.placeholder("x", f32, {1});
  const Tensors fetches = g.define([&] { return f(x); });
  Session session(g);
  for (const float value : {1.0f, -1.0f, 5.0f}) {
    manual_seed(21);
    const Tensors expected = f(full({1}, value));
    const double next = rand({}).item();
    manual_seed(21);
    const Tensors given = session.run(fetches, {{"x", full({1}, value)}});
    EXPECT_EQ(rand({}).item(), next) << value;
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(given[i], expected[i])) << value;
  }
}

TEST(FoundByOtherSeeds, AGradientThatIsWrittenOnTheTapeAndReturned) {
  Tensor w = full({}, -2.0f).requires_grad(), same = full({}, -2.0f).requires_grad();
  const auto step = [](Tensor leaf) {
    Tensor gradient = leaf.grad().defined() ? leaf.grad() : zeros_like(leaf);
    gradient.add_(leaf);
    sum(gradient * gradient * 0.5f + gradient).backward();
    const NoGrad apart;
    leaf.sub_(leaf.grad() * 0.125f);
    return gradient;
  };
  const auto c = compile_now([&](const Tensor&) { return step(same); });
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(same_bits(step(w).detach(), c(ones({})).detach())) << i;
    EXPECT_TRUE(same_bits(w.detach(), same.detach())) << i;
    EXPECT_TRUE(same_bits(w.grad(), same.grad())) << i;
  }
}

TEST(FoundByOtherSeeds, ValuesThatLieOtherwiseBeforeSizesThatDataTell) {
  const auto f = [](const Tensor& x) -> Tensors {
    const Tensor moved = x + 2, places = nonzero(moved > 2);
    return {matmul(moved, transpose(moved, 0, 1)), places};
  };
  const auto c = compile_now(f);
  manual_seed(9);
  for (int i = 0; i < 6; ++i) {
    const Tensor x = transpose(normal({2, 3}), 0, 1).requires_grad(),
                 same = transpose(transpose(x.detach(), 0, 1).clone(), 0, 1).requires_grad();
    const Tensor product = f(x)[0], made = c(same)[0];
    sum(product * product).backward();
    sum(made * made).backward();
    EXPECT_TRUE(same_bits(x.grad(), same.grad())) << i;
  }
}

TEST(FoundByOtherSeeds, AGradientThatIsReturnedBesideWhatHasItsElements) {
  const auto f = [](Tensor x) -> Tensors {
    x.set_grad(zeros_like(x).clone());
    return {zeros_like(x), x.grad()};
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 5; ++i) {
    const Tensor x = ones({2}).requires_grad();
    Tensors made = c(x);
    made[0].fill_(2);
    made[1].fill_(3);
    EXPECT_TRUE(same_bits(x.grad(), full({2}, 3.0f))) << i;
  }
}

TEST(FoundByOtherSeeds, AViewOfOneElementIsContiguous) {
  const auto f = [](const Tensor& x) {
    const Tensor every_other = contiguous(slice(x, 0, 1, x.size(-1), 2));
    return grad(sum(every_other * every_other), {x})[0];
  };
  const auto c = compile_now(f);
  manual_seed(8);
  for (const std::int64_t size : {1, 2, 7, 3, 4, 2, 9, 1, 8}) {
    const Tensor x = normal({size}).requires_grad();
    EXPECT_TRUE(same_bits(f(x), c(x))) << size;
  }
}

TEST(FoundByOtherSeeds, RandomNumbersDeepInsideOfWhatIsDifferentiatedInAGraph) {
  const auto define = [] {
    const Tensor x = placeholder("x", f32, {3});
    const auto [last, all] = scan(
        [&](const Tensor& s, const Tensor& row) {
          const Tensor drawn =
              while_loop([](const Tensor& u) { return sum(u) < 1; },
                         [](const Tensor& u) { return u + uniform({}); }, zeros({}));
          return std::pair(s * row + drawn, s);
        },
        ones({}), x);
    return gradients(sum(last), {x})[0];
  };
  Graph g;
  EXPECT_THAT(message_of<GradError>([&] { g.define(define); }),
              HasSubstr("a while_loop in the body of another loop draws random numbers"));
}

TEST(FoundByOtherSeeds, AViewOfAConstantLiesAsItDoesEagerly) {
  const auto f = [](const Tensor& x) {
    const Tensor rows = stack({arange(x.size(0), f32), arange(x.size(0), f32) + 0.001}, 1);
    return matmul(tanh(rows), transpose(tanh(rows), -1, -2)) + x;
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(same_bits(f(ones({3})), c(ones({3})))) << i;
}

TEST(FoundByOtherSeeds, AnErrorWhileRecordingTellsSizesInNumbers) {
  const auto f = [](const Tensor& x) {
    Tensor y = 2.0 / masked_select(x, x > 0);
    const Tensor z = silu(y);
    y.copy_(y * 2);
    return grad(sum(z), {x})[0];
  };
  const auto c = compile(f);
  const Tensor x = tensor({1.0f, -1.0f, 2.0f}).requires_grad();
  const std::string eager = message_of<GradError>([&] { static_cast<void>(f(x)); });
  EXPECT_THAT(eager, HasSubstr("backward of silu: input 0 (f32[2]) was overwritten in place"));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(message_of<GradError>([&] { static_cast<void>(c(x)); }), eager) << i;
}

TEST(FoundByOtherSeeds, RepeatInterleaveIsACopyOfOneSliceToo) {
  const auto f = [](const Tensor& x) {
    Tensor places = nonzero(x);
    const Tensor twice = repeat_interleave(places, 2, 0);
    places.fill_(7);
    return twice;
  };
  EXPECT_EQ(f(tensor({0.0f, 1.0f})).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 1}));
  const auto c = compile(f);
  for (const float second : {0.0f, 2.0f, 0.0f, 2.0f, 3.0f}) {
    const Tensor x = tensor({1.0f, second, 0.0f});
    EXPECT_TRUE(same_bits(f(x), c(x))) << second;
  }
}

}  // namespace
}  // namespace dyad
