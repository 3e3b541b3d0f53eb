#include "dyad/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/attention.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/random.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr DTypeSet kKey = set_of(DType::i64);
constexpr ArgInfo kAttentionInputs[] = {{"q", kFloat},
                                        {"k", kFloat},
                                        {"v", kFloat},
                                        {"mask", kFloat | kBool, /*optional=*/true},
                                        {"seed", kKey, /*optional=*/true},
                                        {"offset", kKey, /*optional=*/true}};
constexpr ArgInfo kAttentionForwardOutputs[] = {{"out"}, {"lse"}};
constexpr ArgInfo kAttentionBackwardInputs[] = {{"grad", kFloat},
                                                {"grad_lse", kFloat, /*optional=*/true},
                                                {"q", kFloat},
                                                {"k", kFloat},
                                                {"v", kFloat},
                                                {"mask", kFloat | kBool, /*optional=*/true},
                                                {"seed", kKey, /*optional=*/true},
                                                {"offset", kKey, /*optional=*/true},
                                                {"out", kFloat},
                                                {"lse", kFloat}};
constexpr ArgInfo kAttentionBackwardOutputs[] = {{"q_grad"}, {"k_grad"}, {"v_grad"}};

DType lse_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

void check_head_axes(const InferIn& in, const Shape& q, const Shape& k, const Shape& v) {
  const auto agree = [&](std::string_view what, Dim a, std::string_view of_a, Dim b,
                         std::string_view of_b) {
    if (a == b) return;
    fail_shape(in, std::string(what) + " of " + std::string(of_a) + " is " + to_string(a) +
                       " but of " + std::string(of_b) + " " + to_string(b));
  };
  agree("the batch (axis 0)", q[0], "q", k[0], "k");
  agree("the batch (axis 0)", q[0], "q", v[0], "v");
  agree("the number of heads (axis 1)", k[1], "k", v[1], "v");
  agree("the length (axis 2)", k[2], "k", v[2], "v");
  agree("the width (axis 3)", q[3], "q", k[3], "k");
  if (!q[1].is_number() || !k[1].is_number() || q[1].same_as(k[1])) return;
  if (k[1].number() < 1 || q[1].number() % k[1].number() != 0) {
    fail_shape(in, "the " + to_string(q[1]) + " heads of q (axis 1) must be a multiple of the " +
                       to_string(k[1]) + " of k and v");
  }
}

/// Checks the inputs from q on; gives the type of the result.
Type check_attention(const InferIn& in, const AttentionAttrs& attrs, std::size_t first) {
  for (std::size_t i = first; i < first + 3; ++i) {
    const std::string name(in.op.inputs[i].name);
    if (in[i].rank() != 4) {
      fail_shape(in, name + " must be [batch, heads, length, width] but has " +
                         std::to_string(in[i].rank()) + " axes");
    }
    if (in[i].dtype() != in[first].dtype()) {
      fail_dtype(in, "one dtype is needed, but q is " + std::string(name_of(in[first].dtype())) +
                         " and " + name + " is " + std::string(name_of(in[i].dtype())) +
                         "; convert one with to()");
    }
  }
  const Shape &q = in[first].shape(), &k = in[first + 1].shape(), &v = in[first + 2].shape();
  check_head_axes(in, q, k, v);
  if (in.has(first + 3)) {
    const Type& mask = in[first + 3];
    if (mask.dtype() != DType::boolean && mask.dtype() != in[first].dtype()) {
      fail_dtype(in, "mask must be bool, or " + std::string(name_of(in[first].dtype())) +
                         " as q is, but is " + std::string(name_of(mask.dtype())));
    }
    const Shape whole{q[0], q[1], q[2], k[2]};
    Shape joined;
    bool fits = mask.rank() <= 4 && broadcast(mask.shape(), whole, joined);
    for (std::size_t i = 0; fits && i < 4; ++i) fits = joined[i] == whole[i];
    if (!fits) {
      fail_shape(in, "mask " + to_string(mask.shape()) + " does not broadcast to " +
                         to_string(whole) + ": batch, heads, length of q, length of k");
    }
  }
  if (!(attrs.dropout >= 0 && attrs.dropout <= 1)) {
    fail_value(in, "dropout must be from 0 to 1");
  }
  if (!(attrs.softcap >= 0)) fail_value(in, "softcap must not be negative; 0 is none");
  if (attrs.dropout > 0 && !(in.has(first + 4) && in.has(first + 5))) {
    fail_value(in, "dropout needs a seed and an offset");
  }
  return Type(in[first].dtype(), {q[0], q[1], q[2], v[3]});
}

