#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

/// x / max(norm, eps) with the p-norm of x along an axis: x is scaled to length 1, zeros stay. p is
/// above 0; infinity is the largest |x|.
[[nodiscard]] Tensor normalize(const Tensor& x, double p = 2, std::int64_t axis = 1,
                               double eps = 1e-12, Loc loc = std::source_location::current());

/// x / (k + alpha / size * sum of x^2 over `size` neighbouring channels)^beta; the channels are
/// axis 1, those of channel c from c - size / 2 to before c + (size + 1) / 2, as far as they exist.
[[nodiscard]] Tensor local_response_norm(const Tensor& x, std::int64_t size, double alpha = 1e-4,
                                         double beta = 0.75, double k = 1,
                                         Loc loc = std::source_location::current());

/// (x - mean) / (sqrt(var) + 1e-9) with mean and (biased) variance over the axes, all but axis 1
/// when none is named: ONNX's MeanVarianceNormalization.
[[nodiscard]] Tensor mean_variance_normalization(const Tensor& x, Ints axes = {},
                                                 Loc loc = std::source_location::current());

}  // namespace dyad
