#pragma once

#include <functional>
#include <optional>
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

/// What the kernel for one result of a node reads, a pointwise operator of one result or a fused
/// one; nothing for other nodes, and where it needs operators that `may` not be computed twice.
[[nodiscard]] std::optional<std::vector<Value>> inputs_of_part(
    Value result, const std::function<bool(const Node&)>& may);
/// That kernel, or nothing.
[[nodiscard]] std::optional<Part> part_of(Value result,
                                          const std::function<bool(const Node&)>& may);

/// A copy of the graph in which nodes from the peak on get the chosen values, all made before it,
/// from copies of what makes them, just before the first that needs one, and the views `copies`
/// (which may have to copy) of others made again too. A pointwise part is made by a later kernel
/// that reads the same and could run there already, if there is one.
[[nodiscard]] Ref<GraphImpl> make_again(const GraphImpl& graph, const Lifetimes& lifetimes,
                                        const Parts& chosen,
                                        const std::unordered_set<const Node*>& copies = {});

}  // namespace dyad::passes
