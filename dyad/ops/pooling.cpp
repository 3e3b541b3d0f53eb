#include "dyad/ops/pooling.h"

#include <cmath>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/pool_parts.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/reduce_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"
#include "dyad/ops/window_support.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kGrad[] = {{"grad", kFloat}};
constexpr ArgInfo kValuesAndX[] = {{"values", kFloat}, {"x", kFloat}};
constexpr ArgInfo kXAndIndices[] = {{"x", kAny}, {"indices", set_of(DType::i64)}};

AvgPoolBackwardAttrs backward_attrs(const PoolAttrs& a, const Shape& shape) {
  return {a.kernel,  a.stride,   a.low, a.high, a.dilation, a.ceil_mode, a.count_include_pad,
          a.divisor, a.adaptive, shape};
}
PoolAttrs forward_attrs(const AvgPoolBackwardAttrs& a) {
  return {a.kernel,  a.stride,  a.low, a.high, a.dilation, a.ceil_mode, a.count_include_pad,
          a.divisor, a.adaptive};
}

/// The number of spatial axes that the attributes are for.
template <class A>
std::size_t axes_of(const A& attrs) {
  return attrs.adaptive.empty() ? attrs.kernel.size() : attrs.adaptive.size();
}

template <class A>
Shape pooled_shape(const InferIn& in, const Shape& x, const A& attrs) {
  Shape shape{x[0], x[1]};
  if (!attrs.adaptive.empty()) {
    for (const Dim size : attrs.adaptive) {
      if (size.is_number() && size.number() < 1) {
        fail_value(in, "size must be 1 or more along each spatial axis");
      }
      shape.push_back(size);
    }
    for (std::size_t i = 2; i < x.size(); ++i) {
      if (x[i].is_number() && x[i].number() == 0) {
        fail_shape(in, "x is empty along axis " + std::to_string(i) + ", so windows are too");
      }
    }
    return shape;
  }
  const std::size_t axes = attrs.kernel.size();
  require_numbers(in, attrs.kernel, axes, 1, "kernel");
  const Windows windows{Shape(attrs.kernel), attrs.stride, attrs.dilation,
                        attrs.low,           attrs.high,   attrs.ceil_mode};
  require_windows(in, windows);
  for (std::size_t i = 0; i < axes; ++i) {
    const Dim reach = (Dim(attrs.kernel[i]) - 1) * attrs.dilation[i] + 1;
    for (const Dim side : {attrs.low[i], attrs.high[i]}) {
      if (side.is_symbolic() || side < reach) continue;
      fail_value(in, "padding = " + to_string(side) + " must be less than the kernel's reach, " +
                         to_string(reach) + "; pad() takes any");
    }
  }
  append_window_counts(in, spatial_sizes(x), windows, shape);
  return shape;
}

/// What a maximum is taken of: ONNX has it for floats and integers of 8 bits.
std::string onnx_numbers(OnnxEmitter& e) {
  const DType dtype = e.input_type(0).dtype();
  if (is_floating(dtype)) return e.input_as(0, kOnnxImage);
  const bool small = dtype == DType::i8 || dtype == DType::u8;
  return small ? e.input(0) : e.cast(e.input(0), DType::f64);
}

/// Pools of adaptive size as `reduce` nodes of slices, axis by axis: each window is a rectangle.
std::string onnx_adaptive(OnnxEmitter& e, std::string_view reduce, std::string value,
                          const Shape& x, const Shape& adaptive) {
  for (std::size_t i = 0; i < adaptive.size(); ++i) {
    const std::size_t axis = i + 2;
    if (adaptive[i].is_symbolic()) e.fail("its size is open; fix it to a number");
    const Dim in = x[axis];
    const std::int64_t out = adaptive[i].number();
    const std::int64_t axes[] = {static_cast<std::int64_t>(axis)};
    std::vector<std::string> parts;
    for (std::int64_t o = 0; o < out; ++o) {
      const std::string first = e.shape({Dim(o) * in / out}),
                        end = e.shape({ceil_div(Dim(o + 1) * in, out)});
      const std::string window = e.node("Slice", {value, first, end, e.constant_i64(axes)});
      parts.push_back(reduction_node(e, reduce, window, {.axes = {axes[0]}, .keepdim = true}));
    }
    value = e.node("Concat", parts, {{"axis", axes[0]}});
  }
  return value;
}

