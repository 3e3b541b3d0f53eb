#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "dyad/core/dim.h"
#include "dyad/core/generator.h"
#include "dyad/ir/graph.h"

namespace dyad::exec {

/// One run of a graph inside a control node.
struct RegionRun {
  const Node& node;
  std::size_t region = 0;
  std::int64_t step = 0;  ///< of the loop, from 0 in the order in which they run
  std::span<const Tensor> arguments, results;
  const SymbolMap& outer;  ///< sizes known around it
  RandomKey random;        ///< before it
};
using RegionWatch = std::function<void(const RegionRun&)>;

using TensorOfValue = std::unordered_map<Value, Tensor, ValueHash>;

/// What a node gives when every operator runs alone, as in eager mode, inside of loops and branches
/// too: no pass has seen them. `watch` is called after each run of one of the node's graphs.
[[nodiscard]] std::vector<Tensor> interpret(const Node& node, std::span<const Tensor> inputs,
                                            const SymbolMap& sizes, const RegionWatch& watch = {});

/// Adds what a node other than a placeholder gives to the values of those before it, and to `sizes`
/// those that its results tell.
void interpret(const Node& node, TensorOfValue& values, SymbolMap& sizes);

/// The tensors that a node takes, undefined where it takes none.
[[nodiscard]] std::vector<Tensor> inputs_of(const Node& node, const TensorOfValue& values);

}  // namespace dyad::exec
