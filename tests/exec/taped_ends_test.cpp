#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/ops/ops.h"
#include "exec_for_tests.h"
#include "taped_loops_for_tests.h"

// Loops that a compiled function differentiates: what their first steps and last ones do that the
// others do not, and how few steps there may be.

namespace dyad {
namespace {

using exec::compile_now;
using exec::count_up;
using exec::expect_loops;
using exec::kLengths;
using exec::same_bits;
using exec::Tensors;
using exec::train;
using Pair = std::pair<Tensor, Tensor>;

using Weights = exec::CellWeights;

TEST(TapedEnds, OneStepIsOneOfTheLengths) {
  const Weights w;
  const auto last = [&](const Tensor& x) { return sum(w.last(x)); };
  const auto all = [&](const Tensor& x) {
    const auto [h, rows] = w.run(x);
    return sum(h) + mean(rows * rows);
  };
  const std::vector<std::int64_t> lengths{4, 3, 1, 2, 1, 9, 2, 11, 1, 4, 5};
  for (const bool rows_need_grad : {false, true}) {
    expect_loops(train(last, w.all(), lengths, rows_need_grad));
    expect_loops(train(all, w.all(), lengths, rows_need_grad));
  }
}

/// A step that begins with a constant lacks what another one gives to its state.
TEST(TapedEnds, StepsThatScaleTheirState) {
  const Tensor w = normal({3}).requires_grad();
  const auto sum_of_last = [](const auto& step) {
    return [step](const Tensor& x) { return sum(scan(step, zeros({2, 3}), x).first); };
  };
  const std::vector<std::int64_t> lengths{8, 9, 1, 5, 1, 2, 30};
  expect_loops(
      train(sum_of_last([&](const Tensor& h, const Tensor& row) { return Pair(h * w + row, row); }),
            {w}, lengths));
  expect_loops(train(
      sum_of_last([&](const Tensor& h, const Tensor& row) { return Pair(h * 0.5 + row * w, row); }),
      {w}, lengths));
  expect_loops(
      train(sum_of_last([&](const Tensor& h, const Tensor& row) { return Pair(h + row * w, row); }),
            {w}, lengths, true));
}

/// The gradient of w has no imaginary part, and the sign of that shows.
TEST(TapedEnds, OfComplexNumbers) {
  const Tensor w = complex(normal({3}), normal({3})).requires_grad();
  static_cast<void>(train(
      [&](const Tensor& x) {
        const Tensor rows = complex(x, zeros_like(x));
        const auto step = [&](const Tensor& h, const Tensor& row) {
          return Pair(h + row * w, row);
        };
        return sum(real(scan(step, zeros({2, 3}, c64), rows).first));
      },
      {w}, kLengths));
}

/// What comes to the rows of a result that no step made is added up before the steps.
TEST(TapedEnds, ResultsThatNoStepMakes) {
  const Tensor p = ones({1}).requires_grad();
  const auto outside = [&](const Tensor& x) {
    const Tensor c = p * 2.0;
    const auto [h, rows] = scan(
        [&](const Tensor& state, const Tensor&) { return Pair(state * 0.5 + c, c); }, ones({1}), x);
    return sum(rows) + sum(h);
  };
  const auto kept = [&](const Tensor& x) {
    using States = std::vector<Tensor>;
    const auto [h, rows] =
        scan([](const States& s,
                const Tensor& row) { return std::pair(States{s[0] * 0.5 + row, s[1]}, s[1]); },
             States{ones({1}), p * 2.0}, x);
    return sum(rows) + sum(h[0]);
  };
  for (const std::vector<std::int64_t>& lengths :
       {std::vector<std::int64_t>{3, 4, 4, 9, 9, 2, 1}, {4, 5, 5, 8, 8}, {2, 2, 3, 3, 4, 36}}) {
    std::vector<Shape> shapes;
    for (const std::int64_t length : lengths) shapes.push_back({length, 1});
    static_cast<void>(train(outside, {p}, shapes));
    static_cast<void>(train(kept, {p}, shapes));
  }
}

/// How many steps there are tells which states are tracked: an odd number of them, or some.
TEST(TapedEnds, StatesThatAreTrackedAfterSomeSteps) {
  using States = std::vector<Tensor>;
  const Tensor w = (normal({3}) * 0.3).requires_grad();
  const auto swap = [&](const Tensor& x) {
    return scan([](const States& s,
                   const Tensor&) { return std::pair(States{s[1] * 2.0, s[0] * 0.5}, s[1] * 1.0); },
                States{w * 1.0, ones({3})}, x)
        .first;
  };
  const auto delay = [&](const Tensor& x) {
    return scan(
        [&](const States& s, const Tensor&) {
          return std::pair(States{s[0] * 0.5 + w, s[0] * 2.0, s[1] * 3.0}, sum(s[2]));
        },
        States{ones({3}), ones({3}), ones({3})}, x);
  };
  const std::vector<std::function<Tensor(const Tensor&)>> results{
      [&](const Tensor& x) { return swap(x)[0]; },
      [&](const Tensor& x) { return delay(x).first[2]; },
      [&](const Tensor& x) { return delay(x).second; },
  };
  for (const auto& result : results) {
    const auto step = [&](const Tensor& x) -> Tensors {
      const Tensor made = result(x);
      if (!made.tracks_grad()) return {made.detach(), zeros({1})};
      return {made.detach(), grad(sum(made * made), {w})[0]};
    };
    for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{2, 3, 5, 6, 5},
                                                     {31, 41, 50, 30, 2, 4},
                                                     {9, 8, 3, 2, 1, 1, 0, 4}}) {
      const auto inside = compile_now(step);
      const auto outside = compile_now(result);
      for (const std::int64_t length : lengths) {
        const Tensor x = ones({length, 3});
        const Tensors want = step(x), got = inside(x);
        for (std::size_t i = 0; i < want.size(); ++i)
          EXPECT_TRUE(same_bits(got[i], want[i])) << length;
        EXPECT_EQ(outside(x).tracks_grad(), result(x).tracks_grad()) << length;
      }
    }
  }
}

