#include "dyad/ops/conv.h"

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/ops/conv_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"
#include "dyad/ops/window_support.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kConvInputs[] = {
    {"x", kFloat}, {"weight", kFloat}, {"bias", kFloat, /*optional=*/true}};
constexpr ArgInfo kXAndWeight[] = {{"x", kFloat}, {"weight", kFloat}};

ConvBackwardAttrs backward_attrs(const ConvAttrs& a, const Shape& shape) {
  return {a.stride, a.low, a.high, a.dilation, a.groups, shape};
}
ConvBackwardAttrs with_shape(ConvBackwardAttrs attrs, const Shape& shape) {
  attrs.shape = shape;
  return attrs;
}
ConvAttrs forward_attrs(const ConvBackwardAttrs& a) {
  return {a.stride, a.low, a.high, a.dilation, a.groups};
}

std::string in_groups(Dim channels, std::int64_t groups) {
  if (groups == 1) return "";
  return " (" + to_string(channels) + " in each of " + std::to_string(groups) + " groups)";
}

template <class A>
Windows windows_of(const Shape& weight, const A& attrs) {
  return {spatial_sizes(weight), attrs.stride, attrs.dilation, attrs.low, attrs.high};
}

/// Checks what can be wrong with a weight and the attributes alone.
template <class A>
void check_weight(const InferIn& in, const Shape& weight, const A& attrs) {
  require_windows(in, windows_of(weight, attrs));
  if (attrs.groups < 1) {
    fail_value(in, "groups = " + std::to_string(attrs.groups) + " must be 1 or more");
  }
  if (!(weight[0] % attrs.groups == Dim(0))) {
    fail_shape(in, "the " + to_string(weight[0]) +
                       " channels of weight's first axis do not divide "
                       "into " +
                       std::to_string(attrs.groups) + " groups");
  }
}

/// The shape of a convolution's result; what does not fit is an error.
template <class A>
Shape convolved_shape(const InferIn& in, const Shape& x, const Shape& weight, const A& attrs) {
  check_weight(in, weight, attrs);
  if (!(x[1] == weight[1] * attrs.groups)) {
    fail_shape(in, "x has " + to_string(x[1]) + " channels but weight takes " +
                       to_string(weight[1] * attrs.groups) + in_groups(weight[1], attrs.groups));
  }
  Shape shape{x[0], weight[0]};
  append_window_counts(in, spatial_sizes(x), windows_of(weight, attrs), shape);
  return shape;
}

/// `shape` must have as many axes as images have: only a graph from a text can have it wrong.
void require_shape_rank(const InferIn& in, const Shape& shape, std::size_t axes) {
  if (shape.size() == axes + 2) return;
  fail_shape(in, "shape must have " + std::to_string(axes + 2) + " axes but has " +
                     std::to_string(shape.size()));
}

/// The attributes of ONNX's convolutions but for the padding.
template <class A>
OnnxAttrs onnx_windows(const A& attrs) {
  return {{"strides", onnx_list(attrs.stride)},
          {"dilations", onnx_list(attrs.dilation)},
          {"group", attrs.groups}};
}

/// An image with zeros around it, or less where a side is negative; sizes may be open.
std::string padded(OnnxEmitter& e, const std::string& image, const Shape& low, const Shape& high) {
  Shape sides;
  for (const Shape* side : {&low, &high}) {
    sides.push_back(0);
    sides.push_back(0);
    for (const Dim count : *side) sides.push_back(count);
  }
  return e.node("Pad", {image, e.shape(sides)});
}

struct Conv {
  using Attrs = ConvAttrs;
  static constexpr Schema schema{
      .name = "conv",
      .inputs = kConvInputs,
      .outputs = kOut,
      .doc =
          "Cross-correlation of x[n, c, ...] with weight[o, c / groups, ...], plus bias[o], over "
          "one to three spatial axes.",
      .saved_inputs = kFirst | kSecond,
      .batching = Batching::samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_one_dtype(in);
    require_image(in, 0, attrs.stride.size());
    require_image(in, 1, attrs.stride.size());
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
    for (int i = 0; i < e.input_count(); ++i) inputs.push_back(e.input_as(i, kOnnxImage));
    OnnxAttrs windows = onnx_windows(attrs);
    if (attrs.low.is_concrete() && attrs.high.is_concrete()) {
      windows.emplace_back("pads", onnx_pads(e, attrs.low, attrs.high));
    } else {
      inputs[0] = padded(e, inputs[0], attrs.low, attrs.high);
    }
    e.output(0, e.node("Conv", inputs, windows));
  }
};

