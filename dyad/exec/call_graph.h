#pragma once

#include <span>
#include <vector>

#include "dyad/exec/graph.h"

namespace dyad::exec {

/// Calls a static graph as a function of tensors, node by node: `inputs` stand for its placeholders
/// in their order, `variables` for its variables in theirs. In eager mode that runs (and can be
/// differentiated), in a function that is compiled, recorded or exported it becomes a part of it.
/// ShapeError and DTypeError when an input does not fit; GraphError for a graph that writes to its
/// variables.
[[nodiscard]] std::vector<Tensor> call_graph(const GraphImpl& graph, std::span<const Tensor> inputs,
                                             std::span<const Tensor> variables,
                                             Loc loc = std::source_location::current());

}  // namespace dyad::exec
