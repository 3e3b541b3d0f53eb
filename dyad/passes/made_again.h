#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/passes/lifetimes.h"

namespace dyad::passes {

/// What computes one value once more: a node, or the part of a fused one.
struct Part {
  std::vector<Value> inputs;
  Ref<GraphImpl> region = {};  ///< null for an operator that is not fused
};
using Parts = std::unordered_map<Value, Part, ValueHash>;

/// Makes `part` the kernel for one result of a node, a pointwise operator of one result or a fused
/// one; false for other nodes, and where it needs operators that `may` not be computed twice.
[[nodiscard]] bool part_of(Value result, const std::function<bool(const Node&)>& may, Part& part);

/// A copy of the graph in which nodes from the peak on get the chosen values, all made before it,
/// from copies of what makes them, just before the first that needs one, and the views `copies`
/// (which may have to copy) of others made again too. A pointwise part is made by a later kernel
/// that reads the same and could run there already, if there is one.
[[nodiscard]] Ref<GraphImpl> make_again(const GraphImpl& graph, const Lifetimes& lifetimes,
                                        const Parts& chosen,
                                        const std::unordered_set<const Node*>& copies = {});

}  // namespace dyad::passes
