#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "dyad/autograd/gradients.h"
#include "dyad/exec/control_flow.h"
#include "random_steps_for_tests.h"

// Random loops that several passes come through, of which later ones differentiate what earlier
// ones computed, eagerly and compiled: the same bits.

namespace dyad {
namespace {

using exec::Tensors;
using Pair = std::pair<Tensor, Tensor>;

/// One random program, a function of rows.
class TwicePassed final : public exec::RandomSteps {
 public:
  explicit TwicePassed(std::uint64_t seed)
      : RandomSteps(seed),
        two_states_(draw(3) == 0),
        results_(draw(3)),
        passes_(1 + draw(2)),
        keeps_tape_(draw(6) != 0),
        by_rows_(draw(3) == 0) {}

  [[nodiscard]] Tensor loss(const Tensor& given) const override {
    const Tensor rows = by_rows_ && !rows_need_grad() ? given.detach().requires_grad() : given;
    const auto [states, made] = scan(
        [&](const Pair& s, const Tensor& row) {
          Tensors values{s.first, row};
          if (two_states_) values.push_back(s.second);
          const Tensor next = some(0, values);
          const Tensor other = two_states_ ? some(20, {s.second, next, row}) : s.second;
          return std::pair(Pair(next * 1.0, other * 1.0), results_ == 1 ? next : next * row);
        },
        Pair(first(), ones({2, 4})), rows);
    Tensor total =
        results_ == 0 ? sum(states.first * states.first) : mean(made * made) + sum(states.first);
    for (std::size_t pass = 0; pass < passes_; ++pass) {
      const Tensor by = by_rows_ ? rows : weights()[code(40 + pass) % 3];
      if (!total.tracks_grad()) break;
      const Tensor g =
          grad(total, {by},
               {.create_graph = keeps_tape_, .retain_graph = true, .allow_unused = true})[0];
      if (!g.defined()) break;
      total = total * 0.5 + (code(42) % 2 == 0 ? sum(g * g) : sum(tanh(g)));
    }
    return total;
  }

 private:
  bool two_states_;
  std::size_t results_, passes_;
  bool keeps_tape_, by_rows_;
};

TEST(TapedPasses, RandomSteps) {
  std::size_t replayed = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    TwicePassed program(seed);
    const auto shape = [&] {
      return Shape{static_cast<std::int64_t>(10 + program.draw(12)), 2, 4};
    };
    replayed += exec::compare(program, seed, shape) > 0 ? 1 : 0;
  }
  EXPECT_GE(replayed, 20U);
}

}  // namespace
}  // namespace dyad
