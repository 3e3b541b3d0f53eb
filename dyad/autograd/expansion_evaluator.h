#pragma once

#include <vector>

#include "dyad/ir/graph_evaluator.h"

namespace dyad::autograd {

/// Puts operators into a graph as they are called, and takes derivatives there too: for expansions
/// that are written as the derivative of others (ops::derivative).
class ExpansionEvaluator final : public GraphEvaluator {
 public:
  using GraphEvaluator::GraphEvaluator;
  std::vector<Tensor> backward(std::span<const Tensor> outputs, std::span<const Tensor> grads,
                               std::span<const Tensor> inputs, bool retain_graph, bool create_graph,
                               Loc loc) override;
};

}  // namespace dyad::autograd
