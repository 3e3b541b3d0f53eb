#include "dyad/ops/norm.h"

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/ops/attrs/norm.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/norm_support.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"
#include "dyad/ops/window_support.h"

namespace dyad {
namespace ops {
namespace {

// --- softmax -----------------------------------------------------------------------------------

Types infer_along_axis(const InferIn& in, const AxisAttrs& attrs) {
  (void)checked_axis(in, attrs.axis, in[0].rank());
  return {in[0]};
}

constexpr ArgInfo kGradAndResult[] = {{"grad", kFloat}, {"y", kFloat}};

/// The one result of an operator that has parts.
template <class Op>
Tensor with_parts(const AxisAttrs& attrs, std::initializer_list<const Tensor*> inputs, Loc loc) {
  return apply_with_parts<Op>(attrs, loc, {inputs.begin(), inputs.size()})[0];
}

struct SoftmaxBackward {
  using Attrs = AxisAttrs;
  static constexpr Schema schema{
      .name = "softmax_backward",
      .inputs = kGradAndResult,
      .outputs = kOut,
      .doc = "The gradient of x in y = softmax(x): y (grad - sum(grad y)).",
      .saved_inputs = kFirst | kSecond,
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_along_axis(in, attrs); }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor &y = *in[1], weighted = *in[0] * y;
      return {weighted - y * sum(weighted, {attrs.axis}, true)};
    });
  }
};

struct LogSoftmaxBackward {
  using Attrs = AxisAttrs;
  static constexpr Schema schema{
      .name = "log_softmax_backward",
      .inputs = kGradAndResult,
      .outputs = kOut,
      .doc = "The gradient of x in y = log_softmax(x): grad - exp(y) sum(grad).",
      .saved_inputs = kFirst | kSecond,
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_along_axis(in, attrs); }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      return {*in[0] - exp(*in[1]) * sum(*in[0], {attrs.axis}, true)};
    });
  }
};

struct Softmax {
  using Attrs = AxisAttrs;
  static constexpr Schema schema{.name = "softmax",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc = "exp(x) / sum(exp(x)) along an axis, without overflow.",
                                 .samples = {.edges = "0 1 -1 88 1000 -1000 -inf"},
                                 .saved_outputs = kFirst,
                                 .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_along_axis(in, attrs); }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor& x = *in[0];
      const Tensor e = exp(x - max(x, {attrs.axis}, true));
      return {e / sum(e, {attrs.axis}, true)};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, with_parts<SoftmaxBackward>(attrs, {&g.grad(), &g.output()}, {}));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node("Softmax", {e.input(0)}, {{"axis", attrs.axis}}));
  }
};

struct LogSoftmax {
  using Attrs = AxisAttrs;
  static constexpr Schema schema{.name = "log_softmax",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc =
                                     "log(softmax(x)) along an axis, exact for small "
                                     "probabilities.",
                                 .samples = {.edges = "0 1 -1 88 1000 -1000 -inf"},
                                 .saved_outputs = kFirst,
                                 .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_along_axis(in, attrs); }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor& x = *in[0];
      const Tensor shifted = x - max(x, {attrs.axis}, true);
      return {shifted - log(sum(exp(shifted), {attrs.axis}, true))};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, with_parts<LogSoftmaxBackward>(attrs, {&g.grad(), &g.output()}, {}));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node("LogSoftmax", {e.input(0)}, {{"axis", attrs.axis}}));
  }
};

// --- normalisation -----------------------------------------------------------------------------

/// The axes of x but axis 1.
Ints batch_axes(int rank) {
  Ints axes;
  for (int i = 0; i < rank; ++i) {
    if (i != 1) axes.push_back(i);
  }
  return axes;
}

void check_channels(const InferIn& in) {
  require_one_dtype(in);
  const Shape& x = in[0].shape();
  if (x.rank() < 2) fail_shape(in, "x needs a batch axis and a channel axis");
  for (std::size_t i = 1; i < in.inputs.size(); ++i) {
    if (in[i].rank() == 1 && in[i].shape()[0] == x[1]) continue;
    fail_shape(in, std::string(in.op.inputs[i].name) + " must be [" + to_string(x[1]) +
                       "], the channels of x (axis 1), but is " + to_string(in[i].shape()));
  }
}

