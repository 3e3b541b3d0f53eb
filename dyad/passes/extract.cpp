#include "dyad/passes/extract.h"

#include <algorithm>
#include <ranges>
#include <unordered_set>
#include <vector>

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/rewriter.h"
#include "dyad/passes/size_sources.h"

namespace dyad::passes {
namespace {

/// Whether a node takes a random key, itself or in the graphs that it holds.
bool draws(const Node& node) {
  if (node.op().effect == Effect::random && node.inputs().empty()) return true;
  return std::ranges::any_of(node.regions(), [](const Ref<GraphImpl>& region) {
    return std::ranges::any_of(region->nodes(), [](const auto& inner) { return draws(*inner); });
  });
}

/// Which nodes of a graph some values need, and which host effects go with them.
class Needs {
 public:
  Needs(const GraphImpl& graph, std::span<const Value> values,
        const std::function<bool(const Node&)>& without)
      : graph_(graph), sizes_(graph) {
    for (const Value v : values) needed_.insert(v.node);
    for (const auto& node : graph.nodes()) {
      if (draws(*node) && !(without && without(*node))) needed_.insert(node.get());
    }
    for (const auto& node : std::views::reverse(graph.nodes())) {
      if (!needed_.contains(node.get())) continue;
      for (const Value v : node->inputs()) needed_.insert(v.node);
      for (const Node* source : sizes_.of(*node)) needed_.insert(source);
    }
    add_host_effects();
  }

  [[nodiscard]] bool operator()(const Node& node) const { return needed_.contains(&node); }

 private:
  void add_host_effects() {
    std::unordered_set<const Node*> used;  // by something that is no host effect
    for (const Value v : graph_.outputs()) used.insert(v.node);
    for (const auto& node : std::views::reverse(graph_.nodes())) {
      if (is_host_effect(*node) || !used.contains(node.get())) continue;
      for (const Value v : node->inputs()) used.insert(v.node);
    }
    std::unordered_set<const Node*> computed;
    for (const auto& node : graph_.nodes()) {
      const bool of_computed = std::ranges::all_of(
          node->inputs(), [&](Value v) { return !v || computed.contains(v.node); });
      if (is_host_effect(*node) && of_computed) add(*node);
      // Needed anyway, or made for a host effect alone from what is needed anyway.
      const bool for_effect = !used.contains(node.get()) && &node->op() != &kPlaceholderOp &&
                              node->op().effect == Effect::pure && of_computed;
      if (needed_.contains(node.get()) || &node->op() == &kVariableOp ||
          &node->op() == &kConstantOp || for_effect) {
        computed.insert(node.get());
      }
    }
  }

  static bool is_host_effect(const Node& node) { return node.op().effect == Effect::host; }

  void add(const Node& effect) {
    std::vector<const Node*> pending{&effect};
    while (!pending.empty()) {
      const Node& node = *pending.back();
      pending.pop_back();
      if (!needed_.insert(&node).second) continue;
      for (const Value v : node.inputs()) {
        if (v) pending.push_back(v.node);
      }
      for (const Node* source : sizes_.of(node)) pending.push_back(source);
    }
  }

  const GraphImpl& graph_;
  SizeSources sizes_;
  std::unordered_set<const Node*> needed_;
};

}  // namespace

Ref<GraphImpl> extract(const GraphImpl& graph, std::span<const Value> values,
                       const std::function<bool(const Node&)>& without) {
  const Needs needed(graph, values, without);
  Rewriter rewriter(graph);
  for (const auto& node : graph.nodes()) {
    if (needed(*node)) rewriter.copy(*node);
  }
  rewriter.to()->outputs() = rewriter.at(values);
  return rewriter.to();
}

}  // namespace dyad::passes
