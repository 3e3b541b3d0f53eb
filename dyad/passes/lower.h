#pragma once

#include <span>
#include <vector>

#include "dyad/ir/graph.h"
#include "dyad/passes/pipeline.h"

namespace dyad::passes {

/// Brings a graph as the user defined it into the form that an Executable runs, by the passes of
/// pipeline(): writes last, no composites, nothing twice or unused, constants computed, pointwise
/// operators in fused kernels, kernels on the same rows together. The given graph stays as it is.
[[nodiscard]] Ref<GraphImpl> lower(const GraphImpl& graph, const LowerOptions& options);

/// The passes of pipeline() that lower() runs with these options. ValueError as of
/// check_passes_off().
[[nodiscard]] std::vector<Pass> passes_for(const LowerOptions& options);

/// Runs `passes` one after the other on a graph, which they may change; `options.dump` sees it
/// before the first and after each.
[[nodiscard]] Ref<GraphImpl> run_passes(Ref<GraphImpl> graph, std::span<const Pass> passes,
                                        const LowerOptions& options);

}  // namespace dyad::passes
