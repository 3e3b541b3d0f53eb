#include "dyad/ops/attrs/norm.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/norm_support.h"
#include "dyad/ops/reduce_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"
#include "dyad/ops/window_support.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kLayerNormInputs[] = {
    {"x", kFloat}, {"weight", kFloat}, {"bias", kFloat, /*optional=*/true}};
constexpr ArgInfo kRmsNormInputs[] = {{"x", kFloat}, {"weight", kFloat}};
constexpr ArgInfo kRowNormBackwardInputs[] = {{"grad", kFloat}, {"x", kFloat}, {"weight", kFloat}};
constexpr ArgInfo kGroupNormInputs[] = {
    {"x", kFloat}, {"weight", kFloat, /*optional=*/true}, {"bias", kFloat, /*optional=*/true}};
constexpr ArgInfo kGroupNormBackwardInputs[] = {
    {"grad", kFloat}, {"x", kFloat}, {"weight", kFloat, /*optional=*/true}};
constexpr ArgInfo kThreeGradients[] = {{"x_grad"}, {"weight_grad"}, {"bias_grad"}};
constexpr ArgInfo kTwoGradients[] = {{"x_grad"}, {"weight_grad"}};

bool has(TensorRefs in, std::size_t i) { return in.size() > i && in[i]->defined(); }

/// The parts of a backward operator with inputs (grad, x, weight, ...): the derivative of those of
/// the forward one by x, weight and, where there is a third result, a bias.
template <class Forward>
std::vector<Tensor> backward_parts(const typename Forward::Attrs& attrs, TensorRefs in, Loc loc,
                                   const Shape& parameters, bool weighted, bool with_bias) {
  std::vector<Tensor> inputs{*in[1], weighted ? *in[2] : Tensor()};
  if (with_bias) inputs.push_back(zeros(parameters, in[0]->dtype(), loc));
  const auto f = [&](const std::vector<Tensor>& x) {
    std::vector<const Tensor*> refs;
    for (const Tensor& t : x) refs.push_back(&t);
    return Forward::parts(attrs, refs, loc);
  };
  std::vector<bool> wanted{true, weighted};
  if (with_bias) wanted.push_back(true);
  std::vector<Tensor> found = derivative(f, inputs, wanted, {*in[0]}, loc);
  if (!weighted) found[1] = zeros({0}, in[0]->dtype(), loc);
  return found;
}

// --- over the last axes --------------------------------------------------------------------------

/// x at input `i`, its weight after it.
void check_last_axes(const InferIn& in, std::size_t i) {
  require_one_dtype(in);
  const Shape &x = in[i].shape(), &weight = in[i + 1].shape();
  if (weight.rank() < 1 || weight.rank() > x.rank()) {
    fail_shape(in, "weight must have from 1 to " + std::to_string(x.rank()) + " axes, but has " +
                       std::to_string(weight.rank()));
  }
  const std::size_t lead = x.size() - weight.size();
  for (std::size_t a = 0; a < weight.size(); ++a) {
    if (!(x[lead + a] == weight[a])) {
      fail_shape(in, "weight must have the last sizes of x, but axis " + std::to_string(lead + a) +
                         " of x is " + to_string(x[lead + a]) + " where weight has " +
                         to_string(weight[a]));
    }
    if (in.has(i + 2) &&
        !(in[i + 2].rank() == weight.rank() && in[i + 2].shape()[a] == weight[a])) {
      fail_shape(in, "bias must have the shape of weight, " + to_string(weight) + ", but is " +
                         to_string(in[i + 2].shape()));
    }
  }
}

void check_grad_like_x(const InferIn& in) {
  const Shape& x = in[1].shape();
  bool fits = in[0].rank() == x.rank();
  for (std::size_t i = 0; fits && i < x.size(); ++i) fits = in[0].shape()[i] == x[i];
  if (!fits) {
    fail_shape(in, "grad must have the shape of x, " + to_string(x) + ", but is " +
                       to_string(in[0].shape()));
  }
}

struct LayerNorm {
  using Attrs = EpsAttrs;
  static constexpr Schema schema{
      .name = "layer_norm",
      .inputs = kLayerNormInputs,
      .outputs = kOut,
      .doc =
          "(x - mean) / sqrt(var + eps) * weight + bias over the last axes of x, as many as "
          "weight has.",
      .saved_inputs = kFirst | kSecond,
      .cheap = true,
      .batching = Batching::first};
  static Types infer(const InferIn& in, const Attrs&) {
    check_last_axes(in, 0);
    return {in[0]};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor& x = *in[0];
      const Moments m(x, last_axes(x.rank(), in[1]->rank()), attrs.eps);
      const Tensor scaled = m.centered * m.rstd * *in[1];
      return {has(in, 2) ? scaled + *in[2] : scaled};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    std::vector<std::string> inputs{e.input(0), e.input(1)};
    if (e.input_count() > 2 && !e.input(2).empty()) inputs.push_back(e.input(2));
    const std::int64_t axis = e.input_type(0).rank() - e.input_type(1).rank();
    e.output(0, e.node("LayerNormalization", inputs,
                       {{"axis", axis}, {"epsilon", static_cast<float>(attrs.eps)}}));
  }
};

