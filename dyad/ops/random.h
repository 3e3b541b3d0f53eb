#pragma once

#include <array>

#include "dyad/core/tensor.h"

namespace dyad {

// Numbers are functions of a key (seed and offset) and the position alone, so they are the same in
// every mode and at every thread count. Functions without a key take one from the default
// generator (`manual_seed`).

/// A seed and an offset for `count` numbers, two i64 scalars; the default generator moves on.
[[nodiscard]] std::array<Tensor, 2> random_key(Dim count,
                                               Loc loc = std::source_location::current());

/// Uniform in [low, high).
[[nodiscard]] Tensor uniform(Shape shape, double low = 0, double high = 1, DType dtype = f32,
                             Loc loc = std::source_location::current());
/// Normally distributed.
[[nodiscard]] Tensor normal(Shape shape, double mean = 0, double std = 1, DType dtype = f32,
                            Loc loc = std::source_location::current());
/// 1 with the probability p[i], 0 otherwise, in the dtype of p (floating).
[[nodiscard]] Tensor bernoulli(const Tensor& p, Loc loc = std::source_location::current());
/// Whole numbers from low to high - 1, evenly; ValueError unless low < high <= low + 2^53.
[[nodiscard]] Tensor randint(std::int64_t low, std::int64_t high, Shape shape, DType dtype = i64,
                             Loc loc = std::source_location::current());

/// Training: each element is 0 with the probability p, the others are scaled by 1 / (1 - p).
/// Otherwise x. 0 <= p < 1 (ValueError).
[[nodiscard]] Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
                             Loc loc = std::source_location::current());

}  // namespace dyad
