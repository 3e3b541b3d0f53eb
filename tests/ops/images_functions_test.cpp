#include <gtest/gtest.h>

#include "bad_calls.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

std::vector<double> doubles_of(const json& list) {
  std::vector<double> values;
  for (const json& v : list) values.push_back(v.get<double>());
  return values;
}

Tensors resize_by_options(const json& a, const Tensors& in) {
  ResizeOptions o;
  const auto read = [&](const char* name, auto& value) {
    if (a.contains(name)) value = a[name].get<std::remove_reference_t<decltype(value)>>();
  };
  read("mode", o.mode);
  read("coordinates", o.coordinates);
  read("rounding", o.rounding);
  read("cubic_coeff", o.cubic_coeff);
  read("exclude_outside", o.exclude_outside);
  read("antialias", o.antialias);
  read("keep_aspect_ratio", o.keep_aspect_ratio);
  read("extrapolation", o.extrapolation);
  if (a.contains("roi")) o.roi = doubles_of(a["roi"]);
  if (a.contains("axes")) {
    for (const json& axis : a["axes"]) o.axes.push_back(axis.get<std::int64_t>());
  }
  if (a.contains("scales")) return {resize_by(in[0], doubles_of(a["scales"]), o)};
  return {resize(in[0], shape(a, "sizes"), o)};
}

const FunctionCases kImageCases{
    {"resize_by_options", resize_by_options},
    {"interpolate",
     [](const json& a, const Tensors& in) -> Tensors {
       InterpolateOptions o{.mode = a["mode"].get<std::string>(),
                            .align_corners = a["align_corners"].get<bool>(),
                            .antialias = a.value("antialias", false)};
       if (a.contains("size")) o.size = shape(a, "size");
       if (a.contains("scale_factor")) o.scale_factor = doubles_of(a["scale_factor"]);
       return {interpolate(in[0], o)};
     }},
    {"im2col_by_two",
     [](const json&, const Tensors& in) -> Tensors { return {im2col(in[0], 2, 1, 0, 2)}; }},
    {"center_crop_pad",
     [](const json& a, const Tensors& in) -> Tensors {
       return {center_crop_pad(in[0], shape(a, "sizes"))};
     }},
};

const std::vector<BadCall>& bad_image_calls() {
  static const std::vector<BadCall> calls{
      {Kind::value,
       "interpolate(x: f32[1, 1, 4, 4]): size or scale_factor must be given, one of the two",
       CALL(interpolate(F(1, 1, 4, 4), {}))},
      {Kind::shape,
       "grid_sample(x: f32[1, 2, 3, 4], grid: f32[1, 2, 2, 3]): grid must have 4 axes, the last of "
       "size 2, but is [1, 2, 2, 3]",
       CALL(grid_sample(F(1, 2, 3, 4), F(1, 2, 2, 3)))},
      {Kind::shape,
       "affine_grid(theta: f32[2, 3], size = [2, 1, 3, 3]): theta must be [2, 2, 3] but is [2, 3]",
       CALL(affine_grid(F(2, 3), {2, 1, 3, 3}))},
      {Kind::shape,
       "col2im(columns: f32[1, 4, 5], size = [3, 3], kernel = [2, 2]): columns has 5 windows but 4 "
       "fit into size = [3, 3]",
       CALL(col2im(F(1, 4, 5), {3, 3}, 2))},
      {Kind::shape,
       "roi_align(x: f32[1, 1, 4, 4], rois: f32[2, 5], batch_indices: i64[2], height = 2, width = "
       "2): rois must be [k, 4] but is [2, 5]",
       CALL(roi_align(F(1, 1, 4, 4), F(2, 5), I(2), 2, 2))},
      {Kind::shape,
       "non_max_suppression(boxes: f32[1, 6, 4], scores: f32[1, 2, 5]): scores must be [1, "
       "classes, "
       "6] but is [1, 2, 5]",
       CALL(non_max_suppression(F(1, 6, 4), F(1, 2, 5), {}))},
      {Kind::value, "center_crop_pad: sizes must have one number for each of the 2 axes, not 1",
       CALL(center_crop_pad(F(2, 3), {4}))},
  };
  return calls;
}

TEST(Errors, OfImagesNameTheRule) { expect_errors(bad_image_calls(), "images_functions_test.cpp"); }

}  // namespace
}  // namespace dyad::testing
