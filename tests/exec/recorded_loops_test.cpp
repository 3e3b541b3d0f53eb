#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/ir/graph.h"
#include "exec_for_tests.h"
#include "loops_for_tests.h"

// Loops in compiled functions: one node of the recording where their steps repeat each other, the
// steps one by one where they do not.

namespace dyad {
namespace {

using exec::call;
using exec::call_drawing;
using exec::Calls;
using exec::calls_of;
using exec::compile_now;
using exec::count_of;
using exec::limit;
using exec::same_bits;
using Tensors = std::vector<Tensor>;

/// x doubled and turned until its sum is at least the limit.
Tensors doubled(const Tensors& in) {
  return {while_loop([&](const Tensor& s) { return sum(s) < in[1]; },
                     [&](const Tensor& s) { return s * 2 + sin(in[0]); }, in[0])};
}

TEST(RecordedLoops, AWhileServesAnyNumberOfSteps) {
  const Tensor x = full({3}, 0.5);
  const Calls done = call(doubled, {{x, limit(20)},
                                    {x, limit(100)},
                                    {x * 2, limit(7)},
                                    {x, limit(1e6)},
                                    {x, limit(0)},
                                    {x, limit(2)},
                                    {x, limit(50)}});
  EXPECT_EQ(done.recordings, 1);
  EXPECT_EQ(done.loops, 1);
  EXPECT_EQ(done.recorded, 4) << "the first call, the one without a step, and two that check it";
}

TEST(RecordedLoops, OneSeenFirstWithTooFewSteps) {
  const Tensor x = full({3}, 0.5);
  for (const double first : {0.0, 2.0}) {
    const Calls done = call(doubled, {{x, limit(first)},
                                      {x, limit(first)},
                                      {x, limit(100)},
                                      {x, limit(first)},
                                      {x, limit(7)},
                                      {x, limit(first)},
                                      {x, limit(1000)},
                                      {x, limit(first)},
                                      {x, limit(first)},
                                      {x, limit(20)}});
    EXPECT_EQ(done.recordings, 1);
    EXPECT_EQ(done.loops, 1);
    EXPECT_GE(done.replays, 5);
  }
}

TEST(RecordedLoops, AScanServesAnyLength) {
  const auto f = [](const Tensors& in) -> Tensors {
    const auto [end, all] = scan(
        [&](const Tensor& c, const Tensor& row) {
          const Tensor next = tanh(c * 0.5 + row) + in[1];
          return std::pair(next, next * next);
        },
        zeros({4}), in[0]);
    return {end, all, sum(all)};
  };
  manual_seed(1);
  const Tensor w = normal({4});
  std::vector<Tensors> inputs;
  for (const std::int64_t n : {5, 9, 30, 2, 17, 6, 8}) inputs.push_back({normal({n, 4}), w});
  const Calls done = call(f, inputs);
  EXPECT_EQ(done.recordings, 2) << "one length, then any";
  EXPECT_EQ(done.loops, 2);
}

TEST(RecordedLoops, AScanOfOneStepHasARecordingOfItsOwn) {
  const auto f = [](const Tensors& in) -> Tensors {
    const auto [end, all] =
        scan([](const Tensor& c, const Tensor& row) { return std::pair(c + row, c * row); },
             ones({4}), in[0]);
    return {end, all};
  };
  manual_seed(2);
  std::vector<Tensors> inputs;
  for (const std::int64_t n : {3, 1, 7, 1, 0, 5, 0, 4, 1, 9}) inputs.push_back({normal({n, 4})});
  call(f, inputs);
}

TEST(RecordedLoops, OfAStateAndACounter) {
  const auto f = [](const Tensors& in) -> Tensors {
    const auto [i, x] = while_loop(
        [&](const Tensor& n, const Tensor&) { return n < in[1]; },
        [](const Tensor& n, const Tensor& v) { return std::tuple(n + 1, v * 0.5 + n.to(f32)); },
        std::tuple(zeros({}, i64), in[0]));
    return {i, x};
  };
  const auto steps = [](std::int64_t n) { return full({}, n, i64); };
  const Tensor x = ones({2, 3});
  const Calls done = call(f, {{x, steps(4)}, {x, steps(9)}, {x, steps(2)}, {x, steps(100)}});
  EXPECT_EQ(done.loops, 1);
  EXPECT_EQ(done.recordings, 1);
}

TEST(RecordedLoops, StatesThatChangePlacesAreToldApart) {
  // Fibonacci's numbers, from two states that are one tensor at first.
  const auto f = [](const Tensors& in) -> Tensors {
    const Tensor one = in[0];
    const auto [n, a, b] =
        while_loop([&](const Tensor& i, const Tensor&, const Tensor&) { return i < in[1]; },
                   [&](const Tensor& i, const Tensor& x, const Tensor& y) {
                     return std::tuple(i + 1, y, x + one * y);
                   },
                   std::tuple(zeros({}), one, one));
    return {a, b, n};
  };
  for (const double first : {2.0, 3.0, 6.0}) {
    call(f, {{ones({}), limit(first)},
             {ones({}), limit(7)},
             {ones({}), limit(3)},
             {ones({}), limit(2)},
             {ones({}), limit(12)}});
  }
}

TEST(RecordedLoops, StatesThatWaitAreNotTakenForConstants) {
  // The first state stays as it was for two steps.
  const auto f = [](const Tensors& in) -> Tensors {
    const Tensor one = in[0];
    const auto [n, a, b, c] = while_loop(
        [&](const Tensor& i, const Tensor&, const Tensor&, const Tensor&) { return i < in[1]; },
        [](const Tensor& i, const Tensor&, const Tensor& y, const Tensor& z) {
          return std::tuple(i + 1, y, z, z + 1);
        },
        std::tuple(zeros({}), one, one, one));
    return {a, b, c, n};
  };
  call(f, {{ones({}), limit(2)}, {ones({}), limit(2)}, {ones({}), limit(5)}, {ones({}), limit(3)}});
}

TEST(RecordedLoops, StatesThatNoStepChanges) {
  const auto f = [](const Tensors& in) -> Tensors {
    const auto [x, w] =
        while_loop([&](const Tensor& s, const Tensor&) { return sum(s) < in[1]; },
                   [](const Tensor& s, const Tensor& by) { return std::tuple(s * by, by); },
                   std::tuple(in[0], in[2]));
    return {x, w, x + w};
  };
  const Tensor x = ones({3});
  const Calls done = call(
      f,
      {{x, limit(20), full({3}, 2)}, {x, limit(90), full({3}, 1.5)}, {x, limit(50), full({3}, 3)}});
  EXPECT_EQ(done.loops, 1);
}

TEST(RecordedLoops, ABodyThatGivesATensorFromOutside) {
  const auto f = [](const Tensors& in) -> Tensors {
    const auto [x, w] =
        while_loop([&](const Tensor& s, const Tensor&) { return sum(s) < in[1]; },
                   [&](const Tensor& s, const Tensor& by) { return std::tuple(s * 2 + by, in[2]); },
                   std::tuple(in[0], in[0]));
    return {x, w};
  };
  const Tensor x = ones({3});
  call(f, {{x, limit(20), full({3}, 2)},
           {x, limit(90), full({3}, 1.5)},
           {x, limit(1), full({3}, 3)},
           {x, limit(50), full({3}, 3)}});
}

TEST(RecordedLoops, StepsThatTheHostMakesDifferStayApart) {
  const auto f = [](const Tensors& in) -> Tensors {
    int step = 0;
    const auto [end, all] = scan(
        [&](const Tensor& c, const Tensor& row) {
          ++step;
          return std::pair(c * step + row, c);
        },
        zeros({4}), in[0]);
    return {end, all};
  };
  manual_seed(3);
  const Calls done = call(f, {{normal({4, 4})}, {normal({4, 4})}, {normal({4, 4})}});
  EXPECT_EQ(done.loops, 0);
  EXPECT_GE(done.replays, 1);
}

TEST(RecordedLoops, WhatTheProgramKeepsOfStepsIsTheirs) {
  const auto f = [](const Tensors& in) -> Tensors {
    Tensors history;
    const Tensor end = while_loop([&](const Tensor& s) { return sum(s) < in[1]; },
                                  [&](const Tensor& s) {
                                    history.push_back(s * 0.25);
                                    return s * 2;
                                  },
                                  in[0]);
    return {end, history.back(), stack(history)};
  };
  const Tensor x = ones({3});
  const Calls done = call(f, {{x, limit(20)}, {x, limit(20)}, {x, limit(90)}, {x, limit(20)}});
  EXPECT_EQ(done.loops, 0);
}

TEST(RecordedLoops, StepsThatDoMoreThanComputeStayApart) {
  const Tensor x = ones({3});
  const std::vector<Tensors> inputs{{x, limit(20)}, {x, limit(20)}, {x, limit(20)}};
  const auto with = [](const std::function<Tensor(const Tensor&)>& body) {
    return [body](const Tensors& in) -> Tensors {
      return {while_loop([&](const Tensor& s) { return sum(s) < in[1]; }, body, in[0])};
    };
  };
  // Writes, in the step's own memory.
  EXPECT_EQ(call(with([](const Tensor& s) {
                   Tensor next = s.clone();
                   next += 1;
                   return next;
                 }),
                 inputs)
                .loops,
            0);
  // Reads of the host.
  EXPECT_EQ(
      call(with([](const Tensor& s) { return sum(s).item<float>() > 7 ? s * 2 : s + 1; }), inputs)
          .loops,
      0);
  // Literals.
  EXPECT_EQ(call(with([](const Tensor& s) { return s + tensor({1.f, 2.f, 3.f}); }), inputs).loops,
            0);
}

TEST(RecordedLoops, OnTheTapeOrNot) {
  const Tensor x = ones({3}), w = full({3}, 2).requires_grad();
  const std::vector<Tensors> inputs{{x, limit(20)}, {x, limit(20)}, {x, limit(50)}};
  const auto f = [&](const Tensors& in) -> Tensors {
    return {while_loop([&](const Tensor& s) { return sum(s) < in[1]; },
                       [&](const Tensor& s) { return s * w; }, in[0])};
  };
  EXPECT_EQ(call(f, inputs).loops, 1);
  const NoGrad off;
  EXPECT_EQ(call(f, inputs).loops, 1);
}

TEST(RecordedLoops, RandomNumbersAreDrawnInTheLoop) {
  const auto whiles = [](const Tensors& in) -> Tensors {
    return {while_loop([&](const Tensor& s) { return sum(s) < in[1]; },
                       [](const Tensor& s) { return s + uniform({3}); }, in[0])};
  };
  const Tensor x = ones({3});
  const Calls done = call_drawing(whiles, {{x, limit(9)},
                                           {x, limit(9)},
                                           {x, limit(60)},
                                           {x, limit(20)},
                                           {x, limit(5)},
                                           {x, limit(90)}});
  EXPECT_EQ(done.loops, 1);
  EXPECT_EQ(done.recordings, 1);

  const auto scans = [](const Tensors& in) -> Tensors {
    const auto [last, all] = scan(
        [](const Tensor& s, const Tensor& row) {
          const Tensor kept = dropout(row, 0.5);
          return std::pair(s * 0.5 + kept, kept * uniform({3}));
        },
        zeros({3}), in[0]);
    return {last, all};
  };
  std::vector<Tensors> rows;
  for (std::int64_t length = 3; length < 63; ++length) rows.push_back({ones({length, 3})});
  const Calls of_any_length = call_drawing(scans, rows);
  EXPECT_EQ(of_any_length.recordings, 2);
  EXPECT_EQ(of_any_length.loops, 2);
  EXPECT_GE(of_any_length.replays, 50);
}

TEST(RecordedLoops, ConditionsThatDrawAreReadByTheHost) {
  const auto f = [](const Tensors& in) -> Tensors {
    return {while_loop([&](const Tensor& s) { return sum(s) + uniform({}) * 3 < in[1]; },
                       [](const Tensor& s) { return s * 2; }, in[0])};
  };
  const Tensor x = ones({3});
  EXPECT_EQ(call_drawing(f, {{x, limit(9)}, {x, limit(9)}, {x, limit(60)}, {x, limit(9)}}).loops,
            0);
}

TEST(RecordedLoops, ALoopInTheBodyOfAnother) {
  const auto f = [](const Tensors& in) -> Tensors {
    return {while_loop([&](const Tensor& s) { return sum(s) < in[1]; },
                       [&](const Tensor& s) {
                         return scan([&](const Tensor& c,
                                         const Tensor& row) { return std::pair(c + row, row); },
                                     s, in[2])
                                    .first *
                                1.5;
                       },
                       in[0])};
  };
  manual_seed(4);
  const Tensor x = ones({3}), rows = abs(normal({4, 3}));
  const Calls done = call(
      f,
      {{x, limit(90), rows}, {x, limit(900), rows}, {x, limit(30), rows}, {x, limit(1e5), rows}});
  EXPECT_EQ(done.loops, 1);
  EXPECT_EQ(done.recordings, 1);
}

TEST(RecordedLoops, InnerLoopsOfFewStepsInSomeOfTheOuterSteps) {
  // The inner loop does 0, 1, 2... steps from one outer step to the next.
  const auto f = [](const Tensors& in) -> Tensors {
    const auto [n, x] = while_loop(
        [&](const Tensor& i, const Tensor&) { return i < in[1]; },
        [&](const Tensor& i, const Tensor& s) {
          const auto [k, inner] = while_loop(
              [&](const Tensor& j, const Tensor&) { return j < i; },
              [](const Tensor& j, const Tensor& v) { return std::tuple(j + 1, v * 1.5 + 1); },
              std::tuple(zeros({}), s));
          return std::tuple(i + 1, inner + k);
        },
        std::tuple(zeros({}), in[0]));
    return {n, x};
  };
  const Tensor x = ones({3});
  const Calls done = call(
      f,
      {{x, limit(4)}, {x, limit(4)}, {x, limit(3)}, {x, limit(6)}, {x, limit(4)}, {x, limit(2)}});
  EXPECT_EQ(done.recordings, 1);
  EXPECT_EQ(done.loops, 1);
}

TEST(RecordedLoops, InnerLoopsWhoseStepsDataTell) {
  // Each row is halved until it is small: no step, one, or many.
  const auto f = [](const Tensors& in) -> Tensors {
    const auto [last, all] = scan(
        [&](const Tensor& s, const Tensor& row) {
          const Tensor small =
              while_loop([&](const Tensor& r) { return sum(abs(r)) > in[2]; },
                         [&](const Tensor& r) { return r * 0.5 + in[1] * 0.01; }, row);
          const Tensor next = tanh(s + small);
          return std::pair(next, next * small);
        },
        zeros({3}), in[0]);
    return {last, all};
  };
  manual_seed(41);
  std::vector<Tensors> inputs;
  for (std::int64_t length = 20; length < 50; ++length)
    inputs.push_back({normal({length, 3}) * 4.0, normal({3}), limit(2)});
  const Calls done = call(f, inputs);
  EXPECT_EQ(done.recordings, 2) << "one length, then any";
  EXPECT_EQ(done.loops, 2);
  EXPECT_GE(done.replays, 20);
}

TEST(RecordedLoops, InnerLoopsThatTheHostMakesDifferStayApart) {
  const auto f = [](const Tensors& in) -> Tensors {
    int row_number = 0;
    const auto [last, all] = scan(
        [&](const Tensor& s, const Tensor& row) {
          const double factor = ++row_number % 2 == 0 ? 0.5 : 0.25;
          const Tensor small = while_loop([&](const Tensor& r) { return sum(abs(r)) > in[1]; },
                                          [&](const Tensor& r) { return r * factor; }, row);
          return std::pair(s + small, row);
        },
        zeros({3}), in[0]);
    return {last, all};
  };
  manual_seed(42);
  const Tensor rows = normal({9, 3}) * 4.0;
  EXPECT_GT(call(f, {{rows, limit(2)}, {rows, limit(2)}, {rows, limit(1)}, {rows, limit(2)}}).loops,
            1)
      << "the inner ones";
}

TEST(RecordedLoops, WeightsFromOutsideAreReadAnew) {
  const Tensor w = full({3, 3}, 0.4);
  const auto f = [&](const Tensor& rows) {
    return scan(
               [&](const Tensor& c, const Tensor& row) {
                 const Tensor next = tanh(matmul(c, w) + row);
                 return std::pair(next, next);
               },
               zeros({3}), rows)
        .second;
  };
  const auto c = compile_now(f);
  manual_seed(5);
  for (int i = 0; i < 6; ++i) {
    const Tensor rows = normal({5, 3});
    EXPECT_TRUE(same_bits(f(rows), c(rows))) << i;
    Tensor written = w;
    written *= 0.9;
  }
  EXPECT_EQ(count_of(*c.graphs()[0].recorded, "scan"), 1);
}

TEST(RecordedLoops, WhatComesAfterMayBeDifferentiated) {
  Tensor w = full({4}, 0.3).requires_grad(), same = full({4}, 0.3).requires_grad();
  const auto f = [](const Tensor& weight, const Tensor& rows) {
    const Tensor h =
        scan([](const Tensor& c, const Tensor& row) { return std::pair(tanh(c + row), row); },
             zeros({4}), rows)
            .first;
    return sum(h * weight * weight);
  };
  const auto c = compile_now(f);
  manual_seed(6);
  for (const std::int64_t n : {3, 5, 4, 8}) {
    const Tensor rows = normal({n, 4});
    c(w, rows).backward();
    f(same, rows).backward();
    EXPECT_EQ(exec::bits(w.grad()), exec::bits(same.grad())) << n;
  }
}

TEST(RecordedLoops, GradientsOfSlicesArePutSideBySide) {
  const auto step = [](const Tensors& in) -> Tensors {
    const auto [last, all] = scan(
        [](const Tensor& h, const Tensor& x) {
          const Tensor next = tanh(h + x);
          return std::pair(next, next);
        },
        zeros({3}), in[0]);
    sum(all * all).backward();
    return {last};
  };
  const auto c = compile_now(std::function<Tensors(const Tensors&)>(step));
  Tensor x = full({5, 3}, 0.25).requires_grad(), same = full({5, 3}, 0.25).requires_grad();
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(step({x}));
    static_cast<void>(c(Tensors{same}));
    EXPECT_TRUE(same_bits(x.grad(), same.grad()));
  }
  ASSERT_FALSE(c.graphs().empty());
  EXPECT_EQ(count_of(*c.graphs()[0].recorded, "pad"), 0);
  // Each step adds what comes to the state that it began with: before the first one is nothing.
  EXPECT_EQ(count_of(*c.graphs()[0].recorded, "concat"), 2);
}

TEST(RecordedLoops, ResultsMayBeWrittenAndViewed) {
  const auto f = [](const Tensors& in) -> Tensors {
    Tensor end = while_loop([&](const Tensor& s) { return sum(s) < in[1]; },
                            [](const Tensor& s) { return s * 2; }, in[0]);
    end += 1;
    const Tensor view = end.slice(0, 0, 2);
    end *= in[0];
    return {end, view};
  };
  const auto c = compile_now(f);
  for (const double end : {20.0, 70.0, 30.0, 0.0, 300.0, 0.0, 9.0}) {
    const Tensor x = full({3}, 2), same = full({3}, 2);
    const Tensors eager = f({x, limit(end)}), compiled = c(Tensors{same, limit(end)});
    for (std::size_t k = 0; k < eager.size(); ++k) EXPECT_TRUE(same_bits(eager[k], compiled[k]));
    EXPECT_TRUE(same_bits(x, same)) << "without a step the result is the argument";
  }
}

TEST(RecordedLoops, AnErrorInAStepLeavesTheRecordingWhole) {
  const auto f = [](const Tensor& x, const Tensor& by) {
    try {
      const Tensor bad = while_loop([](const Tensor& s) { return sum(s) < 100; },
                                    [&](const Tensor& s) { return matmul(s, by); }, x);
    } catch (const ShapeError&) {
    }
    return while_loop([](const Tensor& s) { return sum(s) < 100; },
                      [](const Tensor& s) { return s * 2; }, x);
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 4; ++i) {
    const Tensor x = full({3}, i + 1);
    EXPECT_TRUE(same_bits(f(x, ones({2, 2})), c(x, ones({2, 2}))));
  }
}

}  // namespace
}  // namespace dyad
