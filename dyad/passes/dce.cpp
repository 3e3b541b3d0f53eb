#include "dyad/passes/dce.h"

#include <algorithm>
#include <ranges>

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/node_table.h"
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

bool may_refuse(const Node& node) {
  for (std::size_t i = 0; i < node.inputs().size() && i < 32; ++i) {
    if ((node.op().checks >> i & 1) != 0 && node.inputs()[i]) return true;
  }
  return std::ranges::any_of(node.regions(), [](const Ref<GraphImpl>& region) {
    return std::ranges::any_of(region->nodes(),
                               [](const auto& inner) { return may_refuse(*inner); });
  });
}

void dce(GraphImpl& graph) {
  const SizeSources sizes(graph);
  NodeTable<char> live(graph, 0);
  for (const Value v : graph.outputs()) live[*v.node] = 1;
  // Users come after what they use, so one pass backwards sees every user first.
  for (const auto& node : std::views::reverse(graph.nodes())) {
    if (has_effect(*node) || may_refuse(*node) || &node->op() == &kPlaceholderOp) {
      live[*node] = 1;
    }
    if (live[*node] == 0) continue;
    for (const Value v : node->inputs()) {
      if (v) live[*v.node] = 1;
    }
    for (const Node* source : sizes.of(*node)) live[*source] = 1;
  }
  graph.erase_if([&](const Node& node) { return live[node] == 0; });
}

}  // namespace dyad::passes
