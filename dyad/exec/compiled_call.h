#pragma once

#include <span>

#include "dyad/exec/segment.h"

namespace dyad::exec {

/// Puts a replayed call on the tape as one operator, so that its results can be differentiated from
/// outside: its rule runs the recorded backward part. Overwriting what that part reads in between
/// is a GradError, as in eager mode.
void attach_backward(const DecisionTree& tree, DecisionTree::Outcome& outcome,
                     std::span<const Tensor> arguments, Loc loc);

}  // namespace dyad::exec
