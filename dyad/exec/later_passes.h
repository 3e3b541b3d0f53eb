#pragma once

#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "dyad/exec/moving_recording.h"
#include "dyad/exec/path.h"
#include "dyad/exec/taped_loop.h"

namespace dyad::exec {

/// What one pass did where it came back through the steps of a loop, or through what an earlier
/// pass did in them.
struct StepsOfPass {
  int pass = 0;
  bool ascends = false;                   ///< it came to the first step first
  std::vector<std::vector<Node*>> nodes;  ///< of each step
  /// Those of them that were made after all steps, where a step's results come beside those of the
  /// others.
  std::unordered_set<const Node*> beside;
};

/// All of them, in the order in which they began. What a pass did before all steps, each for one of
/// them, is one of its own.
[[nodiscard]] std::vector<StepsOfPass> find_passes(const GraphImpl& graph, const TapedLoop& loop,
                                                   std::span<const TapeVisit> visits);

/// Moves what the pass did after all steps into the steps.
void gather_steps(MovingRecording& moving, const StepsOfPass& steps);

/// The nodes of all passes from number `first` on.
[[nodiscard]] std::unordered_set<const Node*> nodes_of(std::span<const StepsOfPass> passes,
                                                       std::size_t first);

/// The steps of a pass as those of a loop of its own, which slices what was stacked: the single
/// rows that they read of tensors from outside, each of its own step or of one some steps away.
/// Nothing where something else reads such a row with them.
[[nodiscard]] std::optional<TapedLoop> loop_of_pass(const Path& path, const TapedLoop& loop,
                                                    const StepsOfPass& steps);

}  // namespace dyad::exec
