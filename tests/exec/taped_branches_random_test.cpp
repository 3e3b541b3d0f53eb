#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "dyad/exec/control_flow.h"
#include "random_steps_for_tests.h"

// Random loops whose steps go through conds, differentiated eagerly and compiled: the same bits,
// whichever ways are gone when they are recorded and whichever later.

namespace dyad {
namespace {

using exec::Tensors;
using Pair = std::pair<Tensor, Tensor>;

/// One random program, a function of rows.
class Program final : public exec::RandomSteps {
 public:
  explicit Program(std::uint64_t seed)
      : RandomSteps(seed),
        two_states_(draw(2) == 0),
        form_(draw(5)),
        is_while_(draw(5) == 0),
        asks_state_(draw(3) == 0),
        weight_after_(draw(3) == 0) {}

  [[nodiscard]] Tensor loss(const Tensor& rows) const override {
    Tensor last, made;
    if (is_while_) {
      const Tensor count = full({}, 22, i64);
      const auto [n, h, c] =
          while_loop([&](const Tensor& i, const Tensor&, const Tensor&) { return i < count; },
                     [&](const Tensor& i, const Tensor& h, const Tensor& c) {
                       const Tensor row = reshape(index_select(rows, 0, reshape(i, {1})), {2, 4});
                       const auto [next, cell] = step(h, c, row);
                       return std::tuple(i + 1, next, cell);
                     },
                     std::tuple(zeros({}, i64), first(), ones({2, 4})));
      last = h;
      made = c;
    } else {
      const auto [states, all] = scan(
          [&](const Pair& s, const Tensor& row) {
            const auto [next, cell] = step(s.first, s.second, row);
            return std::pair(Pair(next, cell), next * cell + row);
          },
          Pair(first(), ones({2, 4})), rows);
      last = states.first;
      made = all;
    }
    const Tensor result = sum(last * last) + mean(made);
    return weight_after_ ? result + sum(matmul(last, weights()[1])) : result;
  }

 private:
  [[nodiscard]] Tensor branch(const Tensor& pred, const Tensors& values, const Tensor& given,
                              std::size_t then, std::size_t otherwise, bool nested) const {
    const auto way = [&](std::size_t at) {
      return [this, &values, at](const Tensor& s) {
        Tensors seen = values;
        seen.push_back(s);
        return some(at, seen);
      };
    };
    if (!nested) return cond(pred, way(then), way(otherwise), given);
    return cond(
        pred,
        [&](const Tensor& s) {
          return branch(values[1][0][0] > 0, values, s, then + 22, otherwise + 24, false);
        },
        way(otherwise), given);
  }

  [[nodiscard]] Pair step(const Tensor& h, const Tensor& c, const Tensor& row) const {
    Tensors values{h, row};
    if (two_states_) values.push_back(c);
    const Tensor before = form_ >= 3 ? some(0, values) : h;
    const Tensor pred = asks_state_ ? sum(before * row) > 0 : sum(row) > 0;
    if (form_ == 4) values.push_back(before);
    Tensor next = branch(pred, values, before, 8, 16, form_ == 2);
    if (form_ == 1) next = branch(row[1][2] > 0, values, next, 30, 40, false);
    const Tensor cell = two_states_ ? some(24, {c, next, row}) : c;
    return {next * 1.0, cell * 1.0};
  }

  bool two_states_;
  std::size_t form_;
  bool is_while_, asks_state_, weight_after_;
};

TEST(TapedBranches, RandomSteps) {
  std::size_t replayed = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Program program(seed);
    const auto shape = [&] {
      return Shape{static_cast<std::int64_t>(24 + program.draw(20)), 2, 4};
    };
    replayed += exec::compare(program, seed, shape) > 0 ? 1 : 0;
  }
  // Many forget their state in one way, or have ways that are hardly ever gone.
  EXPECT_GE(replayed, 15U);
}

}  // namespace
}  // namespace dyad