/// How many steps there are decides which leaves have a gradient.
TEST(TapedEnds, StatesThatChangePlaces) {
  const Tensor first = normal({2, 3}).requires_grad(), second = normal({2, 3}).requires_grad();
  const auto places = [&](bool mix) {
    return [&, mix](const Tensor& x) {
      const auto last = scan(
          [&](const Pair& s, const Tensor& row) {
            return std::pair(Pair(s.second, mix ? tanh(s.first * s.second + row) : s.first + row),
                             row);
          },
          Pair(first * 1.0, second * 1.0), x);
      return sum(last.first.first * last.first.first) + sum(x);
    };
  };
  const std::vector<std::int64_t> lengths{3, 4, 5, 9, 8, 1, 2, 30, 31};
  train(places(false), {first, second}, lengths, true);
  // Where each is made of both, all have one from two steps on.
  const auto done = train(places(true), {first, second}, lengths, true);
  EXPECT_LE(done.recordings, 4);
}

TEST(TapedEnds, WhatAPassComesToAfterSomeSteps) {
  const Tensor w = normal({3}).requires_grad(), v = normal({3}).requires_grad();
  const std::vector<std::int64_t> lengths{6, 9, 2, 3, 1, 4, 30};
  const auto delayed = [&](const Tensor& x) {
    const auto last = scan(
        [&](const Tensors& s, const Tensor& row) {
          return std::pair(Tensors{s[1] * v, s[2], tanh(row * w)}, row);
        },
        Tensors{zeros({2, 3}), zeros({2, 3}), zeros({2, 3})}, x);
    return sum(last.first[0]) + sum(x);
  };
  train(delayed, {w, v}, lengths, true);
  const auto behind = [&](const Tensor& x) {
    const auto last = scan(
        [&](const Pair& s, const Tensor& row) {
          return std::pair(Pair(tanh(s.first * w + row), s.second * v + s.first), row);
        },
        Pair(zeros({2, 3}), zeros({2, 3})), x);
    return sum(last.first.second) + sum(x);
  };
  EXPECT_LE(train(behind, {w, v}, lengths, true).recordings, 5);
}

/// What f gives for `argument` of a leaf, and what that holds, after a write into the memory of the
/// first result.
Tensors after_a_write(const auto& f, Tensor x, const auto& argument) {
  const Tensor y = x.requires_grad() * 1.5;
  Tensors all = f(argument(y));
  Tensor memory = all[0].detach();
  memory += 100;
  all.push_back(y);
  return all;
}

