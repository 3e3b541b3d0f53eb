#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "cases.h"
#include "dyad/core/evaluator.h"

namespace dyad::testing {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

/// Fixed weights that tell elements apart.
Tensor weights(const Tensor& like, double phase) {
  std::vector<double> values(elements(like).size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::cos(1.7 * static_cast<double>(i) + phase);
  }
  return f64_tensor(values, like.shape());
}

Tensors weights_of(const Tensors& outputs, double phase) {
  Tensors made;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    made.push_back(weights(outputs[i], phase + static_cast<double>(i)));
  }
  return made;
}

double weighted_sum(const Tensors& outputs, const Tensors& weight) {
  double total = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto y = elements(outputs[i]), w = elements(weight[i]);
    for (std::size_t j = 0; j < y.size(); ++j) total += y[j] * w[j];
  }
  return total;
}

/// Tensors of their own, which may become leaves.
Tensors copies(const Tensors& inputs) {
  Tensors made;
  for (const Tensor& x : inputs) {
    made.push_back(x.defined() && x.dtype() == f64 ? f64_tensor(elements(x), x.shape()) : x);
  }
  return made;
}

/// The derivative of sum(weight * f(inputs)) by each of `wanted`, as autograd has it.
Tensors analytic(const Function& f, Tensors inputs, const std::vector<std::size_t>& wanted,
                 double phase, bool create_graph) {
  Tensors leaves;
  for (const std::size_t i : wanted) {
    inputs[i].requires_grad();
    leaves.push_back(inputs[i]);
  }
  const Tensors outputs = f(inputs), weight = weights_of(outputs, phase);
  Tensors tracked, tracked_weight;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].tracks_grad()) continue;  // constant, or else the differences are not zero
    tracked.push_back(outputs[i]);
    tracked_weight.push_back(weight[i]);
  }
  if (tracked.empty()) return Tensors(wanted.size());
  return Evaluator::current().backward(tracked, tracked_weight, leaves, create_graph, create_graph,
                                       std::source_location::current());
}

/// The same by central differences.
double numeric(const Function& f, const Tensors& inputs, std::size_t input, std::size_t element,
               double phase) {
  double values[2];
  const double h = 1e-5;
  for (int side = 0; side < 2; ++side) {
    Tensors moved = copies(inputs);
    std::vector<double> x = elements(inputs[input]);
    x[element] += side == 0 ? h : -h;
    moved[input] = f64_tensor(x, inputs[input].shape());
    const Tensors outputs = f(moved);
    values[side] = weighted_sum(outputs, weights_of(outputs, phase));
  }
  return (values[0] - values[1]) / (2 * h);
}

/// Empty when the gradients of f by its `wanted` inputs agree with finite differences.
std::string check(const Function& f, const Tensors& inputs, const std::vector<std::size_t>& wanted,
                  double phase) {
  const Tensors grads = analytic(f, copies(inputs), wanted, phase, false);
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const std::size_t i = wanted[k];
    const std::vector<double> got = grads[k].defined()
                                        ? elements(grads[k])
                                        : std::vector<double>(elements(inputs[i]).size(), 0);
    if (grads[k].defined() && !grads[k].shape().same_as(inputs[i].shape())) {
      return "the gradient of input " + std::to_string(i) + " is " + type_string(grads[k]);
    }
    for (std::size_t j = 0; j < got.size(); ++j) {
      const double want = numeric(f, inputs, i, j, phase);
      if (!(std::abs(got[j] - want) <= 1e-6 * std::max(1.0, std::abs(want)))) {
        return "the gradient of input " + std::to_string(i) + " at " + std::to_string(j) + " is " +
               std::to_string(got[j]) + ", by differences " + std::to_string(want);
      }
    }
  }
  return {};
}

std::vector<std::size_t> differentiable_inputs(const Tensors& inputs) {
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && inputs[i].dtype() == f64) wanted.push_back(i);
  }
  return wanted;
}

class Gradients : public Interpreted {};

TEST_F(Gradients, AgreeWithFiniteDifferences) {
  std::map<std::string, int> failures;
  for (const Case& c : reference_cases()) {
    if (!c.grad) continue;
    const Function f = [&](const Tensors& inputs) { return run(c, inputs); };
    std::string error;
    try {
      error = check(f, c.inputs, differentiable_inputs(c.inputs), 0.3);
    } catch (const std::exception& e) {
      error = e.what();
    }
    if (!error.empty() && ++failures[c.name] <= 2) ADD_FAILURE() << c.text << ": " << error;
  }
}

/// The gradient is itself a function of the inputs, and is differentiated in the same way.
TEST_F(Gradients, AgreeWithFiniteDifferencesInSecondOrder) {
  std::map<std::string, int> failures;
  for (const Case& c : reference_cases()) {
    if (!c.grad) continue;
    const std::vector<std::size_t> wanted = differentiable_inputs(c.inputs);
    const Function f = [&](const Tensors& inputs) { return run(c, inputs); };
    const Function first = [&](const Tensors& inputs) {
      Tensors grads = analytic(f, inputs, wanted, 0.3, true), found;
      for (std::size_t k = 0; k < grads.size(); ++k) {
        // An operator that is linear in an input has a gradient that does not depend on it.
        if (grads[k].defined()) found.push_back(grads[k]);
      }
      return found;
    };
    std::string error;
    try {
      error = check(first, c.inputs, wanted, 1.1);
    } catch (const std::exception& e) {
      error = e.what();
    }
    if (!error.empty() && ++failures[c.name] <= 2) ADD_FAILURE() << c.text << ": " << error;
  }
}

}  // namespace
}  // namespace dyad::testing
