#pragma once

#include "dyad/core/tensor.h"

namespace dyad::ops {

/// Zeros of that shape that take no memory: one element, repeated.
[[nodiscard]] Tensor repeated_zero(const Shape& shape, DType dtype,
                                   Loc loc = std::source_location::current());

/// Zeros of that shape with source added where index says: the gradient of elements that were
/// taken from there.
[[nodiscard]] Tensor scatter_added(const Shape& shape, std::int64_t axis, const Tensor& index,
                                   const Tensor& source, Loc loc = std::source_location::current());

}  // namespace dyad::ops