/// The attributes of ONNX's pools.
OnnxAttrs onnx_windows(OnnxEmitter& e, const PoolAttrs& attrs) {
  if (!attrs.adaptive.empty()) e.fail("ONNX has no pools of adaptive size");
  OnnxAttrs made{{"kernel_shape", onnx_list(attrs.kernel)},
                 {"strides", onnx_list(attrs.stride)},
                 {"pads", onnx_pads(e, attrs.low, attrs.high)}};
  if (attrs.ceil_mode) made.emplace_back("ceil_mode", std::int64_t{1});
  for (const std::int64_t step : attrs.dilation) {
    if (step == 1) continue;
    made.emplace_back("dilations", onnx_list(attrs.dilation));
    break;
  }
  return made;
}

bool is_global(const PoolAttrs& attrs) {
  for (const Dim size : attrs.adaptive) {
    if (!size.is_number() || size.number() != 1) return false;
  }
  return !attrs.adaptive.empty();
}

// --- max -----------------------------------------------------------------------------------------

struct MaxPool {
  using Attrs = PoolAttrs;
  static constexpr Schema schema{.name = "max_pool",
                                 .inputs = kUnaryNumber,
                                 .outputs = kOut,
                                 .doc = "The largest of each window of x[n, c, ...].",
                                 .saved_inputs = kFirst,
                                 .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_image(in, 0, axes_of(attrs));
    return {Type(in[0].dtype(), pooled_shape(in, in[0].shape(), attrs))};
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::string x = onnx_numbers(e);
    e.output(0, is_global(attrs) ? e.node("GlobalMaxPool", {x})
                : attrs.adaptive.empty()
                    ? e.node("MaxPool", {x}, onnx_windows(e, attrs))
                    : onnx_adaptive(e, "ReduceMax", x, e.input_type(0).shape(), attrs.adaptive));
  }
};

struct MaxPoolIndices {
  using Attrs = PoolAttrs;
  static constexpr Schema schema{
      .name = "max_pool_indices",
      .inputs = kUnaryNumber,
      .outputs = kIndexOut,
      .doc =
          "The position of the largest of each window of x[n, c, ...], numbered row-major over "
          "the spatial axes.",
      .samples = {.differentiable = false},
      .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_image(in, 0, axes_of(attrs));
    return {Type(DType::i64, pooled_shape(in, in[0].shape(), attrs))};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    // ONNX numbers the elements of the whole tensor.
    const Shape& x = e.input_type(0).shape();
    if (is_global(attrs)) {
      const std::string planes = e.node("Reshape", {onnx_numbers(e), e.shape({x[0], x[1], -1})});
      const std::string at = e.node("ArgMax", {planes}, {{"axis", std::int64_t{2}}});
      return e.output(0, e.node("Reshape", {at, e.shape(e.output_type().shape())}));
    }
    const std::string places =
        e.node_multi("MaxPool", {onnx_numbers(e)}, onnx_windows(e, attrs), 2)[1];
    e.output(0, e.node("Mod", {places, e.size(spatial_sizes(x).numel())}));
  }
};

/// Where the largest elements are, axes of images made one.
struct Places {
  Shape shape, pooled, all, some;  ///< of x and of the result; [n, c, elements], [n, c, windows]
  Tensor index;

  Places(const PoolAttrs& attrs, const Tensor& x, Loc loc) : shape(sizes_of(x, loc)) {
    const Tensor at = apply<MaxPoolIndices>(attrs, loc, x);
    all = {shape[0], shape[1], spatial_sizes(shape).numel()};
    pooled = sizes_of(at, loc);
    some = {shape[0], shape[1], spatial_sizes(pooled).numel()};
    index = reshape(at, some);
  }
};

/// MaxPoolBackward or MaxPoolTake.
template <class Op>
Tensor of_places(const PoolAttrs& attrs, const Tensor& values, const Tensor& x) {
  const Tensor* inputs[] = {&values, &x};
  return apply_with_parts<Op>(attrs, {}, inputs)[0];
}