struct ConvTranspose {
  using Attrs = ConvBackwardAttrs;
  static constexpr Schema schema{
      .name = "conv_transpose",
      .inputs = kXAndWeight,
      .outputs = kOut,
      .doc =
          "Transposed convolution of x[n, c, ...] with weight[c, o / groups, ...]: the gradient of "
          "conv with regard to its x.",
      .saved_inputs = kFirst | kSecond,
      .batching = Batching::samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_one_dtype(in);
    const std::size_t axes = attrs.stride.size();
    require_image(in, 0, axes);
    require_image(in, 1, axes);
    require_shape_rank(in, attrs.shape, axes);
    const Shape &x = in[0].shape(), &weight = in[1].shape();
    check_weight(in, weight, attrs);
    if (!(x[1] == weight[0])) {
      fail_shape(in, "x has " + to_string(x[1]) + " channels but weight takes " +
                         to_string(weight[0]) + ", its first size");
    }
    require_shape(in, convolved_shape(in, attrs.shape, weight, attrs));
    return {Type(in[0].dtype(), attrs.shape)};
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const Shape &x = e.input_type(0).shape(), &weight = e.input_type(1).shape();
    // `missing` is what the result has beyond what all windows reach, `more` what of it lies beyond
    // the padding.
    Shape missing, more;
    for (std::size_t i = 0; i < attrs.stride.size(); ++i) {
      const Dim reached =
          (x[i + 2] - 1) * attrs.stride[i] + (weight[i + 2] - 1) * attrs.dilation[i] + 1;
      missing.push_back(attrs.shape[i + 2] + attrs.low[i] - reached);
      more.push_back(missing.back() + attrs.high[i]);
    }
    const std::vector<std::string> inputs{e.input_as(0, kOnnxImage), e.input_as(1, kOnnxImage)};
    OnnxAttrs windows = onnx_windows(attrs);
    if (more.is_concrete() && attrs.low.is_concrete() && attrs.high.is_concrete()) {
      const auto numbers = more.numbers();
      windows.emplace_back("pads", onnx_pads(e, attrs.low, attrs.high));
      windows.emplace_back("output_padding",
                           std::vector<std::int64_t>(numbers.begin(), numbers.end()));
      return e.output(0, e.node("ConvTranspose", inputs, windows));
    }
    Shape before;
    for (const Dim side : attrs.low) before.push_back(-side);
    e.output(0, padded(e, e.node("ConvTranspose", inputs, windows), before, missing));
  }
};

struct ConvBackwardWeight {
  using Attrs = ConvBackwardAttrs;
  static constexpr Schema schema{.name = "conv_backward_weight",
                                 .inputs = kGradAndX,
                                 .outputs = kOut,
                                 .doc = "The gradient of conv with regard to the weight.",
                                 .saved_inputs = kFirst | kSecond};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_one_dtype(in);
    const std::size_t axes = attrs.stride.size();
    require_image(in, 0, axes);
    require_image(in, 1, axes);
    require_shape_rank(in, attrs.shape, axes);
    require_shape(in, convolved_shape(in, in[1].shape(), attrs.shape, attrs));
    return {Type(in[0].dtype(), attrs.shape)};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc);
  static void grad(Gradient& g, const Attrs& attrs);
};

Tensor backward_weight(const ConvBackwardAttrs& attrs, const Tensor& grad, const Tensor& x) {
  const Tensor* inputs[] = {&grad, &x};
  return apply_with_parts<ConvBackwardWeight>(attrs, {}, inputs)[0];
}

void Conv::grad(Gradient& g, const Attrs& attrs) {
  if (g.needs(0)) {
    g.set(0,
          apply<ConvTranspose>(backward_attrs(attrs, g.input_shape(0)), {}, g.grad(), g.input(1)));
  }
  if (g.needs(1)) {
    g.set(1, backward_weight(backward_attrs(attrs, g.input_shape(1)), g.grad(), g.input(0)));
  }
  if (g.input_count() > 2 && g.needs(2)) {
    Ints axes;
    for (int i = 0; i < g.output_shape().rank(); ++i) {
      if (i != 1) axes.push_back(i);
    }
    g.set(2, sum(g.grad(), axes));
  }
}

// Both are linear in each operand, with the forward convolution and the other one as derivatives.
void ConvTranspose::grad(Gradient& g, const Attrs& attrs) {
  if (g.needs(0)) {
    g.set(0, apply<Conv>(forward_attrs(attrs), {}, g.grad(), g.input(1), Tensor()));
  }
  if (g.needs(1)) {
    g.set(1, backward_weight(with_shape(attrs, g.input_shape(1)), g.input(0), g.grad()));
  }
}

