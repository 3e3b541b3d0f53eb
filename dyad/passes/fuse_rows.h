#pragma once

#include "dyad/ir/graph.h"
#include "dyad/passes/fuse.h"

namespace dyad::passes {

/// Groups kernels that work on the same rows into `rows` nodes, which run them on a few rows at a
/// time: reductions and library operators along the row (softmax, layer_norm and the like) with the
/// pointwise kernels around them, and with each other. Runs after `fuse`.
///
/// Rows are numbered by the leading axes that the reductions of a group keep, as many for all of
/// them. A view that changes only what is in a row stays between its neighbours. The gradients of
/// layer_norm and rms_norm are members too: those of weights are sums over all rows, which none of
/// the others reads.
[[nodiscard]] Ref<GraphImpl> fuse_rows(const GraphImpl& graph, const FuseOptions& options = {});

}  // namespace dyad::passes
