#pragma once

#include <cstdint>

#include "dyad/base/inline_vector.h"
#include "dyad/core/shape.h"

namespace dyad::ops {

/// `conv2d(x[n, c, h, w], weight[o, c / groups, kh, kw], bias[o] or absent)` -> [n, o, oh, ow]; two
/// numbers each: rows, columns. Zero padding on both sides.
struct Conv2dAttrs {
  Ints stride = {1, 1};
  Ints padding = {0, 0};
  Ints dilation = {1, 1};
  std::int64_t groups = 1;
};

/// `conv2d_backward_input(grad[n, o, oh, ow], weight)` -> gradient of x, of shape `shape`;
/// `conv2d_backward_weight(grad[n, o, oh, ow], x)` -> gradient of the weight, of shape `shape`.
struct Conv2dBackwardAttrs {
  Ints stride = {1, 1};
  Ints padding = {0, 0};
  Ints dilation = {1, 1};
  std::int64_t groups = 1;
  Shape shape;
};

/// `max_pool2d(x[n, c, h, w])` -> [n, c, oh, ow]: the largest of each window, padding counts as
/// -inf. The position of a window is its first largest element in row-major order; NaN counts as
/// largest. `max_pool2d_backward(grad[n, c, oh, ow], x)` -> like x: each gradient added at its
/// window's position. `max_pool2d_take(values like x, x)` -> [n, c, oh, ow]: what `values` holds at
/// the windows' positions.
struct MaxPool2dAttrs {
  Ints kernel = {1, 1};
  Ints stride = {1, 1};
  Ints padding = {0, 0};
};

/// `avg_pool2d(x[n, c, h, w])` -> [n, c, oh, ow]: the mean of each window, over kernel elements, or
/// over those that are not padding when count_include_pad is false.
struct AvgPool2dAttrs {
  Ints kernel = {1, 1};
  Ints stride = {1, 1};
  Ints padding = {0, 0};
  bool count_include_pad = true;
};

/// `avg_pool2d_backward(grad[n, c, oh, ow])` -> gradient of x, of shape `shape`.
struct AvgPool2dBackwardAttrs {
  Ints kernel = {1, 1};
  Ints stride = {1, 1};
  Ints padding = {0, 0};
  bool count_include_pad = true;
  Shape shape;
};

}  // namespace dyad::ops
