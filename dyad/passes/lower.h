#pragma once

#include <functional>
#include <string_view>

#include "dyad/ir/graph.h"
#include "dyad/passes/fold_constants.h"
#include "dyad/passes/fuse.h"

namespace dyad::passes {

struct LowerOptions {
  /// Computes constant nodes; without it nothing is folded.
  ConstantEvaluator evaluate = {};
  bool fuse = true;
  FuseOptions fusion = {};
  /// Called with the graph as given (pass "input") and after each pass.
  std::function<void(std::string_view pass, const GraphImpl& graph)> dump = {};
};

/// Brings a graph as the user defined it into the form that an Executable runs: writes last, no
/// composites, nothing twice or unused, constants computed, pointwise operators in fused kernels.
[[nodiscard]] Ref<GraphImpl> lower(const GraphImpl& graph, const LowerOptions& options);

}  // namespace dyad::passes
