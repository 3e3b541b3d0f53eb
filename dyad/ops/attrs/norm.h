#pragma once

#include <cstdint>

namespace dyad::ops {

/// - `layer_norm(x, weight, bias or absent)`: over the last axes of x, as many as weight has.
/// - `rms_norm(x, weight)`: the same without mean and bias: x / sqrt(mean(x^2) + eps) * weight.
/// - `layer_norm_backward(grad, x, weight)` -> gradients of x, weight and bias;
///   `rms_norm_backward(grad, x, weight)` -> gradients of x and weight.
struct EpsAttrs {
  double eps = 1e-5;
};

/// - `group_norm(x[n, c, ...], weight[c] or absent, bias[c] or absent)`: over each of `groups` runs
///   of channels and all spatial axes; 0 groups: each channel alone.
/// - `group_norm_backward(grad, x, weight or absent)` -> gradients of x, weight and bias.
struct GroupNormAttrs {
  std::int64_t groups = 1;
  double eps = 1e-5;
};

}  // namespace dyad::ops