struct MaxPoolBackward {
  using Attrs = PoolAttrs;
  static constexpr Schema schema{
      .name = "max_pool_backward",
      .inputs = kGradAndX,
      .outputs = kOut,
      .doc = "Each gradient added at the place of the largest element of its window of x.",
      .saved_inputs = kSecond,
      .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_one_dtype(in);
    require_image(in, 0, axes_of(attrs));
    require_image(in, 1, axes_of(attrs));
    require_shape(in, pooled_shape(in, in[1].shape(), attrs));
    return {in[1]};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc) {
    const Places at(attrs, *in[1], loc);
    const Tensor none = zeros(at.all, in[0]->dtype());
    return {reshape(scatter_add(none, 2, at.index, reshape(*in[0], at.some)), at.shape)};
  }
  static void grad(Gradient& g, const Attrs& attrs);
};

struct MaxPoolTake {
  using Attrs = PoolAttrs;
  static constexpr Schema schema{
      .name = "max_pool_take",
      .inputs = kValuesAndX,
      .outputs = kOut,
      .doc = "What values holds at the place of the largest element of each window of x.",
      .saved_inputs = kSecond,
      .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_one_dtype(in);
    require_image(in, 0, axes_of(attrs));
    require_image(in, 1, axes_of(attrs));
    require_shape(in, in[1].shape());
    return {Type(in[0].dtype(), pooled_shape(in, in[1].shape(), attrs))};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc) {
    const Places at(attrs, *in[1], loc);
    const Tensor taken = gather(reshape(*in[0], at.all), 2, at.index);
    return {reshape(taken, at.pooled)};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, of_places<MaxPoolBackward>(attrs, g.grad(), g.input(1)));
  }
};

void MaxPool::grad(Gradient& g, const Attrs& attrs) {
  g.set(0, of_places<MaxPoolBackward>(attrs, g.grad(), g.input(0)));
}
void MaxPoolBackward::grad(Gradient& g, const Attrs& attrs) {
  g.set(0, of_places<MaxPoolTake>(attrs, g.grad(), g.input(1)));
}

struct MaxUnpool {
  using Attrs = UnpoolAttrs;
  static constexpr Schema schema{
      .name = "max_unpool",
      .inputs = kXAndIndices,
      .outputs = kOut,
      .doc = "Zeros with x[n, c, ...] at the indices that max pooling gave.",
      .saved_inputs = kSecond,
      .checks = kSecond,
      .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Shape& x = in[0].shape();
    if (x.rank() < 3) fail_shape(in, "x must be [n, c, ...] with spatial axes");
    if (attrs.shape.size() != x.size()) {
      fail_value(in, "size must have one number for each of the " + std::to_string(x.size() - 2) +
                         " spatial axes");
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (in[1].rank() == x.rank() && in[1].shape()[i] == x[i]) continue;
      fail_shape(in, "indices must have the shape of x, " + to_string(x) + ", but are " +
                         to_string(in[1].shape()));
    }
    return {Type(in[0].dtype(), attrs.shape)};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Shape& x = g.input_shape(0);
    const Dim planes = spatial_sizes(attrs.shape).numel(), places = spatial_sizes(x).numel();
    const Tensor taken = gather(reshape(g.grad(), {x[0], x[1], planes}), 2,
                                reshape(g.input(1), {x[0], x[1], places}));
    g.set(0, reshape(taken, x));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const Shape& x = e.input_type(0).shape();
    // ONNX numbers the elements of the whole tensor: each channel's follow those before it.
    const std::string planes =
        e.node("Range", {e.scalar(0, DType::i64), e.size(x[0] * x[1]), e.scalar(1, DType::i64)});
    Shape channels(x.size(), 1);
    channels[0] = x[0];
    channels[1] = x[1];
    const std::string first = e.node(
        "Reshape",
        {e.node("Mul", {planes, e.size(spatial_sizes(attrs.shape).numel())}), e.shape(channels)});
    const std::vector<std::int64_t> ones(x.size() - 2, 1);
    e.output(0, e.node("MaxUnpool",
                       {e.input_as(0, kOnnxImage), e.node("Add", {e.input(1), first}),
                        e.shape(attrs.shape)},
                       {{"kernel_shape", ones}, {"strides", ones}}));
  }
};

// --- mean ----------------------------------------------------------------------------------------

