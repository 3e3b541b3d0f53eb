#include <cctype>
#include <cmath>
#include <limits>
#include <string>

#include "dyad/ir/onnx_node.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attention.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/division.h"
#include "dyad/ops/einsum.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/network_onnx.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/positional.h"
#include "dyad/ops/recurrent.h"
#include "dyad/ops/recurrent_onnx.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/scatter.h"
#include "dyad/ops/solve.h"
#include "dyad/ops/views.h"

// What ONNX's recurrent layers, attention and products mean.

namespace dyad::ops {

Tensor with_heads(const Tensor& x, std::int64_t heads, Loc loc) {
  if (x.rank() == 4) return x;
  return permute(reshape(x, {x.size(0), x.size(1), heads, -1}, loc), {0, 2, 1, 3}, loc);
}

Tensor without_heads(const Tensor& x, Loc loc) {
  return reshape(permute(x, {0, 2, 1, 3}, loc), {x.size(0), x.size(2), -1}, loc);
}

namespace {

/// The masks of the node as one: bool where all are, otherwise numbers to add to the scores.
Tensor attention_mask(OnnxNode& n, const Tensor& q, const Tensor& k, Dim past) {
  const Dim queries = q.size(2), keys = k.size(2);
  Tensor mask = n.input(3);
  if (mask.defined()) {
    if (mask.rank() == 0) n.fail("its mask is a scalar; it needs an axis of keys");
    const Dim missing = keys - mask.size(mask.rank() - 1);
    if (!missing.is_number() || missing.number() > 0) {
      Shape low(static_cast<std::size_t>(mask.rank()), 0), high = low;
      high.back() = missing;
      mask = pad(mask, low, high, mask.dtype() == boolean ? 0 : -kInfinity, n.loc());
    }
  }
  const auto restrict = [&](const Tensor& seen) {
    if (!mask.defined()) {
      mask = seen;
    } else if (mask.dtype() == boolean) {
      mask = logical_and(mask, seen, n.loc());
    } else {
      mask = where(seen, mask, -kInfinity, n.loc());
    }
  };
  if (n.flag("is_causal")) {
    const Tensor row = unsqueeze(add(arange(queries, i64, n.loc()), size_tensor(past, n.loc())), 1);
    restrict(le(unsqueeze(arange(keys, i64, n.loc()), 0), row, n.loc()));
  }
  if (n.has(6)) {
    const Tensor length = reshape(n.input(6), {-1, 1, 1, 1}, n.loc());
    restrict(lt(reshape(arange(keys, i64, n.loc()), {1, 1, 1, -1}), length, n.loc()));
  }
  return mask;
}

/// What stands between the scores and the probabilities, up to `mode`: the scores, with softcap,
/// with mask, the probabilities.
Tensor scores_of(OnnxNode& n, const Tensor& q, const Tensor& k, const Tensor& mask, double scale,
                 double softcap, std::int64_t mode) {
  const auto heads = q.size(1).value(), key_heads = k.size(1).value();
  Tensor keys = k;
  if (heads != key_heads) {
    const Shape wide{k.size(0), key_heads, heads / key_heads, k.size(2), k.size(3)};
    keys = reshape(expand(unsqueeze(k, 2), wide), {k.size(0), heads, k.size(2), k.size(3)});
  }
  Tensor scores = matmul(mul(q, scale, n.loc()), transpose(keys, 2, 3), n.loc());
  if (mode >= 1 && softcap > 0) scores = mul(tanh(div(scores, softcap)), softcap);
  if (mode >= 2 && mask.defined()) {
    scores = mask.dtype() == boolean ? where(mask, scores, -kInfinity) : add(scores, mask);
  }
  return mode >= 3 ? softmax(scores, -1, n.loc()) : scores;
}

void attention(OnnxNode& n) {
  const bool flat = n.input(0).rank() == 3;
  const Tensor q = with_heads(n.input(0), n.integer("q_num_heads", 1), n.loc());
  Tensor k = with_heads(n.input(1), n.integer("kv_num_heads", 1), n.loc());
  Tensor v = with_heads(n.input(2), n.integer("kv_num_heads", 1), n.loc());
  const Dim past = n.has(4) ? n.input(4).size(2) : Dim(0);
  if (n.has(4)) k = concat({n.input(4), k}, 2, n.loc());
  if (n.has(5)) v = concat({n.input(5), v}, 2, n.loc());
  AttentionArgs args{.mask = attention_mask(n, q, k, past), .softcap = n.number("softcap", 0)};
  if (n.has_attribute("scale")) args.scale = n.number("scale", 0);
  if (args.mask.defined() && args.mask.dtype() != boolean) args.mask = to(args.mask, q.dtype());
  Tensor y = scaled_dot_product_attention(q, k, v, args, n.loc());
  if (flat) y = without_heads(y, n.loc());
  n.output(0, y);
  if (n.wants(1)) n.output(1, k);
  if (n.wants(2)) n.output(2, v);
  if (n.wants(3)) {
    const double scale = args.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3).value())));
    n.output(3, scores_of(n, q, k, args.mask, scale, args.softcap,
                          n.integer("qk_matmul_output_mode", 0)));
  }
}