/// The inputs of attention from q on, with what their sizes say.
struct Operands {
  Operands(const AttentionAttrs& attrs, TensorRefs in, std::size_t first)
      : attrs(attrs), q(*in[first]), k(*in[first + 1]), v(*in[first + 2]) {
    const auto given = [&](std::size_t i) { return i < in.size() ? *in[i] : Tensor(); };
    mask = given(first + 3);
    seed = given(first + 4);
    offset = given(first + 5);
  }

  /// k or v with a head for each of q's.
  [[nodiscard]] Tensor for_each_head(const Tensor& x) const {
    const Shape from = sizes_of(x);
    const Dim heads = q.size(1);
    if (heads.same_as(from[1])) return x;
    const Shape groups{from[0], from[1], heads / from[1], from[2], from[3]};
    return reshape(dyad::expand(unsqueeze(x, 2), groups), {from[0], heads, from[2], from[3]});
  }
  /// The scores, masked, in the dtype that they are computed in.
  [[nodiscard]] Tensor scores() const {
    const DType dtype = lse_dtype(q.dtype());
    const Tensor keys = transpose(to(for_each_head(k), dtype), -1, -2);
    Tensor s = matmul(to(q, dtype), keys);
    if (attrs.scale != 0) {
      s = s * attrs.scale;
    } else if (const Dim width = q.size(3); width.is_number()) {
      s = s * (1 / std::sqrt(static_cast<double>(width.number())));
    } else {
      s = s * to(1 / sqrt(to(size_tensor(width), f64)), dtype);
    }
    if (attrs.softcap != 0) s = tanh(s / attrs.softcap) * attrs.softcap;
    if (attrs.is_causal) {
      s = where(unsqueeze(arange(q.size(2)), 1) >= arange(k.size(2)), s, -kInfinity);
    }
    if (!mask.defined()) return s;
    return mask.dtype() == DType::boolean ? where(mask, s, -kInfinity) : s + to(mask, dtype);
  }
  [[nodiscard]] Tensor dropped(const Tensor& x) const {
    return attrs.dropout > 0 ? dropout_by_key(x, attrs.dropout, seed, offset) : x;
  }

  const AttentionAttrs& attrs;
  Tensor q, k, v, mask, seed, offset;
};

struct AttentionForward {
  using Attrs = AttentionAttrs;
  static constexpr Schema schema{
      .name = "attention_forward",
      .inputs = kAttentionInputs,
      .outputs = kAttentionForwardOutputs,
      .doc = "softmax(scale q k^T + mask) v by tiles, and the logarithm of each row's sum.",
      .saved_inputs = 63,
      .saved_outputs = kFirst | kSecond};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Type out = check_attention(in, attrs, 0);
    const Shape& s = out.shape();
    return {out, Type(lse_dtype(out.dtype()), {s[0], s[1], s[2]})};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc) {
    const Operands x(attrs, in, 0);
    const Tensor s = x.scores();
    const Tensor top = max(s, {-1}, true), from = detach(where(top == -kInfinity, 0, top));
    const Tensor e = exp(s - from), total = sum(e, {-1}, true), none = total == 0;
    const Tensor divisor = where(none, 1, total);
    const Tensor out = matmul(x.dropped(e / divisor), to(x.for_each_head(x.v), s.dtype()));
    const Tensor lse = where(none, -kInfinity, log(divisor) + from);
    return {to(out, x.q.dtype()), squeeze(lse, -1)};
  }
  static void grad(Gradient& g, const Attrs& attrs);
};

