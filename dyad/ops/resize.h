#pragma once

#include <string>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

/// How resize() computes; the values are those of ONNX's Resize.
struct ResizeOptions {
  /// "nearest" (any number dtype), "linear" or "cubic" (floating).
  std::string mode = "nearest";
  /// Where the elements of the result lie in x: "half_pixel", "half_pixel_symmetric",
  /// "pytorch_half_pixel", "align_corners", "asymmetric" or "tf_crop_and_resize".
  std::string coordinates = "half_pixel";
  /// What nearest takes: "round_prefer_floor", "round_prefer_ceil", "floor" or "ceil".
  std::string rounding = "round_prefer_floor";
  double cubic_coeff = -0.75;
  /// Weights of what lies outside x are 0 and the others are scaled to 1; otherwise the edge goes
  /// on.
  bool exclude_outside = false;
  /// linear and cubic: wide enough a filter when the result is smaller.
  bool antialias = false;
  /// With sizes: "stretch", or one scale for all axes, "not_larger" or "not_smaller" than them.
  std::string keep_aspect_ratio = "stretch";
  /// tf_crop_and_resize: begin of each axis, then ends, in parts of x's size.
  std::vector<double> roi = {};
  /// tf_crop_and_resize: what lies outside x.
  double extrapolation = 0;
  /// The axes that sizes, scales and roi are for; none: all.
  Ints axes = {};
};

/// x with other sizes, in the modes of ONNX's Resize. One size for each axis. The gradient of x is
/// defined to any order. ValueError, ShapeError.
[[nodiscard]] Tensor resize(const Tensor& x, const Shape& sizes, const ResizeOptions& options = {},
                            Loc loc = std::source_location::current());
/// resize() to the sizes times `scales`, rounded down; one scale for each axis.
[[nodiscard]] Tensor resize_by(const Tensor& x, const std::vector<double>& scales,
                               const ResizeOptions& options = {},
                               Loc loc = std::source_location::current());

/// PyTorch's interpolate: the spatial axes of x[n, c, ...] in `size` or by `scale_factor` (one
/// number for all axes or one for each; exactly one of the two is given). Modes "nearest",
/// "nearest-exact", "linear", "bilinear", "trilinear", "bicubic" and "area"; `antialias` is for
/// bilinear and bicubic.
struct InterpolateOptions {
  Shape size = {};
  std::vector<double> scale_factor = {};
  std::string mode = "nearest";
  bool align_corners = false;
  bool antialias = false;
};
[[nodiscard]] Tensor interpolate(const Tensor& x, const InterpolateOptions& options,
                                 Loc loc = std::source_location::current());

}  // namespace dyad