constexpr ArgInfo kBatchNormInputs[] = {
    {"x", kFloat}, {"weight", kFloat}, {"bias", kFloat}, {"mean", kFloat}, {"var", kFloat}};
constexpr ArgInfo kBatchNormTrainInputs[] = {{"x", kFloat}, {"weight", kFloat}, {"bias", kFloat}};
constexpr ArgInfo kBatchNormTrainOutputs[] = {{"out"}, {"mean"}, {"var"}};

struct BatchNorm {
  using Attrs = EpsAttrs;
  static constexpr Schema schema{
      .name = "batch_norm",
      .inputs = kBatchNormInputs,
      .outputs = kOut,
      .doc = "(x - mean) / sqrt(var + eps) * weight + bias along axis 1, with given mean and var.",
      .samples = {.low = 0.5, .high = 2}};
  static Types infer(const InferIn& in, const Attrs&) {
    check_channels(in);
    return {in[0]};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor &x = *in[0], &weight = *in[1], &bias = *in[2], &mean = *in[3], &var = *in[4];
      const int rank = x.rank();
      const Tensor scale = weight * rsqrt(var + attrs.eps);
      return {(x - per_channel(mean, rank)) * per_channel(scale, rank) + per_channel(bias, rank)};
    });
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node("BatchNormalization",
                       {e.input(0), e.input(1), e.input(2), e.input(3), e.input(4)},
                       {{"epsilon", static_cast<float>(attrs.eps)}}));
  }
};

constexpr ArgInfo kBatchNormBackwardInputs[] = {
    {"grad", kFloat}, {"x", kFloat}, {"weight", kFloat}, {"mean", kFloat}, {"var", kFloat}};
constexpr ArgInfo kBatchNormGradients[] = {{"x_grad"}, {"weight_grad"}, {"bias_grad"}};

struct BatchNormBackward {
  using Attrs = EpsAttrs;
  static constexpr Schema schema{
      .name = "batch_norm_backward",
      .inputs = kBatchNormBackwardInputs,
      .outputs = kBatchNormGradients,
      .doc =
          "The gradients of batch_norm_train's x, weight and bias, from that of its first result "
          "and the mean and variance that it returned.",
      .samples = {.low = 0.5, .high = 2},
      .saved_inputs = 31};
  static Types infer(const InferIn& in, const Attrs&) {
    require_one_dtype(
        {.op = in.op, .inputs = in.inputs.first(3), .attrs = in.attrs, .loc = in.loc});
    const Shape& x = in[1].shape();
    if (x.rank() < 2) fail_shape(in, "x needs a batch axis and a channel axis");
    require_shape(in, x);
    for (std::size_t i = 2; i < in.inputs.size(); ++i) {
      if (in[i].rank() == 1 && in[i].shape()[0] == x[1]) continue;
      fail_shape(in, std::string(in.op.inputs[i].name) + " must be [" + to_string(x[1]) +
                         "], the channels of x (axis 1), but is " + to_string(in[i].shape()));
    }
    return {in[1], in[2], in[2]};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc) {
    const Tensor grad = widened(*in[0]), x = widened(*in[1]), weight = widened(*in[2]);
    const int rank = x.rank();
    const Ints axes = batch_axes(rank);
    const Tensor centered = x - per_channel(widened(*in[3]), rank);
    const Tensor rstd = per_channel(rsqrt(widened(*in[4]) + attrs.eps), rank);
    const Tensor total = sum(grad, axes, true), along = sum(grad * centered, axes, true);
    const Tensor scale = per_channel(weight, rank) * rstd;
    const Arg count = size_arg(count_of(sizes_of(x, loc), axes));
    return narrowed(
        {grad * scale - centered * (scale * square(rstd) * along / count) - scale * total / count,
         reshape(along * rstd, {-1}), reshape(total, {-1})},
        in[1]->dtype());
  }
};