struct AttentionBackward {
  using Attrs = AttentionAttrs;
  static constexpr Schema schema{.name = "attention_backward",
                                 .inputs = kAttentionBackwardInputs,
                                 .outputs = kAttentionBackwardOutputs,
                                 .doc = "The gradients of q, k and v of attention_forward.",
                                 .saved_inputs = 1023};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Type out = check_attention(in, attrs, 2);
    const Shape& s = out.shape();
    const Type lse(lse_dtype(out.dtype()), {s[0], s[1], s[2]});
    using Like = std::pair<std::size_t, Type>;
    for (const auto& [at, like] : {Like(0, out), Like(1, lse), Like(8, out), Like(9, lse)}) {
      if (!in.has(at)) continue;
      const bool fits = in[at].dtype() == like.dtype() || in[at].dtype() == out.dtype();
      if (!fits || !std::ranges::equal(in[at].shape(), like.shape())) {
        fail_shape(in, std::string(in.op.inputs[at].name) + " must be " + to_string(like) +
                           " but is " + to_string(in[at]));
      }
    }
    return {in[2], in[3], in[4]};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc) {
    std::vector<Tensor> inputs;
    for (std::size_t i = 2; i < 8; ++i) inputs.push_back(*in[i]);
    const auto forward = [&](const std::vector<Tensor>& x) {
      const Tensor* refs[] = {x.data(), &x[1], &x[2], &x[3], &x[4], &x[5]};
      return AttentionForward::parts(attrs, refs, loc);
    };
    std::vector<Tensor> found = derivative(
        forward, std::move(inputs), {true, true, true, false, false, false}, {*in[0], *in[1]}, loc);
    found.resize(3);
    return found;
  }
};

void AttentionForward::grad(Gradient& g, const Attrs& attrs) {
  Tensor in[6];
  for (int i = 0; i < std::min(6, g.input_count()); ++i) in[i] = g.input(i);
  const Tensor grad = g.grad(0), grad_lse = g.has_grad(1) ? g.grad(1) : Tensor();
  const Tensor out = g.output(0), lse = g.output(1);
  if (g.needs(0) || g.needs(1) || g.needs(2)) {
    const Tensor* refs[] = {&grad,  &grad_lse, &in[0], &in[1], &in[2],
                            &in[3], &in[4],    &in[5], &out,   &lse};
    std::vector<Tensor> found = apply_with_parts<AttentionBackward>(attrs, {}, refs);
    for (int i = 0; i < 3; ++i) g.set(i, std::move(found[static_cast<std::size_t>(i)]));
  }
  if (g.input_count() <= 3 || !in[3].defined() || !g.needs(3)) return;
  // An additive mask has the gradient of the scores.
  const Tensor* refs[] = {&in[0], &in[1], &in[2], &in[3], &in[4], &in[5]};
  const Operands x(attrs, refs, 0);
  const DType dtype = lse.dtype();
  const Tensor row = unsqueeze(lse, -1), unmasked = row != -kInfinity;
  const Tensor p = where(unmasked, exp(x.scores() - where(unmasked, row, 0)), 0);
  const Tensor values = transpose(to(x.for_each_head(x.v), dtype), -1, -2);
  const Tensor by_p = x.dropped(matmul(to(grad, dtype), values));
  Tensor common = sum(to(grad, dtype) * to(out, dtype), {-1}, true);
  if (grad_lse.defined()) common = common - unsqueeze(grad_lse, -1);
  g.set(3, p * (by_p - common));
}

struct Attention {
  using Attrs = AttentionAttrs;
  static constexpr Schema schema{.name = "scaled_dot_product_attention",
                                 .inputs = kAttentionInputs,
                                 .outputs = kOut,
                                 .doc = "softmax(scale q k^T + mask) v."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    return {check_attention(in, attrs, 0)};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc loc) {
    return {apply_with_parts<AttentionForward>(attrs, loc, in)[0]};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    if (attrs.dropout > 0) {
      e.fail(
          "it draws random numbers, which ONNX cannot repeat; call eval(model) before exporting");
    }
    const bool masked = e.input_count() > 3 && !e.input(3).empty();
    if (e.opset() < 23 || (masked && attrs.is_causal)) return write_parts(e, attrs, masked);
    std::vector<std::string> inputs{e.input(0), e.input(1), e.input(2)};
    if (masked) inputs.push_back(whole_mask(e));
    OnnxAttrs options{{"is_causal", std::int64_t{attrs.is_causal}}};
    if (attrs.scale != 0) options.emplace_back("scale", static_cast<float>(attrs.scale));
    if (attrs.softcap != 0) options.emplace_back("softcap", static_cast<float>(attrs.softcap));
    e.output(0, e.node("Attention", inputs, options));
  }

 private:
  /// The mask with a row for each query and a column for each key, which ONNX Runtime's kernel
  /// needs.
  static std::string whole_mask(OnnxEmitter& e) {
    const Dim rows = e.input_type(0).shape()[2], columns = e.input_type(1).shape()[2];
    Shape shape = e.input_type(3).shape();
    while (shape.rank() < 2) shape.insert(0, Dim(1));
    const std::size_t last = shape.size() - 1;
    const bool is_whole = e.input_type(3).rank() >= 2 && shape[last - 1].same_as(rows) &&
                          shape[last].same_as(columns);
    if (is_whole) return e.input(3);
    shape[last - 1] = rows;
    shape[last] = columns;
    return e.node("Expand", {e.input(3), e.shape(shape)});
  }

