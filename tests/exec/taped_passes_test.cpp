#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "exec_for_tests.h"
#include "taped_loops_for_tests.h"

// Scans that several passes come through: later passes are loops, too.

namespace dyad {
namespace {

using exec::CellWeights;
using exec::expect_loops;
using exec::kLengths;
using exec::Tensors;
using exec::train;

/// Lengths of which the second one is long enough for loops of second derivatives.
const std::vector<std::int64_t> kLongForSecond{8, 12, 10, 16, 9, 30, 12, 11};

TEST(TapedPasses, SecondDerivatives) {
  const CellWeights w;
  const auto loss = [&](const Tensor& x) {
    const Tensor h = w.last(x);
    const Tensors first = grad(sum(h * h), {w.state}, {.create_graph = true});
    return sum(first[0] * first[0]);
  };
  expect_loops(train(loss, w.all(), kLongForSecond), 4);
  static_cast<void>(train(loss, w.all(), {5, 6, 7, 5}));
  static_cast<void>(train(loss, w.all(), kLengths));
}

TEST(TapedPasses, SecondDerivativesOfResultsByAllWeights) {
  const CellWeights w;
  const auto loss = [&](const Tensor& x) {
    const auto [h, all] = w.run(x);
    const Tensor first = mean(all * all) + sum(h);
    const Tensors grads = grad(first, w.all(), {.create_graph = true});
    Tensor total = first;
    for (const Tensor& g : grads) total = total + sum(g * g);
    return total;
  };
  EXPECT_EQ(train(loss, w.all(), kLongForSecond).recordings, 2);
  static_cast<void>(train(loss, w.all(), kLengths));
}

TEST(TapedPasses, PenaltiesOnGradientsOfWhatIsSliced) {
  const CellWeights w;
  const auto loss = [&](const Tensor& x) {
    const Tensor rows = x.detach().requires_grad();
    const auto [h, all] = w.run(rows);
    const Tensor first = mean(all * all) + sum(h);
    const Tensor g = grad(first, {rows}, {.create_graph = true})[0];
    return first + sum(square(sqrt(sum(g * g, {1, 2})) - 1));
  };
  EXPECT_EQ(train(loss, w.all(), kLongForSecond).recordings, 2);
  static_cast<void>(train(loss, w.all(), kLengths));
}

TEST(TapedPasses, ThirdDerivatives) {
  const CellWeights w;
  const auto loss = [&](const Tensor& x) {
    const Tensor h = w.last(x);
    const Tensor first = grad(sum(h * h), {w.state}, {.create_graph = true})[0];
    const Tensor second = grad(sum(first * first), {w.state}, {.create_graph = true})[0];
    return sum(second * second);
  };
  static_cast<void>(train(loss, w.all(), kLongForSecond));
}

TEST(TapedPasses, TwoPassesOneAfterTheOther) {
  const CellWeights w;
  const auto loss = [&](const Tensor& x) {
    const auto [h, all] = w.run(x);
    const Tensor first = sum(h), second = mean(all * all);
    const Tensor g = grad(first, {w.state}, {.retain_graph = true})[0];
    return second + sum(g * w.state);
  };
  EXPECT_EQ(train(loss, w.all(), kLongForSecond).recordings, 2);
}

}  // namespace
}  // namespace dyad
