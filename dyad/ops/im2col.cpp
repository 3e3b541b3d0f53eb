#include "dyad/ops/im2col.h"

#include "dyad/ops/attrs/resample.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"
#include "dyad/ops/window_support.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kColumns[] = {{"columns", kFloat}};

template <class A>
std::int64_t kernel_elements(const A& attrs) {
  Dim count = 1;  // which checks against overflow
  for (const std::int64_t k : attrs.kernel) count *= k;
  return count.number();
}

/// Checks the attributes and counts the windows over these sizes.
template <class A>
Dim window_count(const InferIn& in, const Shape& sizes, const A& attrs) {
  const std::size_t axes = sizes.size();
  require_spatial(in, axes);
  require_numbers(in, attrs.kernel, axes, 1, "kernel");
  const Shape low(attrs.low), high(attrs.high);
  const Windows windows{Shape(attrs.kernel), attrs.stride, attrs.dilation, low, high};
  require_windows(in, windows);
  Shape counts;
  append_window_counts(in, sizes, windows, counts);
  return counts.numel();
}

struct Im2Col {
  using Attrs = Im2ColAttrs;
  static constexpr Schema schema{.name = "im2col",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc = "The windows of x[n, c, ...] as columns.",
                                 .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Shape& x = in[0].shape();
    require_image(in, 0, attrs.kernel.size());
    const Dim windows = window_count(in, spatial_sizes(x), attrs);
    return {Type(in[0].dtype(), {x[0], x[1] * kernel_elements(attrs), windows})};
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    // A convolution of each channel alone, with one kernel for each of the kernel's elements.
    const Shape& x = e.input_type(0).shape();
    const std::int64_t count = kernel_elements(attrs);
    const DType dtype =
        e.input_type(0).dtype() == DType::bf16 ? DType::f32 : e.input_type(0).dtype();
    const Tensor one =
        to(reshape(arange(count), {count, 1}) == reshape(arange(count), {1, count}), dtype);
    Shape kernels{count, 1}, channels{x[0] * x[1], 1};
    for (const std::int64_t k : attrs.kernel) kernels.push_back(k);
    for (std::size_t i = 2; i < x.size(); ++i) channels.push_back(x[i]);
    const std::string alone = e.node("Reshape", {e.input_as(0, kOnnxImage), e.shape(channels)});
    const std::string windows =
        e.node("Conv", {alone, e.constant(contiguous(reshape(one, kernels)))},
               {{"strides", onnx_list(attrs.stride)},
                {"pads", onnx_pads(e, Shape(attrs.low), Shape(attrs.high))},
                {"dilations", onnx_list(attrs.dilation)}});
    e.output(0, e.node("Reshape", {windows, e.shape({x[0], x[1] * count, -1})}));
  }
};

struct Col2Im {
  using Attrs = Col2ImAttrs;
  static constexpr Schema schema{
      .name = "col2im",
      .inputs = kColumns,
      .outputs = kOut,
      .doc =
          "Columns[n, c * kernel elements, windows] added up in their places of an image "
          ".",
      .onnx = {"Col2Im", 18},
      .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Shape& columns = in[0].shape();
    if (columns.rank() != 3) {
      fail_shape(in, "columns must be [n, c * kernel elements, windows] but has " +
                         std::to_string(columns.rank()) + " axes");
    }
    const Dim windows = window_count(in, attrs.size, attrs);
    const std::int64_t count = kernel_elements(attrs);
    if (!(columns[1] % count == Dim(0))) {
      fail_shape(in, "the " + to_string(columns[1]) + " rows do not divide into kernels of " +
                         std::to_string(count) + " elements");
    }
    const bool known = columns[2].is_number() && windows.is_number();
    if (known && !columns[2].same_as(windows)) {
      fail_shape(in, "columns has " + to_string(columns[2]) + " windows but " + to_string(windows) +
                         " fit into size = " + to_string(attrs.size));
    }
    Shape shape{columns[0], columns[1] / count};
    for (const Dim side : attrs.size) shape.push_back(side);
    return {Type(in[0].dtype(), shape)};
  }
  static void grad(Gradient& g, const Attrs& a) {
    g.set(0, apply<Im2Col>({a.kernel, a.stride, a.low, a.high, a.dilation}, {}, g.grad()));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    if (e.opset() < 18) e.fail("ONNX has it as Col2Im from opset 18 on");
    e.output(0,
             e.node("Col2Im",
                    {e.input_as(0, kOnnxImage), e.shape(attrs.size), e.constant_i64(attrs.kernel)},
                    {{"dilations", onnx_list(attrs.dilation)},
                     {"pads", onnx_pads(e, Shape(attrs.low), Shape(attrs.high))},
                     {"strides", onnx_list(attrs.stride)}}));
  }
};

void Im2Col::grad(Gradient& g, const Attrs& a) {
  g.set(0, apply<Col2Im>(
               {spatial_sizes(g.input_shape(0)), a.kernel, a.stride, a.low, a.high, a.dilation}, {},
               g.grad()));
}

}  // namespace

std::span<const OpInfo* const> im2col_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Im2Col>, &op_info<Col2Im>};
  return kRows;
}

}  // namespace ops

Tensor im2col(const Tensor& x, const PerAxis& kernel, const PerAxis& dilation,
              const PerAxis& padding, const PerAxis& stride, Loc loc) {
  const std::size_t axes = x.defined() && x.rank() > 2 ? static_cast<std::size_t>(x.rank() - 2) : 2;
  return apply<ops::Im2Col>({kernel.over(axes), stride.over(axes), padding.over(axes),
                             padding.over(axes), dilation.over(axes)},
                            loc, x);
}
Tensor col2im(const Tensor& columns, const Shape& size, const PerAxis& kernel,
              const PerAxis& dilation, const PerAxis& padding, const PerAxis& stride, Loc loc) {
  const std::size_t axes = size.size();
  return apply<ops::Col2Im>({size, kernel.over(axes), stride.over(axes), padding.over(axes),
                             padding.over(axes), dilation.over(axes)},
                            loc, columns);
}

}  // namespace dyad
