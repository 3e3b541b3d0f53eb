#pragma once

#include <cstdint>

#include "dyad/base/inline_vector.h"
#include "dyad/core/shape.h"

namespace dyad::ops {

// Windows over one to three spatial axes: each list has one number for each of them. `low` and
// `high` are what is added before and after each axis.

/// `conv(x[n, c, ...], weight[o, c / groups, ...], bias[o] or absent)` -> [n, o, ...], with zeros
/// for padding.
struct ConvAttrs {
  Ints stride = {1, 1};
  Shape low = {0, 0};
  Shape high = {0, 0};
  Ints dilation = {1, 1};
  std::int64_t groups = 1;
};

/// `conv_transpose(x[n, o, ...], weight[o, c / groups, ...])` -> [n, c, ...] of shape `shape`: the
/// gradient of conv by its first operand, where x is the gradient of its result.
/// `conv_backward_weight(grad[n, o, ...], x[n, c, ...])` -> gradient of the weight, of shape
/// `shape`.
struct ConvBackwardAttrs {
  Ints stride = {1, 1};
  Shape low = {0, 0};
  Shape high = {0, 0};
  Ints dilation = {1, 1};
  std::int64_t groups = 1;
  Shape shape;
};

/// Windows of max_pool*, avg_pool: `kernel` elements `dilation` apart, `stride` between two
/// windows; with ceil_mode the last one may reach beyond the padding, as long as it begins before
/// it. With `adaptive` sizes (and nothing else) window i of m over n elements has those from
/// floor(i * n / m) to before ceil((i + 1) * n / m).
/// - `max_pool(x)` -> the largest of each window, padding counts as -inf. A window's position is
///   its first largest element in row-major order; NaN counts as largest.
/// - `max_pool_indices(x)` -> i64: the positions, numbered row-major over the spatial axes.
/// - `max_pool_backward(grad, x)` -> like x: each gradient added at its window's position.
/// - `max_pool_take(values like x, x)` -> what `values` holds at the windows' positions.
/// - `avg_pool(x)` -> the sum of each window over `divisor`, or, when that is 0, over the number of
///   its elements, those of the padding included if count_include_pad.
struct PoolAttrs {
  Ints kernel = {1, 1};
  Ints stride = {1, 1};
  Shape low = {0, 0};
  Shape high = {0, 0};
  Ints dilation = {1, 1};
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::int64_t divisor = 0;
  Shape adaptive;
};

/// `avg_pool_backward(grad)` -> gradient of x, of shape `shape`.
struct AvgPoolBackwardAttrs {
  Ints kernel = {1, 1};
  Ints stride = {1, 1};
  Shape low = {0, 0};
  Shape high = {0, 0};
  Ints dilation = {1, 1};
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::int64_t divisor = 0;
  Shape adaptive;
  Shape shape;
};

/// `max_unpool(x, indices)` -> zeros of shape `shape` with x put at the indices, which are numbered
/// row-major over the spatial axes; of equal indices the last one counts.
struct UnpoolAttrs {
  Shape shape;
};

}  // namespace dyad::ops
