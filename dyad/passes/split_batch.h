#pragma once

#include <cstdint>

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// What is too large to stay in a cache between the operators of a batch.
struct BatchLimits {
  std::int64_t much =
      64 << 20;  ///< bytes of one operator's samples, from which on a batch is split
  std::int64_t part = 32 << 20;  ///< the most of them that a part shall have
};

/// Runs a large batch in parts (row `parts`), one after the other, so that what one operator leaves
/// is in a cache when the next one reads it, and the memory of one part serves all.
///
/// The part of the graph that is split begins at the placeholders whose axis 0 counts the samples
/// (a number, that of the largest placeholder), and holds every operator behind them that works on
/// each sample by itself, as its row says (OpInfo::batching, or its body), beside constants. That
/// is done where a library call reads and writes more than `limits.much` bytes of samples, the
/// number of samples has a divisor that makes this about `limits.part`, and what is left of the
/// samples behind the last of these operators is little. A library may choose another order of sums
/// for fewer samples, so bits change.
[[nodiscard]] Ref<GraphImpl> split_batch(const GraphImpl& graph, const BatchLimits& limits = {});

}  // namespace dyad::passes
