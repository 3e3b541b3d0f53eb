#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

// Element by element, floating (f32 for integers and bool).

[[nodiscard]] Tensor tanh(const Tensor& x, Loc loc = std::source_location::current());
/// 1 / (1 + exp(-x))
[[nodiscard]] Tensor sigmoid(const Tensor& x, Loc loc = std::source_location::current());
/// max(x, 0) in the dtype of x (NaN stays); its derivative at 0 is 0.
[[nodiscard]] Tensor relu(const Tensor& x, Loc loc = std::source_location::current());
/// x times the normal distribution function of x; with tanh_form its approximation
/// x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715*x^3))) (Hendrycks and Gimpel, 2016).
[[nodiscard]] Tensor gelu(const Tensor& x, bool tanh_form = false,
                          Loc loc = std::source_location::current());
/// x * sigmoid(x)
[[nodiscard]] Tensor silu(const Tensor& x, Loc loc = std::source_location::current());

}  // namespace dyad
