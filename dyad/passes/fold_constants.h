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
/// has no more than `max_elements`. A larger one, if it has no more elements than what it is made
/// from (a broadcast constant stays an expression: it costs less to compute than to read), as long
/// as all of these together take no more bytes than the graph's constants do: weights that are
/// joined, cut, or put in another order do not multiply memory.
[[nodiscard]] Ref<GraphImpl> fold_constants(const GraphImpl& graph,
                                            const ConstantEvaluator& evaluate,
                                            std::int64_t max_elements = 4096);

}  // namespace dyad::passes
