#include <fmt/format.h>

#include <algorithm>

#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/onnx/importer.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/views.h"

// If and Gradient, and the table of the rules that need more than their inputs.

namespace dyad::onnx {
namespace {

/// A condition of one element, as a scalar.
Tensor scalar_of(NodeImport& n, int i) {
  const Tensor x = n.input(i);
  return x.rank() == 0 ? x : reshape(x, {}, n.loc());
}

/// A branch that depends on a run: both are graphs.
std::vector<Tensor> both_branches(NodeImport& n, const pb::GraphProto& then,
                                  const pb::GraphProto& otherwise) {
  const auto branch = [&](const pb::GraphProto& graph) -> exec::TensorFunction {
    return [&](std::span<const Tensor>) {
      std::vector<Tensor> tensors;
      for (const Imported& result : n.run(graph, {})) {
        if (!result.tensor.defined()) n.fail("a branch gives a sequence; it must give tensors");
        tensors.push_back(n.importer().operand(result));
      }
      n.importer().check_before(tensors);
      return tensors;
    };
  };
  const Tensor condition = scalar_of(n, 0);
  return n.importer().record(
      [&] { return exec::run_cond(condition, branch(then), branch(otherwise), {}, n.loc()); });
}

void choose_branch(NodeImport& n) {
  const pb::GraphProto &then = n.graph("then_branch"), &otherwise = n.graph("else_branch");
  n.check_names(then);
  n.check_names(otherwise);
  if (!n.constant(0).defined()) {
    try {
      const std::vector<Tensor> results = both_branches(n, then, otherwise);
      for (std::size_t i = 0; i < results.size(); ++i) n.output(static_cast<int>(i), results[i]);
      return;
    } catch (const Error&) {
      // Branches of different types, with sequences, or that need more than a graph tells: one of
      // them can be built when the condition is known.
      if (n.importer().in_region()) throw;
      n.need_constant(0);
    }
  }
  const bool taken = n.constant_number(0, 0) != 0;
  std::vector<Imported> results = n.run(taken ? then : otherwise, {});
  for (std::size_t i = 0; i < results.size(); ++i) {
    n.set_output(static_cast<int>(i), std::move(results[i]));
  }
}

/// The derivatives of the value called `y` by those called `xs`.
void differentiate(NodeImport& n) {
  const auto named = [&](const std::string& name) {
    const Imported* value = n.find(name);
    if (value == nullptr || !value->tensor.defined()) {
      n.fail(fmt::format("there is no tensor \"{}\" before it", name));
    }
    return n.importer().operand(*value);
  };
  std::vector<Tensor> xs;
  for (const std::string& name : n.texts("xs")) xs.push_back(named(name));
  const Tensor y = named(n.text("y", ""));
  // It comes to a few nodes for each that leads to y.
  if (auto* evaluator = dynamic_cast<GraphEvaluator*>(&Evaluator::current())) {
    n.importer().count_step(std::ssize(evaluator->graph()->nodes()));
  }
  const std::vector<Tensor> grads =
      grad({&y, 1}, xs, {.allow_unused = true, .weights = {ones_like(y, n.loc())}}, n.loc());
  for (std::size_t i = 0; i < grads.size(); ++i) {
    n.output(static_cast<int>(i), grads[i].defined() ? grads[i] : zeros_like(xs[i], n.loc()));
  }
}

}  // namespace

std::span<const ModelRule> control_rules() {
  static constexpr ModelRule kRules[] = {
      {"If", 1, choose_branch},
      {"Gradient", 1, differentiate, "ai.onnx.preview.training"},
  };
  return kRules;
}

const ModelRule* find_model_rule(std::string_view domain, std::string_view op, int version) {
  const ModelRule* found = nullptr;
  for (const auto& rules :
       {control_rules(), loop_rules(), sequence_rules(), recurrent_rules(), text_rules(),
        encoder_rules(), learned_rules(), svm_rules(), tree_rules(), map_rules()}) {
    for (const ModelRule& rule : rules) {
      if (rule.domain != domain || rule.op != op || rule.since > version) continue;
      if (found == nullptr || found->since < rule.since) found = &rule;
    }
  }
  return found;
}

}  // namespace dyad::onnx