void expect_same_bits(const Tensors& eager, const Tensors& compiled) {
  ASSERT_EQ(eager.size(), compiled.size());
  for (std::size_t i = 0; i < eager.size(); ++i)
    EXPECT_TRUE(same_bits(eager[i].detach(), compiled[i].detach())) << i;
}

/// The last of the rows of x, each of which is the next state.
Pair last_of(const Tensor& x, const Tensor& first) {
  return scan([](const Tensor& state, const Tensor& row) { return Pair(row, state * 2); }, first,
              x);
}

/// A row that a scan has taken of a tensor lies in its memory, whoever gets it.
TEST(TapedEnds, RowsThatAreResultsLieWhereTheyWere) {
  const Tensor w = normal({3}).requires_grad();
  const auto last_row = [&](const Tensor& x) {
    const auto [row, states] =
        scan([&](const Tensor& h, const Tensor& each) { return Pair(each, h * w); }, zeros({3}), x);
    return Tensors{row, states};
  };
  const auto kept_part = [&](const Tensor& x) {
    Tensor part;
    const auto [h, rows] = scan(
        [&](const Tensor& state, const Tensor& each) {
          part = slice(each, 0, 1, 3);
          return Pair(state * w + each, each * 2);
        },
        zeros({3}), x);
    return Tensors{part, h, rows};
  };
  const auto row_of_inner = [&](const Tensor& x) {
    const Tensor y = x * w;
    Tensors all = last_row(y);
    all.push_back(y);
    return all;
  };
  const auto row_of_row = [&](const Tensor& x) {
    Tensor kept;
    const auto [h, rows] = scan(
        [&](const Tensor& state, const Tensor& each) {
          const auto [row, twice] = last_of(each, zeros({}));
          kept = row;
          return Pair(state * w + each, twice);
        },
        zeros({3}), x);
    return Tensors{kept, h, rows};
  };
  for (const std::function<Tensors(const Tensor&)>& f :
       {std::function<Tensors(const Tensor&)>(last_row),
        {kept_part},
        {row_of_inner},
        {row_of_row}}) {
    const auto c = compile(f, {.recheck = false, .background = Background::never});
    for (const std::int64_t length : {4, 4, 4, 6, 6, 1, 1, 6}) {
      SCOPED_TRACE(length);
      const auto itself = [](const Tensor& y) { return y; };
      expect_same_bits(after_a_write(f, count_up({length, 3}), itself),
                       after_a_write(c, count_up({length, 3}), itself));
    }
    EXPECT_GE(c.explain().replays, 4);
  }
}

/// Whether a reshape copies, and so whether its rows lie in the argument, depends on strides.
TEST(TapedEnds, RowsOfAReshapedArgument) {
  const auto last_row = [](const Tensor& x) {
    const auto [row, states] = last_of(reshape(x, {-1, 1}), zeros({1}));
    return Tensors{row, states};
  };
  const auto c = compile(last_row, {.recheck = false, .background = Background::never});
  for (const bool turned : {true, true, true, false, false, true, false}) {
    SCOPED_TRACE(turned);
    const auto argument = [&](const Tensor& y) {
      return turned ? transpose(y, 0, 1) : reshape(y, {3, 2});
    };
    expect_same_bits(after_a_write(last_row, count_up({2, 3}), argument),
                     after_a_write(c, count_up({2, 3}), argument));
  }
}

/// What a scan in the steps of another one has sliced lies in what that sliced.
TEST(TapedEnds, AWriteToWhatSlicesOfSlicesLieInRunsEagerly) {
  const auto f = [](const Tensor& x) {
    Tensor y = x * 2, kept;
    (void)scan(
        [&](const Tensor& state, const Tensor& each) {
          kept = last_of(each, zeros({})).first;
          return Pair(state + each, state);
        },
        zeros({3}), y);
    Tensor memory = y.detach();
    memory += 1;
    return Tensors{kept, y};
  };
  const auto c = compile(f, {.recheck = false, .background = Background::never});
  for (int i = 0; i < 3; ++i) {
    const Tensor x = count_up({2, 3}).requires_grad();
    expect_same_bits(f(x), c(x));
  }
  EXPECT_NE(c.explain().recordings.at(0).refusal.find("slices"), std::string::npos);
}

}  // namespace
}  // namespace dyad