/// A convolution that takes channels for samples and the gradient for the weight: what the stride
/// was is the dilation.
std::vector<Tensor> ConvBackwardWeight::parts(const Attrs& a, TensorRefs in, Loc loc) {
  const Tensor& grad = *in[0];
  const Shape x = sizes_of(*in[1], loc);
  const Dim in_group = x[1] / a.groups;
  Shape split{x[0], Dim(a.groups), in_group}, samples{in_group, x[0] * a.groups};
  Ints order{2, 1, 0};
  for (int i = 2; i < x.rank(); ++i) {
    split.push_back(x[static_cast<std::size_t>(i)]);
    samples.push_back(x[static_cast<std::size_t>(i)]);
    order.push_back(i + 1);
  }
  const Tensor channels = reshape(permute(reshape(*in[1], split), order), samples);
  Tensor out = apply<Conv>({.stride = a.dilation,
                            .low = a.low,
                            .high = a.high,
                            .dilation = a.stride,
                            .groups = a.groups},
                           loc, channels, transpose(grad, 0, 1), Tensor());
  for (int i = 2; i < x.rank(); ++i) out = slice(out, i, 0, a.shape[static_cast<std::size_t>(i)]);
  return {transpose(out, 0, 1)};
}

void ConvBackwardWeight::grad(Gradient& g, const Attrs& attrs) {
  if (g.needs(0)) {
    g.set(0, apply<Conv>(forward_attrs(attrs), {}, g.input(1), g.grad(), Tensor()));
  }
  if (g.needs(1)) {
    g.set(1, apply<ConvTranspose>(with_shape(attrs, g.input_shape(1)), {}, g.input(0), g.grad()));
  }
}

Tensor convolve(std::string_view name, std::size_t axes, const Tensor& x, const Tensor& weight,
                const Tensor& bias, const PerAxis& stride, const Padding& padding,
                const PerAxis& dilation, std::int64_t groups, Loc loc) {
  return of_images(x, axes, loc, [&](const Tensor& images) {
    return apply<Conv>(
        conv_attrs(name, axes, images, weight, stride, padding, dilation, groups, loc), loc, images,
        weight, bias);
  });
}

/// The shape of a transposed convolution's result; rank 0 when an operand is of no use, which infer
/// says better.
Shape transposed_shape(std::string_view name, const Tensor& x, const Tensor& weight,
                       const ConvBackwardAttrs& a, bool same, const Ints& output_padding, Loc loc) {
  const std::size_t axes = a.stride.size();
  const Shape from = spatial_sizes(x, axes, loc), kernel = spatial_sizes(weight, axes, loc);
  if (from.size() != axes || kernel.size() != axes || a.low.size() != axes ||
      a.high.size() != axes || a.dilation.size() != axes) {
    return {};
  }
  Shape shape{x.size(0, loc), weight.size(1, loc) * a.groups};
  for (std::size_t i = 0; i < axes; ++i) {
    const bool listed = output_padding.size() == axes;
    if (!listed || output_padding[i] < 0 ||
        output_padding[i] >= std::max<std::int64_t>(a.stride[i], 1)) {
      throw ValueError(std::string(name) +
                           ": output_padding must be one number for all spatial axes or one for "
                           "each, from 0 to stride - 1",
                       loc.user());
    }
    shape.push_back(same ? from[i] * a.stride[i]
                         : (from[i] - 1) * a.stride[i] - a.low[i] - a.high[i] +
                               (kernel[i] - 1) * a.dilation[i] + 1 + output_padding[i]);
  }
  return shape;
}

