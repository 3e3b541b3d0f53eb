#pragma once

#include <cstddef>
#include <unordered_map>

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Finds the nodes of a graph that compute what an earlier one does. Asked for each node in the
/// order of the graph.
class EqualNodes {
 public:
  /// Whether an earlier node that was asked for does the same to the same values; the node counts
  /// as the first of those from then on.
  bool has_before(Node& node);
  /// The first of the nodes that compute the same, or null where this one is the first.
  [[nodiscard]] Node* first(const Node& node) const;
  /// The same value of the first node that computes it.
  [[nodiscard]] Value first(Value v) const;

 private:
  std::unordered_multimap<std::size_t, Node*> seen_;
  std::unordered_map<const Node*, Node*> first_;
};

}  // namespace dyad::passes
