#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/exec/checkpoint.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/ir/graph.h"
#include "exec_for_tests.h"
#include "taped_loops_for_tests.h"

// Loops that a compiled function differentiates and whose steps go through a `cond` on data: one
// recording for any length, whichever ways the steps go.

namespace dyad {
namespace {

using exec::compile_now;
using exec::same_as;
using exec::same_bits;
using exec::Tensors;
using exec::train;
using exec::Trained;
using Pair = std::pair<Tensor, Tensor>;

const std::vector<std::int64_t> kMany{12, 15, 13, 20, 12, 14, 30, 13, 17, 25},
    kLong{30, 40, 33, 50, 30, 36, 60, 45, 30, 70};

/// What two ways of a step learn.
struct TwoWays {
  Tensor in = normal({3, 4}).requires_grad(), a = (normal({4, 4}) * 0.5).requires_grad(),
         b = (normal({4, 4}) * 0.5).requires_grad();
  [[nodiscard]] Tensors all() const { return {in, a, b}; }
};

/// Every length is served by the second recording, but what is rare in its ways.
void expect_replays(const Trained& done, std::int64_t at_least = 5) {
  EXPECT_LE(done.recordings, 2);
  EXPECT_GE(done.replays, at_least);
  EXPECT_GE(done.loops, 2);
}

using Step = std::function<Tensor(const Tensor& h, const Tensor& row)>;

/// Differentiates all states, and the last one, by `leaves`.
Trained train_steps(const Step& step, const Tensors& leaves, bool rows_need_grad = false,
                    const Tensor& first = zeros({2, 4}),
                    const std::vector<std::int64_t>& lengths = kMany) {
  return train(
      [&](const Tensor& x) {
        const auto [h, all] = scan(
            [&](const Tensor& state, const Tensor& row) {
              const Tensor next = step(state, row);
              return Pair(next, next * 2);
            },
            first, x);
        return sum(all * all) + mean(h);
      },
      leaves, lengths, rows_need_grad);
}

TEST(TapedBranches, WaysWithWeightsOfTheirOwn) {
  manual_seed(2);
  const TwoWays w;
  const Step step = [&](const Tensor& h, const Tensor& row) {
    return cond(
        sum(row) > 0, [&](const Tensor& s) { return tanh(matmul(s, w.a) + matmul(row, w.in)); },
        [&](const Tensor& s) { return relu(matmul(s, w.b)) + matmul(row, w.in); }, h);
  };
  expect_replays(train_steps(step, w.all()));
  expect_replays(train_steps(step, w.all(), /*rows_need_grad=*/true));
}

TEST(TapedBranches, AWayThatChangesNothing) {
  manual_seed(3);
  const TwoWays w;
  const Step step = [&](const Tensor& h, const Tensor& row) {
    return cond(
        sum(row) > 0, [&](const Tensor& s) { return tanh(matmul(s, w.a) + matmul(row, w.in)); },
        [](const Tensor& s) { return s; }, h);
  };
  expect_replays(train_steps(step, w.all()));
}

TEST(TapedBranches, WhatIsAskedIsComputedFromTheState) {
  manual_seed(4);
  const TwoWays w;
  const Step step = [&](const Tensor& h, const Tensor& row) {
    const Tensor next = tanh(matmul(h, w.a) + matmul(row, w.in));
    return cond(
        sum(next) > 0, [&](const Tensor& s) { return s * 0.5 + matmul(row, w.in); },
        [&](const Tensor& s) { return s - matmul(s, w.b); }, next);
  };
  expect_replays(train_steps(step, w.all()));
}

TEST(TapedBranches, BranchesInBranchesAndOneAfterTheOther) {
  manual_seed(5);
  const TwoWays w;
  const Step nested = [&](const Tensor& h, const Tensor& row) {
    return cond(
        sum(row) > 0,
        [&](const Tensor& s) {
          return cond(
              row[0][0] > 0, [&](const Tensor& t) { return tanh(matmul(t, w.a)); },
              [&](const Tensor& t) { return t * 0.5 + matmul(row, w.in); }, s);
        },
        [&](const Tensor& s) { return relu(matmul(s, w.b)) + matmul(row, w.in); }, h);
  };
  expect_replays(train_steps(nested, w.all(), false, zeros({2, 4}), kLong));
  const Step two = [&](const Tensor& h, const Tensor& row) {
    const Tensor first = cond(
        sum(row) > 0, [&](const Tensor& s) { return tanh(matmul(s, w.a)); },
        [](const Tensor& s) { return s * 0.5; }, h);
    return cond(
        row[0][0] > 0, [&](const Tensor& s) { return s + matmul(row, w.in); },
        [&](const Tensor& s) { return sigmoid(matmul(s, w.b)); }, first);
  };
  expect_replays(train_steps(two, w.all(), false, zeros({2, 4}), kLong));
}

TEST(TapedBranches, TheFirstStateIsDifferentiatedToo) {
  manual_seed(6);
  const TwoWays w;
  const Tensor first = normal({2, 4}).requires_grad();
  Tensors leaves = w.all();
  leaves.push_back(first);
  const Step step = [&](const Tensor& h, const Tensor& row) {
    return cond(
        sum(row) > 0, [&](const Tensor& s) { return tanh(matmul(s, w.a) + matmul(row, w.in)); },
        [&](const Tensor& s) { return s - matmul(s, w.b); }, h);
  };
  expect_replays(train_steps(step, leaves, false, first));
}

TEST(TapedBranches, WeightsThatAreUsedBeforeAndAfterToo) {
  manual_seed(7);
  const TwoWays w;
  expect_replays(train(
      [&](const Tensor& x) {
        const Tensor before = matmul(x, w.in);
        const auto [h, all] = scan(
            [&](const Tensor& s, const Tensor& row) {
              const Tensor next = cond(
                  sum(row) > 0, [&](const Tensor& t) { return tanh(matmul(t, w.a) + row); },
                  [&](const Tensor& t) { return t * 0.5 + row; }, s);
              return Pair(next, next);
            },
            zeros({2, 4}), before);
        return sum(matmul(all, w.a)) + sum(matmul(h, w.b));
      },
      w.all(), kMany));
}

TEST(TapedBranches, SeveralStates) {
  manual_seed(8);
  const TwoWays w;
  expect_replays(train(
      [&](const Tensor& x) {
        const auto [states, all] = scan(
            [&](const Pair& s, const Tensor& row) {
              const auto& [h, c] = s;
              const Tensor next = cond(
                  sum(row) > 0, [&](const Tensor& t) { return tanh(matmul(t, w.a)) + c; },
                  [&](const Tensor& t) { return t * c; }, h);
              const Tensor cell = c * 0.9 + matmul(row, w.in);
              return std::pair(Pair(next, cell), next * cell);
            },
            Pair(zeros({2, 4}), ones({2, 4})), x);
        return sum(all) + sum(states.first * states.second);
      },
      {w.in, w.a}, kMany));
}

TEST(TapedBranches, CondsThatGiveSeveralTensors) {
  manual_seed(9);
  const TwoWays w;
  expect_replays(train(
      [&](const Tensor& x) {
        const auto [states, all] = scan(
            [&](const Pair& s, const Tensor& row) {
              const auto [h, c] = cond(
                  sum(row) > 0,
                  [&](const Pair& t) {
                    const Tensor cell = tanh(matmul(t.first, w.a) + t.second);
                    return Pair(cell * 2, cell);
                  },
                  [&](const Pair& t) { return Pair(matmul(t.second, w.b), t.first * 0.5); }, s);
              return std::pair(Pair(h + matmul(row, w.in), c), h * c);
            },
            Pair(ones({2, 4}), ones({2, 4})), x);
        return sum(all) + sum(states.first * states.second);
      },
      w.all(), kMany));
}

TEST(TapedBranches, WhatOnlySomeCallsGiveAGradient) {
  manual_seed(10);
  const TwoWays w;
  const auto loss = [&](const Tensor& x) {
    return sum(scan(
                   [&](const Tensor& h, const Tensor& row) {
                     const Tensor next = cond(
                         sum(row) > 0, [&](const Tensor& s) { return tanh(matmul(s, w.a) + row); },
                         [&](const Tensor& s) { return matmul(s, w.b) + row; }, h);
                     return Pair(next, next);
                   },
                   zeros({2, 4}), x)
                   .second);
  };
  const auto step = [&](const Tensor& x) {
    for (const Tensor& leaf : {w.a, w.b}) leaf.zero_grad();
    const Tensor result = loss(x);
    result.backward();
    return result.detach();
  };
  const auto c = compile_now(std::function<Tensor(const Tensor&)>(step));
  const auto signs = [](std::int64_t length, int kind) {
    const Tensor x = normal({length, 2, 4});
    return kind == 0 ? x : kind > 0 ? abs(x) : -abs(x);
  };
  const auto grads = [&] {
    std::vector<decltype(exec::bits(w.a))> all;
    for (const Tensor& leaf : {w.a, w.b})
      all.push_back(leaf.grad().defined() ? exec::bits(leaf.grad()) : decltype(exec::bits(w.a)){});
    return all;
  };
  // Without a step in a way its weight has no gradient, not one of zeros.
  for (const int kind : {0, 0, 0, 1, 0, -1, 0, 1, -1, 0, 0}) {
    const Tensor x = signs(12 + kind, kind);
    const Tensor eager = step(x);
    const auto expected = grads();
    EXPECT_TRUE(same_bits(c(x), eager));
    EXPECT_EQ(grads(), expected);
    EXPECT_EQ(w.a.grad().defined(), kind >= 0);
    EXPECT_EQ(w.b.grad().defined(), kind <= 0);
  }
  EXPECT_GE(c.explain().replays, 4);
}

TEST(TapedBranches, DifferentiatedFromOutside) {
  manual_seed(11);
  const TwoWays w, same = same_as(w);
  const auto run = [](const TwoWays& of, const Tensor& x) {
    const auto [h, all] = scan(
        [&](const Tensor& s, const Tensor& row) {
          const Tensor next = cond(
              sum(row) > 0,
              [&](const Tensor& t) { return tanh(matmul(t, of.a) + matmul(row, of.in)); },
              [&](const Tensor& t) { return matmul(matmul(t, of.b) * 0.5, of.b); }, s);
          return Pair(next, next * 2);
        },
        zeros({2, 4}), x);
    return all + h;
  };
  const auto c = compile_now([&](const Tensor& x) { return run(same, x); });
  for (const std::int64_t length : kMany) {
    Tensor x = normal({length, 2, 3}).requires_grad(), y = x.detach().clone().requires_grad();
    for (const TwoWays* const of : std::array<const TwoWays*, 2>{&w, &same}) {
      for (const Tensor& leaf : of->all()) leaf.zero_grad();
    }
    const auto loss = [](const Tensor& rows, const TwoWays& of) {
      return sum(rows * rows) + sum(of.a * of.b);
    };
    loss(run(w, x), w).backward();
    loss(c(y), same).backward();
    EXPECT_EQ(exec::bits(x.grad()), exec::bits(y.grad())) << length;
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(exec::bits(w.all()[i].grad()), exec::bits(same.all()[i].grad())) << length;
  }
  EXPECT_GE(c.explain().replays, 5);
}

TEST(TapedBranches, AWhileLoop) {
  manual_seed(12);
  const TwoWays w;
  const auto step = [&](const Tensors& in) -> Tensors {
    for (const Tensor& leaf : {w.a, w.b}) leaf.zero_grad();
    const auto [i, h] = while_loop(
        [&](const Tensor& n, const Tensor&) { return n < in[1]; },
        [&](const Tensor& n, const Tensor& s) {
          const Tensor next = cond(
              sin(n * 2.0) > 0, [&](const Tensor& t) { return tanh(matmul(t, w.a)) - 0.1; },
              [&](const Tensor& t) { return matmul(t, w.b) * 0.5 + 0.2; }, s);
          return Pair(n + 1, next);
        },
        Pair(zeros({}, i64), in[0]));
    const Tensor loss = sum(h * h);
    loss.backward();
    Tensors made{loss.detach()};
    for (const Tensor& leaf : {w.a, w.b}) {
      if (leaf.grad().defined()) made.push_back(leaf.grad().clone());
    }
    return made;
  };
  const auto c = compile_now(std::function<Tensors(const Tensors&)>(step));
  for (const int steps : {20, 24, 30, 21, 40, 25, 33}) {
    const Tensors in{normal({2, 4}), full({}, steps, i64)};
    const Tensors eager = step(in), compiled = c(in);
    ASSERT_EQ(eager.size(), compiled.size());
    for (std::size_t i = 0; i < eager.size(); ++i)
      EXPECT_TRUE(same_bits(eager[i], compiled[i])) << steps << " steps, result " << i;
  }
  EXPECT_GE(c.explain().replays, 4);
}

TEST(TapedBranches, DropoutInAWay) {
  manual_seed(13);
  const TwoWays w;
  const Step step = [&](const Tensor& h, const Tensor& row) {
    return cond(
        sum(row) > 0,
        [&](const Tensor& s) { return dropout(tanh(matmul(s, w.a)), 0.3) + matmul(row, w.in); },
        [&](const Tensor& s) { return matmul(s, w.b); }, h);
  };
  expect_replays(train_steps(step, w.all()));
}

TEST(TapedBranches, StepsThatAreComputedAgain) {
  manual_seed(14);
  const TwoWays w;
  const Step step = [&](const Tensor& h, const Tensor& row) {
    return cond(
        sum(row) > 0,
        [&](const Tensor& s) {
          return checkpoint([&](const Tensor& t) { return tanh(tanh(matmul(t, w.a)) * 2); }, s) +
                 matmul(row, w.in);
        },
        [&](const Tensor& s) { return matmul(s, w.b); }, h);
  };
  train_steps(step, w.all());
}

TEST(TapedBranches, InUpdatesOfTheWeights) {
  manual_seed(15);
  const TwoWays w, same = same_as(w);
  const auto step = [](const TwoWays& of, const Tensor& x) {
    for (const Tensor& leaf : of.all()) leaf.zero_grad();
    const auto [h, all] = scan(
        [&](const Tensor& s, const Tensor& row) {
          const Tensor next = cond(
              sum(row) > 0,
              [&](const Tensor& t) { return tanh(matmul(t, of.a) + matmul(row, of.in)); },
              [&](const Tensor& t) { return tanh(matmul(t, of.b)) + matmul(row, of.in); }, s);
          return Pair(next, next);
        },
        ones({2, 4}), x);
    const Tensor loss = mean(all * all) + mean(h);
    loss.backward();
    const NoGrad no_tape;
    for (Tensor leaf : of.all()) leaf -= leaf.grad() * 0.1F;
    return loss.detach();
  };
  const auto c = compile_now([&](const Tensor& x) { return step(same, x); });
  for (const std::int64_t length : kMany) {
    const Tensor x = normal({length, 2, 3});
    EXPECT_TRUE(same_bits(step(w, x), c(x)));
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(same_bits(w.all()[i].detach(), same.all()[i].detach())) << length;
  }
  EXPECT_GE(c.explain().replays, 5);
}

/// What comes to a bias is a view of what comes to the sum, and other sums are of such views.
TEST(TapedBranches, ABiasInTheWays) {
  const TwoWays w;
  const Tensor bias = normal({4}).requires_grad();
  const auto sums = [&](const Tensor& h, const Tensor& row) {
    const Tensor e = matmul(row, w.in);
    return cond(sum(e) > 0, [&] { return h + bias; }, [&] { return h + bias - e; });
  };
  expect_replays(train_steps(sums, {w.in, bias}, false, zeros({2, 4}), kLong));
  const auto layers = [&](const Tensor& h, const Tensor& row) {
    const Tensor e = matmul(row, w.in);
    return cond(
        sum(e) > 0, [&] { return tanh(matmul(h, w.a) + bias) + e; },
        [&] { return matmul(h, w.a) + bias - e; });
  };
  expect_replays(train_steps(layers, {w.in, w.a, bias}, true, zeros({2, 4}), kLong));
}

/// The gradient of a vector times a matrix is a product of a column and a row.
TEST(TapedBranches, AVectorAsState) {
  const TwoWays w;
  const auto step = [&](const Tensor& h, const Tensor& row) {
    const Tensor e = matmul(sum(row, {0}), w.in);
    return cond(
        sum(e) > 0, [&] { return tanh(matmul(h, w.a)) + e; },
        [&] { return matmul(h, w.a) * 0.5 - e; });
  };
  expect_replays(train_steps(step, {w.in, w.a}, false, zeros({4}), kLong));
}

/// What is handed on is a view of what a way computed, and is so in both.
TEST(TapedBranches, ProductsOfAVectorThatTheLastStateIsOf) {
  const TwoWays w;
  const Tensor first = normal({4}).requires_grad();
  const auto last = [&](const Tensor& x) {
    return sum(scan(
                   [&](const Tensor& h, const Tensor& row) {
                     const Tensor e = matmul(sum(row, {0}), w.in);
                     const Tensor next = cond(
                         sum(e) > 0, [&] { return tanh(matmul(h, w.a) + e); },
                         [&] { return matmul(h, w.a) * 0.5 - e; });
                     return Pair(next, row);
                   },
                   first * 2, x)
                   .first);
  };
  expect_replays(train(last, {w.in, w.a, first}, kLong));
}

/// A scale that both ways use, of a state that begins with a constant.
TEST(TapedBranches, ASharedScale) {
  const Tensor scale = normal({}).requires_grad();
  const auto step = [&](const Tensor& h, const Tensor& row) {
    return cond(
        sum(row) > 0, [&] { return tanh(h * scale) + row; }, [&] { return h * scale - row; });
  };
  const auto last = [&](const Tensor& x) {
    return sum(scan([&](const Tensor& h, const Tensor& row) { return Pair(step(h, row), row); },
                    zeros({2, 3}), x)
                   .first);
  };
  expect_replays(train(last, {scale}, kLong));
  const auto drawn = [&](const Tensor& h, const Tensor& row) {
    return cond(
        uniform({}) < 0.5, [&] { return h * scale + row; }, [&] { return h * scale - row; });
  };
  expect_replays(train_steps(drawn, {scale}, false, zeros({2, 3}), kLong));
}

}  // namespace
}  // namespace dyad
