#pragma once

#include <vector>

#include "dyad/core/evaluator.h"
#include "dyad/ops/attrs/recurrent.h"

namespace dyad::ops {

/// The results of `recurrent_forward` by other operators, step by step: GraphError when the number
/// of steps is a symbol without a value.
[[nodiscard]] std::vector<Tensor> recurrent_parts(const RecurrentAttrs& attrs, TensorRefs in,
                                                  Loc loc);

}  // namespace dyad::ops