Tensor transposed_images(std::string_view name, std::size_t axes, const Tensor& x,
                         const Tensor& weight, const Tensor& bias, const PerAxis& stride,
                         const Padding& padding, const PerAxis& output_padding, std::int64_t groups,
                         const PerAxis& dilation, Loc loc) {
  ConvBackwardAttrs attrs{
      .stride = stride.over(axes), .dilation = dilation.over(axes), .groups = groups, .shape = {}};
  // "same" is the padding of the convolution that brings size * stride to size.
  Shape sizes;
  if (!padding.name().empty()) {
    sizes = spatial_sizes(x, axes, loc);
    for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = sizes[i] * attrs.stride[i];
  }
  const Sides sides = sides_of(padding, name, loc, axes, sizes, spatial_sizes(weight, axes, loc),
                               attrs.stride, attrs.dilation);
  attrs.low = sides.low;
  attrs.high = sides.high;
  attrs.shape = transposed_shape(name, x, weight, attrs, padding.name().starts_with("same"),
                                 output_padding.over(axes), loc);
  Tensor out = apply<ConvTranspose>(attrs, loc, x, weight);
  if (!bias.defined()) return out;
  if (bias.rank() != 1 || !(bias.size(0, loc) == out.size(1, loc))) {
    throw ShapeError(std::string(name) + ": bias must be [" + size_text(out.size(1, loc)) +
                         "], the output channels, but is " + type_string(bias),
                     loc.user());
  }
  Shape channels(axes + 1, 1);
  channels[0] = -1;
  return add(out, reshape(bias, channels, loc), loc);
}

Tensor convolve_transposed(std::string_view name, std::size_t axes, const Tensor& x,
                           const Tensor& weight, const Tensor& bias, const PerAxis& stride,
                           const Padding& padding, const PerAxis& output_padding,
                           std::int64_t groups, const PerAxis& dilation, Loc loc) {
  return of_images(x, axes, loc, [&](const Tensor& images) {
    return transposed_images(name, axes, images, weight, bias, stride, padding, output_padding,
                             groups, dilation, loc);
  });
}

}  // namespace

std::span<const OpInfo* const> conv_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Conv>, &op_info<ConvTranspose>,
                                            &op_info_with_parts<ConvBackwardWeight>};
  return kRows;
}

ConvAttrs conv_attrs(std::string_view name, std::size_t axes, const Tensor& x, const Tensor& weight,
                     const PerAxis& stride, const Padding& padding, const PerAxis& dilation,
                     std::int64_t groups, Loc loc) {
  ConvAttrs attrs{.stride = stride.over(axes), .dilation = dilation.over(axes), .groups = groups};
  const bool named = !padding.name().empty();
  const Sides sides =
      sides_of(padding, name, loc, axes, named ? spatial_sizes(x, axes, loc) : Shape(),
               named ? spatial_sizes(weight, axes, loc) : Shape(), attrs.stride, attrs.dilation);
  attrs.low = sides.low;
  attrs.high = sides.high;
  return attrs;
}

Shape conv_result(const InferIn& in, std::size_t x, std::size_t weight, const ConvAttrs& attrs) {
  require_image(in, x, attrs.stride.size());
  require_image(in, weight, attrs.stride.size());
  return convolved_shape(in, in[x].shape(), in[weight].shape(), attrs);
}

OnnxAttrs onnx_conv(OnnxEmitter& e, const ConvAttrs& attrs) {
  OnnxAttrs made = onnx_windows(attrs);
  made.emplace_back("pads", onnx_pads(e, attrs.low, attrs.high));
  return made;
}

}  // namespace ops

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const PerAxis& stride,
              const Padding& padding, const PerAxis& dilation, std::int64_t groups, Loc loc) {
  return ops::convolve("conv1d", 1, x, weight, bias, stride, padding, dilation, groups, loc);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const PerAxis& stride,
              const Padding& padding, const PerAxis& dilation, std::int64_t groups, Loc loc) {
  return ops::convolve("conv2d", 2, x, weight, bias, stride, padding, dilation, groups, loc);
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const PerAxis& stride,
              const Padding& padding, const PerAxis& dilation, std::int64_t groups, Loc loc) {
  return ops::convolve("conv3d", 3, x, weight, bias, stride, padding, dilation, groups, loc);
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const PerAxis& stride, const Padding& padding,
                        const PerAxis& output_padding, std::int64_t groups, const PerAxis& dilation,
                        Loc loc) {
  return ops::convolve_transposed("conv_transpose1d", 1, x, weight, bias, stride, padding,
                                  output_padding, groups, dilation, loc);
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const PerAxis& stride, const Padding& padding,
                        const PerAxis& output_padding, std::int64_t groups, const PerAxis& dilation,
                        Loc loc) {
  return ops::convolve_transposed("conv_transpose2d", 2, x, weight, bias, stride, padding,
                                  output_padding, groups, dilation, loc);
}
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const PerAxis& stride, const Padding& padding,
                        const PerAxis& output_padding, std::int64_t groups, const PerAxis& dilation,
                        Loc loc) {
  return ops::convolve_transposed("conv_transpose3d", 3, x, weight, bias, stride, padding,
                                  output_padding, groups, dilation, loc);
}

}  // namespace dyad
