#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/verify.h"
#include "dyad/ir/graph.h"
#include "exec_for_tests.h"

// while_loops that a compiled function differentiates: one recording serves any number of steps.

namespace dyad {
namespace {

using exec::compile_now;
using exec::count_of;
using exec::same_bits;
using Tensors = std::vector<Tensor>;
using Pair = std::pair<Tensor, Tensor>;

struct Cell {
  Tensor state = (normal({4, 4}) * 0.5f).detach().requires_grad(),
         bias = normal({4}).requires_grad();
  [[nodiscard]] Tensors all() const { return {state, bias}; }
  [[nodiscard]] Tensor step(const Tensor& h) const { return tanh(matmul(h, state) + bias); }
  /// So many steps from `h`.
  [[nodiscard]] Tensor steps(const Tensor& h, const Tensor& count) const {
    return while_loop([&](const Tensor& i, const Tensor&) { return i < count; },
                      [&](const Tensor& i, const Tensor& s) { return Pair(i + 1, step(s)); },
                      Pair(zeros({}, i64), h))
        .second;
  }
};

using Loss = std::function<Tensor(const Tensor& x, const Tensor& count)>;

/// What calls did to a function's recordings.
struct Ways {
  std::size_t ways = 0;
  int whiles = 0, scans = 0;  ///< in all of them
  std::int64_t recorded = 0;
};

Ways ways_of(const Explanation& page, const std::vector<CompiledGraph>& graphs) {
  Ways done;
  for (const ExplainedRecording& recording : page.recordings)
    done.ways += static_cast<std::size_t>(recording.ways);
  for (const CompiledGraph& graph : graphs) {
    done.whiles += count_of(*graph.recorded, "while_loop");
    done.scans += count_of(*graph.recorded, "scan");
  }
  done.recorded = page.recorded;
  return done;
}

/// Takes gradients of `loss` inside the compiled function, or outside of it, for so many steps
/// each: the same bits as eagerly.
Ways train(const Loss& loss, const Tensors& leaves, const std::vector<int>& counts,
           bool inside = true, bool x_needs_grad = false) {
  const auto step = [&](const Tensors& in) -> Tensors {
    if (inside) {
      for (const Tensor& leaf : leaves) leaf.zero_grad();
    }
    const Tensor result = loss(in[0], in[1]);
    if (!inside) return {result};
    result.backward();
    return {result.detach()};
  };
  const auto c = compile_now(std::function<Tensors(const Tensors&)>(step));
  const auto after = [&](const Tensors& results, const Tensor& x) {
    if (!inside) {
      for (const Tensor& leaf : leaves) leaf.zero_grad();
      results[0].backward();
    }
    std::vector<decltype(exec::bits(x))> all{exec::bits(results[0].detach())};
    for (const Tensor& leaf : leaves) all.push_back(exec::bits(leaf.grad()));
    if (x_needs_grad) all.push_back(exec::bits(x.grad()));
    return all;
  };
  manual_seed(11);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    Tensor x = normal({2, 4}), same = x.clone();
    if (x_needs_grad) {
      x = x.requires_grad();
      same = same.requires_grad();
    }
    const Tensor count = full({}, counts[i], i64);
    const auto expected = after(step({x, count}), x);
    EXPECT_EQ(after(c(Tensors{same, count}), same), expected)
        << "call " << i << ", " << counts[i] << " steps";
  }
  return ways_of(c.explain(), c.graphs());
}

const std::vector<int> kCounts{6, 9, 5, 30, 6, 12, 100};

/// A pass from outside is no part of the recorded call.
void expect_one_way(const Ways& done, bool inside = true) {
  EXPECT_EQ(done.ways, 1U);
  EXPECT_EQ(done.whiles, 1);
  EXPECT_EQ(done.scans, inside ? 1 : 0);
  EXPECT_LE(done.recorded, 3);  // the first call, and one that looks whether it is still so
}

TEST(TapedWhiles, OneWayServesAllCounts) {
  const Cell w;
  const auto loss = [&](const Tensor& x, const Tensor& n) { return sum(w.steps(x, n)); };
  expect_one_way(train(loss, w.all(), kCounts));
  expect_one_way(train(loss, w.all(), kCounts, true, true));
}

TEST(TapedWhiles, GradientsFromOutside) {
  const Cell w;
  const auto loss = [&](const Tensor& x, const Tensor& n) {
    const Tensor h = w.steps(x * 2, n);
    return mean(h * h) + sum(h * w.bias);
  };
  expect_one_way(train(loss, w.all(), kCounts, false), false);
  expect_one_way(train(loss, w.all(), kCounts, false, true), false);
}

TEST(TapedWhiles, UntilItNoLongerChanges) {
  const Cell w;
  const auto fixed_point = [&](const Tensor& x, const Tensor&) {
    const auto [z, before] =
        while_loop([](const Tensor& z, const Tensor& last) { return max(abs(z - last)) > 1e-3f; },
                   [&](const Tensor& z, const Tensor&) {
                     return Pair(tanh(matmul(z, w.state * 0.4f) + x), z);
                   },
                   Pair(x, x + 1));
    return sum(z * z);
  };
  const Ways done = train(fixed_point, {w.state}, {1, 1, 1, 1, 1, 1, 1, 1}, true, true);
  EXPECT_EQ(done.ways, 1U);
  EXPECT_EQ(done.whiles, 1);
  EXPECT_EQ(done.scans, 1);
}

TEST(TapedWhiles, FewStepsAreWaysOfTheirOwn) {
  const Cell w;
  const auto loss = [&](const Tensor& x, const Tensor& n) { return sum(w.steps(x, n)); };
  const std::vector<int> counts{1, 0, 2, 3, 4, 9, 5, 2, 1, 0, 17, 3, 8, 4, 6, 7, 10, 11, 12};
  const Tensors leaves{w.state};
  const auto with_x = [&](const Tensor& x, const Tensor& n) {
    return sum(w.steps(x, n)) + sum(w.state);
  };
  EXPECT_LE(train(with_x, leaves, counts).ways, 5U);
  EXPECT_LE(train(with_x, leaves, counts, false).ways, 5U);
  EXPECT_LE(train(loss, {}, {3, 5, 4, 8, 9, 4, 3, 7}, true, true).ways, 3U);
}

TEST(TapedWhiles, SeveralStatesAndOnesThatNoGradientReaches) {
  const Cell w;
  const auto loss = [&](const Tensor& x, const Tensor& n) {
    using States = std::vector<Tensor>;
    const States end = while_loop([&](const States& s) { return s[0] < n; },
                                  [&](const States& s) {
                                    const Tensor c = w.step(s[1]) * s[2];
                                    return States{s[0] + 1, c + s[1], sigmoid(c), s[3] * 2};
                                  },
                                  States{zeros({}, i64), x, ones({2, 4}), ones({})});
    return sum(end[1]) + mean(end[2]) + end[3];
  };
  expect_one_way(train(loss, w.all(), kCounts));
  expect_one_way(train(loss, w.all(), kCounts, false, true), false);
}

TEST(TapedWhiles, WeightsThatAreUsedBeforeAndAfterToo) {
  const Cell w;
  const auto loss = [&](const Tensor& x, const Tensor& n) {
    const Tensor turned = w.state * 0.5f, before = matmul(x, w.state);
    const auto [i, h] =
        while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                   [&](const Tensor& i, const Tensor& s) {
                     return Pair(i + 1, tanh(matmul(s, turned) + w.bias * slice(w.bias, 0, 0, 1)));
                   },
                   Pair(zeros({}, i64), before));
    return mean(matmul(h, turned)) + sum(h * w.bias) + sum(before);
  };
  expect_one_way(train(loss, w.all(), kCounts));
}

