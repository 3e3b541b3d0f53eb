#pragma once

#include <vector>

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// A part of a graph that runs before the sizes of what comes next are known.
struct Stage {
  Ref<GraphImpl> graph;        ///< its placeholders are the values `inputs`, its outputs `outputs`
  std::vector<Value> inputs;   ///< of the whole graph: its placeholders, or made by a stage before
  std::vector<Value> outputs;  ///< of the whole graph: what later stages, or the caller, want
  /// Runs then: the node of the whole graph whose data tell sizes. What it takes is stored, given
  /// or made by then, or a view of that.
  const Node* open = nullptr;
};

/// A value as it is read by nodes before variables are written: through `assign` and `after`.
[[nodiscard]] Value before_writes(Value value);
/// The graph cut behind each node with open sizes, in program order. Variables are written by the
/// last stage, which makes all outputs. Empty when there is no such node.
[[nodiscard]] std::vector<Stage> cut_at_open_sizes(const GraphImpl& graph);

}  // namespace dyad::passes
