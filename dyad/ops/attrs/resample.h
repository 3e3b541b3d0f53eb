#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "dyad/core/shape.h"

namespace dyad::ops {

/// `resample(x)` -> x with `size` elements along the axis, each a weighted sum of x's by the
/// attributes of ONNX's Resize: mode nearest, linear or cubic; `scale` 0 means size / x's size;
/// positions outside x get 0 with tf_crop_and_resize.
/// `resample_transpose(grad)`: its gradient, where `size` is the size of x and grad has what
/// `resample` to `from` elements gives.
struct ResampleAttrs {
  std::int64_t axis = 0;
  Dim size = 0;
  std::string mode = "nearest";
  std::string coordinates = "half_pixel";
  std::string rounding = "round_prefer_floor";
  double cubic_coeff = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  double scale = 0;
  double roi_begin = 0;
  double roi_end = 1;
};

/// `grid_sample(x[n, c, ...], grid[n, ..., 2 or 3])` -> [n, c, ...]: x between its elements, at
/// positions that grid gives, x first, from -1 to 1. With `derivative` (one number for each spatial
/// axis, the last axis first as in grid) its derivative of that order by the grid instead.
/// `grid_sample_grid_backward(grad, x, grid)` -> gradient of grid, of a call with these attributes.
struct GridSampleAttrs {
  std::string mode = "bilinear";
  std::string padding = "zeros";
  bool align_corners = false;
  Ints derivative;
};

/// `grid_sample_transpose(grad, grid)` -> gradient of x, of shape `shape`.
struct GridSampleTransposeAttrs {
  std::string mode = "bilinear";
  std::string padding = "zeros";
  bool align_corners = false;
  Ints derivative;
  Shape shape;
};

/// `im2col(x[n, c, ...])` -> [n, c * kernel elements, windows]: the windows of x as columns;
/// `col2im(columns)` -> [n, c, size...]: columns added up in their places. Windows as in ConvAttrs.
struct Im2ColAttrs {
  Ints kernel = {1, 1};
  Ints stride = {1, 1};
  Ints low = {0, 0};
  Ints high = {0, 0};
  Ints dilation = {1, 1};
};
struct Col2ImAttrs {
  Shape size;
  Ints kernel = {1, 1};
  Ints stride = {1, 1};
  Ints low = {0, 0};
  Ints high = {0, 0};
  Ints dilation = {1, 1};
};

/// `roi_take(values[n, c, h, w], x like values, rois[k, 4], index[k])` -> [k, c, height, width]:
/// regions (x1, y1, x2, y2 of x, times spatial_scale) of image index[k], divided into bins.
/// Mode "avg" is the mean of sampling_ratio by sampling_ratio samples (0: as many as the bin has
/// rows and columns) between the elements, "max" the largest of what the neighbours of samples
/// weigh, "bins" the largest element of each bin, whose edges are rounded. Largest are those of x;
/// what comes out is that of `values`.
/// `roi_take_backward(grad, x, rois, index)` -> gradient of values.
struct RoiAttrs {
  std::string mode = "avg";
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t sampling_ratio = 0;
  double spatial_scale = 1;
  bool half_pixel = true;
};

/// `non_max_suppression(boxes, scores)`: see the function.
struct NmsAttrs {
  std::int64_t max_per_class = 0;
  double iou_threshold = 0;
  double score_threshold = -std::numeric_limits<double>::infinity();
  bool center_point = false;
};

}  // namespace dyad::ops
