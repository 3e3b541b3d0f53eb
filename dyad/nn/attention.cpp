#include "dyad/nn/attention.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/exec/eager.h"
#include "dyad/nn/checks.h"
#include "dyad/nn/dropout.h"
#include "dyad/nn/init.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attention.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/positional.h"
#include "dyad/ops/random.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/views.h"

namespace dyad::nn {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Glorot and Bengio's evenly distributed start.
Parameter glorot(std::int64_t rows, std::int64_t columns, DType dtype, Loc loc) {
  const double bound = std::sqrt(6.0 / static_cast<double>(rows + columns));
  return Parameter(init::uniform({rows, columns}, bound, dtype, loc), loc);
}

/// A mask of PyTorch's modules as one of scaled_dot_product_attention.
Tensor turned(const Tensor& mask, Loc loc) {
  return mask.dtype() == boolean ? logical_not(mask, loc) : mask;
}

/// ShapeError and DTypeError for a mask that is not what the module takes. `shape` names its axes,
/// which `fits` says it has.
void check_mask(std::string_view name, const Tensor& mask, bool fits, std::string_view shape,
                Loc loc) {
  const auto fail = [&]<class E>(std::type_identity<E>) {
    throw E(fmt::format("MultiheadAttention: {} must be bool or floating {}, found {}", name, shape,
                        type_string(mask)),
            loc.user());
  };
  if (!fits) fail(std::type_identity<ShapeError>());
  if (mask.dtype() != boolean && !is_floating(mask.dtype())) {
    fail(std::type_identity<DTypeError>());
  }
}

/// Both masks; a bool and a floating one as a floating one.
Tensor joined(const Tensor& a, const Tensor& b, Loc loc) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  if (a.dtype() == boolean && b.dtype() == boolean) return logical_and(a, b, loc);
  if (a.dtype() == boolean) return where(a, b, -kInfinity, loc);
  return b.dtype() == boolean ? where(b, a, -kInfinity, loc) : add(a, b, loc);
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t width, std::int64_t heads,
                                       const MultiheadAttentionOptions& given, Loc loc)
    : out_proj(width, width, {.bias = given.bias, .dtype = given.dtype}, loc),
      heads(heads),
      options(given) {
  require_positive("MultiheadAttention", {{"heads", heads}}, loc);
  if (width % heads != 0) {
    throw ValueError(
        fmt::format("MultiheadAttention: {} heads do not divide the width {}", heads, width),
        loc.user());
  }
  detail::require_probability("MultiheadAttention", options.dropout, loc, "dropout");
  const std::int64_t key = options.key_width > 0 ? options.key_width : width;
  const std::int64_t value = options.value_width > 0 ? options.value_width : width;
  if (key == width && value == width) {
    in_proj_weight = glorot(3 * width, width, options.dtype, loc);
  } else {
    q_proj_weight = glorot(width, width, options.dtype, loc);
    k_proj_weight = glorot(width, key, options.dtype, loc);
    v_proj_weight = glorot(width, value, options.dtype, loc);
  }
  if (options.bias) {
    in_proj_bias = Parameter(init::full({3 * width}, 0, options.dtype, loc), loc);
    out_proj.bias = Parameter(init::full({width}, 0, options.dtype, loc), loc);
  }
}

std::array<Tensor, 3> MultiheadAttention::projected(const Tensor& query, const Tensor& key,
                                                    const Tensor& value, Loc loc) const {
  std::vector<Tensor> bias(3);
  if (in_proj_bias.defined()) bias = chunk(in_proj_bias, 3, 0, loc);
  if (!in_proj_weight.defined()) {
    return {linear(query, q_proj_weight, bias[0], loc), linear(key, k_proj_weight, bias[1], loc),
            linear(value, v_proj_weight, bias[2], loc)};
  }
  if (query.is_same(key) && key.is_same(value)) {
    const std::vector<Tensor> all =
        chunk(linear(query, in_proj_weight, in_proj_bias, loc), 3, -1, loc);
    return {all[0], all[1], all[2]};
  }
  const std::vector<Tensor> weight = chunk(in_proj_weight, 3, 0, loc);
  return {linear(query, weight[0], bias[0], loc), linear(key, weight[1], bias[1], loc),
          linear(value, weight[2], bias[2], loc)};
}

