#pragma once

#include <functional>
#include <vector>

#include "dyad/exec/graph_define.h"

namespace dyad::exec {

/// Defines a function that branches on values (`if (mean(x) > 0.5f)`): it is called once for each
/// combination of outcomes, and what follows a branch becomes the two graphs of a `cond` node.
/// `call` calls the function and gives the tensors of its result. GraphError when there are more
/// than 64 outcomes, or when two calls differ before the first branch on which they part.
[[nodiscard]] std::vector<Tensor> define_branches(Graph& graph, Declared& declared,
                                                  const std::function<std::vector<Tensor>()>& call,
                                                  Loc loc);

}  // namespace dyad::exec
