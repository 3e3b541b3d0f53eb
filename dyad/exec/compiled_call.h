#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "dyad/exec/segment.h"

namespace dyad::exec {

/// Whether a backward pass that is to be differentiated itself has gone through results of a
/// recording's calls: only eager execution has what that needs.
using TwiceFlag = std::shared_ptr<std::atomic<bool>>;

/// Has backward passes through the results of a call that was just recorded tell `twice`.
void watch_backward(const Path& path, std::span<Tensor> results, const TwiceFlag& twice, Loc loc);

/// Puts a replayed call on the tape as one operator, so that its results can be differentiated from
/// outside: its rule runs the recorded backward part, and sets `twice` instead (GradError) where
/// the pass is to be differentiated. Overwriting what that part reads in between is a GradError, as
/// in eager mode.
void attach_backward(const DecisionTree& tree, DecisionTree::Outcome& outcome,
                     std::span<const Tensor> arguments, const TwiceFlag& twice, Loc loc);

}  // namespace dyad::exec
