#pragma once

#include <optional>

#include "dyad/core/tensor.h"

namespace dyad {

struct AttentionArgs {
  /// bool (true takes part) or of q's dtype (added to the scores); broadcasts to [b, h, l, s].
  Tensor mask = {};
  bool is_causal = false;            ///< query i sees keys 0 to i
  double dropout_p = 0;              ///< of the probabilities
  std::optional<double> scale = {};  ///< 1 / sqrt(d) unless given
  double softcap = 0;                ///< scores become softcap tanh(scores / softcap)
};

/// softmax(scale q k^T + mask) v (Vaswani et al., 2017): q[b, h, l, d], k[b, hk, s, d],
/// v[b, hk, s, e] -> [b, h, l, e]; without the head axis, or without both, as well. h is a multiple
/// of hk (grouped heads: Ainslie et al., 2023). The scores are never whole in memory (Dao et al.,
/// 2022), except for the gradient of an additive mask. Rows in which nothing takes part give 0.
/// f16 and bf16 are computed in f32. ShapeError, DTypeError, ValueError.
[[nodiscard]] Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const AttentionArgs& args = {},
                                                  Loc loc = std::source_location::current());

}  // namespace dyad
