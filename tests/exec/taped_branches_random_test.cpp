#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "exec_for_tests.h"

// Random loops whose steps go through conds, differentiated eagerly and compiled: the same bits,
// whichever ways are gone when they are recorded and whichever later.

namespace dyad {
namespace {

using exec::same_bits;
using exec::Tensors;
using Pair = std::pair<Tensor, Tensor>;

/// One random program, a function of rows.
class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed) {
    manual_seed(seed);
    for (int i = 0; i < 3; ++i) weights_.push_back((normal({4, 4}) * 0.5).requires_grad());
    two_states_ = draw(2) == 0;
    form_ = draw(5);
    is_while_ = draw(5) == 0;
    asks_state_ = draw(3) == 0;
    weight_after_ = draw(3) == 0;
    accumulates_ = draw(4) == 0;
    from_outside_ = draw(4) == 0;
    rows_need_grad_ = draw(3) == 0;
    const bool learns_first = draw(4) == 0;
    first_ = learns_first   ? normal({2, 4}).requires_grad()
             : draw(2) == 0 ? zeros({2, 4})
                            : ones({2, 4});
    if (learns_first) weights_.push_back(first_);
    for (std::size_t i = 0; i < kCode; ++i) code_.push_back(draw(1000));
  }

  std::size_t draw(std::size_t below) { return random_() % below; }
  [[nodiscard]] const Tensors& weights() const { return weights_; }
  [[nodiscard]] bool accumulates() const { return accumulates_ || from_outside_; }
  [[nodiscard]] bool from_outside() const { return from_outside_; }
  [[nodiscard]] bool rows_need_grad() const { return rows_need_grad_; }

  [[nodiscard]] Tensor loss(const Tensor& rows) const {
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
                     std::tuple(zeros({}, i64), first_, ones({2, 4})));
      last = h;
      made = c;
    } else {
      const auto [states, all] = scan(
          [&](const Pair& s, const Tensor& row) {
            const auto [next, cell] = step(s.first, s.second, row);
            return std::pair(Pair(next, cell), next * cell + row);
          },
          Pair(first_, ones({2, 4})), rows);
      last = states.first;
      made = all;
    }
    const Tensor result = sum(last * last) + mean(made);
    return weight_after_ ? result + sum(matmul(last, weights_[1])) : result;
  }

  /// The function to be compiled: it differentiates, or leaves that to its caller.
  [[nodiscard]] Tensor run(const Tensor& rows) const {
    if (from_outside_) return loss(rows);
    if (!accumulates_) {
      for (const Tensor& leaf : weights_) leaf.zero_grad();
    }
    const Tensor result = loss(rows);
    result.backward();
    return result.detach();
  }

 private:
  static constexpr std::size_t kCode = 64;

  [[nodiscard]] std::size_t code(std::size_t at) const { return code_[at % kCode]; }

  /// Some operators on some of the values, as the code from `at` on says.
  [[nodiscard]] Tensor some(std::size_t at, const Tensors& values) const {
    Tensor x = values[code(at + 1) % values.size()];
    for (std::size_t k = 0; k <= code(at) % 3; ++k) {
      const std::size_t which = code(at + 3 + 2 * k);
      const Tensor& other = values[which % values.size()];
      const Tensor& weight = weights_[which % 3];
      switch (code(at + 2 + 2 * k) % 8) {
        case 0:
          x = tanh(matmul(x, weight));
          break;
        case 1:
          x = x * 0.5;
          break;
        case 2:
          x = x + other;
          break;
        case 3:
          x = sigmoid(x);
          break;
        case 4:
          x = matmul(x, weight);
          break;
        case 5:
          x = x * tanh(other);
          break;
        case 6:
          x = relu(x) + 0.1;
          break;
        default:
          break;
      }
    }
    return x;
  }

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

  std::mt19937_64 random_;
  Tensors weights_;
  Tensor first_;
  std::vector<std::size_t> code_;
  std::size_t form_ = 0;
  bool two_states_ = false, is_while_ = false, asks_state_ = false, weight_after_ = false;
  bool accumulates_ = false, from_outside_ = false, rows_need_grad_ = false;
};

/// Calls `f` with the gradients that were there before; gives those that are there afterwards, and
/// the result.
Tensors gradients(const Program& program, const auto& f, const Tensor& rows, Tensors& before) {
  for (std::size_t i = 0; i < program.weights().size(); ++i) {
    Tensor leaf = program.weights()[i];
    leaf.zero_grad();
    if (program.accumulates() && i < before.size() && before[i].defined())
      leaf.set_grad(before[i].clone());
  }
  const Tensor result = f(rows);
  if (program.from_outside() && result.tracks_grad()) result.backward();
  before.clear();
  for (const Tensor& leaf : program.weights())
    before.push_back(leaf.grad().defined() ? leaf.grad().clone() : Tensor());
  Tensors all = before;
  if (program.rows_need_grad()) all.push_back(rows.grad());
  all.push_back(result.detach());
  return all;
}

/// The number of calls that the compiled form replayed.
std::int64_t compare(std::uint64_t seed) {
  Program program(seed);
  const auto run = [&](const Tensor& rows) { return program.run(rows); };
  const auto c = exec::compile_now(run);
  Tensors eagerly, compiled;
  for (int call = 0; call < 9; ++call) {
    Tensor rows = normal({static_cast<std::int64_t>(24 + program.draw(20)), 2, 4});
    Tensor same = rows.clone();
    if (program.rows_need_grad()) {
      rows = rows.requires_grad();
      same = same.requires_grad();
    }
    Tensors expected;
    try {
      expected = gradients(program, run, rows, eagerly);
    } catch (const GradError&) {
      break;  // nothing is differentiated
    }
    const Tensors found = gradients(program, c, same, compiled);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(expected[i].defined(), found[i].defined())
          << "program " << seed << ", call " << call << ", value " << i;
      if (!expected[i].defined() || !found[i].defined()) continue;
      EXPECT_TRUE(same_bits(expected[i], found[i]))
          << "program " << seed << ", call " << call << ", value " << i;
    }
    if (::testing::Test::HasFailure()) break;
  }
  return c.explain().replays;
}

TEST(TapedBranches, RandomSteps) {
  std::size_t replayed = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) replayed += compare(seed) > 0 ? 1 : 0;
  // Many forget their state in one way, or have ways that are hardly ever gone.
  EXPECT_GE(replayed, 15U);
}

}  // namespace
}  // namespace dyad
