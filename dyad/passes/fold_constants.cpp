#include "dyad/passes/fold_constants.h"

#include <algorithm>

#include "dyad/ir/graph_ops.h"
#include "dyad/ir/substitute.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

bool is_small(const Type& type, std::int64_t max_elements) {
  if (!type.is_tensor() || !type.shape().is_concrete()) return false;
  return type.shape().numel().number() <= max_elements;
}

bool may_fold(const Node& node, std::int64_t max_elements) {
  // A filled tensor is an immediate of the kernels that use it.
  if (node.inputs().empty() && node.is("full")) max_elements = 1;
  const BodyKind kind = node.op().kind;
  return node.op().effect == Effect::pure && kind != BodyKind::structural &&
         kind != BodyKind::control && !has_symbols(node.attrs().info(), node.attrs().data()) &&
         std::ranges::all_of(node.types(),
                             [&](const Type& type) { return is_small(type, max_elements); });
}

}  // namespace

Ref<GraphImpl> fold_constants(const GraphImpl& graph, const ConstantEvaluator& evaluate,
                              std::int64_t max_elements) {
  Rewriter rewriter(graph);
  for (const auto& node : graph.nodes()) {
    const auto is_constant = [&](Value v) {
      return !v || &rewriter.at(v).node->op() == &kConstantOp;
    };
    if (!may_fold(*node, max_elements) || !std::ranges::all_of(node->inputs(), is_constant)) {
      rewriter.copy(*node);
      continue;
    }
    std::vector<Tensor> inputs;
    for (const Value v : node->inputs()) {
      inputs.push_back(v ? rewriter.at(v).node->attrs_as<ConstantAttrs>().value : Tensor());
    }
    const std::vector<Tensor> results = evaluate(*node, inputs);
    for (int i = 0; i < static_cast<int>(results.size()); ++i) {
      const Value folded =
          rewriter.to()->add_constant(results[static_cast<std::size_t>(i)], node->loc());
      rewriter.set(node->output(i), folded);
    }
  }
  return rewriter.finish();
}

}  // namespace dyad::passes
