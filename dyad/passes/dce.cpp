#include "dyad/passes/dce.h"

#include <ranges>
#include <unordered_set>

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/size_sources.h"

namespace dyad::passes {

bool has_effect(const Node& node) {
  const Effect effect = node.op().effect;
  if (effect != Effect::pure && effect != Effect::read) return true;
  for (const Ref<GraphImpl>& region : node.regions()) {
    for (const auto& inner : region->nodes()) {
      if (has_effect(*inner)) return true;
    }
  }
  return false;
}

void dce(GraphImpl& graph) {
  const SizeSources sizes(graph);
  std::unordered_set<const Node*> live;
  for (const Value v : graph.outputs()) live.insert(v.node);
  // Users come after what they use, so one pass backwards sees every user first.
  for (const auto& node : std::views::reverse(graph.nodes())) {
    if (has_effect(*node) || &node->op() == &kPlaceholderOp) live.insert(node.get());
    if (!live.contains(node.get())) continue;
    for (const Value v : node->inputs()) live.insert(v.node);
    for (const Node* source : sizes.of(*node)) live.insert(source);
  }
  graph.erase_if([&](const Node& node) { return !live.contains(&node); });
}

}  // namespace dyad::passes