struct AvgPool {
  using Attrs = PoolAttrs;
  static constexpr Schema schema{.name = "avg_pool",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc = "The mean of each window of x[n, c, ...].",
                                 .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_image(in, 0, axes_of(attrs));
    if (attrs.divisor < 0) fail_value(in, "divisor must be above 0, or 0 for none");
    return {Type(in[0].dtype(), pooled_shape(in, in[0].shape(), attrs))};
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::string x = e.input_as(0, kOnnxImage);
    if (is_global(attrs) && attrs.divisor == 0) {
      return e.output(0, e.node("GlobalAveragePool", {x}));
    }
    if (!attrs.adaptive.empty() && attrs.divisor == 0) {
      return e.output(0,
                      onnx_adaptive(e, "ReduceMean", x, e.input_type(0).shape(), attrs.adaptive));
    }
    OnnxAttrs windows = onnx_windows(e, attrs);
    const bool dilated = attrs.dilation != Ints(attrs.dilation.size(), 1);
    if (dilated && e.opset() < 19) e.fail("AveragePool has dilation from opset 19 on");
    // With a divisor, the mean over all elements of the kernel is the sum but for a factor; windows
    // that reach beyond the padding have fewer.
    if (attrs.divisor > 0 && attrs.ceil_mode) e.fail("AveragePool has no divisor of its own");
    const bool include = attrs.count_include_pad || attrs.divisor > 0;
    windows.emplace_back("count_include_pad", std::int64_t{include});
    std::string mean = e.node("AveragePool", {x}, windows);
    if (attrs.divisor > 0) {
      double count = 1;
      for (const std::int64_t k : attrs.kernel) count *= static_cast<double>(k);
      const DType dtype =
          contains(kOnnxImage, e.input_type(0).dtype()) ? e.input_type(0).dtype() : DType::f32;
      mean = e.node("Mul", {mean, e.scalar(count / static_cast<double>(attrs.divisor), dtype)});
    }
    e.output(0, mean);
  }
};

struct AvgPoolBackward {
  using Attrs = AvgPoolBackwardAttrs;
  static constexpr Schema schema{.name = "avg_pool_backward",
                                 .inputs = kGrad,
                                 .outputs = kOut,
                                 .doc = "The gradient of avg_pool: each element's share.",
                                 .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_image(in, 0, axes_of(attrs));
    if (attrs.shape.size() != axes_of(attrs) + 2) {
      fail_shape(in, "shape must have " + std::to_string(axes_of(attrs) + 2) + " axes but has " +
                         std::to_string(attrs.shape.size()));
    }
    require_shape(in, pooled_shape(in, attrs.shape, attrs));
    return {Type(in[0].dtype(), attrs.shape)};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc) {
    return {avg_pool_backward_parts(attrs, *in[0], loc)};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, apply<AvgPool>(forward_attrs(attrs), {}, g.grad()));
  }
};

Tensor spread(const PoolAttrs& attrs, const Shape& shape, const Tensor& grad) {
  const Tensor* inputs[] = {&grad};
  return apply_with_parts<AvgPoolBackward>(backward_attrs(attrs, shape), {}, inputs)[0];
}

void AvgPool::grad(Gradient& g, const Attrs& attrs) {
  g.set(0, spread(attrs, g.input_shape(0), g.grad()));
}

// --- powers --------------------------------------------------------------------------------------

/// The gradient of x in y = (sum of |x|^p)^(1/p), p finite: `spread` brings what belongs to y to
/// each x that it was made from. 0 where y is.
template <class Spread>
Tensor power_sum_grad(const Tensor& grad, const Tensor& x, const Tensor& y, double p,
                      Spread spread) {
  const Tensor zero = y == 0;
  const Tensor share = where(zero, 0, grad * pow(where(zero, 1, y), 1 - p));
  if (p == 1) return sign(x) * spread(share);
  const Tensor none = x == 0;
  const Tensor slope = where(none, 0, pow(where(none, 1, abs(x)), p - 1));
  return sign(x) * slope * spread(share);
}

struct LpPoolAttrs {
  double p = 2;
  Ints kernel = {1, 1};
  Ints stride = {1, 1};
  Shape low = {0, 0};
  Shape high = {0, 0};
  Ints dilation = {1, 1};
  bool ceil_mode = false;
};

PoolAttrs sum_attrs(const LpPoolAttrs& a) {
  return {.kernel = a.kernel,
          .stride = a.stride,
          .low = a.low,
          .high = a.high,
          .dilation = a.dilation,
          .ceil_mode = a.ceil_mode,
          .divisor = 1,
          .adaptive = {}};
}

/// The largest |x| of each window, which is what the sums tend to as p grows.
PoolAttrs largest_attrs(const LpPoolAttrs& a) {
  PoolAttrs attrs = sum_attrs(a);
  attrs.divisor = 0;
  return attrs;
}

