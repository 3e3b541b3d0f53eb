#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

// Element by element, floating (f32 for integers and bool).

/// The hyperbolic tangent of x.
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

/// x * sigmoid(alpha * x); with alpha 1 silu
[[nodiscard]] Tensor swish(const Tensor& x, double alpha = 1,
                           Loc loc = std::source_location::current());
/// x * sigmoid(1.702 * x): gelu's cheaper approximation
[[nodiscard]] Tensor quick_gelu(const Tensor& x, Loc loc = std::source_location::current());
/// log(1 + exp(beta * x)) / beta, without overflow and exact where it is tiny. ValueError unless
/// beta is above 0.
[[nodiscard]] Tensor softplus(const Tensor& x, double beta = 1,
                              Loc loc = std::source_location::current());
/// log(sigmoid(x)), exact at both ends
[[nodiscard]] Tensor logsigmoid(const Tensor& x, Loc loc = std::source_location::current());
/// x * tanh(softplus(x)) (Misra, 2019)
[[nodiscard]] Tensor mish(const Tensor& x, Loc loc = std::source_location::current());
/// x / (1 + |x|)
[[nodiscard]] Tensor softsign(const Tensor& x, Loc loc = std::source_location::current());
/// x - tanh(x)
[[nodiscard]] Tensor tanhshrink(const Tensor& x, Loc loc = std::source_location::current());
/// One half of x along an axis times the sigmoid of the other half; the size is even (ShapeError).
[[nodiscard]] Tensor glu(const Tensor& x, std::int64_t axis = -1,
                         Loc loc = std::source_location::current());
/// silu of one half of x along an axis times the other half; the size is even (ShapeError).
[[nodiscard]] Tensor swiglu(const Tensor& x, std::int64_t axis = -1,
                            Loc loc = std::source_location::current());

// Piecewise. What is said of derivatives holds at the kinks.

/// x above 0, alpha * (exp(x) - 1) elsewhere; its derivative at 0 is alpha.
[[nodiscard]] Tensor elu(const Tensor& x, double alpha = 1,
                         Loc loc = std::source_location::current());
/// x above 0, alpha * (exp(x / alpha) - 1) elsewhere. ValueError when alpha is 0.
[[nodiscard]] Tensor celu(const Tensor& x, double alpha = 1,
                          Loc loc = std::source_location::current());
/// 1.0507 * elu(x, 1.6733), which keeps mean 0 and variance 1 (Klambauer et al., 2017).
[[nodiscard]] Tensor selu(const Tensor& x, Loc loc = std::source_location::current());
/// x above 0, slope * x elsewhere; its derivative at 0 is the slope.
[[nodiscard]] Tensor leaky_relu(const Tensor& x, double slope = 0.01,
                                Loc loc = std::source_location::current());
/// The same with slopes to learn: one, or one for each channel (axis 1 of x; ShapeError).
[[nodiscard]] Tensor prelu(const Tensor& x, const Tensor& weight,
                           Loc loc = std::source_location::current());
/// alpha * x + beta moved into [0, 1]; its derivative where it reaches them is 0.
[[nodiscard]] Tensor hardsigmoid(const Tensor& x, double alpha = 1.0 / 6, double beta = 0.5,
                                 Loc loc = std::source_location::current());
/// x * hardsigmoid(x); its derivative is 0 at -3, 1 at 3.
[[nodiscard]] Tensor hardswish(const Tensor& x, Loc loc = std::source_location::current());
/// x moved into [low, high] in the dtype of x, as clamp, but its derivative at the bounds is 0.
/// ValueError unless low < high.
[[nodiscard]] Tensor hardtanh(const Tensor& x, double low = -1, double high = 1,
                              Loc loc = std::source_location::current());
/// hardtanh(x, 0, 6)
[[nodiscard]] Tensor relu6(const Tensor& x, Loc loc = std::source_location::current());
/// x above alpha, 0 elsewhere; its derivative at alpha is 0.
[[nodiscard]] Tensor thresholded_relu(const Tensor& x, double alpha = 1,
                                      Loc loc = std::source_location::current());
/// x where |x| is above lambda (at least 0, ValueError), 0 elsewhere; its derivative at +-lambda is
/// 0.
[[nodiscard]] Tensor hardshrink(const Tensor& x, double lambda = 0.5,
                                Loc loc = std::source_location::current());
/// The same moved by lambda towards 0, so that it has no jump.
[[nodiscard]] Tensor softshrink(const Tensor& x, double lambda = 0.5,
                                Loc loc = std::source_location::current());
/// 1 at the first largest element along an axis, 0 elsewhere, in the dtype of x; its derivative is
/// 0.
[[nodiscard]] Tensor hardmax(const Tensor& x, std::int64_t axis = -1,
                             Loc loc = std::source_location::current());

}  // namespace dyad
