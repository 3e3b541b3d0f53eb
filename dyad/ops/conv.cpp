#include "dyad/ops/conv.h"

#include "dyad/ops/attrs/nn.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kConvInputs[] = {
    {"x", kFloat}, {"weight", kFloat}, {"bias", kFloat, /*optional=*/true}};
constexpr ArgInfo kGradAndWeight[] = {{"grad", kFloat}, {"weight", kFloat}};
constexpr ArgInfo kGrad[] = {{"grad", kFloat}};
constexpr ArgInfo kValuesAndX[] = {{"values", kFloat}, {"x", kFloat}};

/// What ONNX's convolution and pools take.
constexpr DTypeSet kOnnxFloat = kFloat & ~set_of(DType::bf16);

constexpr std::string_view kSides[] = {"height", "width"};

std::vector<std::int64_t> onnx_pads(const Ints& padding) {
  return {padding[0], padding[1], padding[0], padding[1]};
}
std::vector<std::int64_t> list(const Ints& values) { return {values.begin(), values.end()}; }

void require_rank_4(const InferIn& in, std::size_t i, std::string_view axes) {
  if (in[i].rank() == 4) return;
  fail_shape(in, std::string(input_info(in.op, i)->name) + " must be [" + std::string(axes) +
                     "] but has " + std::to_string(in[i].rank()) + " axes");
}

/// Each of the two numbers must be at least `least`.
void require_pair(const InferIn& in, const Ints& pair, std::int64_t least, std::string_view name) {
  if (pair.size() == 2 && pair[0] >= least && pair[1] >= least) return;
  fail_value(in, std::string(name) + " must be two numbers from " + std::to_string(least));
}

/// The first operand must have the shape of what it belongs to, as far as sizes are known.
void require_shape(const InferIn& in, const Shape& wanted) {
  const Shape& shape = in[0].shape();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (shape[i].is_number() && wanted[i].is_number() && !shape[i].same_as(wanted[i])) {
      fail_shape(in, std::string(input_info(in.op, 0)->name) + " is " + to_string(shape) +
                         " but must be " + to_string(wanted));
    }
  }
}

/// The shape that a backward operator gives, which only a graph from a text can have wrong.
void require_rank_4(const InferIn& in, const Shape& shape) {
  if (shape.rank() == 4) return;
  fail_shape(in, "shape must have 4 axes but has " + std::to_string(shape.rank()));
}

/// How many windows fit along side 0 or 1 of an image.
Dim window_count(const InferIn& in, Dim size, Dim kernel, int side, std::int64_t stride,
                 std::int64_t padding, std::int64_t dilation) {
  const Dim padded = size + Dim(2) * padding, reach = (kernel - 1) * dilation + 1;
  if (padded.is_number() && reach.is_number() && padded < reach) {
    fail_shape(in, "the " + std::string(kSides[side]) + " with padding is " + to_string(padded) +
                       ", less than the kernel's " + to_string(reach));
  }
  return (padded - reach) / stride + 1;
}

// --- convolution -------------------------------------------------------------------------------

template <class A>
void check_conv_attrs(const InferIn& in, const A& attrs) {
  require_pair(in, attrs.stride, 1, "stride");
  require_pair(in, attrs.padding, 0, "padding");
  require_pair(in, attrs.dilation, 1, "dilation");
  if (attrs.groups < 1) {
    fail_value(in, "groups = " + std::to_string(attrs.groups) + " must be 1 or more");
  }
}

Conv2dBackwardAttrs backward_attrs(const Conv2dAttrs& a, const Shape& shape) {
  return {a.stride, a.padding, a.dilation, a.groups, shape};
}
Conv2dBackwardAttrs with_shape(Conv2dBackwardAttrs attrs, const Shape& shape) {
  attrs.shape = shape;
  return attrs;
}
Conv2dAttrs forward_attrs(const Conv2dBackwardAttrs& a) {
  return {a.stride, a.padding, a.dilation, a.groups};
}

