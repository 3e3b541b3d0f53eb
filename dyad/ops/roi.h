#pragma once

#include <limits>

#include "dyad/core/tensor.h"

namespace dyad {

/// How roi_align() reads a region.
struct RoiAlignOptions {
  /// Samples along each side of a bin; 0: as many as the bin has rows and columns, rounded up.
  std::int64_t sampling_ratio = 0;
  /// From the coordinates of regions to those of x.
  double spatial_scale = 1;
  /// The middle of element i is at i + 0.5 (ONNX's half_pixel, torchvision's aligned); otherwise at
  /// i, and regions are at least 1 wide and high.
  bool half_pixel = true;
  /// The largest of what the neighbours of the samples weigh, as ONNX's mode max, not the mean.
  bool max = false;
};

/// Regions of images x[n, c, h, w] as images of one size: rois[k, 4] (x1, y1, x2, y2) of images
/// batch_indices[k] (i64) -> [k, c, height, width], read between the elements. Gradients by x.
/// ShapeError, ValueError; IndexError for an image that there is not.
[[nodiscard]] Tensor roi_align(const Tensor& x, const Tensor& rois, const Tensor& batch_indices,
                               std::int64_t height, std::int64_t width,
                               const RoiAlignOptions& options = {},
                               Loc loc = std::source_location::current());

/// The largest element of each of height by width bins of regions rois[k, 5] (image, x1, y1, x2,
/// y2), rounded to whole elements; 0 for empty bins. ONNX's MaxRoiPool, torchvision's roi_pool.
[[nodiscard]] Tensor max_roi_pool(const Tensor& x, const Tensor& rois, std::int64_t height,
                                  std::int64_t width, double spatial_scale = 1,
                                  Loc loc = std::source_location::current());

/// Which boxes stay, as ONNX's NonMaxSuppression: of each class of each image, best score first,
/// those whose overlap (intersection over union) with every one taken before is at most
/// iou_threshold, at most max_per_class of them. boxes[n, boxes, 4] are (y1, x1, y2, x2), any two
/// opposite corners, or with center_point (x, y, width, height); scores[n, classes, boxes]. Boxes
/// of a score not above score_threshold are left out, if it is given. Gives i64[count, 3]: image,
/// class, box. Equal scores: the first box. Not differentiable.
struct NmsOptions {
  std::int64_t max_per_class = 0;
  double iou_threshold = 0;
  double score_threshold = -std::numeric_limits<double>::infinity();
  bool center_point = false;
};
[[nodiscard]] Tensor non_max_suppression(const Tensor& boxes, const Tensor& scores,
                                         const NmsOptions& options,
                                         Loc loc = std::source_location::current());

/// x with `sizes` along the axes (none named: all): cropped in the middle, or with zeros around it.
/// What is odd is cropped or added at the end.
[[nodiscard]] Tensor center_crop_pad(const Tensor& x, const Shape& sizes, Ints axes = {},
                                     Loc loc = std::source_location::current());

}  // namespace dyad
