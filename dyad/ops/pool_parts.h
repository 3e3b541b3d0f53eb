#pragma once

#include "dyad/core/tensor.h"
#include "dyad/ops/attrs/nn.h"

namespace dyad::ops {

/// avg_pool_backward by products of matrices, one for each spatial axis: row o of it has what
/// window o gives to each place.
[[nodiscard]] Tensor avg_pool_backward_parts(const AvgPoolBackwardAttrs& attrs, const Tensor& grad,
                                             Loc loc);

}  // namespace dyad::ops
