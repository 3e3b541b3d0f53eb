#pragma once

#include "dyad/ir/op_info.h"

namespace dyad::passes {

/// Row `fused`: computes its one region, a graph of pointwise operators (and at most one reduction,
/// the last node), in one kernel. Inputs are the region's placeholders, outputs its outputs; all
/// pointwise outputs have one shape, to which the inputs broadcast.
extern const OpInfo kFusedOp;

/// Adds the row to the registry, so that texts with fused nodes can be parsed.
void register_fused_op();

}  // namespace dyad::passes