/// The output's shape; what does not fit is an error.
template <class A>
Shape convolved_shape(const InferIn& in, const Shape& x, const Shape& weight, const A& attrs) {
  check_conv_attrs(in, attrs);
  if (!(x[1] == weight[1] * attrs.groups)) {
    fail_shape(in, "x has " + to_string(x[1]) + " channels but weight takes " +
                       to_string(weight[1] * attrs.groups) +
                       (attrs.groups > 1 ? " (" + to_string(weight[1]) + " in each of " +
                                               std::to_string(attrs.groups) + " groups)"
                                         : ""));
  }
  if (!(weight[0] % attrs.groups == Dim(0))) {
    fail_shape(in, "the " + to_string(weight[0]) + " output channels do not divide into " +
                       std::to_string(attrs.groups) + " groups");
  }
  Shape shape{x[0], weight[0]};
  for (int side = 0; side < 2; ++side) {
    const auto i = static_cast<std::size_t>(side);
    shape.push_back(window_count(in, x[i + 2], weight[i + 2], side, attrs.stride[i],
                                 attrs.padding[i], attrs.dilation[i]));
  }
  return shape;
}

struct Conv2d {
  using Attrs = Conv2dAttrs;
  static constexpr Schema schema{
      .name = "conv2d",
      .inputs = kConvInputs,
      .outputs = kOut,
      .doc = "Cross-correlation of x[n, c, h, w] with weight[o, c / groups, kh, kw], plus bias[o].",
      .saved_inputs = kFirst | kSecond,
      .batching = Batching::samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_one_dtype(in);
    require_rank_4(in, 0, "n, c, h, w");
    require_rank_4(in, 1, "o, c / groups, kh, kw");
    const Shape& weight = in[1].shape();
    const Shape shape = convolved_shape(in, in[0].shape(), weight, attrs);
    if (in.has(2) && !(in[2].rank() == 1 && in[2].shape()[0] == weight[0])) {
      fail_shape(in, "bias must be [" + to_string(weight[0]) + "], the output channels, but is " +
                         to_string(in[2].shape()));
    }
    return {Type(in[0].dtype(), shape)};
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    std::vector<std::string> inputs;
    for (int i = 0; i < e.input_count(); ++i) inputs.push_back(e.input_as(i, kOnnxFloat));
    e.output(0, e.node("Conv", inputs,
                       {{"strides", list(attrs.stride)},
                        {"pads", onnx_pads(attrs.padding)},
                        {"dilations", list(attrs.dilation)},
                        {"group", attrs.groups}}));
  }
};

struct Conv2dBackwardInput {
  using Attrs = Conv2dBackwardAttrs;
  static constexpr Schema schema{
      .name = "conv2d_backward_input",
      .inputs = kGradAndWeight,
      .outputs = kOut,
      .doc = "The gradient of conv2d with regard to x (a transposed convolution).",
      .saved_inputs = kFirst | kSecond,
      .batching = Batching::samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_one_dtype(in);
    require_rank_4(in, 0, "n, o, oh, ow");
    require_rank_4(in, 1, "o, c / groups, kh, kw");
    require_rank_4(in, attrs.shape);
    require_shape(in, convolved_shape(in, attrs.shape, in[1].shape(), attrs));
    return {Type(in[0].dtype(), attrs.shape)};
  }
  static void grad(Gradient& g, const Attrs& attrs);
};

struct Conv2dBackwardWeight {
  using Attrs = Conv2dBackwardAttrs;
  static constexpr Schema schema{.name = "conv2d_backward_weight",
                                 .inputs = kGradAndX,
                                 .outputs = kOut,
                                 .doc = "The gradient of conv2d with regard to the weight.",
                                 .saved_inputs = kFirst | kSecond};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_one_dtype(in);
    require_rank_4(in, 0, "n, o, oh, ow");
    require_rank_4(in, 1, "n, c, h, w");
    require_rank_4(in, attrs.shape);
    require_shape(in, convolved_shape(in, in[1].shape(), attrs.shape, attrs));
    return {Type(in[0].dtype(), attrs.shape)};
  }
  static void grad(Gradient& g, const Attrs& attrs);
};

