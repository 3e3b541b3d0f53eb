#pragma once

#include "dyad/core/tensor.h"
#include "dyad/ops/attrs/checked.h"

namespace dyad::ops {

/// x (floating or whole numbers), whose elements a run checks: ValueError, which names the function
/// and the argument that they were given to. The gradient is that of the result.
[[nodiscard]] Tensor checked(const Tensor& x, const CheckedAttrs& rule, Loc loc);

}  // namespace dyad::ops
