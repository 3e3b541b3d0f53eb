/// Gradients that rules give up are overwritten by what follows from them, where nobody else holds
/// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/core/create.h"
#include "dyad/core/storage.h"
#include "dyad/ops/ops.h"

namespace dyad {
namespace {

Tensor numbers(std::int64_t rows) {
  return sin(reshape(arange(rows * 64).to(DType::f32), {rows, 64}) * 0.37) * 2;
}

const std::vector<std::pair<const char*, Tensor (*)(const Tensor&)>>& activations() {
  static const std::vector<std::pair<const char*, Tensor (*)(const Tensor&)>> all{
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"relu", [](const Tensor& x) { return relu(x); }},
      {"silu", [](const Tensor& x) { return silu(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }},
  };
  return all;
}

TEST(GradientsInPlace, TakeNoMemoryOfTheirOwn) {
  const Tensor seed = numbers(4096);
  for (const auto& [name, function] : activations()) {
    Tensor x = numbers(4096).requires_grad();
    const Tensor y = function(x) * 2;
    (void)grad(y, {x}, {.retain_graph = true, .weights = {seed}});
    const std::size_t before = memory_stats().in_use;
    reset_peak_memory();
    const std::vector<Tensor> found = grad(y, {x}, {.weights = {seed}});
    // seed * 2, overwritten; the tape keeps x alone, or the result.
    EXPECT_NEAR(static_cast<double>(memory_stats().peak - before), 1 << 20, 1 << 17) << name;
  }
}

TEST(GradientsInPlace, LeaveAloneWhatOthersHold) {
  for (const std::int64_t rows : {2, 4096}) {
    for (const auto& [name, function] : activations()) {
      Tensor x = numbers(rows).requires_grad();
      const Tensor seed = numbers(rows) + 3, kept = seed.clone();
      const Tensor expected = grad(function(x), {x}, {.weights = {seed}})[0];
      EXPECT_TRUE(all(seed == kept).item<bool>()) << name << ": the program's own gradient";

      // Both terms get the same gradient.
      const Tensor h = x * 1;
      const Tensor both = grad(function(h) + h, {x}, {.weights = {seed}})[0];
      EXPECT_TRUE(all(both == expected + seed).item<bool>() ||
                  all(both == seed + expected).item<bool>())
          << name << ": a gradient that another term has";

      const Tensor y = function(x);
      Tensor seen;
      y.register_hook([&](const Tensor& g) {
        seen = g;
        return Tensor();
      });
      (void)grad(y * 1, {x}, {.weights = {seed}});
      EXPECT_TRUE(all(seen == seed).item<bool>()) << name << ": one that a hook keeps";

      const Tensor z = function(x);
      const std::vector<Tensor> two = grad(z * 1, {z, x}, {.weights = {seed}});
      EXPECT_TRUE(all(two[0] == seed).item<bool>()) << name << ": one that is asked for";
      EXPECT_TRUE(all(two[1] == expected).item<bool>()) << name;
    }
  }
}

TEST(GradientsInPlace, NotOnTheTape) {
  Tensor x = numbers(4096).requires_grad();
  const Tensor first = grad(sum(gelu(x) * 2), {x}, {.create_graph = true})[0];
  const Tensor second = grad(sum(first), {x})[0];
  EXPECT_TRUE(all(isfinite(second)).item<bool>());
  EXPECT_FALSE(all(second == 0).item<bool>());
}

TEST(GradientsInPlace, OtherLayoutsHaveTheLayoutThatTheyHad) {
  Tensor x = numbers(4096).requires_grad();
  const Tensor seed = transpose(numbers(64 * 64).reshape({64, 4096}), 0, 1);
  const Tensor found = grad(gelu(x), {x}, {.weights = {seed * 1}})[0];
  const Tensor expected = grad(gelu(x), {x}, {.weights = {seed.contiguous()}})[0];
  EXPECT_TRUE(all(found == expected).item<bool>());
}

}  // namespace
}  // namespace dyad
