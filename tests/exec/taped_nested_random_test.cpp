#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "dyad/exec/control_flow.h"
#include "random_steps_for_tests.h"

// Random loops with loops in their steps, differentiated eagerly and compiled: the same bits.

namespace dyad {
namespace {

using exec::Tensors;
using Pair = std::pair<Tensor, Tensor>;

/// One random program, a function of [sentences, words, 2, 4].
class NestedProgram final : public exec::RandomSteps {
 public:
  explicit NestedProgram(std::uint64_t seed)
      : RandomSteps(seed),
        is_while_(draw(8) == 0),
        inside_(1 + draw(2)),
        has_branch_(draw(6) == 0),
        branches_inside_(draw(6) == 0),
        is_deep_(draw(5) == 0),
        uses_rows_(draw(3) == 0) {}

  [[nodiscard]] Tensor loss(const Tensor& rows) const override {
    if (is_while_) {
      const auto [n, h] = while_loop([&](const Tensor& i, const Tensor&) { return i < 5; },
                                     [&](const Tensor& i, const Tensor& state) {
                                       const Tensor sentence = select_row(rows, i);
                                       return Pair(i + 1, step(state, sentence) * 1.0);
                                     },
                                     Pair(zeros({}, i64), first()));
      return sum(h * h);
    }
    const auto [h, all] = scan(
        [&](const Tensor& state, const Tensor& sentence) {
          const Tensor next = step(state, sentence);
          return Pair(next * 1.0, next * next);
        },
        first(), rows);
    const Tensor result = sum(h * h) + mean(all);
    return uses_rows_ ? result + mean(rows * rows) : result;
  }

 private:
  [[nodiscard]] static Tensor select_row(const Tensor& rows, const Tensor& i) {
    const Tensor row = index_select(rows, 0, reshape(i, {1}));
    return reshape(row, {rows.size(1), 2, 4});
  }

  [[nodiscard]] Tensor step(const Tensor& state, const Tensor& sentence) const {
    Tensors values{state, mean(sentence, {0}), first()};
    Tensor slices = sentence;
    for (std::size_t k = 0; k < inside_; ++k) {
      const std::size_t at = 10 * k;
      const Tensor begin = code(at) % 2 == 0 ? some(at + 1, values) : values[code(at) % 3];
      if (code(at + 1) % 4 == 0) slices = slices * tanh(some(at + 5, values));
      const auto [last, made] = words(begin, slices, at + 2);
      switch (code(at + 2) % 4) {
        case 0:
          values.push_back(last);
          break;
        case 1:
          values.push_back(mean(made, {0}));
          break;
        case 2:
          values.push_back(last * sum(made, {0}));
          break;
        default:
          values.push_back(last);
          slices = made;
          break;
      }
    }
    values[1] = values.back();
    if (!has_branch_) return some(40, values);
    return cond(
        sum(sentence) > 0, [&](const Tensor& x) { return some(40, {x, values[1]}); },
        [&](const Tensor& x) { return some(46, {x, values[1]}); }, some(36, values));
  }

  /// A loop over words, from `begin` on.
  [[nodiscard]] Pair words(const Tensor& begin, const Tensor& rows, std::size_t at) const {
    return scan(
        [&](const Tensor& state, const Tensor& row) {
          Tensors values{state, row, begin};
          if (code(at) % 3 == 0) values.pop_back();
          if (is_deep_) {
            values.push_back(scan(
                                 [&](const Tensor& s, const Tensor& part) {
                                   const Tensor next = some(at + 20, {s, part});
                                   return Pair(next * 1.0, next);
                                 },
                                 state, stack({row, row * 0.5, tanh(row), row + 1}, 0))
                                 .first);
          }
          const Tensor computed = some(at + 30, values);
          const Tensor next = branches_inside_
                                  ? cond(
                                        sum(row) > 0, [&](const Tensor& y) { return y * 0.5; },
                                        [&](const Tensor& y) { return tanh(y); }, computed)
                                  : computed;
          return Pair(next * 1.0, code(at + 1) % 2 == 0 ? next : next * row);
        },
        begin, rows);
  }

  bool is_while_;
  std::size_t inside_;
  bool has_branch_, branches_inside_, is_deep_, uses_rows_;
};

TEST(TapedNested, RandomSteps) {
  std::size_t replayed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    NestedProgram program(seed);
    const auto shape = [&] {
      return Shape{static_cast<std::int64_t>(5 + program.draw(5)),
                   static_cast<std::int64_t>(4 + program.draw(6)), 2, 4};
    };
    replayed += exec::compare(program, seed, shape) > 0 ? 1 : 0;
  }
  EXPECT_GE(replayed, 15U);
}

}  // namespace
}  // namespace dyad
