#include "dyad/nn/transformer.h"

#include <fmt/format.h>

#include "dyad/base/error.h"
#include "dyad/nn/checks.h"
#include "dyad/nn/init.h"
#include "dyad/nn/module.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"

namespace dyad::nn {
namespace {

MultiheadAttention attention(std::int64_t width, std::int64_t heads, const TransformerOptions& o,
                             Loc loc) {
  return MultiheadAttention(
      width, heads,
      {.dropout = o.dropout, .bias = o.bias, .batch_first = o.batch_first, .dtype = o.dtype}, loc);
}

LayerNorm normalisation(std::int64_t width, const TransformerOptions& o, Loc loc) {
  return LayerNorm(width, {.eps = o.eps, .bias = o.bias, .dtype = o.dtype}, loc);
}

Linear from_to(std::int64_t from, std::int64_t to, const TransformerOptions& o, Loc loc) {
  return Linear(from, to, {.bias = o.bias, .dtype = o.dtype}, loc);
}

/// linear2(dropout(activation(linear1(x)))).
template <class Layer>
Tensor feed_forward(const Layer& l, const Tensor& x, Loc loc) {
  const Tensor inner = l.linear1(x, loc);
  const Tensor active = l.options.activation ? l.options.activation(inner) : relu(inner, loc);
  return l.linear2(l.dropout(active, loc), loc);
}

/// x with what `block` makes of it added, normalised before or after.
template <class Block>
Tensor residual(const Tensor& x, bool norm_first, const LayerNorm& norm, Loc loc, Block block) {
  if (norm_first) return add(x, block(norm(x, loc)), loc);
  return norm(add(x, block(x), loc), loc);
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t width, std::int64_t heads,
                                                 const TransformerOptions& given, Loc loc)
    : self_attn(attention(width, heads, given, loc)),
      linear1(from_to(width, given.feedforward, given, loc)),
      linear2(from_to(given.feedforward, width, given, loc)),
      norm1(normalisation(width, given, loc)),
      norm2(normalisation(width, given, loc)),
      dropout(given.dropout, loc),
      dropout1(given.dropout, loc),
      dropout2(given.dropout, loc),
      options(given) {}

void TransformerEncoderLayer::visit(Visitor& v) {
  v("self_attn", self_attn);
  v("linear1", linear1);
  v("dropout", dropout);
  v("linear2", linear2);
  v("norm1", norm1);
  v("norm2", norm2);
  v("dropout1", dropout1);
  v("dropout2", dropout2);
}

Tensor TransformerEncoderLayer::operator()(const Tensor& x, const AttentionMasks& masks,
                                           Loc loc) const {
  const LocScope scope(loc);
  const Tensor attended = residual(x, options.norm_first, norm1, loc, [&](const Tensor& t) {
    return dropout1(self_attn(t, t, t, masks, loc).out, loc);
  });
  return residual(attended, options.norm_first, norm2, loc,
                  [&](const Tensor& t) { return dropout2(feed_forward(*this, t, loc), loc); });
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t width, std::int64_t heads,
                                                 const TransformerOptions& given, Loc loc)
    : self_attn(attention(width, heads, given, loc)),
      multihead_attn(attention(width, heads, given, loc)),
      linear1(from_to(width, given.feedforward, given, loc)),
      linear2(from_to(given.feedforward, width, given, loc)),
      norm1(normalisation(width, given, loc)),
      norm2(normalisation(width, given, loc)),
      norm3(normalisation(width, given, loc)),
      dropout(given.dropout, loc),
      dropout1(given.dropout, loc),
      dropout2(given.dropout, loc),
      dropout3(given.dropout, loc),
      options(given) {}

void TransformerDecoderLayer::visit(Visitor& v) {
  v("self_attn", self_attn);
  v("multihead_attn", multihead_attn);
  v("linear1", linear1);
  v("dropout", dropout);
  v("linear2", linear2);
  v("norm1", norm1);
  v("norm2", norm2);
  v("norm3", norm3);
  v("dropout1", dropout1);
  v("dropout2", dropout2);
  v("dropout3", dropout3);
}

Tensor TransformerDecoderLayer::operator()(const Tensor& x, const Tensor& memory,
                                           const AttentionMasks& masks,
                                           const AttentionMasks& memory_masks, Loc loc) const {
  const LocScope scope(loc);
  const Tensor own = residual(x, options.norm_first, norm1, loc, [&](const Tensor& t) {
    return dropout1(self_attn(t, t, t, masks, loc).out, loc);
  });
  const Tensor met = residual(own, options.norm_first, norm2, loc, [&](const Tensor& t) {
    return dropout2(multihead_attn(t, memory, memory, memory_masks, loc).out, loc);
  });
  return residual(met, options.norm_first, norm3, loc,
                  [&](const Tensor& t) { return dropout3(feed_forward(*this, t, loc), loc); });
}

TransformerEncoder::TransformerEncoder(std::int64_t width, std::int64_t heads, std::int64_t count,
                                       const TransformerOptions& options, bool final_norm,
                                       Loc loc) {
  require_positive("TransformerEncoder", {{"layers", count}}, loc);
  for (std::int64_t i = 0; i < count; ++i) layers.emplace_back(width, heads, options, loc);
  if (final_norm) norm.emplace(normalisation(width, options, loc));
}

Tensor TransformerEncoder::operator()(const Tensor& x, const AttentionMasks& masks, Loc loc) const {
  const LocScope scope(loc);
  Tensor y = x;
  for (const TransformerEncoderLayer& layer : layers) y = layer(y, masks, loc);
  return norm ? (*norm)(y, loc) : y;
}

TransformerDecoder::TransformerDecoder(std::int64_t width, std::int64_t heads, std::int64_t count,
                                       const TransformerOptions& options, bool final_norm,
                                       Loc loc) {
  require_positive("TransformerDecoder", {{"layers", count}}, loc);
  for (std::int64_t i = 0; i < count; ++i) layers.emplace_back(width, heads, options, loc);
  if (final_norm) norm.emplace(normalisation(width, options, loc));
}

Tensor TransformerDecoder::operator()(const Tensor& x, const Tensor& memory,
                                      const AttentionMasks& masks,
                                      const AttentionMasks& memory_masks, Loc loc) const {
  const LocScope scope(loc);
  Tensor y = x;
  for (const TransformerDecoderLayer& layer : layers)
    y = layer(y, memory, masks, memory_masks, loc);
  return norm ? (*norm)(y, loc) : y;
}

Transformer::Transformer(std::int64_t model_width, std::int64_t heads, std::int64_t encoder_layers,
                         std::int64_t decoder_layers, const TransformerOptions& options, Loc loc)
    : encoder(model_width, heads, encoder_layers, options, /*final_norm=*/true, loc),
      decoder(model_width, heads, decoder_layers, options, /*final_norm=*/true, loc),
      width(model_width) {
  for (Tensor& parameter : parameters(*this)) {
    if (parameter.rank() > 1) init::xavier_uniform_(parameter, 1, loc);
  }
}

Tensor Transformer::operator()(const Tensor& source, const Tensor& target,
                               const TransformerMasks& masks, Loc loc) const {
  const LocScope scope(loc);
  const auto fail = [&](std::string_view rule) {
    throw ShapeError(fmt::format("Transformer(source: {}, target: {}): {}", type_string(source),
                                 type_string(target), rule),
                     loc.user());
  };
  const int rank = source.rank();
  if (rank != target.rank() || rank < 2 || rank > 3) {
    fail("both must be [length, n, width], or both [length, width]");
  }
  if (!(source.size(-1, loc) == width) || !(target.size(-1, loc) == width)) {
    fail(fmt::format("the last axis of both must be the width, {}", width));
  }
  const int samples = encoder.layers.front().options.batch_first ? 0 : 1;
  if (rank == 3 && !(source.size(samples, loc) == target.size(samples, loc))) {
    fail("the numbers of samples differ, " + size_text(source.size(samples, loc)) + " and " +
         size_text(target.size(samples, loc)));
  }
  return decoder(target, encoder(source, masks.source, loc), masks.target, masks.memory, loc);
}

}  // namespace dyad::nn
