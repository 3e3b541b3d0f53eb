#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "dyad/ir/onnx_node.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/conv.h"
#include "dyad/ops/division.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/grid_sample.h"
#include "dyad/ops/im2col.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/pooling.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/resize.h"
#include "dyad/ops/roi.h"
#include "dyad/ops/views.h"

// What ONNX's operators mean that resize images, read them between their elements, and look for
// regions in them.

namespace dyad::ops {
namespace {

/// The elements of a constant input; of floats, the decimal numbers that their writer had in mind:
/// the nearest short ones.
std::vector<double> constant_numbers(OnnxNode& n, int i) {
  const Tensor known = n.must_be_constant(i);
  std::vector<double> numbers = known.to_vector<double>(n.loc());
  if (known.dtype() != f32) return numbers;
  for (double& number : numbers) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, static_cast<float>(number)).ptr;
    std::from_chars(text, end, number);
  }
  return numbers;
}

/// Whether input i is there and not the empty tensor that stands for an absent one.
bool has_elements(OnnxNode& n, int i) {
  if (!n.has(i)) return false;
  const Shape shape = n.input(i).shape();
  return std::ranges::none_of(shape, [](Dim d) { return d.is_number() && d.number() == 0; });
}

/// Linear and cubic modes compute in floats; integers are cut, as a cast cuts them.
Tensor resized(OnnxNode& n, const Tensor& x, const ResizeOptions& options, const Shape& sizes,
               const std::vector<double>& scales) {
  const bool convert = options.mode != "nearest" && !is_floating(x.dtype());
  const Tensor from = convert ? to(x, f32, n.loc()) : x;
  const Tensor y = scales.empty() ? resize(from, sizes, options, n.loc())
                                  : resize_by(from, scales, options, n.loc());
  return convert ? to(y, x.dtype(), n.loc()) : y;
}

/// Upsample, and Resize before it had coordinates: element i comes from i / scale, rounded down;
/// where the result is smaller, up (the standard is silent there; this is what ONNX Runtime does).
void upsample(OnnxNode& n) {
  const std::string mode = n.text("mode", "nearest");
  std::vector<double> up = n.has_attribute("scales") ? n.numbers("scales") : constant_numbers(n, 1);
  std::vector<double> down(up.size(), 1);
  for (std::size_t i = 0; i < up.size(); ++i) {
    if (up[i] < 1) std::swap(up[i], down[i]);
  }
  ResizeOptions options{.mode = mode == "bilinear" ? "linear" : mode,
                        .coordinates = "asymmetric",
                        .rounding = "floor"};
  const Tensor larger = resized(n, n.input(0), options, {}, up);
  options.rounding = "ceil";
  n.output(0, resized(n, larger, options, {}, down));
}

void resize_image(OnnxNode& n) {
  const Tensor x = n.input(0);
  ResizeOptions options{.mode = n.text("mode", "nearest"),
                        .coordinates = n.text("coordinate_transformation_mode", "half_pixel"),
                        .rounding = n.text("nearest_mode", "round_prefer_floor"),
                        .cubic_coeff = n.number("cubic_coeff_a", -0.75),
                        .exclude_outside = n.flag("exclude_outside"),
                        .antialias = n.flag("antialias"),
                        .keep_aspect_ratio = n.text("keep_aspect_ratio_policy", "stretch"),
                        .extrapolation = n.number("extrapolation_value", 0),
                        .axes = n.integers("axes", {})};
  if (options.coordinates == "tf_half_pixel_for_nn") {
    // Half an element after half_pixel: rounding says the same there for two of its ways.
    if (options.mode != "nearest" ||
        (options.rounding != "floor" && options.rounding != "round_prefer_floor")) {
      n.fail(
          "coordinate_transformation_mode tf_half_pixel_for_nn is for the nearest element, by "
          "floor or round_prefer_floor");
    }
    options.coordinates = "half_pixel";
    options.rounding = options.rounding == "floor" ? "round_prefer_ceil" : "ceil";
  }
  for (std::int64_t& axis : options.axes) axis = from_front(axis, x.rank());
  if (options.coordinates == "tf_crop_and_resize") options.roi = constant_numbers(n, 1);
  const bool by_scales = has_elements(n, 2);
  if (!by_scales && !n.has(3)) n.fail("it has neither scales nor sizes");
  if (by_scales) {
    n.output(0, resized(n, x, options, {}, constant_numbers(n, 2)));
  } else {
    n.output(0, resized(n, x, options, n.sizes(3), {}));
  }
}

void sample_by_grid(OnnxNode& n) {
  std::string mode = n.text("mode", n.version() < 20 ? "bilinear" : "linear");
  if (mode == "linear") mode = "bilinear";
  if (mode == "cubic") mode = "bicubic";
  const Tensor x = n.input(0);
  n.output(0, to(grid_sample(x, to(n.input(1), x.dtype(), n.loc()), mode,
                             n.text("padding_mode", "zeros"), n.flag("align_corners"), n.loc()),
                 x.dtype(), n.loc()));
}

