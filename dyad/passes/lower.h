#pragma once

#include "dyad/ir/graph.h"
#include "dyad/passes/pipeline.h"

namespace dyad::passes {

/// Brings a graph as the user defined it into the form that an Executable runs, by the passes of
/// pipeline(): writes last, no composites, nothing twice or unused, constants computed, pointwise
/// operators in fused kernels, kernels on the same rows together. The given graph stays as it is.
[[nodiscard]] Ref<GraphImpl> lower(const GraphImpl& graph, const LowerOptions& options);

}  // namespace dyad::passes
