#include <cstddef>
#include <cstdint>
#include <utility>

#include "dyad/core/storage.h"
#include "dyad/exec/control_flow.h"
#include "exec_for_tests.h"

// Where the states of compiled loops lie: what a step is given nobody needs behind it.

namespace dyad::exec {
namespace {

constexpr std::int64_t kSize = 1 << 18;
constexpr double kState = kSize * sizeof(float);

using OfRows = std::function<Tensor(const Tensor&)>;

/// Calls the function eagerly and compiled on several rows, and gives the most memory that a
/// replayed call takes, in states.
double states_at_once(const OfRows& function) {
  const auto fast =
      compile(function, CompileOptions{.recheck = false, .background = Background::never});
  // One after the other above and below 0, 1 and 2.
  const auto rows = [](std::int64_t count) { return sin(arange(count).to(f32) * 2.5f) * 3.0f; };
  for (const std::int64_t count : {20, 30, 25, 28}) {
    EXPECT_TRUE(same_bits(fast(rows(count)), function(rows(count)))) << count;
  }
  EXPECT_EQ(fast.explain().replays, 2) << to_string(fast.explain());
  const Tensor x = rows(24);
  static_cast<void>(fast(x));
  reset_peak_memory();
  const std::size_t before = memory_stats().in_use;
  static_cast<void>(fast(x));
  return static_cast<double>(memory_stats().peak - before) / kState;
}

Tensor first() {
  static const Tensor numbers = arange(kSize).to(f32) * 0.001f;
  return numbers;
}

Tensor sums(const std::function<Tensor(const Tensor&, const Tensor&)>& step, const Tensor& x) {
  return scan([&](const Tensor& sum, const Tensor& row) { return std::pair(step(sum, row), row); },
              first(), x)
      .first;
}

TEST(LoopMemory, AStateIsComputedWhereTheLastOneLay) {
  const double states = states_at_once([](const Tensor& x) {
    return sums([](const Tensor& sum, const Tensor& row) { return sum * 0.5f + sin(row); }, x);
  });
  EXPECT_LT(states, 2.5) << "a copy to begin with, and one more";
}

TEST(LoopMemory, SoItIsInBranches) {
  const double states = states_at_once([](const Tensor& x) {
    return sums(
        [](const Tensor& sum, const Tensor& row) {
          return cond(
              row > 0, [&](const Tensor& s) { return s * 0.5f + row; },
              [](const Tensor& s) { return s; }, sum);
        },
        x);
  });
  EXPECT_LT(states, 2.5);
}

TEST(LoopMemory, AndInBranchesOfBranchesAndBehindThem) {
  const double states = states_at_once([](const Tensor& x) {
    return sums(
        [](const Tensor& sum, const Tensor& row) {
          const Tensor once = cond(
              row > 0,
              [&](const Tensor& s) {
                return cond(
                    row > 2, [&](const Tensor& t) { return t + row; },
                    [](const Tensor& t) { return t; }, s);
              },
              [](const Tensor& s) { return s * 2.0f; }, sum);
          return cond(
              row < 1, [](const Tensor& s) { return s - 1.0f; }, [](const Tensor& s) { return s; },
              once);
        },
        x);
  });
  EXPECT_LT(states, 2.5);
}

TEST(LoopMemory, InAWhileToo) {
  const double states = states_at_once([](const Tensor& x) {
    return while_loop([&](const Tensor& s) { return mean(s) < sum(x * x) * 1e3f; },
                      [](const Tensor& s) { return s * 1.5f; }, first());
  });
  EXPECT_LT(states, 2.5);
}

TEST(LoopMemory, WhatSomebodyElseNeedsStays) {
  // Rows of results, and a state that another one becomes.
  const auto kept = [](const Tensor& x) {
    const auto [last, all] = scan(
        [](const std::pair<Tensor, Tensor>& s, const Tensor& row) {
          const Tensor next = s.first * 0.5f + row;
          return std::pair(std::pair(next, s.first), next);
        },
        std::pair(first(), first() + 1.0f), x);
    return mean(all, {0}) + last.first - last.second;
  };
  static_cast<void>(states_at_once(kept));
}

TEST(LoopMemory, WhatABranchGivesTwiceIsNotWrittenOver) {
  const Function twice = [](std::span<const Tensor> in) -> Tensors {
    const auto [last, all] = scan(
        [](const std::pair<Tensor, Tensor>& s, const Tensor& row) {
          const auto [a, b] = cond(
              row > 0,
              [](const Tensor& p, const Tensor&) {
                const Tensor half = p * 0.5f;
                return std::pair(half, half);
              },
              [&](const Tensor& p, const Tensor& q) { return std::pair(q, p + row); }, s.first,
              s.second);
          const auto [c, d] = cond(
              row > 1, [&](const Tensor& p, const Tensor& q) { return std::pair(p * 2.0f, q); },
              [](const Tensor& p, const Tensor& q) { return std::pair(q, p - 1.0f); }, a, b);
          return std::pair(std::pair(c, d), row);
        },
        std::pair(in[0], in[0] + 1.0f), in[1]);
    return {last.first, last.second};
  };
  expect_as_eager(twice, {first(), sin(arange(24).to(f32) * 2.5f) * 3.0f});
}

}  // namespace
}  // namespace dyad::exec
