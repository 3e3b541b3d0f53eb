#include "dyad/passes/sink_assigns.h"

#include <unordered_map>

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {

Ref<GraphImpl> sink_assigns(const GraphImpl& graph) {
  Rewriter rewriter(graph);
  std::unordered_map<const Node*, const Node*> last;  // variable -> its last assignment
  for (const auto& node : graph.nodes()) {
    if (&node->op() == &kAssignOp) {
      last[node->inputs()[0].node] = node.get();
      rewriter.set(node->output(), rewriter.at(node->inputs()[1]));
    } else if (&node->op() == &kAfterOp) {
      rewriter.set(node->output(), rewriter.at(node->inputs()[0]));
    } else {
      rewriter.copy(*node);
    }
  }
  for (const auto& node : graph.nodes()) {
    if (&node->op() == &kAssignOp && last.at(node->inputs()[0].node) == node.get()) {
      rewriter.to()->append_copy(*node, rewriter.at(node->inputs()));
    }
  }
  return rewriter.finish();
}

}  // namespace dyad::passes