TEST(TapedWhiles, NothingButTheState) {
  const auto loss = [&](const Tensor& x, const Tensor& n) {
    const auto [i, h] =
        while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                   [](const Tensor& i, const Tensor& s) { return Pair(i + 1, s * 0.5f); },
                   Pair(zeros({}, i64), x));
    return sum(h);
  };
  expect_one_way(train(loss, {}, kCounts, true, true));
}

TEST(TapedWhiles, AStateThatSaysWhetherToGoOn) {
  const Cell w;
  const auto loss = [&](const Tensor& x, const Tensor& n) {
    using States = std::vector<Tensor>;
    const States end =
        while_loop([](const States& s) { return s[0]; },
                   [&](const States& s) { return States{s[1] + 1 < n, s[1] + 1, w.step(s[2])}; },
                   States{n > 0, zeros({}, i64), x});
    const Tensor h = end[2] * 2;
    return end[0].item<bool>() ? sum(h) : mean(h);
  };
  expect_one_way(train(loss, w.all(), kCounts));
}

TEST(TapedWhiles, OneBehindTheOtherAndAScan) {
  const Cell w, second;
  const auto loss = [&](const Tensor& x, const Tensor& n) {
    const Tensor h = second.steps(w.steps(x, n), n + 2);
    const auto [last, all] = scan(
        [&](const Tensor& s, const Tensor& row) {
          const Tensor next = w.step(s + row);
          return Pair(next, next);
        },
        zeros({4}), concat({h, h, x, h}, 0));
    return sum(last) + mean(all * all);
  };
  Tensors leaves = w.all();
  for (const Tensor& leaf : second.all()) leaves.push_back(leaf);
  const Ways done = train(loss, leaves, kCounts);
  EXPECT_EQ(done.ways, 1U);
  EXPECT_EQ(done.whiles, 2);
  EXPECT_EQ(done.scans, 4);
}

