#include "dyad/passes/fold_norms.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "dyad/ir/graph_evaluator.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/norm.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/views.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

bool is_constant(Value v) { return !v || &v.node->op() == &kConstantOp; }

/// The norms that can be folded, by the convolutions before them.
std::unordered_map<const Node*, const Node*> find_norms(const GraphImpl& graph) {
  const auto uses = count_uses(graph);
  std::unordered_map<const Node*, const Node*> found;
  for (const auto& node : graph.nodes()) {
    if (!node->is("batch_norm")) continue;
    const Value x = node->inputs()[0];
    if (!x.node->is("conv") || uses[x] != 1) continue;
    if (std::ranges::all_of(node->inputs().subspan(1), is_constant) &&
        std::ranges::all_of(x.node->inputs().subspan(1), is_constant)) {
      found.emplace(x.node, node.get());
    }
  }
  return found;
}

}  // namespace

Ref<GraphImpl> fold_norms(const GraphImpl& graph) {
  const auto norms = find_norms(graph);
  if (norms.empty()) return clone(graph);
  Rewriter rewriter(graph);
  GraphEvaluator evaluator(rewriter.to());
  const Evaluator::Scope current(evaluator);
  for (const auto& node : graph.nodes()) {
    if (norms.contains(node.get())) continue;
    const Value x = node->is("batch_norm") ? node->inputs()[0] : Value();
    const auto found = x ? norms.find(x.node) : norms.end();
    if (found == norms.end()) {
      rewriter.copy(*node);
      continue;
    }
    const Node& conv = *x.node;
    const LocScope attributed(conv.loc());
    const auto operand = [&](const Node& of, std::size_t i) {
      const Value v = rewriter.at(of.inputs()[i]);
      return v ? symbolic_tensor(rewriter.to(), v) : Tensor();
    };
    const Tensor weight = operand(conv, 1), bias = operand(conv, 2), mean = operand(*node, 3);
    const Tensor scale =
        operand(*node, 1) * rsqrt(operand(*node, 4) + node->attrs_as<ops::EpsAttrs>().eps);
    Shape per_channel(static_cast<std::size_t>(weight.rank()), 1);
    per_channel[0] = -1;
    const Tensor scaled = weight * reshape(scale, per_channel);
    const Tensor moved = (bias.defined() ? bias - mean : -mean) * scale + operand(*node, 2);
    const auto value = [&](const Tensor& t) {
      return evaluator.value_of(t, &node->op(), node->loc());
    };
    Node* const made = rewriter.to()->append_copy(
        conv, {rewriter.at(conv.inputs()[0]), value(scaled), value(moved)});
    rewriter.set(node->output(), made->output());
  }
  return rewriter.finish();
}

}  // namespace dyad::passes