/// Version 16 brought the half pixel, as its default.
void align_regions(OnnxNode& n) {
  const std::string coordinates = n.text("coordinate_transformation_mode",
                                         n.version() < 16 ? "output_half_pixel" : "half_pixel");
  const RoiAlignOptions options{.sampling_ratio = n.integer("sampling_ratio", 0),
                                .spatial_scale = n.number("spatial_scale", 1),
                                .half_pixel = coordinates == "half_pixel",
                                .max = n.text("mode", "avg") == "max"};
  n.output(0, roi_align(n.input(0), n.input(1), n.input(2), n.integer("output_height", 1),
                        n.integer("output_width", 1), options, n.loc()));
}

void pool_regions(OnnxNode& n) {
  const Ints shape = n.integers("pooled_shape", {});
  if (shape.size() != 2) n.fail("its pooled_shape must be a height and a width");
  n.output(0, max_roi_pool(n.input(0), n.input(1), shape[0], shape[1], n.number("spatial_scale", 1),
                           n.loc()));
}

void choose_boxes(OnnxNode& n) {
  NmsOptions options{.max_per_class = n.constant_integer(2, 0),
                     .iou_threshold = n.constant_number(3, 0),
                     .center_point = n.flag("center_point_box")};
  if (n.has(4)) options.score_threshold = n.constant_number(4, 0);
  n.output(0, non_max_suppression(n.input(0), n.input(1), options, n.loc()));
}

/// The sums of columns in their places, on an image with its padding, which is then cut off.
void columns_to_image(OnnxNode& n) {
  const Shape size = n.sizes(1);
  const Ints kernel = n.constant_integers(2);
  const std::size_t axes = size.size();
  const Ints pads = n.integers("pads", Ints(2 * axes, 0));
  if (pads.size() != 2 * axes) n.fail("its pads must be two for each axis of the image");
  Shape whole = size;
  for (std::size_t i = 0; i < axes; ++i) whole[i] = whole[i] + pads[i] + pads[axes + i];
  Tensor image = col2im(n.input(0), whole, kernel, n.integers("dilations", {1}), 0,
                        n.integers("strides", {1}), n.loc());
  for (std::size_t i = 0; i < axes; ++i) {
    image = slice(image, static_cast<std::int64_t>(i) + 2, pads[i], size[i] + pads[i], 1, n.loc());
  }
  n.output(0, image);
}

/// Indices count over the whole tensor that was pooled, whose sizes are given or follow from the
/// windows.
void unpool(OnnxNode& n) {
  const Tensor x = n.input(0);
  const auto axes = n.spatial_axes(x);
  const Ints kernel = n.integers("kernel_shape", {}), stride = n.integers("strides", Ints(axes, 1)),
             pads = n.integers("pads", Ints(2 * axes, 0));
  if (kernel.size() != axes || stride.size() != axes || pads.size() != 2 * axes) {
    n.fail("kernel_shape, strides and pads must fit the " + std::to_string(axes) +
           " spatial axes of its input");
  }
  const Shape given = n.has(2) ? n.sizes(2) : Shape();
  if (n.has(2) && given.size() != axes + 2)
    n.fail("its output_shape has not the rank of its input");
  Shape size;
  Dim plane = 1;
  for (std::size_t i = 0; i < axes; ++i) {
    const Dim before = x.size(static_cast<std::int64_t>(i) + 2);
    size.push_back(n.has(2) ? given[i + 2]
                            : (before - 1) * stride[i] + kernel[i] - pads[i] - pads[axes + i]);
    plane = plane * size[i];
  }
  const Tensor indices = remainder(n.input(1), size_arg(plane, n.loc()), n.loc());
  n.output(0, max_unpool(x, indices, size, n.loc()));
}

void deform_conv(OnnxNode& n) {
  n.output(0,
           deform_conv2d(n.input(0), n.input(2), n.input(1), n.input(3), n.integers("strides", {1}),
                         n.integers("pads", {0}), n.integers("dilations", {1}), n.input(4),
                         n.integer("group", 1), n.loc()));
}

}  // namespace

std::span<const OnnxRule> images_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      {"Upsample", 7, upsample},
      {"Resize", 10, upsample},
      {"Resize", 11, resize_image},
      {"GridSample", 16, sample_by_grid},
      {"AffineGrid", 20,
       [](OnnxNode& n) {
         n.output(0, affine_grid(n.input(0), n.sizes(1), n.flag("align_corners"), n.loc()));
       }},
      {"RoiAlign", 10, align_regions},
      {"MaxRoiPool", 1, pool_regions},
      {"NonMaxSuppression", 10, choose_boxes},
      {"CenterCropPad", 18,
       [](OnnxNode& n) {
         n.output(0, center_crop_pad(n.input(0), n.sizes(1), n.integers("axes", {}), n.loc()));
       }},
      {"Col2Im", 18, columns_to_image},
      {"MaxUnpool", 9, unpool},
      {"DeformConv", 19, deform_conv},
  };
  return kRules;
}

}  // namespace dyad::ops
