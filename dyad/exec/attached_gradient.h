#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/ir/gradient.h"

namespace dyad {

class Node;

namespace exec {

/// A gradient rule for `results` as functions of `sources`, of which those in `kept` stay readable
/// (in a static graph all do): the results again, whose gradients go to the sources by the rule
/// alone. The `results` do not track gradients. Eagerly, and while a function is recorded, a node
/// of the tape; in a static graph one of the graph.
using GradientRule = std::function<void(Gradient&)>;
[[nodiscard]] std::vector<Tensor> attach_gradient(const std::string& name,
                                                  std::span<const Tensor> sources,
                                                  const std::vector<bool>& kept,
                                                  std::span<const Tensor> results,
                                                  const std::vector<bool>& kept_results,
                                                  GradientRule rule, Loc loc);
/// A node of attach_gradient() for a batch: `inputs` are the sources and then the results of each
/// sample, along a new first axis. Its rule is that of the node, vectorised.
[[nodiscard]] std::vector<Tensor> batch_custom_gradient(const Node& node,
                                                        std::span<const Tensor> inputs);

}  // namespace exec
}  // namespace dyad
