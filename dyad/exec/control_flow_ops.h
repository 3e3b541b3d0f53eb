#pragma once

#include <cstdint>

#include "dyad/ir/op_info.h"

namespace dyad::exec {

/// How many of a loop's inputs are its state, and the rest of how they divide. Inputs and region
/// parameters: `states`, then `slices`, then captured tensors. The body of a while_loop may give
/// more than the states: then the loop gives these, too, stacked along a new first axis whose size
/// the data tell, behind the rows that are its `slices` (of each stack, or none), which are no
/// parameters of its regions.
struct LoopAttrs {
  std::int64_t states = 0;
  std::int64_t slices = 0;
  bool reverse = false;  ///< scan: from the last slice to the first
};

/// `while_states`: inputs are states, captures, then operands; regions are the condition, the body,
/// and a function of (the states before each step, along a new first axis, captures, operands),
/// whose results it gives. The size of that axis is the symbol `steps<level>` in this function.
/// What while_loop's gradient is made of.
struct WhileStatesAttrs {
  std::int64_t states = 0;
  std::int64_t captures = 0;
  std::int64_t level = 0;
};

/// Rows: `cond(pred, operands...)` with regions then and otherwise over the operands;
/// `while_loop(states..., slices..., captures...)` with regions condition and body;
/// `scan(states..., slices..., captures...)` with region body; while_states as above.
extern const OpInfo kCondOp, kWhileOp, kScanOp, kWhileStatesOp;

/// The type of `length` tensors of a type along a new first axis.
[[nodiscard]] Type stacked(const Type& type, Dim length);
/// That of a slice along the first axis.
[[nodiscard]] Type without_first_axis(const Type& type);

[[nodiscard]] Ref<Attrs> loop_attrs(std::size_t states, std::size_t slices, bool reverse = false);

/// Adds them to the registry, once.
void register_control_ops();

}  // namespace dyad::exec
