#include "dyad/ops/resize.h"

#include <algorithm>
#include <cmath>

#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/resample.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/pooling.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/window_support.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kResizedGrad[] = {{"grad", kFloat}};

bool is_one_of(const std::string& text, std::initializer_list<std::string_view> allowed) {
  return std::find(allowed.begin(), allowed.end(), text) != allowed.end();
}

template <class A>
void check_modes(const InferIn& in, const A& a) {
  if (!is_one_of(a.mode, {"nearest", "linear", "cubic"})) {
    fail_value(in, "mode must be \"nearest\", \"linear\" or \"cubic\"");
  }
  if (!is_one_of(a.coordinates, {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                 "align_corners", "asymmetric", "tf_crop_and_resize"})) {
    fail_value(in,
               "coordinates must be \"half_pixel\", \"half_pixel_symmetric\", "
               "\"pytorch_half_pixel\", \"align_corners\", \"asymmetric\" or "
               "\"tf_crop_and_resize\"");
  }
  if (!is_one_of(a.rounding, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})) {
    fail_value(in,
               "rounding must be \"round_prefer_floor\", \"round_prefer_ceil\", \"floor\" or "
               "\"ceil\"");
  }
  if (a.mode != "nearest" && !is_floating(in[0].dtype())) {
    fail_dtype(in, "mode \"" + a.mode +
                       "\" needs a floating x; convert it with to(), or take "
                       "\"nearest\"");
  }
}

Types infer_resample(const InferIn& in, const ResampleAttrs& attrs) {
  const int axis = checked_axis(in, attrs.axis, in[0].rank());
  check_modes(in, attrs);
  Shape shape = in[0].shape();
  Dim& along = shape[static_cast<std::size_t>(axis)];
  if (along.is_number() && along.number() == 0 && !(attrs.size == Dim(0))) {
    fail_shape(in, "axis " + std::to_string(axis) + " of x is empty");
  }
  along = attrs.size;
  return {Type(in[0].dtype(), shape)};
}

struct Resample {
  using Attrs = ResampleAttrs;
  static constexpr Schema schema{.name = "resample",
                                 .inputs = kUnaryNumber,
                                 .outputs = kOut,
                                 .doc = "x with another size along an axis: one axis of resize."};
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_resample(in, attrs); }
  static void grad(Gradient& g, const Attrs& attrs);
};

/// The size of the axis that the attributes are for.
Dim along(const Shape& shape, const ResampleAttrs& attrs) {
  return shape[static_cast<std::size_t>(from_front(attrs.axis, shape.rank()))];
}

struct ResampleTranspose {
  using Attrs = ResampleAttrs;
  static constexpr Schema schema{.name = "resample_transpose",
                                 .inputs = kResizedGrad,
                                 .outputs = kOut,
                                 .doc = "The gradient of resample."};
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_resample(in, attrs); }
  static void grad(Gradient& g, Attrs attrs) {
    attrs.size = along(g.input_shape(0), attrs);
    g.set(0, apply<Resample>(attrs, {}, g.grad()));
  }
};

void Resample::grad(Gradient& g, const Attrs& attrs) {
  Attrs back = attrs;
  back.size = along(g.input_shape(0), attrs);
  g.set(0, apply<ResampleTranspose>(back, {}, g.grad()));
}

struct ResizeAttrs {
  Ints axes;
  Shape sizes;
  Tensor scales;
  std::string mode = "nearest";
  std::string coordinates = "half_pixel";
  std::string rounding = "round_prefer_floor";
  double cubic_coeff = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  std::string keep_aspect_ratio = "stretch";
  Tensor roi;
  double extrapolation = 0;
};

std::vector<double> numbers(const Tensor& list) {
  if (!list.defined()) return {};
  const auto* data = reinterpret_cast<const double*>(list.impl()->data);
  return {data, data + list.impl()->numel()};
}

/// What becomes of an axis.
struct AxisPlan {
  Dim size;
  double scale = 0;  ///< 0: size by the size of x
};

/// The integer below a size that was computed.
std::int64_t whole(double size) {
  if (!(size < 0x1p62)) {
    throw ShapeError("scales make a size of 2^62 or more, or none of an axis without elements");
  }
  return static_cast<std::int64_t>(std::floor(size));
}

/// floor(size * scale); an open size needs a scale that is a small fraction.
Dim scaled(Dim size, double scale) {
  if (size.is_number()) return whole(static_cast<double>(size.number()) * scale);
  for (std::int64_t denominator = 1; denominator <= 64; ++denominator) {
    const double numerator = scale * static_cast<double>(denominator);
    if (numerator == std::floor(numerator)) {
      return size * whole(numerator) / denominator;
    }
  }
  return whole(static_cast<double>(size.value()) * scale);
}