void Conv2d::grad(Gradient& g, const Attrs& attrs) {
  if (g.needs(0)) {
    g.set(0, apply<Conv2dBackwardInput>(backward_attrs(attrs, g.input_shape(0)), {}, g.grad(),
                                        g.input(1)));
  }
  if (g.needs(1)) {
    g.set(1, apply<Conv2dBackwardWeight>(backward_attrs(attrs, g.input_shape(1)), {}, g.grad(),
                                         g.input(0)));
  }
  if (g.input_count() > 2 && g.needs(2)) g.set(2, sum(g.grad(), {0, 2, 3}));
}

// Both are linear in each operand, with the forward convolution and the other one as derivatives.
void Conv2dBackwardInput::grad(Gradient& g, const Attrs& attrs) {
  if (g.needs(0)) {
    g.set(0, apply<Conv2d>(forward_attrs(attrs), {}, g.grad(), g.input(1), Tensor()));
  }
  if (g.needs(1)) {
    g.set(1, apply<Conv2dBackwardWeight>(with_shape(attrs, g.input_shape(1)), {}, g.input(0),
                                         g.grad()));
  }
}

void Conv2dBackwardWeight::grad(Gradient& g, const Attrs& attrs) {
  if (g.needs(0)) {
    g.set(0, apply<Conv2d>(forward_attrs(attrs), {}, g.input(1), g.grad(), Tensor()));
  }
  if (g.needs(1)) {
    g.set(1, apply<Conv2dBackwardInput>(with_shape(attrs, g.input_shape(1)), {}, g.input(0),
                                        g.grad()));
  }
}

// --- pooling -----------------------------------------------------------------------------------

template <class A>
Shape pooled_shape(const InferIn& in, const Shape& x, const A& attrs) {
  require_pair(in, attrs.kernel, 1, "kernel");
  require_pair(in, attrs.stride, 1, "stride");
  require_pair(in, attrs.padding, 0, "padding");
  Shape shape{x[0], x[1]};
  for (int side = 0; side < 2; ++side) {
    const auto i = static_cast<std::size_t>(side);
    if (attrs.padding[i] > attrs.kernel[i] / 2) {
      fail_value(in, "padding = " + std::to_string(attrs.padding[i]) +
                         " must be at most half the kernel, " + std::to_string(attrs.kernel[i]) +
                         " / 2; pad() takes any");
    }
    shape.push_back(
        window_count(in, x[i + 2], attrs.kernel[i], side, attrs.stride[i], attrs.padding[i], 1));
  }
  return shape;
}

struct MaxPool2d {
  using Attrs = MaxPool2dAttrs;
  static constexpr Schema schema{.name = "max_pool2d",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc = "The largest of each window of x[n, c, h, w].",
                                 .saved_inputs = kFirst,
                                 .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_rank_4(in, 0, "n, c, h, w");
    return {Type(in[0].dtype(), pooled_shape(in, in[0].shape(), attrs))};
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node("MaxPool", {e.input_as(0, kOnnxFloat)},
                       {{"kernel_shape", list(attrs.kernel)},
                        {"strides", list(attrs.stride)},
                        {"pads", onnx_pads(attrs.padding)}}));
  }
};

struct MaxPool2dBackward {
  using Attrs = MaxPool2dAttrs;
  static constexpr Schema schema{
      .name = "max_pool2d_backward",
      .inputs = kGradAndX,
      .outputs = kOut,
      .doc = "Each gradient added at the place of the largest element of its window of x.",
      .saved_inputs = kSecond,
      .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_one_dtype(in);
    require_rank_4(in, 0, "n, c, oh, ow");
    require_rank_4(in, 1, "n, c, h, w");
    require_shape(in, pooled_shape(in, in[1].shape(), attrs));
    return {in[1]};
  }
  static void grad(Gradient& g, const Attrs& attrs);
};

struct MaxPool2dTake {
  using Attrs = MaxPool2dAttrs;
  static constexpr Schema schema{
      .name = "max_pool2d_take",
      .inputs = kValuesAndX,
      .outputs = kOut,
      .doc = "What values holds at the place of the largest element of each window of x.",
      .saved_inputs = kSecond,
      .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_one_dtype(in);
    require_rank_4(in, 0, "n, c, h, w");
    require_rank_4(in, 1, "n, c, h, w");
    require_shape(in, in[1].shape());
    return {Type(in[0].dtype(), pooled_shape(in, in[1].shape(), attrs))};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, apply<MaxPool2dBackward>(attrs, {}, g.grad(), g.input(1)));
  }
};