TEST(TapedWhiles, ALoopInEachStep) {
  const Cell w;
  const auto loss = [&](const Tensor& x, const Tensor& n) {
    const auto [i, h] = while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                                   [&](const Tensor& i, const Tensor& s) {
                                     return Pair(i + 1, w.steps(s * 0.9f, full({}, 3, i64)));
                                   },
                                   Pair(zeros({}, i64), x));
    return sum(h);
  };
  static_cast<void>(train(loss, w.all(), {6, 5, 6, 8}));
}

TEST(TapedWhiles, WhatIsOnTheTapeButNotDifferentiated) {
  const Cell w;
  const auto f = [&](const Tensor& x, const Tensor& n) { return w.steps(x, n).detach() * 2; };
  const auto c = compile_now(f);
  for (const int count : kCounts) {
    const Tensor x = normal({2, 4}), n = full({}, count, i64);
    EXPECT_TRUE(same_bits(f(x, n), c(x, n)));
  }
  const Ways done = ways_of(c.explain(), c.graphs());
  EXPECT_EQ(done.ways, 1U);
  EXPECT_EQ(done.whiles, 1);
}

TEST(TapedWhiles, StepsThatTheProgramLooksAtStayApart) {
  const Cell w;
  Tensors kept;
  const auto loss = [&](const Tensor& x, const Tensor& n) {
    kept.clear();
    const auto [i, h] = while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                                   [&](const Tensor& i, const Tensor& s) {
                                     kept.push_back(w.step(s));
                                     return Pair(i + 1, kept.back());
                                   },
                                   Pair(zeros({}, i64), x));
    return sum(h) + sum(kept[1] * kept[1]);
  };
  const Ways done = train(loss, w.all(), {5, 6, 5, 6});
  EXPECT_EQ(done.whiles, 0);
  EXPECT_EQ(done.ways, 2U);
}

TEST(TapedWhiles, HooksOfSteps) {
  const Cell w;
  const auto loss = [&](const Tensor& x, const Tensor& n) {
    const auto [i, h] =
        while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                   [&](const Tensor& i, const Tensor& s) {
                     const Tensor next = w.step(s);
                     next.register_hook([](const Tensor& g) { return clamp(g, -0.1, 0.1); });
                     return Pair(i + 1, next);
                   },
                   Pair(zeros({}, i64), x));
    return sum(h);
  };
  expect_one_way(train(loss, w.all(), kCounts));
}

/// What lies row by row is multiplied in another order than what is turned.
TEST(TapedWhiles, StepsThatTurnWhatTheyRead) {
  manual_seed(1);
  const Tensor w = normal({2, 2}).requires_grad();
  const auto loss = [&](const Tensor& x, const Tensor& n) {
    const Tensor begin = slice(x, 1, 0, 2);
    const auto [i, h] = while_loop(
        [&](const Tensor& i, const Tensor&) { return i < n; },
        [&](const Tensor& i, const Tensor& s) {
          const Tensor turned = transpose(s, 0, 1);
          return Pair(i + 1, tanh(matmul(begin, turned)) + matmul(turned, transpose(w, 0, 1)));
        },
        Pair(zeros({}, i64), begin));
    return sum(h * h) + sum(softplus(h));
  };
  expect_one_way(train(loss, {w}, kCounts, true, true));
}

