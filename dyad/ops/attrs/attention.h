#pragma once

namespace dyad::ops {

/// `attention_forward(q[b, h, l, d], k[b, hk, s, d], v[b, hk, s, e], mask, seed, offset)` ->
/// out[b, h, l, e], lse[b, h, l] (f32 for f16 and bf16): softmax(scores) v and the logarithm of the
/// sum of exp(scores), where scores = scale q k^T, then softcap tanh(scores / softcap) unless
/// softcap is 0, then -inf after the diagonal when causal and where a bool mask is false, or plus
/// the mask. h is a multiple of hk: head i of q meets head i / (h / hk) of k and v. The mask
/// broadcasts to [b, h, l, s]. A row without any finite score gives 0, and -inf as its lse. With
/// dropout, element (b, h, i, j) of the softmax is kept when uniform number
/// ((b h' + h) l' + i) s' + j of the key (seed, offset) is at least dropout, and divided by
/// 1 - dropout.
/// `attention_backward(grad, grad_lse, q, k, v, mask, seed, offset, out, lse)` -> gradients of q, k
/// and v.
struct AttentionAttrs {
  double scale = 0;  ///< 0: 1 / sqrt(d)
  bool is_causal = false;
  double softcap = 0;
  double dropout = 0;
};

}  // namespace dyad::ops