struct LayerNormBackward {
  using Attrs = EpsAttrs;
  static constexpr Schema schema{.name = "layer_norm_backward",
                                 .inputs = kRowNormBackwardInputs,
                                 .outputs = kThreeGradients,
                                 .doc = "The gradients of layer_norm's x, weight and bias.",
                                 .saved_inputs = kFirst | kSecond | kThird};
  static Types infer(const InferIn& in, const Attrs&) {
    check_last_axes(in, 1);
    check_grad_like_x(in);
    return {in[1], in[2], in[2]};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc) {
    return backward_parts<LayerNorm>(attrs, in, loc, sizes_of(*in[2], loc), true, true);
  }
};

void LayerNorm::grad(Gradient& g, const Attrs& attrs) {
  const Tensor* refs[] = {&g.grad(), &g.input(0), &g.input(1)};
  const std::vector<Tensor> found = apply_with_parts<LayerNormBackward>(attrs, {}, refs);
  for (int i = 0; i < g.input_count(); ++i) {
    if (g.needs(i)) g.set(i, found[static_cast<std::size_t>(i)]);
  }
}

struct RmsNorm {
  using Attrs = EpsAttrs;
  static constexpr Schema schema{
      .name = "rms_norm",
      .inputs = kRmsNormInputs,
      .outputs = kOut,
      .doc = "x / sqrt(mean(x^2) + eps) * weight over the last axes of x, as many as weight has.",
      .saved_inputs = kFirst | kSecond,
      .cheap = true,
      .batching = Batching::first};
  static Types infer(const InferIn& in, const Attrs&) {
    check_last_axes(in, 0);
    return {in[0]};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor& x = *in[0];
      const Ints axes = last_axes(x.rank(), in[1]->rank());
      return {x * rsqrt(mean(square(x), axes, true) + attrs.eps) * *in[1]};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    if (e.opset() < 23) return e.parts();
    const std::int64_t axis = e.input_type(0).rank() - e.input_type(1).rank();
    e.output(0, e.node("RMSNormalization", {e.input(0), e.input(1)},
                       {{"axis", axis}, {"epsilon", static_cast<float>(attrs.eps)}}));
  }
};

struct RmsNormBackward {
  using Attrs = EpsAttrs;
  static constexpr Schema schema{.name = "rms_norm_backward",
                                 .inputs = kRowNormBackwardInputs,
                                 .outputs = kTwoGradients,
                                 .doc = "The gradients of rms_norm's x and weight.",
                                 .saved_inputs = kFirst | kSecond | kThird};
  static Types infer(const InferIn& in, const Attrs&) {
    check_last_axes(in, 1);
    check_grad_like_x(in);
    return {in[1], in[2]};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc) {
    return backward_parts<RmsNorm>(attrs, in, loc, {}, true, false);
  }
};

void RmsNorm::grad(Gradient& g, const Attrs& attrs) {
  const Tensor* refs[] = {&g.grad(), &g.input(0), &g.input(1)};
  const std::vector<Tensor> found = apply_with_parts<RmsNormBackward>(attrs, {}, refs);
  if (g.needs(0)) g.set(0, found[0]);
  if (g.needs(1)) g.set(1, found[1]);
}

// --- over groups of channels ---------------------------------------------------------------------

/// x at input `i`, its parameters after it.
void check_groups(const InferIn& in, std::size_t i, std::int64_t groups) {
  require_one_dtype(in);
  const Shape& x = in[i].shape();
  if (x.rank() < 2) fail_shape(in, "x needs a batch axis and a channel axis");
  if (groups < 0 || (groups > 0 && !(x[1] % groups == Dim(0)))) {
    fail_shape(in,
               "the " + to_string(x[1]) +
                   " channels of x (axis 1) do not divide into groups = " + std::to_string(groups));
  }
  for (std::size_t p = i + 1; p < in.inputs.size(); ++p) {
    if (!in.has(p) || (in[p].rank() == 1 && in[p].shape()[0] == x[1])) continue;
    fail_shape(in, std::string(in.op.inputs[p].name) + " must be [" + to_string(x[1]) +
                       "], the channels of x (axis 1), but is " + to_string(in[p].shape()));
  }
}

/// [n, groups, the rest] of x.
Shape grouped(const Shape& x, std::int64_t groups) {
  return {x[0], groups == 0 ? x[1] : Dim(groups), -1};
}