void MaxPool2d::grad(Gradient& g, const Attrs& attrs) {
  g.set(0, apply<MaxPool2dBackward>(attrs, {}, g.grad(), g.input(0)));
}
void MaxPool2dBackward::grad(Gradient& g, const Attrs& attrs) {
  g.set(0, apply<MaxPool2dTake>(attrs, {}, g.grad(), g.input(1)));
}

struct AvgPool2d {
  using Attrs = AvgPool2dAttrs;
  static constexpr Schema schema{.name = "avg_pool2d",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc = "The mean of each window of x[n, c, h, w].",
                                 .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_rank_4(in, 0, "n, c, h, w");
    return {Type(in[0].dtype(), pooled_shape(in, in[0].shape(), attrs))};
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node("AveragePool", {e.input_as(0, kOnnxFloat)},
                       {{"kernel_shape", list(attrs.kernel)},
                        {"strides", list(attrs.stride)},
                        {"pads", onnx_pads(attrs.padding)},
                        {"count_include_pad", std::int64_t{attrs.count_include_pad}}}));
  }
};

struct AvgPool2dBackward {
  using Attrs = AvgPool2dBackwardAttrs;
  static constexpr Schema schema{.name = "avg_pool2d_backward",
                                 .inputs = kGrad,
                                 .outputs = kOut,
                                 .doc = "The gradient of avg_pool2d: each element's share.",
                                 .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_rank_4(in, 0, "n, c, oh, ow");
    require_rank_4(in, attrs.shape);
    require_shape(in, pooled_shape(in, attrs.shape, attrs));
    return {Type(in[0].dtype(), attrs.shape)};
  }
  static void grad(Gradient& g, const Attrs& a) {
    g.set(0, apply<AvgPool2d>({a.kernel, a.stride, a.padding, a.count_include_pad}, {}, g.grad()));
  }
};

void AvgPool2d::grad(Gradient& g, const Attrs& a) {
  g.set(0,
        apply<AvgPool2dBackward>(
            {a.kernel, a.stride, a.padding, a.count_include_pad, g.input_shape(0)}, {}, g.grad()));
}

constexpr const OpInfo* kRows[] = {
    &op_info<Conv2d>,    &op_info<Conv2dBackwardInput>, &op_info<Conv2dBackwardWeight>,
    &op_info<MaxPool2d>, &op_info<MaxPool2dBackward>,   &op_info<MaxPool2dTake>,
    &op_info<AvgPool2d>, &op_info<AvgPool2dBackward>,
};

Ints ints(Pair pair) { return {pair.rows, pair.columns}; }
/// The stride of a pool: 0 means the kernel's size.
Ints stride_of(Pair stride, Pair kernel) {
  return {stride.rows == 0 ? kernel.rows : stride.rows,
          stride.columns == 0 ? kernel.columns : stride.columns};
}

}  // namespace

std::span<const OpInfo* const> conv_rows() { return kRows; }

}  // namespace ops

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Pair stride, Pair padding,
              Pair dilation, std::int64_t groups, Loc loc) {
  return apply<ops::Conv2d>({.stride = ops::ints(stride),
                             .padding = ops::ints(padding),
                             .dilation = ops::ints(dilation),
                             .groups = groups},
                            loc, x, weight, bias);
}
Tensor max_pool2d(const Tensor& x, Pair kernel, Pair stride, Pair padding, Loc loc) {
  return apply<ops::MaxPool2d>({.kernel = ops::ints(kernel),
                                .stride = ops::stride_of(stride, kernel),
                                .padding = ops::ints(padding)},
                               loc, x);
}
Tensor avg_pool2d(const Tensor& x, Pair kernel, Pair stride, Pair padding, bool count_include_pad,
                  Loc loc) {
  return apply<ops::AvgPool2d>({.kernel = ops::ints(kernel),
                                .stride = ops::stride_of(stride, kernel),
                                .padding = ops::ints(padding),
                                .count_include_pad = count_include_pad},
                               loc, x);
}

}  // namespace dyad
