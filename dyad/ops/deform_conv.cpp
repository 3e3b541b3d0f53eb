#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/ops/conv.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/grid_sample.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"
#include "dyad/ops/window_support.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kDeformInputs[] = {{"x", kFloat},
                                     {"offset", kFloat},
                                     {"weight", kFloat},
                                     {"bias", kFloat, /*optional=*/true},
                                     {"mask", kFloat, /*optional=*/true}};

struct DeformConv2d {
  using Attrs = ConvAttrs;
  static constexpr Schema schema{
      .name = "deform_conv2d",
      .inputs = kDeformInputs,
      .outputs = kOut,
      .doc =
          "Convolution of x[n, c, h, w] whose kernel elements are moved by offset, and weighed "
          "by mask, at each position."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_one_dtype(in);
    require_image(in, 0, 2);
    require_image(in, 2, 2);
    const Shape &x = in[0].shape(), &weight = in[2].shape();
    const Windows windows{spatial_sizes(weight), attrs.stride, attrs.dilation, attrs.low,
                          attrs.high};
    require_windows(in, windows);
    if (attrs.groups < 1 || !(x[1] == weight[1] * attrs.groups) ||
        !(weight[0] % attrs.groups == Dim(0))) {
      fail_shape(in, "x has " + to_string(x[1]) + " channels but weight takes " +
                         to_string(weight[1]) + " in each of " + std::to_string(attrs.groups) +
                         " groups, which must divide its " + to_string(weight[0]) + " outputs");
    }
    Shape shape{x[0], weight[0]};
    append_window_counts(in, spatial_sizes(x), windows, shape);
    const Dim elements = weight[2] * weight[3];
    require_moves(in, 1, shape, elements * 2, x[1]);
    if (in.has(3) && !(in[3].rank() == 1 && in[3].shape()[0] == weight[0])) {
      fail_shape(in, "bias must be [" + to_string(weight[0]) + "], the output channels, but is " +
                         to_string(in[3].shape()));
    }
    if (in.has(4)) {
      require_moves(in, 4, shape, elements, x[1]);
      if (!(in[4].shape()[1] * 2 == in[1].shape()[1])) {
        fail_shape(in, "mask must have half the channels of offset");
      }
    }
    return {Type(in[0].dtype(), shape)};
  }
  static std::vector<Tensor> expand(const Attrs& a, TensorRefs given, Loc loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor &x = *in[0], &offset = *in[1], &weight = *in[2];
      const Shape xs = sizes_of(x, loc), ws = sizes_of(weight, loc), os = sizes_of(offset, loc);
      const Dim elements = ws[2] * ws[3], sets = os[1] / (elements * 2), oh = os[2], ow = os[3];
      // Positions of kernel elements: [n, sets, elements, oh, ow] each.
      const Tensor moves = reshape(offset, {xs[0], sets, elements, 2, oh, ow});
      const auto place = [&](std::int64_t axis) {
        const auto i = static_cast<std::size_t>(axis);
        const Dim count = axis == 0 ? oh : ow, kernel = ws[2 + i];
        const Tensor window = arange(count, x.dtype(), loc) * a.stride[i] - size_arg(a.low[i], loc);
        const Tensor element = arange(kernel, x.dtype(), loc) * a.dilation[i];
        const Shape along = axis == 0 ? Shape{kernel, 1} : Shape{1, kernel};
        const Tensor elements_of =
            reshape(dyad::expand(reshape(element, along), {ws[2], ws[3]}), {elements, 1, 1});
        const Shape line = axis == 0 ? Shape{1, count, 1} : Shape{1, 1, count};
        const Tensor at = select(moves, 3, axis) + (elements_of + reshape(window, line));
        return (at * 2 + 1) / size_arg(xs[2 + i], loc) - 1;
      };
      const Tensor grid =
          reshape(stack({place(1), place(0)}, -1), {xs[0] * sets, elements * oh, ow, 2});
      const Tensor image = reshape(x, {xs[0] * sets, xs[1] / sets, xs[2], xs[3]});
      Tensor columns = grid_sample(image, grid, "bilinear", "zeros", false, loc);
      if (in.size() > 4 && in[4]->defined()) {
        const Tensor mask = reshape(*in[4], {xs[0], sets, 1, elements, oh, ow});
        columns = reshape(columns, {xs[0], sets, xs[1] / sets, elements, oh, ow}) * mask;
      }
      columns = reshape(columns, {xs[0], a.groups, ws[1] * elements, oh * ow});
      const Tensor weights = reshape(weight, {a.groups, ws[0] / a.groups, ws[1] * elements});
      const Tensor y = reshape(matmul(weights, columns), {xs[0], ws[0], oh, ow});
      const bool biased = in.size() > 3 && in[3]->defined();
      return {biased ? y + reshape(*in[3], {-1, 1, 1}) : y};
    });
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const Shape &offset = e.input_type(1).shape(), &weight = e.input_type(2).shape();
    const Dim sets = offset[1] / (weight[2] * weight[3] * 2);
    if (e.opset() < 19 || sets.is_symbolic()) return e.parts();
    const auto optional = [&](int i) {
      return i < e.input_count() && !e.input(i).empty() ? e.input_as(i, kOnnxImage) : std::string();
    };
    e.output(0, e.node("DeformConv",
                       {e.input_as(0, kOnnxImage), e.input_as(2, kOnnxImage),
                        e.input_as(1, kOnnxImage), optional(3), optional(4)},
                       {{"strides", onnx_list(attrs.stride)},
                        {"pads", onnx_pads(e, attrs.low, attrs.high)},
                        {"dilations", onnx_list(attrs.dilation)},
                        {"group", attrs.groups},
                        {"offset_group", sets.number()}}));
  }

 private:
  /// Input i must be [n, sets * count, oh, ow], where the sets divide the channels of x.
  static void require_moves(const InferIn& in, std::size_t i, const Shape& out, Dim count,
                            Dim channels) {
    const Shape& shape = in[i].shape();
    const std::string name(in.op.inputs[i].name);
    const bool fits =
        shape.rank() == 4 && shape[0] == out[0] && shape[2] == out[2] && shape[3] == out[3];
    if (!fits || !(shape[1] % count == Dim(0)) || !(channels % (shape[1] / count) == Dim(0))) {
      fail_shape(in, name + " must be [" + to_string(out[0]) + ", " + to_string(count) +
                         " for each of one or more sets that divide the channels of x, " +
                         to_string(out[2]) + ", " + to_string(out[3]) + "] but is " +
                         to_string(shape));
    }
  }
};

}  // namespace

std::span<const OpInfo* const> deform_conv_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<DeformConv2d>};
  return kRows;
}

}  // namespace ops

Tensor deform_conv2d(const Tensor& x, const Tensor& offset, const Tensor& weight,
                     const Tensor& bias, const PerAxis& stride, const Padding& padding,
                     const PerAxis& dilation, const Tensor& mask, std::int64_t groups, Loc loc) {
  ops::ConvAttrs attrs{.stride = stride.over(2), .dilation = dilation.over(2), .groups = groups};
  const bool named = !padding.name().empty();
  const ops::Sides sides = ops::sides_of(
      padding, "deform_conv2d", loc, 2, named ? ops::spatial_sizes(x, 2, loc) : Shape(),
      named ? ops::spatial_sizes(weight, 2, loc) : Shape(), attrs.stride, attrs.dilation);
  attrs.low = sides.low;
  attrs.high = sides.high;
  return apply<ops::DeformConv2d>(attrs, loc, x, offset, weight, bias, mask);
}

}  // namespace dyad
