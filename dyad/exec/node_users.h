#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dyad/ir/graph.h"

namespace dyad::exec {

/// Which nodes of a graph use each of its nodes, as long as none of them moves.
class NodeUsers {
 public:
  explicit NodeUsers(const GraphImpl& graph);
  /// In the order of the graph, one as often as it uses the node.
  [[nodiscard]] std::span<Node* const> of(const Node& node) const;

 private:
  /// The users of node i are from first_[i] to first_[i + 1].
  std::vector<std::size_t> first_;
  std::vector<Node*> users_;
};

}  // namespace dyad::exec
