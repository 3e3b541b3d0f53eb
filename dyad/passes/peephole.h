#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dyad/passes/node_table.h"

namespace dyad::passes {

/// Rewrites a graph node by node by rules that look at a node and what it takes.
///
/// Library calls may round otherwise when the same numbers lie otherwise in memory, and the caller
/// sees strides. So a value may take the place of one that lies otherwise only where nobody can
/// tell: may_replace() says so.
class Peephole {
 public:
  explicit Peephole(const GraphImpl& graph) : graph_(graph), seen_(graph, 0) {}

  /// What stands for the only output of a node of the old graph, given its inputs in the new one:
  /// an older value, or that of a node appended to `to`; no value to keep the node.
  using Rule = std::function<Value(const Node& node, std::span<const Value> inputs, GraphImpl& to)>;
  /// The graph rewritten. Nodes inside of regions stay as they are.
  [[nodiscard]] Ref<GraphImpl> rewrite(const Rule& rule);

  /// True when `value` of the new graph may stand for the output of `node`: they are of one type,
  /// and lie the same way in memory or nobody can tell.
  [[nodiscard]] bool may_replace(const Node& node, Value value);
  /// True when nobody can tell, by how the result of `node` lies, in which order it takes two
  /// values.
  [[nodiscard]] bool may_swap(const Node& node, Value a, Value b);
  /// True when `node` may read `value` in the place of its input: the result lies the same way, or
  /// nobody can tell.
  [[nodiscard]] bool may_read(const Node& node, Value value);

 private:
  void find_seen();
  [[nodiscard]] bool is_seen(const Node& node) const { return seen_[node] != 0; }
  [[nodiscard]] bool is_row_major(Value value);
  /// The same by what is known of a node's inputs; nothing where one is to be looked at first.
  [[nodiscard]] std::optional<bool> row_major_by_inputs(const Node& node) const;

  const GraphImpl& graph_;
  NodeTable<char> seen_;  // of the old graph: somebody can tell how it lies
  std::unordered_map<const Node*, bool> row_major_;  // of the new graph
};

/// The number that every element of a value is, as far as a double holds it: of a constant of one
/// element, or a filled tensor.
[[nodiscard]] std::optional<double> number_of(Value value);

/// Whether a node gives the elements of its input, in their order, with other names for the sizes.
[[nodiscard]] bool only_names_sizes(const Node& node);

}  // namespace dyad::passes