/// The axes' plans; the attributes have been checked.
std::vector<AxisPlan> plan(const ResizeAttrs& a, const Shape& x) {
  const std::vector<double> scales = numbers(a.scales);
  std::vector<AxisPlan> plans;
  for (std::size_t i = 0; i < a.axes.size(); ++i) {
    const Dim from = x[static_cast<std::size_t>(from_front(a.axes[i], x.rank()))];
    plans.push_back(scales.empty() ? AxisPlan{a.sizes[i], 0}
                                   : AxisPlan{scaled(from, scales[i]), scales[i]});
  }
  if (a.keep_aspect_ratio == "stretch" || !scales.empty()) return plans;
  double scale = 0;
  for (std::size_t i = 0; i < a.axes.size(); ++i) {
    const Dim from = x[static_cast<std::size_t>(from_front(a.axes[i], x.rank()))];
    const double own = static_cast<double>(a.sizes[i].value()) / static_cast<double>(from.value());
    scale = i == 0                                ? own
            : a.keep_aspect_ratio == "not_larger" ? std::min(scale, own)
                                                  : std::max(scale, own);
  }
  for (std::size_t i = 0; i < a.axes.size(); ++i) {
    const Dim from = x[static_cast<std::size_t>(from_front(a.axes[i], x.rank()))];
    plans[i].scale = scale;
    plans[i].size = whole(scale * static_cast<double>(from.value()) + 0.5);
  }
  return plans;
}

ResampleAttrs axis_attrs(const ResizeAttrs& a, std::size_t i, const AxisPlan& plan) {
  const std::vector<double> roi = numbers(a.roi);
  ResampleAttrs made{.axis = a.axes[i],
                     .size = plan.size,
                     .mode = a.mode,
                     .coordinates = a.coordinates,
                     .rounding = a.rounding,
                     .cubic_coeff = a.cubic_coeff,
                     .exclude_outside = a.exclude_outside,
                     .antialias = a.antialias,
                     .scale = plan.scale};
  if (!roi.empty()) {
    made.roi_begin = roi[i];
    made.roi_end = roi[a.axes.size() + i];
  }
  return made;
}