struct GroupNorm {
  using Attrs = GroupNormAttrs;
  static constexpr Schema schema{
      .name = "group_norm",
      .inputs = kGroupNormInputs,
      .outputs = kOut,
      .doc =
          "(x - mean) / sqrt(var + eps) * weight + bias over each of `groups` runs of channels "
          "(axis 1 of x; 0: each channel alone) and the axes after it.",
      .saved_inputs = kFirst | kSecond};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    check_groups(in, 0, attrs.groups);
    return {in[0]};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs given, Loc loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor& x = *in[0];
      const Shape sizes = sizes_of(x, loc);
      const Moments m(reshape(x, grouped(sizes, attrs.groups)), {2}, attrs.eps);
      Tensor y = reshape(m.centered * m.rstd, sizes);
      if (has(in, 1)) y = y * per_channel(*in[1], x.rank());
      return {has(in, 2) ? y + per_channel(*in[2], x.rank()) : y};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const Shape& x = e.input_type(0).shape();
    const bool each = attrs.groups == 0 && x.rank() > 2;
    const bool open = x[1].is_symbolic() && (e.input(1).empty() || e.input(2).empty());
    if (!(each || e.opset() >= 21) || (attrs.groups == 0 && !each) || open) return e.parts();
    const auto parameter = [&](int i, double otherwise) {
      if (i < e.input_count() && !e.input(i).empty()) return e.input_as(i, kOnnxImage);
      const DType dtype = e.input_type(0).dtype();
      return e.constant(full({x[1]}, otherwise, dtype == DType::bf16 ? DType::f32 : dtype));
    };
    OnnxAttrs options{{"epsilon", static_cast<float>(attrs.eps)}};
    if (!each) {
      constexpr std::int64_t kFloat32 = 1, kFloat64 = 11;  // what ONNX computes the moments in
      const bool f64 = e.input_type(0).dtype() == DType::f64;
      options.emplace_back("num_groups", attrs.groups);
      options.emplace_back("stash_type", f64 ? kFloat64 : kFloat32);
    }
    e.output(0, e.node(each ? "InstanceNormalization" : "GroupNormalization",
                       {e.input_as(0, kOnnxImage), parameter(1, 1), parameter(2, 0)}, options));
  }
};

struct GroupNormBackward {
  using Attrs = GroupNormAttrs;
  static constexpr Schema schema{
      .name = "group_norm_backward",
      .inputs = kGroupNormBackwardInputs,
      .outputs = kThreeGradients,
      .doc = "The gradients of group_norm's x, weight (empty without one) and bias.",
      .saved_inputs = kFirst | kSecond | kThird};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    check_groups(in, 1, attrs.groups);
    check_grad_like_x(in);
    const Type vector(in[0].dtype(), {in[1].shape()[1]});
    return {in[1], in.has(2) ? vector : Type(in[0].dtype(), {0}), vector};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc) {
    return backward_parts<GroupNorm>(attrs, in, loc, {in[1]->size(1, loc)}, has(in, 2), true);
  }
};

void GroupNorm::grad(Gradient& g, const Attrs& attrs) {
  const Tensor none;
  const Tensor* refs[] = {&g.grad(), &g.input(0), g.input_count() > 1 ? &g.input(1) : &none};
  const std::vector<Tensor> found = apply_with_parts<GroupNormBackward>(attrs, {}, refs);
  for (int i = 0; i < g.input_count(); ++i) {
    if (g.needs(i)) g.set(i, found[static_cast<std::size_t>(i)]);
  }
}

}  // namespace

std::span<const OpInfo* const> group_norm_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info_with_parts<LayerNorm>, &op_info_with_parts<LayerNormBackward>,
      &op_info_with_parts<RmsNorm>,   &op_info_with_parts<RmsNormBackward>,
      &op_info_with_parts<GroupNorm>, &op_info_with_parts<GroupNormBackward>,
  };
  return kRows;
}

}  // namespace ops

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Loc loc) {
  const Tensor* refs[] = {&x, &weight, &bias};
  return ops::apply_with_parts<ops::LayerNorm>({.eps = eps}, loc, refs)[0];
}
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, Loc loc) {
  const Tensor* refs[] = {&x, &weight};
  return ops::apply_with_parts<ops::RmsNorm>({.eps = eps}, loc, refs)[0];
}
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps, Loc loc) {
  if (groups < 1) {
    throw ValueError("group_norm: groups = " + std::to_string(groups) + " must be 1 or more",
                     loc.user());
  }
  const Tensor* refs[] = {&x, &weight, &bias};
  return ops::apply_with_parts<ops::GroupNorm>({.groups = groups, .eps = eps}, loc, refs)[0];
}
Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                     Loc loc) {
  const Tensor* refs[] = {&x, &weight, &bias};
  return ops::apply_with_parts<ops::GroupNorm>({.groups = 0, .eps = eps}, loc, refs)[0];
}

}  // namespace dyad
