#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/verify.h"
#include "dyad/ir/graph.h"
#include "exec_for_tests.h"
#include "loops_for_tests.h"

// Loops of compiled functions whose steps go through a `cond` on data: one node of the recording
// for any number of steps, whichever ways they go.

namespace dyad {
namespace {

using exec::call;
using exec::call_drawing;
using exec::Calls;
using exec::compile_now;
using exec::limit;
using exec::same_bits;
using exec::Tensors;

/// Random rows of these lengths, each with what else is passed.
std::vector<Tensors> rows_of(const std::vector<std::int64_t>& lengths, const Tensors& others = {}) {
  std::vector<Tensors> inputs;
  for (const std::int64_t n : lengths) {
    Tensors& in = inputs.emplace_back(Tensors{normal({n, 3})});
    in.insert(in.end(), others.begin(), others.end());
  }
  return inputs;
}

/// Steps that grow or shrink the state, as their row says.
Tensors grown(const Tensors& in) {
  const auto [last, all] = scan(
      [&](const Tensor& s, const Tensor& row) {
        const Tensor next = cond(
            sum(row) > 0, [&](const Tensor& x) { return tanh(x + row) * in[1]; },
            [&](const Tensor& x) { return x * 0.5 - row; }, s);
        return std::pair(next, next + row);
      },
      zeros({3}), in[0]);
  return {last, all};
}

TEST(LoopBranches, AScanServesAnyLengthAndAnyWays) {
  manual_seed(21);
  std::vector<std::int64_t> lengths;
  for (std::int64_t n = 20; n < 60; ++n) lengths.push_back(n);
  const Calls done = call(grown, rows_of(lengths, {normal({3})}));
  EXPECT_EQ(done.recordings, 2) << "one length, then any";
  EXPECT_EQ(done.loops, 2);
  EXPECT_GE(done.replays, 30);
}

TEST(LoopBranches, StepsThatAreSkippedBeforeTheFirstThatIsNot) {
  manual_seed(23);
  std::vector<Tensors> inputs;
  for (const std::int64_t n : {12, 15, 20, 13, 30, 18, 14, 25}) {
    inputs.push_back({normal({n, 3}), arange(0, n) >= n / 2, normal({3})});
  }
  const auto padded = [](const Tensors& in) -> Tensors {
    const auto [last, all] = scan(
        [&](const Tensor& s, const std::pair<Tensor, Tensor>& of) {
          const Tensor next = cond(
              of.second, [&](const Tensor& x) { return tanh(x + of.first) * in[2]; },
              [](const Tensor& x) { return x; }, s);
          return std::pair(next, next);
        },
        zeros({3}), std::pair(in[0], in[1]));
    return {last, all};
  };
  const Calls done = call(padded, inputs);
  EXPECT_EQ(done.recordings, 2);
  EXPECT_EQ(done.loops, 2);
  EXPECT_GE(done.replays, 3);
}

TEST(LoopBranches, WhatTheProgramKeepsOfTheFirstStateIsNotTheState) {
  manual_seed(24);
  const auto anchored = [](const Tensors& in) -> Tensors {
    Tensor first;
    const auto [last, all] = scan(
        [&](const Tensor& s, const std::pair<Tensor, Tensor>& of) {
          if (!first.defined()) first = s;
          const Tensor next = cond(
              of.second, [&](const Tensor& x) { return tanh(x + of.first) * in[2]; },
              [&](const Tensor&) { return first * 2; }, s);
          return std::pair(next, next);
        },
        in[3], std::pair(in[0], in[1]));
    return {last, all};
  };
  std::vector<Tensors> inputs;
  for (const std::int64_t n : {12, 15, 20, 13, 30, 18, 14, 25}) {
    const Tensor way = inputs.size() < 3 ? arange(0, n) >= n / 2 : remainder(arange(0, n), 3) > 0;
    inputs.push_back({normal({n, 3}), way, normal({3}), normal({3})});
  }
  static_cast<void>(call(anchored, inputs));
}

TEST(LoopBranches, ThreeDeepWithOperatorsBetween) {
  manual_seed(25);
  std::vector<Tensors> inputs;
  for (const std::int64_t n : {6, 7, 9, 6, 8, 12}) inputs.push_back({normal({n, 4, 5, 3})});
  const auto deep = [](const Tensors& in) -> Tensors {
    const auto [last, all] = scan(
        [](const Tensor& a, const Tensor& page) {
          Tensor begin = a;
          for (int i = 0; i < 20; ++i) begin = tanh(begin + 0.01 * i);
          const Tensor next =
              scan(
                  [](const Tensor& b, const Tensor& line) {
                    const Tensor inner =
                        scan([](const Tensor& c,
                                const Tensor& word) { return std::pair(c * 0.5 + word, c); },
                             b, line)
                            .first;
                    return std::pair(sigmoid(inner), b);
                  },
                  begin, page)
                  .first;
          return std::pair(next * 1.0, next);
        },
        zeros({3}), in[0]);
    return {last, all};
  };
  const Calls done = call(deep, inputs);
  EXPECT_EQ(done.recordings, 2);
}

TEST(LoopBranches, WhatIsCapturedIsReadAnew) {
  manual_seed(22);
  const Tensor w = normal({3});
  std::vector<Tensors> inputs = rows_of({20, 20, 21, 22, 23});
  for (Tensors& in : inputs) in.push_back(w * static_cast<double>(inputs.size()));
  Tensor captured = normal({3});
  const auto f = [&](const Tensors& in) { return grown({in[0], in[1] + captured}); };
  const auto c = compile_now(std::function<Tensors(const Tensors&)>(f));
  for (const Tensors& in : inputs) {
    captured.mul_(1.5);
    const Tensors eager = f(in), compiled = c(in);
    for (std::size_t k = 0; k < eager.size(); ++k)
      EXPECT_TRUE(same_bits(eager[k], compiled[k])) << k;
  }
}

TEST(LoopBranches, WhicheverWayIsGoneFirst) {
  manual_seed(31);
  const Tensor a = normal({3}), b = normal({3});
  const auto f = [&](const Tensors& in) -> Tensors {
    const auto [last, all] = scan(
        [&](const Tensor& s, const Tensor& row) {
          const Tensor next = cond(
              sum(row) > 0, [&](const Tensor& x) { return tanh(x + row) * a; },
              [&](const Tensor& x) { return x * b - row; }, s);
          return std::pair(next, next + row);
        },
        zeros({3}), in[0]);
    return {last, all};
  };
  std::vector<std::int64_t> lengths;
  for (std::int64_t n = 20; n < 40; ++n) lengths.push_back(n);
  const Calls done = call(f, rows_of(lengths));
  EXPECT_EQ(done.recordings, 2);
  EXPECT_GE(done.replays, 14) << "but for those that are looked at again";
}

TEST(LoopBranches, AWhileWithABranchThatLeavesTheStateAlone) {
  const auto f = [](const Tensors& in) -> Tensors {
    const auto [n, x] = while_loop([&](const Tensor& i, const Tensor&) { return i < in[1]; },
                                   [&](const Tensor& i, const Tensor& s) {
                                     const Tensor even = remainder(i, full({}, 2.0)) < 0.5;
                                     const Tensor next = cond(
                                         even, [](const Tensor& v) { return v; },
                                         [&](const Tensor& v) { return v * 1.25 + in[0]; }, s);
                                     return std::tuple(i + 1, next);
                                   },
                                   std::tuple(zeros({}), in[0]));
    return {n, x};
  };
  const Tensor x = ones({3});
  const Calls done = call(f, {{x, limit(9)},
                              {x, limit(6)},
                              {x, limit(20)},
                              {x, limit(5)},
                              {x, limit(100)},
                              {x, limit(7)}});
  EXPECT_EQ(done.recordings, 1);
  EXPECT_EQ(done.loops, 1);
  EXPECT_EQ(done.recorded, 3) << "the first call, and two that check it";
}

TEST(LoopBranches, BranchesInBranches) {
  const auto f = [](const Tensors& in) -> Tensors {
    const auto [last, all] = scan(
        [&](const Tensor& s, const Tensor& row) {
          const auto inner = [&](const Tensor& x) {
            const Tensor y = x * 2 + s;
            return cond(
                       row[1] > 0, [&](const Tensor& z) { return z + y; },
                       [&](const Tensor& z) { return sin(z) * row; }, y) +
                   1;
          };
          const auto [a, b] = cond(
              row[0] > 0, [&](const Tensor& x) { return std::tuple(inner(x), x); },
              [&](const Tensor& x) { return std::tuple(x, row * 0.5); }, s);
          return std::pair(tanh(a + b), a * b);
        },
        zeros({3}), in[0]);
    return {last, all};
  };
  manual_seed(23);
  const Calls done = call(f, rows_of({40, 41, 50, 60, 45, 70}));
  EXPECT_EQ(done.recordings, 2);
  EXPECT_EQ(done.loops, 2);
}

TEST(LoopBranches, OneAfterTheOtherInALoopInALoop) {
  const auto f = [](const Tensors& in) -> Tensors {
    return {while_loop([&](const Tensor& s) { return sum(abs(s)) < in[1]; },
                       [&](const Tensor& s) {
                         const Tensor end =
                             scan(
                                 [&](const Tensor& c, const Tensor& row) {
                                   const Tensor one = cond(
                                       row[0] > 0, [&](const Tensor& x) { return x + row; },
                                       [](const Tensor& x) { return x * 1.01; }, c);
                                   const Tensor two = cond(
                                       row[1] > 0, [](const Tensor& x) { return x + 0.25; },
                                       [](const Tensor& x) { return x; }, one);
                                   return std::pair(two, row);
                                 },
                                 s, in[0])
                                 .first;
                         return end * 1.5;
                       },
                       ones({3}))};
  };
  manual_seed(24);
  const Tensor rows = normal({30, 3});
  const Calls done =
      call(f, {{rows, limit(1e3)}, {rows, limit(1e5)}, {rows, limit(1e4)}, {rows, limit(1e7)}});
  EXPECT_EQ(done.recordings, 1);
  EXPECT_EQ(done.loops, 1);
}

TEST(LoopBranches, WithLoopsInside) {
  const auto f = [](const Tensors& in) -> Tensors {
    const auto shrunk = [&](const Tensor& of, double by) {
      return while_loop([&](const Tensor& r) { return sum(abs(r)) > in[1]; },
                        [&](const Tensor& r) { return r * by; }, of);
    };
    const auto [last, all] = scan(
        [&](const Tensor& s, const Tensor& row) {
          const Tensor next = cond(
              row[0] > 0, [&](const Tensor& x) { return x + shrunk(row, 0.75); },
              [&](const Tensor& x) { return shrunk(x - row, 0.5); }, s);
          return std::pair(next, shrunk(next, 0.75));
        },
        zeros({3}), in[0]);
    return {last, all};
  };
  manual_seed(32);
  std::vector<Tensors> inputs;
  for (std::int64_t length = 40; length < 60; ++length)
    inputs.push_back({normal({length, 3}) * 3.0, limit(2)});
  const Calls done = call(f, inputs);
  EXPECT_EQ(done.recordings, 2);
  EXPECT_EQ(done.loops, 2);
  EXPECT_GE(done.replays, 10);
}

TEST(LoopBranches, WhatOneConditionChoseIsNotTakenForWhatWasChosenFrom) {
  // Where both conditions have the same answers, the second branches could read what the first cond
  // gave, or what it was given.
  const auto f = [](const Tensors& in) -> Tensors {
    const auto [last, all] = scan(
        [&](const Tensor& s, const Tensor& row) {
          Tensor a = row * 2, b = row * 3;
          const Tensor chosen = cond(row[0] > 0, [&] { return a; }, [&] { return b; });
          const Tensor next = cond(
              row[1] > 0, [&](const Tensor& x) { return x + a; },
              [&](const Tensor& x) { return x * 0.5 - b; }, s);
          return std::pair(next, chosen);
        },
        zeros({3}), in[0]);
    return {last, all};
  };
  manual_seed(33);
  const auto rows = [](bool together) {
    Tensor made = normal({12, 3});
    if (together) made.select(1, 1).copy_(made.select(1, 0));
    return made;
  };
  for (const bool first : {true, false}) {
    std::vector<Tensors> inputs{{rows(first)}, {rows(first)}, {rows(true)}};
    for (int i = 0; i < 6; ++i) inputs.push_back({rows(false)});
    EXPECT_EQ(call(f, inputs).loops, 1);
  }
}

TEST(LoopBranches, AWayThatWasNotGoneIsWaitedFor) {
  manual_seed(25);
  const Tensor w = normal({3});
  const auto rows = [](std::int64_t n, const std::function<double(std::int64_t)>& sign) {
    Tensors all;
    for (std::int64_t t = 0; t < n; ++t) all.push_back(abs(normal({3})) * sign(t));
    return stack(all);
  };
  const auto up = [](std::int64_t) { return 1.0; };
  const auto once = [](std::int64_t t) { return t == 2 ? -1.0 : 1.0; };
  const auto both = [](std::int64_t t) { return t % 3 == 0 ? -1.0 : 1.0; };
  const Calls done = call(grown, {{rows(9, up), w},
                                  {rows(9, up), w},
                                  {rows(9, once), w},
                                  {rows(9, both), w},
                                  {rows(9, up), w},
                                  {rows(9, once), w},
                                  {rows(9, both), w},
                                  {rows(9, up), w}});
  EXPECT_EQ(done.recordings, 1);
  EXPECT_EQ(done.loops, 1) << "since the call that went both ways more than once";
  EXPECT_EQ(done.replays, 3) << "all behind it but one that checks";
}

TEST(LoopBranches, RandomNumbersAreDrawnInTheWayThatIsGone) {
  const auto f = [](const Tensors& in) -> Tensors {
    const auto [last, all] = scan(
        [](const Tensor& s, const Tensor& row) {
          const Tensor next = cond(
              sum(row) > 0, [&](const Tensor& x) { return x + dropout(row, 0.5); },
              [&](const Tensor& x) { return x * 0.5; }, s);
          return std::pair(next, next * uniform({3}));
        },
        zeros({3}), in[0]);
    return {last, all};
  };
  manual_seed(26);
  std::vector<std::int64_t> lengths;
  for (std::int64_t n = 12; n < 40; ++n) lengths.push_back(n);
  const Calls done = call_drawing(f, rows_of(lengths));
  EXPECT_EQ(done.recordings, 2);
  EXPECT_EQ(done.loops, 2);
  EXPECT_GE(done.replays, 18);
}

TEST(LoopBranches, SizesThatOneWayAsksForAreGuards) {
  const auto f = [](const Tensors& in) -> Tensors {
    const auto [last, all] = scan(
        [&](const Tensor& s, const Tensor& row) {
          const Tensor next = cond(
              sum(row) > 0,
              [&](const Tensor& x) { return in[1].size(0) == 5 ? x + sum(in[1]) : x - row; },
              [&](const Tensor& x) { return x * 0.5; }, s);
          return std::pair(next, row);
        },
        zeros({3}), in[0]);
    return {last, all};
  };
  manual_seed(27);
  std::vector<Tensors> inputs;
  for (const std::int64_t size : {4, 5, 6, 5, 7, 4, 5, 8})
    inputs.push_back({normal({20 + size, 3}), normal({size})});
  call(f, inputs);
}

TEST(LoopBranches, StepsThatTheHostMakesDifferStayApart) {
  const auto count = [](int& counter) {
    return [&counter](const Tensors& in) -> Tensors {
      counter = 0;
      const auto [last, all] = scan(
          [&](const Tensor& s, const Tensor& row) {
            const Tensor next = cond(
                sum(row) > 0, [&](const Tensor& x) { return x + static_cast<double>(++counter); },
                [&](const Tensor& x) { return x * 0.5; }, s);
            return std::pair(next, row);
          },
          zeros({3}), in[0]);
      return {last, all};
    };
  };
  int counter = 0;
  manual_seed(28);
  const Tensor rows = normal({9, 3});
  const Calls done = call(count(counter), {{rows}, {rows}, {rows * -1.0}, {rows}, {rows * -1.0}});
  EXPECT_EQ(done.loops, 0);

  // What leaves its branch behind the back of the cond belongs to the step that made it.
  const auto leaky = [](const Tensors& in) -> Tensors {
    const auto [last, all] = scan(
        [&](const Tensor& s, const Tensor& row) {
          Tensor leaked = row;
          const Tensor next = cond(
              sum(row) > 0,
              [&](const Tensor& x) {
                leaked = x * 3;
                return leaked + 1;
              },
              [&](const Tensor& x) { return x * 0.5; }, s);
          return std::pair(next + leaked, row);
        },
        zeros({3}), in[0]);
    return {last, all};
  };
  EXPECT_EQ(call(leaky, {{rows}, {rows}, {rows * -1.0}, {rows}, {rows * -1.0}}).loops, 0);
}

TEST(LoopBranches, ResultsThatDoNotLieRowByRowStayApart) {
  const auto f = [](const Tensors& in) -> Tensors {
    const auto [last, all] = scan(
        [&](const Tensor& s, const Tensor& row) {
          const Tensor turned = cond(
              sum(row) > 0, [&](const Tensor& x) { return x.t(); },
              [&](const Tensor& x) { return x * 0.5; }, s);
          return std::pair(matmul(turned, in[1]) * 0.1, row);
        },
        in[1], in[0]);
    return {last, all};
  };
  manual_seed(29);
  const Tensor rows = normal({12, 3}), w = normal({20, 20});
  EXPECT_EQ(call(f, {{rows, w}, {rows, w}, {rows * -1.0, w}, {rows, w}}).loops, 0);
}

TEST(LoopBranches, OnTheTape) {
  manual_seed(30);
  Tensor w = normal({3}).requires_grad();
  const auto step = [&](const Tensors& in) -> Tensors {
    w.zero_grad();
    const Tensor loss = sum(grown({in[0], w})[1]);
    loss.backward();
    return {loss.detach(), w.grad().clone()};
  };
  call(step, rows_of({6, 6, 7, 8, 6, 9}));
}

TEST(LoopBranches, VerifiedStepByStep) {
  manual_seed(31);
  const Tensor rows = normal({30, 3}), w = normal({3});
  const auto c = compile_now([](const Tensor& x, const Tensor& by) { return grown({x, by})[1]; });
  const VerifyReport report = verify(c, std::tuple(rows, w));
  EXPECT_TRUE(report.same()) << to_string(report);
}

}  // namespace
}  // namespace dyad
