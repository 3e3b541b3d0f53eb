#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

/// Rows and columns: one number for both, or two.
struct Pair {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  constexpr Pair(std::int64_t both) : rows(both), columns(both) {}
  constexpr Pair(std::int64_t rows, std::int64_t columns) : rows(rows), columns(columns) {}
};

/// Cross-correlation, as frameworks call convolution: x[n, c, h, w], weight[o, c / groups, kh, kw],
/// bias[o] or undefined -> [n, o, oh, ow] with oh = (h + 2*padding - dilation*(kh - 1) - 1) /
/// stride + 1. One floating dtype. ShapeError, ValueError.
[[nodiscard]] Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                            Pair stride = 1, Pair padding = 0, Pair dilation = 1,
                            std::int64_t groups = 1, Loc loc = std::source_location::current());

/// The largest of each window of x[n, c, h, w]; stride 0 means the kernel's size; padding counts as
/// -inf and is at most half the kernel (ValueError).
[[nodiscard]] Tensor max_pool2d(const Tensor& x, Pair kernel, Pair stride = 0, Pair padding = 0,
                                Loc loc = std::source_location::current());
/// The mean of each window of x[n, c, h, w]; stride 0 means the kernel's size. Zeros of the padding
/// count as elements unless count_include_pad is false.
[[nodiscard]] Tensor avg_pool2d(const Tensor& x, Pair kernel, Pair stride = 0, Pair padding = 0,
                                bool count_include_pad = true,
                                Loc loc = std::source_location::current());

}  // namespace dyad
