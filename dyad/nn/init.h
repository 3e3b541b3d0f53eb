#pragma once

#include "dyad/core/tensor.h"

namespace dyad::nn::init {

// Initial values: always computed at once, with the default generator (`manual_seed`), also while a
// graph is defined or a function recorded, so that parameters are tensors with data.

[[nodiscard]] Tensor uniform(const Shape& shape, double bound, DType dtype = f32,
                             Loc loc = std::source_location::current());
[[nodiscard]] Tensor normal(const Shape& shape, double std, DType dtype = f32,
                            Loc loc = std::source_location::current());
[[nodiscard]] Tensor full(const Shape& shape, double value, DType dtype = f32,
                          Loc loc = std::source_location::current());

/// Evenly in +-1/sqrt(fan_in): He's rule with a = sqrt(5) (He et al., 2015), as PyTorch starts
/// linear and convolution layers.
[[nodiscard]] Tensor fan_in_uniform(const Shape& shape, std::int64_t fan_in, DType dtype = f32,
                                    Loc loc = std::source_location::current());

}  // namespace dyad::nn::init
