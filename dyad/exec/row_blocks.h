#pragma once

#include <span>

#include "dyad/core/evaluator.h"
#include "dyad/ir/op_info.h"

namespace dyad::exec {

/// Runs a composite block by block along axis 0, where its members do not meet (normalize along the
/// last axis): what one step of it leaves is still in cache when the next one reads it, and only
/// inputs and results move through memory. False, and nothing done, where axis 0 is worked on, or
/// the inputs are small. The same bits as in one piece.
[[nodiscard]] bool run_in_blocks(const OpInfo& op, TensorRefs inputs, const void* attrs,
                                 const Types& types, std::span<Tensor> outputs, Loc loc);

}  // namespace dyad::exec
