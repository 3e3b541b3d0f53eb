#include <fmt/format.h>

#include <algorithm>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/onnx/importer.h"
#include "dyad/ops/views.h"

// If, and what makes and takes sequences and optionals, whose elements are known by name while the
// graph is built.

namespace dyad::onnx {
namespace {

/// A condition of one element, as a scalar.
Tensor scalar_of(NodeImport& n, int i) {
  const Tensor x = n.input(i);
  return x.rank() == 0 ? x : reshape(x, {}, n.loc());
}

void choose_branch(NodeImport& n) {
  const pb::GraphProto &then = n.graph("then_branch"), &otherwise = n.graph("else_branch");
  if (const Tensor known = n.constant(0); known.defined()) {
    const bool taken = n.constant_number(0, 0) != 0;
    std::vector<Imported> results = n.run(taken ? then : otherwise, {});
    for (std::size_t i = 0; i < results.size(); ++i) {
      n.set_output(static_cast<int>(i), std::move(results[i]));
    }
    return;
  }
  const auto branch = [&](const pb::GraphProto& graph) -> exec::TensorFunction {
    return [&](std::span<const Tensor>) {
      std::vector<Tensor> tensors;
      for (const Imported& result : n.run(graph, {})) {
        if (!result.tensor.defined()) n.fail("a branch gives a sequence; it must give tensors");
        tensors.push_back(n.importer().operand(result));
      }
      return tensors;
    };
  };
  const std::vector<Tensor> results =
      exec::run_cond(scalar_of(n, 0), branch(then), branch(otherwise), {}, n.loc());
  for (std::size_t i = 0; i < results.size(); ++i) n.output(static_cast<int>(i), results[i]);
}

constexpr ModelRule kRules[] = {
    {"If", 1, choose_branch},
};

}  // namespace

std::span<const ModelRule> control_rules() { return kRules; }

const ModelRule* find_model_rule(std::string_view op, int version) {
  const ModelRule* found = nullptr;
  for (const ModelRule& rule : control_rules()) {
    if (rule.op == op && rule.since <= version && (!found || found->since < rule.since)) {
      found = &rule;
    }
  }
  return found;
}

}  // namespace dyad::onnx
