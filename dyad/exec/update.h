#pragma once

#include <span>

#include "dyad/core/evaluator.h"

namespace dyad::exec {

/// Overwrites `targets` with the results of `op`, as Evaluator::apply and a write of each result
/// would do. In eager mode the results are computed where the targets lie, so that a step of an
/// optimizer takes one pass over memory: a pointwise operator, or an opaque one that may work in
/// place. Each result has its target's shape and dtype.
void update(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<const Tensor> targets,
            Loc loc);

/// Whether the results can be computed where the targets lie, off the tape.
[[nodiscard]] bool can_update_in_place(const OpInfo& op, TensorRefs inputs, const void* attrs,
                                       std::span<const Tensor> targets, Loc loc);
/// Does that, and no more.
void update_in_place(const OpInfo& op, TensorRefs inputs, const void* attrs,
                     std::span<const Tensor> targets, Loc loc);

/// Evaluator::apply_over on data, for results that are large enough to be worth it.
[[nodiscard]] bool try_over(const OpInfo& op, TensorRefs inputs, const void* attrs, Loc loc);

}  // namespace dyad::exec
