#pragma once

namespace dyad {

class Node;

/// What a Gradient is besides in a static graph: there the rule of an operator that holds graphs
/// reads them from its node.
class NodeGradient {
 public:
  virtual ~NodeGradient() = default;
  [[nodiscard]] virtual Node& node() const = 0;
};

}  // namespace dyad
