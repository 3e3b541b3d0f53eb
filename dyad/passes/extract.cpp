#include "dyad/passes/extract.h"

#include <algorithm>
#include <ranges>
#include <unordered_set>

#include "dyad/passes/rewriter.h"

namespace dyad::passes {

Ref<GraphImpl> extract(const GraphImpl& graph, std::span<const Value> values,
                       const std::function<bool(const Node&)>& without) {
  std::unordered_set<const Node*> needed;
  for (const Value v : values) needed.insert(v.node);
  for (const auto& node : std::views::reverse(graph.nodes())) {
    const bool is_key = node->op().effect == Effect::random && node->inputs().empty();
    if (is_key && !(without && without(*node))) needed.insert(node.get());
    if (!needed.contains(node.get())) continue;
    for (const Value v : node->inputs()) needed.insert(v.node);
  }

  Rewriter rewriter(graph);
  const auto is_needed = [&](Value v) { return !v || needed.contains(v.node); };
  for (const auto& node : graph.nodes()) {
    if (node->op().effect == Effect::host && std::ranges::all_of(node->inputs(), is_needed)) {
      needed.insert(node.get());
    }
    if (needed.contains(node.get())) rewriter.copy(*node);
  }
  rewriter.to()->outputs() = rewriter.at(values);
  return rewriter.to();
}

}  // namespace dyad::passes
