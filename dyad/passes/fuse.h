#pragma once

#include <functional>
#include <string>

#include "dyad/ir/graph.h"

namespace dyad::passes {

struct FuseOptions {
  /// Most tensors that one kernel reads and writes.
  int max_operands = 24;
  /// Most operators in one kernel.
  int max_nodes = 128;
  /// Sizes to count bytes with in what is told; symbols that are not here count as 64.
  SymbolMap sizes = {};
  /// Told which operators share a kernel and what that saves, and why others that could do not and
  /// what that costs, with the line of the one that comes last.
  std::function<void(Loc where, const std::string& text)> note = {};
};

/// Groups pointwise operators, and what they need that is made element by element (random numbers),
/// into `fused` nodes of one kernel each: those of one shape that use one another's results or read
/// the same tensor; groups that are read through views by one other, which computes them at the
/// places that these show; then a group that only feeds a reduction into that reduction, as its
/// prologue; then reductions over the same axes that read the same tensor. Nothing is computed
/// twice: only constants of one element are copied into each group that uses them. Operators with
/// effects stay in their order.
[[nodiscard]] Ref<GraphImpl> fuse(const GraphImpl& graph, const FuseOptions& options = {});

}  // namespace dyad::passes
