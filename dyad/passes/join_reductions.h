#pragma once

#include "dyad/passes/fusion_groups.h"

namespace dyad::passes {

/// Lets reductions take in the groups that compute what they reduce, where nobody else wants their
/// results, and makes one group of reductions over the same axes that read the same tensor in full:
/// one kernel reads it once. Up to four accumulators, which is what a kernel has.
void join_reductions(FusionGroups& groups, const GraphImpl& graph, const FuseOptions& options);

}  // namespace dyad::passes
