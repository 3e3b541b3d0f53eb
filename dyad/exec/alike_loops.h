#pragma once

#include <span>

#include "dyad/exec/roll_loop.h"
#include "dyad/ir/graph.h"

namespace dyad::exec {

/// Scans that were made of the same steps and give different stacks of what these compute, as the
/// passes that came back through each of them asked for, give the same ones afterwards, in the same
/// order. Gives the outputs that have another number now; what reads them is the caller's to
/// change. Does nothing to scans that differ otherwise.
[[nodiscard]] ValueMap give_alike(std::span<Node* const> scans);

}  // namespace dyad::exec