void require_power(const InferIn& in, double p) {
  if (!(p > 0)) fail_value(in, "p must be above 0");
}

struct LpPool {
  using Attrs = LpPoolAttrs;
  static constexpr Schema schema{.name = "lp_pool",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc =
                                     "(sum of |x|^p)^(1/p) over each window of x[n, c, ...]; inf: "
                                     "the largest |x|.",
                                 .saved_inputs = kFirst,
                                 .saved_outputs = kFirst,
                                 .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_power(in, attrs.p);
    require_image(in, 0, attrs.kernel.size());
    return {Type(in[0].dtype(), pooled_shape(in, in[0].shape(), sum_attrs(attrs)))};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs given, Loc loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      if (std::isinf(attrs.p)) return {apply<MaxPool>(largest_attrs(attrs), loc, abs(*in[0]))};
      const Tensor powers = pow(abs(*in[0]), attrs.p);
      return {pow(apply<AvgPool>(sum_attrs(attrs), loc, powers), 1 / attrs.p)};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    if (std::isinf(attrs.p)) {
      const Tensor& x = g.input(0);
      const Tensor share = of_places<MaxPoolBackward>(largest_attrs(attrs), g.grad(), abs(x));
      return g.set(0, sign(x) * share);
    }
    g.set(0, power_sum_grad(widened(g.grad()), widened(g.input(0)), widened(g.output()), attrs.p,
                            [&](const Tensor& share) {
                              return spread(sum_attrs(attrs), g.input_shape(0), share);
                            }));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    if (std::isinf(attrs.p)) return e.parts();
    const auto p = static_cast<std::int64_t>(attrs.p);  // ONNX takes whole numbers
    const bool dilated = attrs.dilation != Ints(attrs.dilation.size(), 1);
    if (static_cast<double>(p) != attrs.p || (e.opset() < 18 && (attrs.ceil_mode || dilated))) {
      return e.parts();
    }
    OnnxAttrs windows = onnx_windows(e, sum_attrs(attrs));
    windows.emplace_back("p", p);
    e.output(0, e.node("LpPool", {e.input_as(0, kOnnxImage)}, windows));
  }
};

// --- one window over everything ------------------------------------------------------------------

Ints spatial_axes(int rank) {
  Ints axes;
  for (int i = 2; i < rank; ++i) axes.push_back(i);
  return axes;
}

Types infer_global(const InferIn& in) {
  const Shape& x = in[0].shape();
  if (x.rank() < 3) fail_shape(in, "x must be [n, c, ...] with spatial axes");
  return {Type(in[0].dtype(), reduced_shape(x, spatial_axes(x.rank()), true))};
}

struct PowerAttrs {
  double p = 2;
};

struct GlobalLpPool {
  using Attrs = PowerAttrs;
  static constexpr Schema schema{
      .name = "global_lp_pool",
      .inputs = kUnaryFloat,
      .outputs = kOut,
      .doc = "(sum of |x|^p)^(1/p) over the spatial axes of x[n, c, ...]; inf: the largest |x|.",
      .saved_inputs = kFirst,
      .saved_outputs = kFirst,
      .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_power(in, attrs.p);
    return infer_global(in);
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor& x = *in[0];
      if (std::isinf(attrs.p)) return {norm(x, attrs.p, spatial_axes(x.rank()), true)};
      return {pow(sum(pow(abs(x), attrs.p), spatial_axes(x.rank()), true), 1 / attrs.p)};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    if (std::isinf(attrs.p)) {
      const Tensor &x = g.input(0), grad = widened(g.grad());
      const Tensor chosen = to(abs(x) == g.output(), grad.dtype());
      const Tensor ties = sum(chosen, spatial_axes(x.rank()), true);
      return g.set(0, sign(x) * chosen * (grad / ties));
    }
    g.set(0, power_sum_grad(widened(g.grad()), widened(g.input(0)), widened(g.output()), attrs.p,
                            [&](const Tensor& share) { return share; }));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    if (std::isinf(attrs.p)) return e.parts();
    const auto p = static_cast<std::int64_t>(attrs.p);
    if (static_cast<double>(p) != attrs.p) return e.parts();
    e.output(0, e.node("GlobalLpPool", {e.input_as(0, kOnnxImage)}, {{"p", p}}));
  }
};