struct Resize {
  using Attrs = ResizeAttrs;
  static constexpr Schema schema{
      .name = "resize",
      .inputs = kUnaryNumber,
      .outputs = kOut,
      .doc = "x with other sizes along some axes, in the modes of ONNX."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    check_modes(in, attrs);
    const Ints axes = checked_axes(in, attrs.axes, in[0].rank());
    const auto scales = numbers(attrs.scales), roi = numbers(attrs.roi);
    const std::size_t wanted = attrs.axes.size();
    if (attrs.sizes.empty() == scales.empty() ||
        (scales.empty() ? attrs.sizes.size() : scales.size()) != wanted) {
      fail_value(in, "sizes or scales must have one number for each of the " +
                         std::to_string(wanted) + " axes");
    }
    for (const double scale : scales) {
      if (!(scale > 0)) fail_value(in, "scales must be above 0");
    }
    for (const Dim size : attrs.sizes) {
      if (size.is_number() && size.number() < 0) fail_value(in, "sizes must be 0 or more");
    }
    if (!is_one_of(attrs.keep_aspect_ratio, {"stretch", "not_larger", "not_smaller"})) {
      fail_value(in, "keep_aspect_ratio must be \"stretch\", \"not_larger\" or \"not_smaller\"");
    }
    if (attrs.coordinates == "tf_crop_and_resize" && roi.size() != 2 * wanted) {
      fail_value(in, "roi must have a begin and an end for each of the " + std::to_string(wanted) +
                         " axes");
    }
    Shape shape = in[0].shape();
    const std::vector<AxisPlan> plans = plan(attrs, shape);
    for (std::size_t i = 0; i < wanted; ++i) {
      shape[static_cast<std::size_t>(from_front(attrs.axes[i], shape.rank()))] = plans[i].size;
    }
    return {Type(in[0].dtype(), shape)};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc loc) {
    // What moves elements rounds none.
    if (attrs.mode == "nearest") return {resized(attrs, *in[0], loc)};
    return {in_f32([&](const Tensor& x) { return resized(attrs, x, loc); }, *in[0])};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const int rank = e.input_type(0).rank();
    const auto scales = numbers(attrs.scales), roi = numbers(attrs.roi);
    if (e.opset() < 18 && (attrs.antialias || attrs.keep_aspect_ratio != "stretch")) {
      e.fail("Resize has antialias and keep_aspect_ratio from opset 18 on");
    }
    if (e.opset() < 19 && attrs.coordinates == "half_pixel_symmetric") {
      e.fail("Resize has half_pixel_symmetric from opset 19 on");
    }
    // Every axis is named where one can: runtimes treat a choice of axes differently.
    const DType dtype =
        e.input_type(0).dtype() == DType::bf16 ? DType::f32 : e.input_type(0).dtype();
    std::vector<float> all_scales(static_cast<std::size_t>(rank), 1.0f);
    std::vector<double> all_roi(static_cast<std::size_t>(2 * rank), 0.0);
    std::fill(all_roi.begin() + rank, all_roi.end(), 1.0);
    Shape sizes = e.input_type(0).shape();
    for (std::size_t i = 0; i < attrs.axes.size(); ++i) {
      const auto axis = static_cast<std::size_t>(from_front(attrs.axes[i], rank));
      if (!scales.empty()) all_scales[axis] = static_cast<float>(scales[i]);
      if (scales.empty()) sizes[axis] = attrs.sizes[i];
      if (roi.empty()) continue;
      all_roi[axis] = roi[i];
      all_roi[axis + static_cast<std::size_t>(rank)] = roi[attrs.axes.size() + i];
    }
    std::string region, scale_input, size_input;
    if (!roi.empty()) {
      region = e.constant(to_dtype(tensor(std::span<const double>(all_roi)),
                                   is_floating(dtype) ? dtype : DType::f32));
    }
    if (!scales.empty()) {
      scale_input = e.constant(tensor(std::span<const float>(all_scales)));
    } else {
      size_input = e.shape(sizes);
    }
    OnnxAttrs options{{"mode", attrs.mode},
                      {"coordinate_transformation_mode", attrs.coordinates},
                      {"nearest_mode", attrs.rounding},
                      {"cubic_coeff_a", static_cast<float>(attrs.cubic_coeff)},
                      {"exclude_outside", std::int64_t{attrs.exclude_outside}},
                      {"extrapolation_value", static_cast<float>(attrs.extrapolation)}};
    if (attrs.antialias) options.emplace_back("antialias", std::int64_t{1});
    if (attrs.keep_aspect_ratio != "stretch" && scales.empty()) {
      options.emplace_back("keep_aspect_ratio_policy", attrs.keep_aspect_ratio);
      options.emplace_back("axes", onnx_list(attrs.axes));
      size_input = e.shape(attrs.sizes);
    }
    e.output(
        0, e.node("Resize", {e.cast(e.input(0), dtype), region, scale_input, size_input}, options));
  }

 private:
  static Tensor to_dtype(const Tensor& x, DType dtype) { return dyad::to(x, dtype); }
  static Tensor resized(const Attrs& attrs, const Tensor& x, Loc loc) {
    Tensor y = resampled(attrs, x, loc);
    // Of no other size either it is x itself: whether they share memory does not depend on sizes.
    if (y.impl() == x.impl()) return clone(x, loc);
    if (attrs.coordinates != "tf_crop_and_resize" || attrs.extrapolation == 0) return y;
    // Weights inside x add up to 1, outside they are 0.
    Shape sizes(static_cast<std::size_t>(x.rank()), 1);
    for (const std::int64_t axis : attrs.axes) {
      sizes[static_cast<std::size_t>(from_front(axis, x.rank()))] = x.size(axis, loc);
    }
    const Tensor inside = resampled(attrs, ones(sizes, DType::f32, loc), loc);
    return where(inside > 0.5, y, attrs.extrapolation);
  }
  static Tensor resampled(const Attrs& attrs, Tensor x, Loc loc) {
    const std::vector<AxisPlan> plans = plan(attrs, sizes_of(x, loc));
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const bool same = plans[i].size.same_as(x.size(attrs.axes[i], loc)) &&
                        (plans[i].scale == 0 || plans[i].scale == 1) &&
                        attrs.coordinates != "tf_crop_and_resize";
      if (!same) x = apply<Resample>(axis_attrs(attrs, i, plans[i]), loc, x);
    }
    return x;
  }
};