TEST(TapedWhiles, WhatIsTurnedOutside) {
  manual_seed(3);
  const Tensor w = transpose(normal({3, 4}), 0, 1).requires_grad(), v = normal({5, 3});
  const auto loss = [&](const Tensor& x, const Tensor& n) {
    const Tensor begin = concat({transpose(x, 0, 1), transpose(x * 2, 0, 1)}, 1),
                 turned = transpose(begin, 0, 1), other = transpose(v, 0, 1);
    const auto [i, h] =
        while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                   [&](const Tensor& i, const Tensor& s) {
                     const Tensor a = matmul(matmul(s, transpose(begin, 0, 1)), begin),
                                  b = matmul(matmul(turned, w), other);
                     return Pair(i + 1, tanh(a * 0.1f + sum(b, {1}) * 0.01f));
                   },
                   Pair(zeros({}, i64), begin));
    return sum(h * h);
  };
  expect_one_way(train(loss, {w}, kCounts, true, true));
}

/// What comes to the leaf is a view that the first step's gradient is.
TEST(TapedWhiles, GradientsThatAreViews) {
  const auto loss = [](const Tensor& x, const Tensor& n) {
    const auto [i, h] = while_loop(
        [&](const Tensor& i, const Tensor&) { return i < n; },
        [](const Tensor& i, const Tensor& s) { return Pair(i + 1, cumprod(flip(s, {0}), 0)); },
        Pair(zeros({}, i64), x));
    return sum(h * h);
  };
  expect_one_way(train(loss, {}, kCounts, true, true));
  expect_one_way(train(loss, {}, kCounts, false, true), false);
}

TEST(TapedWhiles, InUpdatesOfTheWeights) {
  manual_seed(7);
  const Cell w;
  Cell same;
  same.state = w.state.detach().clone().requires_grad();
  same.bias = w.bias.detach().clone().requires_grad();
  const auto step = [](const Cell& in, const Tensor& x, const Tensor& n) {
    for (const Tensor& leaf : in.all()) leaf.zero_grad();
    const Tensor h = in.steps(x, n);
    const Tensor loss = mean(h * h);
    loss.backward();
    const NoGrad no_tape;
    for (Tensor leaf : in.all()) leaf -= leaf.grad() * 0.1f;
    return loss.detach();
  };
  const auto c = compile_now([&](const Tensor& x, const Tensor& n) { return step(same, x, n); });
  for (const int count : kCounts) {
    const Tensor x = normal({2, 4}), n = full({}, count, i64);
    EXPECT_TRUE(same_bits(step(w, x, n), c(x, n)));
    for (std::size_t i = 0; i < w.all().size(); ++i)
      EXPECT_TRUE(same_bits(w.all()[i], same.all()[i])) << count;
  }
  expect_one_way(ways_of(c.explain(), c.graphs()));
}

TEST(TapedWhiles, SecondDerivatives) {
  const Cell w;
  const auto loss = [&](const Tensor& x, const Tensor& n) {
    const Tensor h = w.steps(x, n);
    const Tensor g = grad(sum(h * h), {w.state}, {.create_graph = true})[0];
    return sum(g * g);
  };
  static_cast<void>(train(loss, w.all(), {4, 5, 4, 5, 6}));
}

TEST(TapedWhiles, VerifyLooksIntoThem) {
  const Cell w;
  const auto step = [&](const Tensor& x, const Tensor& n) {
    for (const Tensor& leaf : w.all()) leaf.zero_grad();
    const Tensor loss = sum(w.steps(x, n));
    loss.backward();
    return loss.detach();
  };
  const VerifyReport report = verify(step, std::tuple(normal({2, 4}), full({}, 7, i64)));
  EXPECT_TRUE(report.same()) << to_string(report);
}

}  // namespace
}  // namespace dyad
