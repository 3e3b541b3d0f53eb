#include <string>

#include "dyad/core/create.h"
#include "dyad/ir/onnx_node.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/registry.h"

// What the optimizers of ONNX's training domain mean: inputs are the rate, the number of steps
// before, then the parameters, their gradients and what is kept, a group for each kind; results are
// the new parameters and what is kept.

namespace dyad::ops {
namespace {

constexpr std::string_view kTraining = "ai.onnx.preview.training";

struct OptimizerStep {
  OnnxNode& n;
  int count;  ///< of parameters
  Tensor rate, steps;

  /// `kinds`: inputs for each parameter.
  OptimizerStep(OnnxNode& node, int kinds)
      : n(node),
        count((node.input_count() - 2) / kinds),
        rate(node.input(0)),
        steps(node.input(1)) {
    if (node.input_count() != 2 + kinds * count || count < 1) {
      node.fail("it takes a rate, a count of steps and then " + std::to_string(kinds) +
                " tensors for each parameter, but has " + std::to_string(node.input_count()) +
                " inputs");
    }
  }
  [[nodiscard]] Tensor of(int kind, int i) const { return n.input(2 + kind * count + i); }
  void output(int kind, int i, const Tensor& value) const { n.output(kind * count + i, value); }
  /// The gradient, with that of the penalty on the parameter's squares.
  [[nodiscard]] Tensor gradient(int i) const {
    return add(of(1, i), mul(of(0, i), n.number("norm_coefficient", 0), n.loc()), n.loc());
  }
  /// The steps before, as a floating number.
  [[nodiscard]] Tensor time() const { return to(steps, rate.dtype(), n.loc()); }
};

void adagrad(OnnxNode& n) {
  const OptimizerStep step(n, 3);
  const Tensor decayed =
      div(step.rate, add(mul(step.time(), n.number("decay_factor", 0), n.loc()), 1, n.loc()));
  for (int i = 0; i < step.count; ++i) {
    const Tensor g = step.gradient(i);
    const Tensor squares = add(step.of(2, i), mul(g, g, n.loc()), n.loc());
    const Tensor scale = add(sqrt(squares, n.loc()), n.number("epsilon", 1e-6), n.loc());
    step.output(0, i, sub(step.of(0, i), div(mul(decayed, g, n.loc()), scale, n.loc()), n.loc()));
    step.output(1, i, squares);
  }
}

void adam(OnnxNode& n) {
  const OptimizerStep step(n, 4);
  const double alpha = n.number("alpha", 0.9), beta = n.number("beta", 0.999);
  // At step 0 the means are as they are; then they are corrected for beginning at 0.
  const Tensor t = step.time();
  const Tensor corrected = div(sqrt(sub(1, pow(beta, t, n.loc()), n.loc()), n.loc()),
                               sub(1, pow(alpha, t, n.loc()), n.loc()), n.loc());
  const Tensor rate = mul(step.rate, where(gt(t, 0, n.loc()), corrected, 1, n.loc()), n.loc());
  for (int i = 0; i < step.count; ++i) {
    const Tensor g = step.gradient(i);
    const Tensor first =
        add(mul(step.of(2, i), alpha, n.loc()), mul(g, 1 - alpha, n.loc()), n.loc());
    const Tensor second =
        add(mul(step.of(3, i), beta, n.loc()), mul(mul(g, g, n.loc()), 1 - beta, n.loc()), n.loc());
    const Tensor scale = add(sqrt(second, n.loc()), n.number("epsilon", 1e-6), n.loc());
    const Tensor moved =
        sub(step.of(0, i), div(mul(rate, first, n.loc()), scale, n.loc()), n.loc());
    step.output(0, i, mul(moved, 1 - n.number("norm_coefficient_post", 0), n.loc()));
    step.output(1, i, first);
    step.output(2, i, second);
  }
}

void momentum(OnnxNode& n) {
  const OptimizerStep step(n, 3);
  const double alpha = n.number("alpha", 0);
  const bool nesterov = n.text("mode", "standard") == "nesterov";
  // The first step takes the whole gradient.
  const Tensor beta = where(gt(step.time(), 0, n.loc()), n.number("beta", 0),
                            to(tensor(1.0f), step.rate.dtype()), n.loc());
  for (int i = 0; i < step.count; ++i) {
    const Tensor g = step.gradient(i);
    const Tensor kept = add(mul(step.of(2, i), alpha, n.loc()), mul(beta, g, n.loc()), n.loc());
    const Tensor direction = nesterov ? add(g, mul(kept, alpha, n.loc()), n.loc()) : kept;
    step.output(0, i, sub(step.of(0, i), mul(step.rate, direction, n.loc()), n.loc()));
    step.output(1, i, kept);
  }
}

}  // namespace

std::span<const OnnxRule> optimizers_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      {"Adagrad", 1, adagrad, kTraining},
      {"Adam", 1, adam, kTraining},
      {"Momentum", 1, momentum, kTraining},
  };
  return kRules;
}

}  // namespace dyad::ops