struct GlobalAvgPool {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "global_avg_pool",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc = "The mean over the spatial axes of x[n, c, ...].",
                                 .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs&) { return infer_global(in); }
  static std::vector<Tensor> expand(const Attrs&, TensorRefs in, Loc) {
    return {mean(*in[0], spatial_axes(in[0]->rank()), true)};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    e.output(0, e.node("GlobalAveragePool", {e.input_as(0, kOnnxImage)}));
  }
};

std::size_t spatial_rank(const Tensor& x) {
  return x.defined() && x.rank() > 2 ? static_cast<std::size_t>(x.rank() - 2) : 2;
}

PoolAttrs pool_attrs(std::string_view name, std::size_t axes, const Tensor& x,
                     const PerAxis& kernel, const PerAxis& stride, const Padding& padding,
                     const PerAxis& dilation, bool ceil_mode, Loc loc) {
  PoolAttrs attrs{.kernel = kernel.over(axes),
                  .stride = stride.over(axes),
                  .dilation = dilation.over(axes),
                  .ceil_mode = ceil_mode,
                  .adaptive = {}};
  for (std::size_t i = 0; i < attrs.stride.size() && i < attrs.kernel.size(); ++i) {
    if (attrs.stride[i] == 0) attrs.stride[i] = attrs.kernel[i];
  }
  const Sides sides = sides_of(padding, name, loc, axes,
                               padding.name().empty() ? Shape() : spatial_sizes(x, axes, loc),
                               Shape(attrs.kernel), attrs.stride, attrs.dilation);
  attrs.low = sides.low;
  attrs.high = sides.high;
  return attrs;
}

PoolAttrs adaptive_attrs(const Shape& size) {
  return {.kernel = {}, .stride = {}, .low = {}, .high = {}, .dilation = {}, .adaptive = size};
}

Tensor max_pool(std::string_view name, std::size_t axes, const Tensor& x, const PerAxis& kernel,
                const PerAxis& stride, const Padding& padding, const PerAxis& dilation,
                bool ceil_mode, Loc loc) {
  return of_images(x, axes, loc, [&](const Tensor& images) {
    return apply<MaxPool>(
        pool_attrs(name, axes, images, kernel, stride, padding, dilation, ceil_mode, loc), loc,
        images);
  });
}

Tensor avg_pool(std::string_view name, std::size_t axes, const Tensor& x, const PerAxis& kernel,
                const PerAxis& stride, const Padding& padding, bool ceil_mode,
                bool count_include_pad, std::int64_t divisor, const PerAxis& dilation, Loc loc) {
  return of_images(x, axes, loc, [&](const Tensor& images) {
    PoolAttrs attrs =
        pool_attrs(name, axes, images, kernel, stride, padding, dilation, ceil_mode, loc);
    attrs.count_include_pad = count_include_pad;
    attrs.divisor = divisor;
    return apply<AvgPool>(attrs, loc, images);
  });
}

/// A pooling of adaptive size over so many axes.
Tensor adaptive(Tensor (*pool)(const Tensor&, const Shape&, Loc), std::size_t axes, const Tensor& x,
                const PerAxis& size, Loc loc) {
  return of_images(x, axes, loc,
                   [&](const Tensor& images) { return pool(images, Shape(size.over(axes)), loc); });
}

/// max_unpool() of a pooling with these settings over so many axes.
Tensor unpooled(std::size_t axes, const Tensor& x, const Tensor& indices, const PerAxis& kernel,
                const PerAxis& stride, const PerAxis& padding, const Shape& size, Loc loc) {
  const Ints kernels = kernel.over(axes), strides = stride.over(axes), pads = padding.over(axes);
  if (kernels.size() != axes || strides.size() != axes || pads.size() != axes) {
    throw ValueError("max_unpool" + std::to_string(axes) + "d(" + type_string(x) +
                         "): kernel, stride and padding must be one number for all spatial axes or "
                         "one for each of the " +
                         std::to_string(axes),
                     loc.user());
  }
  const bool alone = x.rank() == static_cast<int>(axes) + 1;
  const Tensor places = alone ? unsqueeze(indices, 0, loc) : indices;
  return of_images(x, axes, loc, [&](const Tensor& images) {
    const Shape windows = spatial_sizes(images, axes, loc);
    Shape made = size;
    for (std::size_t i = 0; size.rank() == 0 && i < windows.size(); ++i) {
      const std::int64_t step = strides[i] == 0 ? kernels[i] : strides[i];
      made.push_back((windows[i] - 1) * step - 2 * pads[i] + kernels[i]);
    }
    return max_unpool(images, places, made, loc);
  });
}

}  // namespace

