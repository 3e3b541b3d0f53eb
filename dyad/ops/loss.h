#pragma once

#include <string>

#include "dyad/core/tensor.h"

namespace dyad {

/// How a loss combines its elements.
enum class Reduction { mean, sum, none };

/// -log(softmax(logits))[target]: logits[n, c, ...] (or [c]), target[n, ...] (or []) of class
/// indices, i64 or i32. Targets equal to ignore_index count neither in the sum nor in the mean's
/// divisor. IndexError, when it runs, for a class out of range.
[[nodiscard]] Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                                   Reduction reduction = Reduction::mean,
                                   std::int64_t ignore_index = -100,
                                   Loc loc = std::source_location::current());
/// The same on log probabilities, such as log_softmax gives.
[[nodiscard]] Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                              Reduction reduction = Reduction::mean,
                              std::int64_t ignore_index = -100,
                              Loc loc = std::source_location::current());
/// (prediction - target)^2; shapes are equal (ShapeError: a broadcast here is nearly always a
/// mistake).
[[nodiscard]] Tensor mse_loss(const Tensor& prediction, const Tensor& target,
                              Reduction reduction = Reduction::mean,
                              Loc loc = std::source_location::current());

}  // namespace dyad
