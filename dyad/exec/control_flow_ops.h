#pragma once

#include <cstdint>

#include "dyad/ir/op_info.h"

namespace dyad::exec {

/// How many of a loop's inputs are its state, and the rest of how they divide. Inputs and region
/// parameters: `states`, then `slices` (scan), then captured tensors.
struct LoopAttrs {
  std::int64_t states = 0;
  std::int64_t slices = 0;
  bool reverse = false;  ///< scan: from the last slice to the first
};

/// `while_backward`: inputs are states, captures, then the gradients of those states that have one;
/// regions are the condition, the body, and the gradient of the body, a function of (gradients of
/// states, sums of gradients of captures, states before the step, captures).
struct WhileBackwardAttrs {
  std::int64_t states = 0;
  std::int64_t captures = 0;
  std::int64_t state_grads = 0;
};

/// Rows: `cond(pred, operands...)` with regions then and otherwise over the operands;
/// `while_loop(states..., captures...)` with regions condition and body;
/// `scan(states..., slices..., captures...)` with region body.
extern const OpInfo kCondOp, kWhileOp, kScanOp, kWhileBackwardOp;

/// Adds them to the registry, once.
void register_control_ops();

}  // namespace dyad::exec