ResizeAttrs resize_attrs(const Tensor& x, const ResizeOptions& o) {
  ResizeAttrs made{.axes = o.axes,
                   .sizes = {},
                   .scales = {},
                   .mode = o.mode,
                   .coordinates = o.coordinates,
                   .rounding = o.rounding,
                   .cubic_coeff = o.cubic_coeff,
                   .exclude_outside = o.exclude_outside,
                   .antialias = o.antialias,
                   .keep_aspect_ratio = o.keep_aspect_ratio,
                   .roi = {},
                   .extrapolation = o.extrapolation};
  if (made.axes.empty() && x.defined()) made.axes = sorted_axes({}, x.rank());
  if (!o.roi.empty()) made.roi = tensor(std::span<const double>(o.roi));
  return made;
}

}  // namespace

std::span<const OpInfo* const> resize_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Resize>, &op_info<Resample>,
                                            &op_info<ResampleTranspose>};
  return kRows;
}

}  // namespace ops

Tensor resize(const Tensor& x, const Shape& sizes, const ResizeOptions& options, Loc loc) {
  ops::ResizeAttrs attrs = ops::resize_attrs(x, options);
  attrs.sizes = sizes;
  return apply<ops::Resize>(attrs, loc, x);
}

Tensor resize_by(const Tensor& x, const std::vector<double>& scales, const ResizeOptions& options,
                 Loc loc) {
  ops::ResizeAttrs attrs = ops::resize_attrs(x, options);
  attrs.scales = tensor(std::span<const double>(scales));
  return apply<ops::Resize>(attrs, loc, x);
}

Tensor interpolate(const Tensor& x, const InterpolateOptions& options, Loc loc) {
  const auto fail = [&](const std::string& rule) {
    throw ValueError(
        "interpolate(x: " + (x.defined() ? type_string(x) : std::string("none")) + "): " + rule,
        loc.user());
  };
  const std::string& mode = options.mode;
  const bool linear = mode == "linear" || mode == "bilinear" || mode == "trilinear";
  const bool nearest = mode == "nearest" || mode == "nearest-exact";
  if (!linear && !nearest && mode != "bicubic" && mode != "area") {
    fail(
        "mode must be \"nearest\", \"nearest-exact\", \"linear\", \"bilinear\", \"trilinear\", "
        "\"bicubic\" or \"area\"");
  }
  if (!x.defined() || x.rank() < 3) fail("x must be [n, c, ...] with spatial axes");
  const auto axes = static_cast<std::size_t>(x.rank() - 2);
  if (options.size.empty() == options.scale_factor.empty()) {
    fail("size or scale_factor must be given, one of the two");
  }
  const std::size_t given =
      options.size.empty() ? options.scale_factor.size() : options.size.size();
  if (given != 1 && given != axes) {
    fail("size and scale_factor have one number for all spatial axes or one for each of the " +
         std::to_string(axes));
  }
  if (options.antialias && !linear && mode != "bicubic") {
    fail("antialias goes with the modes \"bilinear\" and \"bicubic\"");
  }
  Shape size(axes, 0);
  std::vector<double> scales(axes, 1.0);
  for (std::size_t i = 0; i < axes; ++i) {
    const std::size_t k = given == 1 ? 0 : i;
    if (options.size.empty()) scales[i] = options.scale_factor[k];
    if (!options.size.empty()) size[i] = options.size[k];
  }
  if (mode == "area") {
    if (options.size.empty()) {
      for (std::size_t i = 0; i < axes; ++i) {
        size[i] = ops::scaled(x.size(static_cast<std::int64_t>(i) + 2, loc), scales[i]);
      }
    }
    return adaptive_avg_pool(x, size, loc);
  }
  ResizeOptions made{.mode = nearest ? "nearest" : linear ? "linear" : "cubic"};
  made.coordinates = mode == "nearest"       ? "asymmetric"
                     : options.align_corners ? "align_corners"
                                             : "half_pixel";
  made.rounding = mode == "nearest" ? "floor" : "round_prefer_ceil";
  made.antialias = made.exclude_outside = options.antialias;
  if (options.antialias) made.cubic_coeff = -0.5;
  for (std::size_t i = 0; i < axes; ++i) made.axes.push_back(static_cast<std::int64_t>(i) + 2);
  return options.size.empty() && !options.align_corners ? resize_by(x, scales, made, loc)
         : options.size.empty()                         ? [&] {
             for (std::size_t i = 0; i < axes; ++i) {
               size[i] = ops::scaled(x.size(made.axes[i], loc), scales[i]);
             }
             return resize(x, size, made, loc);
           }()
                                : resize(x, size, made, loc);
}

}  // namespace dyad