/// `HardSigmoid` as `hard_sigmoid`.
std::string small_letters(const std::string& name) {
  std::string result;
  for (const char c : name) {
    if (std::isupper(static_cast<unsigned char>(c)) && !result.empty()) result += '_';
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

/// The activations of each direction, with their numbers; empty for the defaults.
std::vector<std::string> activations_of(OnnxNode& n, std::size_t directions, std::size_t each) {
  const std::vector<std::string> names = n.texts("activations");
  const std::vector<double> alphas = n.numbers("activation_alpha");
  const std::vector<double> betas = n.numbers("activation_beta");
  std::vector<std::string> found(directions);
  if (names.empty()) return found;
  if (names.size() != directions * each) {
    n.fail("it names " + std::to_string(names.size()) + " activations, not " +
           std::to_string(directions * each));
  }
  std::size_t alpha = 0, beta = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::string text = small_letters(names[i]);
    const bool two = text == "affine" || text == "scaled_tanh" || text == "hard_sigmoid";
    const bool one = two || text == "leaky_relu" || text == "thresholded_relu" || text == "elu";
    if (one && alpha < alphas.size()) {
      text += "(" + std::to_string(alphas[alpha++]);
      if (two && beta < betas.size()) text += ", " + std::to_string(betas[beta++]);
      text += ")";
    }
    std::string& all = found[i / each];
    all += (all.empty() ? "" : " ") + text;
  }
  return found;
}

/// Blocks of rows in another order: ONNX's order of gates to Dyad's.
Tensor reordered(const Tensor& x, std::initializer_list<int> order, Loc loc) {
  if (!x.defined() || order.size() < 2) return x;
  // chunk() gives fewer where there are fewer rows.
  const std::vector<Tensor> gates = x.rank() == 0
                                        ? std::vector<Tensor>()
                                        : chunk(x, static_cast<std::int64_t>(order.size()), 0, loc);
  if (gates.size() != order.size()) {
    throw ShapeError("weights of " + std::to_string(order.size()) +
                         " gates need as many blocks of rows, but are " + type_string(x),
                     loc);
  }
  std::vector<Tensor> moved;
  for (const int i : order) moved.push_back(gates.at(static_cast<std::size_t>(i)));
  return concat(moved, 0, loc);
}

using Recurrent = RecurrentResult (*)(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                      const Tensor&, const RecurrentArgs&, Loc);

/// The layer of a node, on an input and weights that may be other than the node's.
template <Recurrent layer>
void recurrent_on(OnnxNode& n, const Tensor& given, const Tensor& weight, const Tensor& recurrence,
                  std::initializer_list<int> gates, std::size_t activations, bool has_cell) {
  const bool batch_first = n.integer("layout", 0) == 1;
  const auto time_first = [&](const Tensor& x) {
    return batch_first && x.defined() ? transpose(x, 0, 1, n.loc()) : x;
  };
  const std::string direction = n.text("direction", "forward");
  const std::size_t directions = direction == "bidirectional" ? 2 : 1;
  const Tensor x = time_first(given);
  const Tensor h0 = time_first(n.input(5)), c0 = has_cell ? time_first(n.input(6)) : Tensor();
  const std::vector<std::string> named = activations_of(n, directions, activations);
  std::vector<Tensor> ys, hs, cs;
  for (std::size_t d = 0; d < directions; ++d) {
    const auto of = [&](const Tensor& all) {
      return all.defined() ? select(all, 0, static_cast<std::int64_t>(d), n.loc()) : Tensor();
    };
    Tensor bias_ih, bias_hh;
    if (const Tensor both = of(n.input(3)); both.defined()) {
      const std::vector<Tensor> halves = chunk(both, 2, 0, n.loc());
      if (halves.size() != 2) n.fail("its biases must be two for each gate and hidden unit");
      bias_ih = reordered(halves[0], gates, n.loc());
      bias_hh = reordered(halves[1], gates, n.loc());
    }
    const RecurrentArgs args{.lengths = n.input(4),
                             .h0 = of(h0),
                             .c0 = of(c0),
                             .peephole = has_cell ? of(n.input(7)) : Tensor(),
                             .reverse = direction == "reverse" || d == 1,
                             .activations = named[d],
                             .clip = n.number("clip", 0),
                             .linear_before_reset = n.flag("linear_before_reset"),
                             .input_forget = n.flag("input_forget")};
    const RecurrentResult result =
        layer(x, reordered(of(weight), gates, n.loc()), reordered(of(recurrence), gates, n.loc()),
              bias_ih, bias_hh, args, n.loc());
    ys.push_back(result.y);
    hs.push_back(result.h);
    cs.push_back(result.c);
  }
  // [t, directions, n, h], or batch first [n, t, directions, h].
  if (n.wants(0)) {
    const Tensor y = stack(ys, 1, n.loc());
    n.output(0, batch_first ? permute(y, {2, 0, 1, 3}, n.loc()) : y);
  }
  if (n.wants(1)) n.output(1, stack(hs, batch_first ? 1 : 0, n.loc()));
  if (has_cell && n.wants(2)) n.output(2, stack(cs, batch_first ? 1 : 0, n.loc()));
}

template <Recurrent layer>
void recurrent(OnnxNode& n, std::initializer_list<int> gates, std::size_t activations,
               bool has_cell) {
  recurrent_on<layer>(n, n.input(0), n.input(1), n.input(2), gates, activations, has_cell);
}

/// x is [b, heads, l, d] or [b, l, heads * d].
void rotate(OnnxNode& n) {
  const Tensor x = n.input(0);
  const bool flat = x.rank() == 3;
  const std::int64_t heads = n.integer("num_heads", 0);
  if (flat && heads < 1) n.fail("its input has three axes, so it needs num_heads");
  const RotaryArgs args{.interleaved = n.flag("interleaved"),
                        .rotary_dim = n.integer("rotary_embedding_dim", 0)};
  const Tensor y = rotary_embedding(with_heads(x, heads, n.loc()), n.input(1), n.input(2),
                                    n.input(3), args, n.loc());
  n.output(0, flat ? reshape(permute(y, {0, 2, 1, 3}), sizes_of(x, n.loc()), n.loc()) : y);
}

/// A cache with new rows at positions of their own for each element of the first axis; positions
/// beyond the end go on at the front, in the circular mode.
void write_cache(OnnxNode& n) {
  const Tensor cache = n.input(0), rows = n.input(1);
  const std::int64_t axis = n.axis_of(n.integer("axis", -2), cache.rank());
  const Tensor begin = n.has(2) ? n.input(2) : full({cache.size(0)}, 0, i64, n.loc());
  if (n.text("mode", "linear") == "linear") {
    n.output(0, cache_update(cache, rows, begin, axis, n.loc()));
    return;
  }
  if (rows.rank() != cache.rank() || cache.rank() == 0)
    n.fail("its rows must have the rank of its cache");
  Shape of_batch(static_cast<std::size_t>(cache.rank()), 1), of_rows = of_batch;
  of_batch[0] = cache.size(0);
  of_rows[static_cast<std::size_t>(axis)] = rows.size(axis);
  const Tensor at = add(reshape(begin, of_batch, n.loc()),
                        reshape(arange(rows.size(axis), i64, n.loc()), of_rows, n.loc()), n.loc());
  const Tensor wrapped = remainder(at, size_arg(cache.size(axis), n.loc()), n.loc());
  n.output(0,
           scatter(cache, axis, expand(wrapped, sizes_of(rows, n.loc()), n.loc()), rows, n.loc()));
}

void einsum_of(OnnxNode& n) {
  n.output(0, einsum(n.text("equation", ""), n.inputs_from(0), n.loc()));
}

}  // namespace

std::span<const OnnxRule> sequences_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      {"Attention", 23, attention},
      {"RotaryEmbedding", 23, rotate},
      {"TensorScatter", 24, write_cache},
      {"RNN", 7, [](OnnxNode& n) { recurrent<rnn>(n, {0}, 1, false); }},
      {"LSTM", 7, [](OnnxNode& n) { recurrent<lstm>(n, {0, 2, 3, 1}, 3, true); }},
      {"GRU", 7, [](OnnxNode& n) { recurrent<gru>(n, {1, 0, 2}, 2, false); }},
      {"Einsum", 12, einsum_of},
      {"Det", 11, onnx_unary<det>},
  };
  return kRules;
}

void read_lstm(OnnxNode& n, const Tensor& x, const Tensor& weight, const Tensor& recurrence) {
  recurrent_on<lstm>(n, x, weight, recurrence, {0, 2, 3, 1}, 3, true);
}

}  // namespace dyad::ops
