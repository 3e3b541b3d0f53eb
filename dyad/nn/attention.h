#pragma once

#include "dyad/nn/linear.h"

namespace dyad::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  ///< of the attention's probabilities, in training
  bool bias = true;
  std::int64_t key_width = 0;    ///< of keys; 0: that of queries
  std::int64_t value_width = 0;  ///< of values; 0: that of queries
  bool batch_first = false;      ///< tensors are [n, l, width] instead of [l, n, width]
  DType dtype = f32;
};

/// Masks as PyTorch has them: in a bool one, true is kept OUT of the attention (the opposite of
/// scaled_dot_product_attention); a floating one is added to the scores.
struct AttentionMasks {
  Tensor key_padding = {};      ///< [n, s]
  Tensor attention = {};        ///< [l, s], or [n * heads, l, s]
  bool is_causal = false;       ///< query i sees keys 0 to i
  bool need_weights = false;    ///< the probabilities too
  bool average_weights = true;  ///< over the heads
};

struct AttentionResult {
  Tensor out;      ///< like the queries
  Tensor weights;  ///< [n, l, s], or [n, heads, l, s], when asked for
};

/// Attention in several heads, with projections before and after (Vaswani et al., 2017). Parameters
/// have PyTorch's names and layout.
class MultiheadAttention {
 public:
  /// ValueError for sizes below 1, a width that heads do not divide, a dropout outside 0 to 1.
  MultiheadAttention(std::int64_t width, std::int64_t heads,
                     const MultiheadAttentionOptions& options = {},
                     Loc loc = std::source_location::current());
  /// query[l, n, width], key[s, n, key_width], value[s, n, value_width]; or without the axis n.
  /// ShapeError and DTypeError for masks of other shapes (a 1 in the place of l or s aside) and
  /// dtypes.
  AttentionResult operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionMasks& masks = {},
                             Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) {
    v("in_proj_weight", in_proj_weight);
    v("q_proj_weight", q_proj_weight);
    v("k_proj_weight", k_proj_weight);
    v("v_proj_weight", v_proj_weight);
    v("in_proj_bias", in_proj_bias);
    v("out_proj", out_proj);
    v("mode", mode);
  }

  Parameter in_proj_weight;                               ///< [3 width, width], or undefined
  Parameter q_proj_weight, k_proj_weight, v_proj_weight;  ///< where widths differ
  Parameter in_proj_bias;                                 ///< [3 width], or undefined
  Linear out_proj;
  Mode mode;
  std::int64_t heads;
  MultiheadAttentionOptions options;

 private:
  [[nodiscard]] std::array<Tensor, 3> projected(const Tensor& query, const Tensor& key,
                                                const Tensor& value, Loc loc) const;
};

struct RotaryEmbeddingOptions {
  double base = 10000;
  bool interleaved = false;
  DType dtype = f32;
};

/// Turns queries and keys by their positions (Su et al., 2021): see rotary_embedding(). Holds the
/// cosines and sines of `length` positions, which are no part of its state.
class RotaryEmbedding {
 public:
  /// `width`, even, is how much of a head is turned.
  RotaryEmbedding(std::int64_t width, std::int64_t length,
                  const RotaryEmbeddingOptions& options = {},
                  Loc loc = std::source_location::current());
  /// x[n, heads, l, d], position_ids[n, l] or undefined for 0 to l - 1.
  Tensor operator()(const Tensor& x, const Tensor& position_ids = {},
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}

 private:
  Tensor cos_, sin_;  // [length, width / 2]
  std::int64_t width_;
  bool interleaved_;
};

}  // namespace dyad::nn
