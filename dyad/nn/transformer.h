#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "dyad/nn/attention.h"
#include "dyad/nn/dropout.h"
#include "dyad/nn/norm.h"

namespace dyad::nn {

struct TransformerOptions {
  std::int64_t feedforward = 2048;  ///< width between the two linear layers
  double dropout = 0.1;
  /// relu unless given: any function of a tensor.
  std::function<Tensor(const Tensor&)> activation = {};
  double eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  ///< normalise what enters a block, not what leaves it
  bool bias = true;
  DType dtype = f32;
};

/// Self-attention and two linear layers, each with dropout, a residual and a normalisation (Vaswani
/// et al., 2017). Parameters have PyTorch's names and layout.
class TransformerEncoderLayer {
 public:
  TransformerEncoderLayer(std::int64_t width, std::int64_t heads,
                          const TransformerOptions& options = {},
                          Loc loc = std::source_location::current());
  /// x[l, n, width] and its masks -> the same shape.
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {},
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor& v);

  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  Dropout dropout, dropout1, dropout2;
  TransformerOptions options;
};

/// The same with attention to `memory`, what the encoder made, in between.
class TransformerDecoderLayer {
 public:
  TransformerDecoderLayer(std::int64_t width, std::int64_t heads,
                          const TransformerOptions& options = {},
                          Loc loc = std::source_location::current());
  /// x[l, n, width], memory[s, n, width]; `masks` are for x, `memory_masks` for memory.
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionMasks& masks = {},
                    const AttentionMasks& memory_masks = {},
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor& v);

  MultiheadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout, dropout1, dropout2, dropout3;
  TransformerOptions options;
};

/// Encoder layers one after the other, and a normalisation at the end if there is one. The layers
/// start as different ones (PyTorch starts them as copies of one).
class TransformerEncoder {
 public:
  TransformerEncoder(std::int64_t width, std::int64_t heads, std::int64_t layers,
                     const TransformerOptions& options = {}, bool final_norm = false,
                     Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {},
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) {
    v("layers", layers);
    v("norm", norm);
  }

  std::vector<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
};

/// Decoder layers one after the other, and a normalisation at the end if there is one.
class TransformerDecoder {
 public:
  TransformerDecoder(std::int64_t width, std::int64_t heads, std::int64_t layers,
                     const TransformerOptions& options = {}, bool final_norm = false,
                     Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionMasks& masks = {},
                    const AttentionMasks& memory_masks = {},
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) {
    v("layers", layers);
    v("norm", norm);
  }

  std::vector<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;
};

struct TransformerMasks {
  AttentionMasks source = {};  ///< of the encoder
  /// Of the decoder for itself: `{.is_causal = true}` to predict what comes next.
  AttentionMasks target = {};
  AttentionMasks memory = {};  ///< of the decoder for what the encoder made
};

/// An encoder and a decoder, each with a normalisation at its end (Vaswani et al., 2017).
/// Parameters have PyTorch's names and layout; matrices start by Glorot's rule (xavier_uniform_),
/// as there.
class Transformer {
 public:
  /// ValueError for sizes below 1, a width that heads do not divide, a dropout outside 0 to 1.
  Transformer(std::int64_t width = 512, std::int64_t heads = 8, std::int64_t encoder_layers = 6,
              std::int64_t decoder_layers = 6, const TransformerOptions& options = {},
              Loc loc = std::source_location::current());
  /// source[s, n, width], target[l, n, width] -> [l, n, width]; or all without the axis n.
  /// ShapeError for ranks, widths or numbers of samples that differ.
  Tensor operator()(const Tensor& source, const Tensor& target, const TransformerMasks& masks = {},
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) {
    v("encoder", encoder);
    v("decoder", decoder);
  }

  TransformerEncoder encoder;
  TransformerDecoder decoder;
  std::int64_t width;
};

}  // namespace dyad::nn