struct BatchNormTrain {
  using Attrs = EpsAttrs;
  static constexpr Schema schema{
      .name = "batch_norm_train",
      .inputs = kBatchNormTrainInputs,
      .outputs = kBatchNormTrainOutputs,
      .doc =
          "batch_norm with the mean and the biased variance of the batch, which it returns too (of "
          "f16 and bf16 in f32).",
      .saved_inputs = kFirst | kSecond,
      .saved_outputs = kSecond | kThird};
  static Types infer(const InferIn& in, const Attrs&) {
    check_channels(in);
    const DType dtype = is_narrow(in[0].dtype()) ? DType::f32 : in[0].dtype();
    const Type statistic(dtype, {in[0].shape()[1]});
    return {in[0], statistic, statistic};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc) {
    const Tensor x = widened(*in[0]), weight = widened(*in[1]), bias = widened(*in[2]);
    const int rank = x.rank();
    const Moments m(x, batch_axes(rank), attrs.eps);
    const Tensor scale = per_channel(weight, rank) * m.rstd;
    return {narrowed(m.centered * scale + per_channel(bias, rank), in[0]->dtype()),
            reshape(m.mean, {-1}), reshape(m.variance, {-1})};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const int rank = g.input_shape(0).rank();
    const Tensor* inputs[] = {&g.grad(), &g.input(0), &g.input(1), &g.output(1), &g.output(2)};
    const std::vector<Tensor> found = apply_with_parts<BatchNormBackward>(attrs, {}, inputs);
    if (g.needs(0)) {
      const Arg count = size_arg(count_of(g.input_shape(0), batch_axes(rank)));
      Tensor x_grad = found[0];
      if (g.has_grad(1)) x_grad = x_grad + per_channel(g.grad(1), rank) / count;
      if (g.has_grad(2)) {
        const Tensor centered = widened(g.input(0)) - per_channel(g.output(1), rank);
        x_grad = x_grad + centered * (per_channel(g.grad(2), rank) * 2 / count);
      }
      g.set(0, x_grad);
    }
    if (g.needs(1)) g.set(1, found[1]);
    if (g.needs(2)) g.set(2, found[2]);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    e.fail(
        "it normalises by the statistics of the batch, as in training; call eval(model) before "
        "exporting");
  }
};

}  // namespace

std::span<const OpInfo* const> norm_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info_with_parts<Softmax>,
      &op_info_with_parts<SoftmaxBackward>,
      &op_info_with_parts<LogSoftmax>,
      &op_info_with_parts<LogSoftmaxBackward>,
      &op_info<BatchNorm>,
      &op_info<BatchNormTrain>,
      &op_info_with_parts<BatchNormBackward>,
  };
  return kRows;
}

}  // namespace ops

Tensor softmax(const Tensor& x, std::int64_t axis, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(softmax(ops::as_vector(x, loc), axis, loc), loc);
  }
  return ops::with_parts<ops::Softmax>({.axis = ops::normalized(axis, x)}, {&x}, loc);
}
Tensor log_softmax(const Tensor& x, std::int64_t axis, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(log_softmax(ops::as_vector(x, loc), axis, loc), loc);
  }
  return ops::with_parts<ops::LogSoftmax>({.axis = ops::normalized(axis, x)}, {&x}, loc);
}
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                  const Tensor& var, double eps, Loc loc) {
  return apply<ops::BatchNorm>({.eps = eps}, loc, x, weight, bias, mean, var);
}
std::array<Tensor, 3> batch_norm_train(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                       double eps, Loc loc) {
  const Tensor* inputs[] = {&x, &weight, &bias};
  std::vector<Tensor> out = apply_multi<ops::BatchNormTrain>({.eps = eps}, loc, inputs, 3);
  return {std::move(out[0]), std::move(out[1]), std::move(out[2])};
}

}  // namespace dyad