std::span<const OpInfo* const> pooling_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<MaxPool>,
      &op_info<MaxPoolIndices>,
      &op_info_with_parts<MaxPoolBackward>,
      &op_info_with_parts<MaxPoolTake>,
      &op_info<MaxUnpool>,
      &op_info<AvgPool>,
      &op_info_with_parts<AvgPoolBackward>,
      &op_info<LpPool>,
      &op_info<GlobalLpPool>,
      &op_info<GlobalAvgPool>,
  };
  return kRows;
}

}  // namespace ops

Tensor max_pool1d(const Tensor& x, const PerAxis& kernel, const PerAxis& stride,
                  const Padding& padding, const PerAxis& dilation, bool ceil_mode, Loc loc) {
  return ops::max_pool("max_pool1d", 1, x, kernel, stride, padding, dilation, ceil_mode, loc);
}
Tensor max_pool2d(const Tensor& x, const PerAxis& kernel, const PerAxis& stride,
                  const Padding& padding, const PerAxis& dilation, bool ceil_mode, Loc loc) {
  return ops::max_pool("max_pool2d", 2, x, kernel, stride, padding, dilation, ceil_mode, loc);
}
Tensor max_pool3d(const Tensor& x, const PerAxis& kernel, const PerAxis& stride,
                  const Padding& padding, const PerAxis& dilation, bool ceil_mode, Loc loc) {
  return ops::max_pool("max_pool3d", 3, x, kernel, stride, padding, dilation, ceil_mode, loc);
}
std::array<Tensor, 2> max_pool_with_indices(const Tensor& x, const PerAxis& kernel,
                                            const PerAxis& stride, const Padding& padding,
                                            const PerAxis& dilation, bool ceil_mode, Loc loc) {
  const ops::PoolAttrs attrs = ops::pool_attrs("max_pool_with_indices", ops::spatial_rank(x), x,
                                               kernel, stride, padding, dilation, ceil_mode, loc);
  return {apply<ops::MaxPool>(attrs, loc, x), apply<ops::MaxPoolIndices>(attrs, loc, x)};
}
Tensor max_unpool(const Tensor& x, const Tensor& indices, const Shape& size, Loc loc) {
  Shape shape;
  for (int i = 0; x.defined() && i < std::min(x.rank(), 2); ++i) shape.push_back(x.size(i, loc));
  for (const Dim along : size) shape.push_back(along);
  return apply<ops::MaxUnpool>({.shape = shape}, loc, x, indices);
}
Tensor avg_pool1d(const Tensor& x, const PerAxis& kernel, const PerAxis& stride,
                  const Padding& padding, bool ceil_mode, bool count_include_pad,
                  std::int64_t divisor, const PerAxis& dilation, Loc loc) {
  return ops::avg_pool("avg_pool1d", 1, x, kernel, stride, padding, ceil_mode, count_include_pad,
                       divisor, dilation, loc);
}
Tensor avg_pool2d(const Tensor& x, const PerAxis& kernel, const PerAxis& stride,
                  const Padding& padding, bool ceil_mode, bool count_include_pad,
                  std::int64_t divisor, const PerAxis& dilation, Loc loc) {
  return ops::avg_pool("avg_pool2d", 2, x, kernel, stride, padding, ceil_mode, count_include_pad,
                       divisor, dilation, loc);
}
Tensor avg_pool3d(const Tensor& x, const PerAxis& kernel, const PerAxis& stride,
                  const Padding& padding, bool ceil_mode, bool count_include_pad,
                  std::int64_t divisor, const PerAxis& dilation, Loc loc) {
  return ops::avg_pool("avg_pool3d", 3, x, kernel, stride, padding, ceil_mode, count_include_pad,
                       divisor, dilation, loc);
}
Tensor lp_pool(const Tensor& x, double p, const PerAxis& kernel, const PerAxis& stride,
               const Padding& padding, bool ceil_mode, const PerAxis& dilation, Loc loc) {
  const ops::PoolAttrs a = ops::pool_attrs("lp_pool", ops::spatial_rank(x), x, kernel, stride,
                                           padding, dilation, ceil_mode, loc);
  return apply<ops::LpPool>({.p = p,
                             .kernel = a.kernel,
                             .stride = a.stride,
                             .low = a.low,
                             .high = a.high,
                             .dilation = a.dilation,
                             .ceil_mode = ceil_mode},
                            loc, x);
}
Tensor lp_pool1d(const Tensor& x, double p, const PerAxis& kernel, const PerAxis& stride,
                 bool ceil_mode, Loc loc) {
  return ops::of_images(x, 1, loc, [&](const Tensor& images) {
    return lp_pool(images, p, kernel, stride, 0, ceil_mode, 1, loc);
  });
}
Tensor lp_pool2d(const Tensor& x, double p, const PerAxis& kernel, const PerAxis& stride,
                 bool ceil_mode, Loc loc) {
  return ops::of_images(x, 2, loc, [&](const Tensor& images) {
    return lp_pool(images, p, kernel, stride, 0, ceil_mode, 1, loc);
  });
}
Tensor lp_pool3d(const Tensor& x, double p, const PerAxis& kernel, const PerAxis& stride,
                 bool ceil_mode, Loc loc) {
  return ops::of_images(x, 3, loc, [&](const Tensor& images) {
    return lp_pool(images, p, kernel, stride, 0, ceil_mode, 1, loc);
  });
}
Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const PerAxis& kernel,
                    const PerAxis& stride, const PerAxis& padding, const Shape& size, Loc loc) {
  return ops::unpooled(1, x, indices, kernel, stride, padding, size, loc);
}
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const PerAxis& kernel,
                    const PerAxis& stride, const PerAxis& padding, const Shape& size, Loc loc) {
  return ops::unpooled(2, x, indices, kernel, stride, padding, size, loc);
}
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const PerAxis& kernel,
                    const PerAxis& stride, const PerAxis& padding, const Shape& size, Loc loc) {
  return ops::unpooled(3, x, indices, kernel, stride, padding, size, loc);
}
Tensor adaptive_avg_pool(const Tensor& x, const Shape& size, Loc loc) {
  return apply<ops::AvgPool>(ops::adaptive_attrs(size), loc, x);
}
Tensor adaptive_max_pool(const Tensor& x, const Shape& size, Loc loc) {
  return apply<ops::MaxPool>(ops::adaptive_attrs(size), loc, x);
}
Tensor adaptive_avg_pool1d(const Tensor& x, const PerAxis& size, Loc loc) {
  return ops::adaptive(adaptive_avg_pool, 1, x, size, loc);
}
Tensor adaptive_avg_pool2d(const Tensor& x, const PerAxis& size, Loc loc) {
  return ops::adaptive(adaptive_avg_pool, 2, x, size, loc);
}
Tensor adaptive_avg_pool3d(const Tensor& x, const PerAxis& size, Loc loc) {
  return ops::adaptive(adaptive_avg_pool, 3, x, size, loc);
}
Tensor adaptive_max_pool1d(const Tensor& x, const PerAxis& size, Loc loc) {
  return ops::adaptive(adaptive_max_pool, 1, x, size, loc);
}
Tensor adaptive_max_pool2d(const Tensor& x, const PerAxis& size, Loc loc) {
  return ops::adaptive(adaptive_max_pool, 2, x, size, loc);
}
Tensor adaptive_max_pool3d(const Tensor& x, const PerAxis& size, Loc loc) {
  return ops::adaptive(adaptive_max_pool, 3, x, size, loc);
}
std::array<Tensor, 2> adaptive_max_pool_with_indices(const Tensor& x, const Shape& size, Loc loc) {
  const ops::PoolAttrs attrs = ops::adaptive_attrs(size);
  return {apply<ops::MaxPool>(attrs, loc, x), apply<ops::MaxPoolIndices>(attrs, loc, x)};
}
Tensor global_avg_pool(const Tensor& x, Loc loc) { return apply<ops::GlobalAvgPool>({}, loc, x); }
Tensor global_max_pool(const Tensor& x, Loc loc) {
  return apply<ops::MaxPool>(ops::adaptive_attrs(Shape(ops::spatial_rank(x), 1)), loc, x);
}
Tensor global_lp_pool(const Tensor& x, double p, Loc loc) {
  return apply<ops::GlobalLpPool>({.p = p}, loc, x);
}

}  // namespace dyad
