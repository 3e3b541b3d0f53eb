#pragma once

#include <cstdint>

#include "dyad/core/dim.h"
#include "dyad/ir/graph.h"

namespace dyad::passes {

struct RecomputeOptions {
  /// Bytes that the values of a run may take at once. Where they take more, whatever is pointwise
  /// may be computed again, otherwise only what costs little beside the graph; and over the limit
  /// all the same, segments of what runs before the peak (checkpoints.h). 0: no limit.
  std::int64_t memory_limit = 0;
  /// Sizes to count bytes with; symbols that are not here count as 64.
  SymbolMap sizes = {};
};

/// Values that are kept from the forward part of a training step for its backward part, and that
/// pointwise operators give from others which are kept anyway, are computed again where they are
/// needed, with the same bits. The place where values take most memory parts the graph in two;
/// which values cross it is a cut of the fewest bytes. A `reshape` that would have to copy is made
/// again there, too, when what it copies is kept anyway. Runs after fusion, which decides what is
/// in memory at all.
[[nodiscard]] Ref<GraphImpl> recompute(const Ref<GraphImpl>& graph,
                                       const RecomputeOptions& options = {});

}  // namespace dyad::passes
