#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/exec/compile.h"
#include "exec_for_tests.h"

namespace dyad::exec {

/// What random programs with loops have in common: weights, operators drawn once, and what is done
/// with the gradients. Derived classes give the loss of rows whose last sizes are 2 and 4.
class RandomSteps {
 public:
  explicit RandomSteps(std::uint64_t seed) : random_(seed) {
    manual_seed(seed);
    for (int i = 0; i < 3; ++i) weights_.push_back((normal({4, 4}) * 0.5).requires_grad());
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
  virtual ~RandomSteps() = default;

  std::size_t draw(std::size_t below) { return random_() % below; }
  [[nodiscard]] const Tensors& weights() const { return weights_; }
  [[nodiscard]] bool accumulates() const { return accumulates_ || from_outside_; }
  [[nodiscard]] bool from_outside() const { return from_outside_; }
  [[nodiscard]] bool rows_need_grad() const { return rows_need_grad_; }

  [[nodiscard]] virtual Tensor loss(const Tensor& rows) const = 0;

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

 protected:
  /// The state that loops begin with.
  [[nodiscard]] const Tensor& first() const { return first_; }
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

 private:
  static constexpr std::size_t kCode = 64;

  std::mt19937_64 random_;
  Tensors weights_;
  Tensor first_;
  std::vector<std::size_t> code_;
  bool accumulates_ = false, from_outside_ = false, rows_need_grad_ = false;
};

/// Calls `f` with the gradients that were there before; gives those that are there afterwards, and
/// the result.
inline Tensors gradients(const RandomSteps& program, const auto& f, const Tensor& rows,
                         Tensors& before) {
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

/// Calls the program eagerly and compiled with rows of shapes that `shape()` draws: the same bits.
/// Gives the number of calls that the compiled form replayed.
std::int64_t compare(const RandomSteps& program, std::uint64_t seed, const auto& shape) {
  const auto run = [&](const Tensor& rows) { return program.run(rows); };
  const auto c = compile_now(run);
  Tensors eagerly, compiled;
  for (int call = 0; call < 9; ++call) {
    Tensor rows = normal(shape());
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

}  // namespace dyad::exec
