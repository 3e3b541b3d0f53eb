#include <string>
#include <vector>

#include "dyad/ir/onnx_node.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attention.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/network_onnx.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/positional.h"
#include "dyad/ops/quantize.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

// What ONNX Runtime's operators of attention mean.

namespace dyad::ops {
namespace {

/// Queries, keys and values, [b, heads, l, d] each.
struct AttentionParts {
  Tensor q, k, v;
};

void refuse_flag(OnnxNode& n, const char* name) {
  if (n.flag(name)) n.fail(std::string("it sets ") + name);
}

void refuse_input(OnnxNode& n, int i, const char* name) {
  if (n.has(i)) n.fail(std::string("it has ") + name);
}

std::int64_t heads_of(OnnxNode& n, const char* name) {
  const std::int64_t heads = n.integer(name, 0);
  if (heads < 1) n.fail(std::string(name) + " must be 1 or more, but is " + std::to_string(heads));
  return heads;
}

/// Which keys a mask of integers lets take part, of the length `keys`: bool, [b, 1, 1 or l, keys].
/// Of one axis it holds where the keys of each element of the batch end (and behind all these,
/// where they begin).
Tensor keys_seen(OnnxNode& n, const Tensor& given, const AttentionParts& parts, Dim past) {
  const Dim batch = parts.q.size(0), keys = parts.k.size(2);
  if (given.rank() == 1) {
    const Tensor at = reshape(arange(keys, i64), {1, 1, 1, keys});
    const auto bound = [&](Dim begin) {
      return reshape(to(slice(given, 0, begin, begin + batch), i64), {batch, 1, 1, 1});
    };
    Tensor before_end = lt(at, bound(0));
    if (!given.size(0).same_as(batch * 2)) return before_end;
    return logical_and(before_end, ge(at, bound(batch)));
  }
  Tensor mask = given;
  if (mask.rank() == 2) mask = unsqueeze(mask, 1);
  if (mask.rank() == 3) mask = unsqueeze(mask, 1);
  if (mask.rank() != 4)
    n.fail("its mask has " + std::to_string(given.rank()) + " axes, not 1 to 4");
  if (given.rank() == 4) {
    mask = slice(slice(mask, 2, past, past + parts.q.size(2)), 3, 0, keys);
  }
  return gt(mask, 0);
}

/// What Attention and MultiHeadAttention do with their parts: `mask` is of integers, `bias` is
/// added to the scores, and `past` keys precede those of the first query.
Tensor attend(OnnxNode& n, const AttentionParts& parts, const Tensor& mask, const Tensor& bias,
              Dim past) {
  const DType dtype = parts.q.dtype();
  AttentionArgs args;
  if (const double scale = n.number("scale", 0); scale != 0) args.scale = scale;
  const auto restrict = [&](const Tensor& seen, double hidden) {
    const Tensor added = where(seen, zeros({}, dtype), full({}, hidden, dtype));
    args.mask = args.mask.defined() ? args.mask + added : added;
  };
  if (bias.defined()) args.mask = to(bias, dtype);
  if (mask.defined()) {
    restrict(keys_seen(n, mask, parts, past), n.number("mask_filter_value", -10000));
  }
  if (n.flag("unidirectional")) {
    const Tensor seen = causal_mask(parts.q.size(2), parts.k.size(2), past);
    if (args.mask.defined()) {
      restrict(seen, -kInfinity);
    } else if (past.same_as(0)) {
      args.is_causal = true;
    } else {
      args.mask = seen;
    }
  }
  return without_heads(scaled_dot_product_attention(parts.q, parts.k, parts.v, args), n.loc());
}

/// Attention over the projections of the three parts, which lie side by side; the other numbers are
/// those of inputs.
void attend_to_projected(OnnxNode& n, const Tensor& all, int mask, int before, int bias) {
  refuse_flag(n, "do_rotary");
  refuse_flag(n, "past_present_share_buffer");
  const std::int64_t heads = heads_of(n, "num_heads");
  const Ints given = n.integers("qkv_hidden_sizes", {});
  Shape widths(given.begin(), given.end());
  if (widths.empty()) widths = Shape(3, all.size(-1) / 3);
  if (widths.size() != 3) n.fail("qkv_hidden_sizes must be three");
  const std::vector<Tensor> split_parts = split(all, widths, -1);
  AttentionParts parts{with_heads(split_parts[0], heads, n.loc()),
                       with_heads(split_parts[1], heads, n.loc()),
                       with_heads(split_parts[2], heads, n.loc())};
  Dim past = 0;
  if (n.has(before)) {
    const Tensor caches = n.input(before);
    past = caches.size(3);
    parts.k = concat({select(caches, 0, 0), parts.k}, 2);
    parts.v = concat({select(caches, 0, 1), parts.v}, 2);
  }
  n.output(0, attend(n, parts, n.input(mask), bias < 0 ? Tensor() : n.input(bias), past));
  if (n.wants(1)) n.output(1, stack({parts.k, parts.v}, 0));
}

void projected_attention(OnnxNode& n) {
  const LocScope scope(n.loc());
  const Tensor all = matmul(n.input(0), n.input(1));
  attend_to_projected(n, n.has(2) ? all + n.input(2) : all, 3, 4, 5);
}

void quantized_attention(OnnxNode& n) {
  const LocScope scope(n.loc());
  const Tensor sums = matmul_integer(n.input(0), n.input(1), n.input(6), n.input(7));
  attend_to_projected(n, sums * (n.input(3) * n.input(4)) + n.input(2), 5, 8, -1);
}

/// q, k and v of MultiHeadAttention, which may be packed into one or two, with their biases.
AttentionParts separate_parts(OnnxNode& n, std::int64_t heads) {
  // [b, l, heads, d] until they are ready
  const auto by_heads = [&](const Tensor& x) {
    return x.rank() == 3 ? reshape(x, {x.size(0), x.size(1), heads, -1}) : x;
  };
  const bool are_ready = n.has(1) && n.input(1).rank() == 4;
  AttentionParts parts;
  if (n.input(0).rank() == 5) {
    parts = {select(n.input(0), 3, 0), select(n.input(0), 3, 1), select(n.input(0), 3, 2)};
  } else if (!n.has(1)) {
    n.fail("it has neither keys nor three parts packed into its first input");
  } else if (n.input(1).rank() == 5) {
    parts = {by_heads(n.input(0)), select(n.input(1), 3, 0), select(n.input(1), 3, 1)};
  } else if (!n.has(2)) {
    n.fail("it has keys but no values");
  } else {
    parts = {by_heads(n.input(0)), n.input(1), n.input(2)};
    if (!are_ready) parts = {parts.q, by_heads(parts.k), by_heads(parts.v)};
  }
  if (n.has(3)) {
    const Dim width = parts.q.size(2) * parts.q.size(3);
    const auto with_bias = [&](const Tensor& x, Dim begin, Dim end) {
      return x + reshape(slice(n.input(3), 0, begin, end), {heads, -1});
    };
    parts.q = with_bias(parts.q, 0, width);
    if (!are_ready) {
      parts.k = with_bias(parts.k, width, width * 2);
      parts.v = with_bias(parts.v, width * 2, kEnd);
    }
  }
  const auto heads_first = [](const Tensor& x) { return permute(x, {0, 2, 1, 3}); };
  if (are_ready) return {heads_first(parts.q), parts.k, parts.v};
  return {heads_first(parts.q), heads_first(parts.k), heads_first(parts.v)};
}

void multi_head_attention(OnnxNode& n) {
  const LocScope scope(n.loc());
  refuse_input(n, 8, "a past_sequence_length, so its caches are written in place");
  refuse_input(n, 9, "a cache_indirection");
  if (n.wants(3)) n.fail("its fourth result, the scores, is not computed");
  AttentionParts parts = separate_parts(n, heads_of(n, "num_heads"));
  Dim past = 0;
  if (n.has(6) && n.has(7)) {
    past = n.input(6).size(2);
    parts.k = concat({n.input(6), parts.k}, 2);
    parts.v = concat({n.input(7), parts.v}, 2);
  }
  n.output(0, attend(n, parts, n.input(4), n.input(5), past));
  if (n.wants(1)) n.output(1, parts.k);
  if (n.wants(2)) n.output(2, parts.v);
}

/// Tables [positions, r / 2] turn the first r elements of a head.
Tensor turned_heads(OnnxNode& n, const Tensor& x, const Tensor& cos, const Tensor& sin,
                    const Tensor& places, const char* interleaved) {
  const Dim width = cos.size(-1) * 2;
  RotaryArgs args{.interleaved = n.flag(interleaved)};
  if (!width.same_as(x.size(3))) args.rotary_dim = width.value(n.loc());
  return rotary_embedding(x, cos, sin, places, args, n.loc());
}

void rotate_by_positions(OnnxNode& n) {
  const LocScope scope(n.loc());
  refuse_flag(n, "is_packed_batching");
  if (n.number("scale", 1) != 1) n.fail("its scale is not 1");
  const Tensor x = n.input(0), cos = n.input(2);
  Tensor places = n.input(1);
  std::int64_t heads = n.integer("num_heads", 0);
  if (heads < 1 && x.rank() == 3) {
    const std::int64_t half = cos.size(1).value(n.loc()), width = x.size(2).value(n.loc());
    if (half < 1 || half > width / 2) n.fail("its tables must be as wide as half a head");
    heads = width / (2 * half);
  }
  const Tensor by_heads = with_heads(x, heads, n.loc());
  if (places.rank() == 1) {
    places = expand(places + arange(by_heads.size(2), i64), {x.size(0), by_heads.size(2)});
  }
  const Tensor y = turned_heads(n, by_heads, cos, n.input(3), places, "interleaved");
  n.output(0, x.rank() == 3 ? without_heads(y, n.loc()) : y);
}

/// q, k and v of GroupQueryAttention, which may be packed into one.
AttentionParts grouped_parts(OnnxNode& n) {
  const std::int64_t heads = heads_of(n, "num_heads"), groups = heads_of(n, "kv_num_heads");
  Tensor q = n.input(0), k = n.input(1), v = n.input(2);
  if (!n.has(1)) {
    const Dim width = q.size(2) / (Dim(heads) + Dim(groups) * 2);
    const std::vector<Tensor> split_parts =
        split(q, {width * heads, width * groups, width * groups}, -1);
    q = split_parts[0];
    k = split_parts[1];
    v = split_parts[2];
  }
  return {with_heads(q, heads, n.loc()), with_heads(k, groups, n.loc()),
          with_heads(v, groups, n.loc())};
}

void refuse_in_group_attention(OnnxNode& n) {
  refuse_flag(n, "smooth_softmax");
  refuse_flag(n, "sliding_window_cache");
  refuse_input(n, 11, "a head_sink");
  refuse_input(n, 12, "a quantised cache");
  refuse_input(n, 13, "a quantised cache");
  refuse_input(n, 14, "weights that normalise its queries and keys");
  if (n.wants(3)) n.fail("its fourth result, the scores, is not computed");
}

/// Caches are as long as the longest sequence, with the new keys behind those that an element of
/// the batch has already; seqlens_k is how many it has then, less one.
void group_query_attention(OnnxNode& n) {
  const LocScope scope(n.loc());
  refuse_in_group_attention(n);
  AttentionParts parts = grouped_parts(n);
  const Dim batch = parts.q.size(0), length = parts.q.size(2);
  const bool has_past = n.has(3) && n.has(4);
  const Tensor lengths = reshape(to(n.input(5), i64), {-1}) + 1;
  const Tensor past = maximum(lengths - size_arg(length), 0);
  const Tensor rows = unsqueeze(past, 1) + arange(length, i64);
  if (n.flag("do_rotary")) {
    if (!n.has(7) || !n.has(8)) n.fail("it sets do_rotary but has no tables");
    const Tensor places = expand(n.has(9)   ? n.input(9)
                                 : has_past ? rows
                                            : arange(length, i64),
                                 {batch, length});
    parts.q = turned_heads(n, parts.q, n.input(7), n.input(8), places, "rotary_interleaved");
    parts.k = turned_heads(n, parts.k, n.input(7), n.input(8), places, "rotary_interleaved");
  }
  if (has_past) {
    const Dim before = n.input(3).size(2), whole = max(before, n.one_size(6));
    const auto longer = [&](const Tensor& cache, const Tensor& added) {
      const Tensor all =
          whole.same_as(before) ? cache : pad(cache, {0, 0, 0, 0}, {0, 0, whole - before, 0});
      return cache_update(all, added, past, 2);
    };
    parts.k = longer(n.input(3), parts.k);
    parts.v = longer(n.input(4), parts.v);
  }
  if (n.wants(1)) n.output(1, parts.k);
  if (n.wants(2)) n.output(2, parts.v);

  AttentionArgs args{.softcap = n.number("softcap", 0)};
  if (const double scale = n.number("scale", 0); scale != 0) args.scale = scale;
  const std::int64_t window = n.integer("local_window_size", -1);
  const Dim keys = parts.k.size(2);
  const Tensor key = reshape(arange(keys, i64), {1, 1, 1, keys});
  Tensor seen;
  if (!n.flag("causal", true)) {
    seen = lt(key, reshape(lengths, {-1, 1, 1, 1}));
  } else if (has_past || window > 0 || n.has(10)) {
    const Tensor row =
        reshape(has_past ? rows : unsqueeze(arange(length, i64), 0), {-1, 1, length, 1});
    seen = le(key, row);
    if (window > 0) seen = logical_and(seen, gt(key, row - window));
  } else {
    args.is_causal = true;
  }
  args.mask = seen;
  if (n.has(10)) {
    Tensor bias = n.input(10);
    if (!bias.size(3).same_as(keys)) bias = pad(bias, {0, 0, 0, 0}, {0, 0, 0, keys - bias.size(3)});
    args.mask = where(seen, bias, -kInfinity);
  }
  n.output(0,
           without_heads(scaled_dot_product_attention(parts.q, parts.k, parts.v, args), n.loc()));
}

}  // namespace

std::span<const OnnxRule> attention_contrib_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      {"Attention", 1, projected_attention, kRuntimeDomain},
      {"QAttention", 1, quantized_attention, kRuntimeDomain},
      {"MultiHeadAttention", 1, multi_head_attention, kRuntimeDomain},
      {"GroupQueryAttention", 1, group_query_attention, kRuntimeDomain},
      {"RotaryEmbedding", 1, rotate_by_positions, kRuntimeDomain},
  };
  return kRules;
}

}  // namespace dyad::ops
