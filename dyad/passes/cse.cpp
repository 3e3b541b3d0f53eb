#include "dyad/passes/cse.h"

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/equal_nodes.h"

namespace dyad::passes {
namespace {

bool may_merge(const Node& node) {
  return node.op().effect == Effect::pure && node.regions().empty() &&
         &node.op() != &kPlaceholderOp && &node.op() != &kVariableOp;
}

}  // namespace

void cse(GraphImpl& graph) {
  EqualNodes nodes;
  for (const auto& node : graph.nodes()) {
    for (std::size_t i = 0; i < node->inputs().size(); ++i)
      node->set_input(i, nodes.first(node->inputs()[i]));
    if (may_merge(*node)) (void)nodes.has_before(*node);
  }
  for (Value& v : graph.outputs()) v = nodes.first(v);
  graph.erase_if([&](const Node& node) { return nodes.first(node) != nullptr; });
}

}  // namespace dyad::passes