AttentionResult MultiheadAttention::operator()(const Tensor& query, const Tensor& key,
                                               const Tensor& value, const AttentionMasks& masks,
                                               Loc loc) const {
  const LocScope scope(loc);
  const bool one_sample = query.rank() == 2;
  const int sample_axis = options.batch_first ? 0 : 1;
  std::array<Tensor, 3> x = projected(query, key, value, loc);
  for (Tensor& t : x) {  // to [n, heads, length, width of a head]
    if (one_sample) t = unsqueeze(t, sample_axis, loc);
    if (!options.batch_first) t = transpose(t, 0, 1, loc);
    t = reshape(t, {t.size(0, loc), t.size(1, loc), heads, t.size(2, loc) / heads}, loc);
    t = transpose(t, 1, 2, loc);
  }
  const Dim samples = x[0].size(0, loc), length = x[0].size(2, loc), keys = x[1].size(2, loc);
  Tensor padding, scores;
  if (const Tensor& given = masks.key_padding; given.defined()) {
    const bool fits =
        one_sample && given.rank() == 1
            ? given.size(0, loc) == keys
            : given.rank() == 2 && given.size(0, loc) == samples && given.size(1, loc) == keys;
    check_mask("key_padding", given, fits,
               fmt::format("[{}{}]", one_sample ? "" : size_text(samples) + ", ", size_text(keys)),
               loc);
    padding = reshape(turned(given, loc), {samples, 1, 1, keys}, loc);
  }
  if (const Tensor& given = masks.attention; given.defined()) {
    const auto ends = [&](int axis) {
      const Dim l = given.size(axis, loc), s = given.size(axis + 1, loc);
      return (l == length || l == Dim(1)) && (s == keys || s == Dim(1));
    };
    const bool fits = given.rank() == 2 ? ends(0)
                                        : given.rank() == 3 && ends(1) &&
                                              given.size(0, loc) == samples * Dim(heads);
    check_mask("attention", given, fits,
               fmt::format("[{}, {}], or [{}, {}, {}] for each head of each sample",
                           size_text(length), size_text(keys), size_text(samples * Dim(heads)),
                           size_text(length), size_text(keys)),
               loc);
    scores = turned(given, loc);
    if (scores.rank() == 3) {
      scores = reshape(scores, {samples, heads, scores.size(1, loc), scores.size(2, loc)}, loc);
    }
  }
  const Tensor mask = joined(scores, padding, loc);
  AttentionResult made;
  if (masks.need_weights) {
    const double scale = 1 / std::sqrt(static_cast<double>(x[0].size(3, loc).value(loc)));
    Tensor s = mul(matmul(x[0], transpose(x[1], 2, 3, loc), loc), scale, loc);
    const Tensor all =
        masks.is_causal ? joined(mask, causal_mask(length, keys, 0, loc), loc) : mask;
    if (all.defined()) {
      s = all.dtype() == boolean ? where(all, s, -kInfinity, loc) : add(s, all, loc);
    }
    const Tensor p = dropout(softmax(s, -1, loc), options.dropout, mode.training(), loc);
    made.out = matmul(p, x[2], loc);
    made.weights = masks.average_weights ? mean(p, {1}, false, loc) : p;
    if (one_sample) made.weights = squeeze(made.weights, 0, loc);
  } else {
    made.out = scaled_dot_product_attention(x[0], x[1], x[2],
                                            {.mask = mask,
                                             .is_causal = masks.is_causal,
                                             .dropout_p = mode.training() ? options.dropout : 0},
                                            loc);
  }
  Tensor y = reshape(transpose(made.out, 1, 2, loc), {samples, length, -1}, loc);
  if (!options.batch_first) y = transpose(y, 0, 1, loc);
  if (one_sample) y = squeeze(y, sample_axis, loc);
  made.out = out_proj(y, loc);
  return made;
}

RotaryEmbedding::RotaryEmbedding(std::int64_t width, std::int64_t length,
                                 const RotaryEmbeddingOptions& options, Loc loc)
    : width_(width), interleaved_(options.interleaved) {
  require_positive("RotaryEmbedding", {{"width", width}, {"length", length}}, loc);
  if (width % 2 != 0) {
    throw ValueError(fmt::format("RotaryEmbedding: width must be even, found {}", width),
                     loc.user());
  }
  const LocScope scope(loc);
  const Evaluator::Scope eager(EagerEvaluator::instance());
  const NoGrad no_grad;
  const Tensor power =
      to(arange(width / 2), f64) * (-2.0 * std::log(options.base) / static_cast<double>(width));
  const Tensor angle = unsqueeze(to(arange(length), f64), 1) * exp(power);
  cos_ = to(cos(angle), options.dtype);
  sin_ = to(sin(angle), options.dtype);
}

Tensor RotaryEmbedding::operator()(const Tensor& x, const Tensor& position_ids, Loc loc) const {
  const LocScope scope(loc);
  return rotary_embedding(x, cos_, sin_, position_ids,
                          {.interleaved = interleaved_, .rotary_dim = width_}, loc);
}

}  // namespace dyad::nn
