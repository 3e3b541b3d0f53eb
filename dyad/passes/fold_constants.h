#pragma once

#include <functional>
#include <vector>

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Runs a node on concrete inputs and gives its outputs: the executor's own kernels, so that a
/// folded value has the bits that the graph would compute.
using ConstantEvaluator =
    std::function<std::vector<Tensor>(const Node& node, std::span<const Tensor> inputs)>;

/// Computes pure nodes whose inputs are all constants and puts the result in their place, where it
/// is no larger than `max_elements` (a broadcast constant stays an expression: it costs less to
/// compute than to read).
[[nodiscard]] Ref<GraphImpl> fold_constants(const GraphImpl& graph,
                                            const ConstantEvaluator& evaluate,
                                            std::int64_t max_elements = 4096);

}  // namespace dyad::passes
