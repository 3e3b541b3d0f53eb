#include "dyad/passes/expand_composites.h"

#include <fmt/format.h>

#include <vector>

#include "dyad/base/error.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

/// Puts operators into a graph as they are called, except that composites go in as what they expand
/// to.
class ExpandingEvaluator final : public GraphEvaluator {
 public:
  using GraphEvaluator::GraphEvaluator;

  void apply(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
             Loc loc) override {
    if (op.kind != BodyKind::composite) {
      GraphEvaluator::apply(op, inputs, attrs, outputs, loc);
      return;
    }
    std::vector<Tensor> results = op.expand(attrs, inputs, loc);
    if (results.size() < outputs.size()) {
      throw InternalError(fmt::format("{}: expand gave {} results for {} outputs", op.name,
                                      results.size(), outputs.size()),
                          loc);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = std::move(results[i]);
  }
};

}  // namespace

Ref<GraphImpl> expand_composites(const GraphImpl& graph) {
  Rewriter rewriter(graph);
  ExpandingEvaluator evaluator(rewriter.to());
  const Evaluator::Scope current(evaluator);

  for (const auto& node : graph.nodes()) {
    if (node->op().kind != BodyKind::composite) {
      rewriter.copy(*node);
      continue;
    }
    const LocScope attributed(node->loc());
    std::vector<Tensor> inputs;
    for (const Value v : node->inputs()) {
      inputs.push_back(v ? symbolic_tensor(rewriter.to(), rewriter.at(v)) : Tensor());
    }
    std::vector<const Tensor*> refs;
    for (const Tensor& input : inputs) refs.push_back(&input);
    std::vector<Tensor> outputs(node->types().size());
    evaluator.apply(node->op(), refs, node->attrs().data(), outputs, node->loc());
    for (int i = 0; i < static_cast<int>(outputs.size()); ++i) {
      rewriter.set(node->output(i), evaluator.value_of(outputs[static_cast<std::size_t>(i)],
                                                       &node->op(), node->loc()));
    }
  }
  return rewriter.finish();
}

}  // namespace dyad::passes
