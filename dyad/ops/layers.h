#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

// What layers do that is a few other operators.

/// x[n, c, ...] with the channels of each of `groups` runs dealt out in turn: channel i of run g
/// becomes channel i * groups + g (Zhang et al., 2018). ShapeError unless groups divides c.
[[nodiscard]] Tensor channel_shuffle(const Tensor& x, std::int64_t groups,
                                     Loc loc = std::source_location::current());
/// sum of a[..., i] * weight[o, i, j] * b[..., j] + bias[o] for each o: -> [..., o]. bias may be
/// undefined.
[[nodiscard]] Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight,
                              const Tensor& bias = {}, Loc loc = std::source_location::current());
/// softmax(-x)
[[nodiscard]] Tensor softmin(const Tensor& x, std::int64_t axis = -1,
                             Loc loc = std::source_location::current());
/// x above the threshold, `value` elsewhere (NaN stays); its derivative there is 0.
[[nodiscard]] Tensor threshold(const Tensor& x, double threshold, double value,
                               Loc loc = std::source_location::current());

// Random in training, from the default generator; a probability p is from 0 to 1 (ValueError).

/// x at least 0, elsewhere x times a slope: in training each element's own, uniform in [low, high),
/// otherwise the one in the middle (Xu et al., 2015). ValueError when low > high.
[[nodiscard]] Tensor rrelu(const Tensor& x, double low = 1.0 / 8, double high = 1.0 / 3,
                           bool training = false, Loc loc = std::source_location::current());
/// dropout() of whole channels: x[n, c, ...] keeps or loses all of [i, j, ...] together.
[[nodiscard]] Tensor feature_dropout(const Tensor& x, double p = 0.5, bool training = true,
                                     Loc loc = std::source_location::current());
/// Each element is selu()'s lowest value with the probability p; all are scaled and moved so that
/// mean 0 and variance 1 stay (Klambauer et al., 2017); p = 1 gives zeros, as in PyTorch.
[[nodiscard]] Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = true,
                                   Loc loc = std::source_location::current());
/// The same of whole channels.
[[nodiscard]] Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = true,
                                           Loc loc = std::source_location::current());

}  // namespace dyad