  static void write_parts(OnnxEmitter& e, const Attrs& attrs, bool masked) {
    const DType dtype = e.input_type(0).dtype();
    const Shape &q = e.input_type(0).shape(), &k = e.input_type(1).shape();
    const auto number = [&](double value) { return e.scalar(value, dtype); };
    const std::string keys =
        e.node("Transpose", {heads(e, 1)}, {{"perm", std::vector<std::int64_t>{0, 1, 3, 2}}});
    std::string s = e.node("MatMul", {e.input(0), keys});
    if (attrs.scale != 0) {
      s = e.node("Mul", {s, number(attrs.scale)});
    } else {
      s = e.node("Div", {s, e.node("Sqrt", {e.cast(e.size(q[3]), dtype)})});
    }
    if (attrs.softcap != 0) {
      const std::string cap = number(attrs.softcap);
      s = e.node("Mul", {e.node("Tanh", {e.node("Div", {s, cap})}), cap});
    }
    const std::string none = number(-kInfinity);
    if (attrs.is_causal) {
      const auto range = [&](Dim count) {
        return e.node("Range", {e.scalar(0, DType::i64), e.size(count), e.scalar(1, DType::i64)});
      };
      const std::int64_t last[] = {1};
      const std::string rows = e.node("Unsqueeze", {range(q[2]), e.constant_i64(last)});
      s = e.node("Where", {e.node("GreaterOrEqual", {rows, range(k[2])}), s, none});
    }
    const bool choice = masked && e.input_type(3).dtype() == DType::boolean;
    if (choice) s = e.node("Where", {e.input(3), s, none});
    if (masked && !choice) s = e.node("Add", {s, e.input(3)});
    std::string p = e.node("Softmax", {s}, {{"axis", std::int64_t{-1}}});
    if (choice) p = e.node("Where", {e.input(3), p, number(0)});  // rows of nothing but -inf
    e.output(0, e.node("MatMul", {p, heads(e, 2)}));
  }
  /// k or v with a head for each of q's.
  static std::string heads(OnnxEmitter& e, int i) {
    const Shape& from = e.input_type(i).shape();
    const Dim heads = e.input_type(0).shape()[1];
    if (heads.same_as(from[1])) return e.input(i);
    const std::int64_t axis[] = {2};
    const std::string one = e.node("Unsqueeze", {e.input(i), e.constant_i64(axis)});
    const std::string all =
        e.node("Expand", {one, e.shape({from[0], from[1], heads / from[1], from[2], from[3]})});
    return e.node("Reshape", {all, e.shape({from[0], heads, from[2], from[3]})});
  }
};

}  // namespace

std::span<const OpInfo* const> attention_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Attention>,
                                            &op_info_with_parts<AttentionForward>,
                                            &op_info_with_parts<AttentionBackward>};
  return kRows;
}

}  // namespace ops

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionArgs& args, Loc loc) {
  if (args.scale && *args.scale == 0) {
    throw ValueError("scaled_dot_product_attention: scale must not be 0", loc.user());
  }
  const int rank = q.defined() ? q.rank() : 4;
  Tensor in[6] = {q, k, v, args.mask};
  if (rank < 4) {
    for (Tensor& x : in) {
      if (rank == 3 && x.defined() && x.rank() == 3) x = unsqueeze(x, 1, loc);
      if (rank == 2 && x.defined() && x.rank() == 2) {
        x = unsqueeze(unsqueeze(x, 0, loc), 0, loc);
      }
    }
  }
  if (args.dropout_p > 0) {
    const Dim scores =
        in[0].size(0, loc) * in[0].size(1, loc) * in[0].size(2, loc) * in[1].size(2, loc);
    auto [seed, offset] = random_key(scores, loc);
    in[4] = seed;
    in[5] = offset;
  }
  const ops::AttentionAttrs attrs{.scale = args.scale.value_or(0),
                                  .is_causal = args.is_causal,
                                  .softcap = args.softcap,
                                  .dropout = args.dropout_p};
  Tensor out = apply<ops::Attention>(attrs, loc, in[0], in[1], in[2], in[3], in[4], in[5]);
  if (rank == 3) return squeeze(out, 1, loc);
  return rank == 2 ? squeeze(squeeze(out, 0, loc), 0, loc) : out;
}

}  // namespace dyad
