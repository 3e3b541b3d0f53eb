#pragma once

#include <span>

#include "dyad/core/evaluator.h"

namespace dyad::exec {

/// Throws AnomalyError when a floating output holds a NaN or an infinity: names the operator, the
/// element, and the rule whose backward pass it belongs to. Operators without floating inputs
/// (creation) and views make none.
void check_finite(const OpInfo& op, TensorRefs inputs, std::span<const Tensor> outputs, Loc loc);

}  // namespace dyad::exec
