#include <gtest/gtest.h>

#include "bad_calls.h"

namespace dyad::testing {
namespace {

const std::vector<BadCall>& bad_window_calls() {
  static const std::vector<BadCall> calls{
      {Kind::shape,
       "conv(x: f32[1, 3, 8, 8], weight: f32[4, 2, 3, 3], bias: none): x has 3 channels but "
       "weight takes 2",
       CALL(conv2d(F(1, 3, 8, 8), F(4, 2, 3, 3)))},
      {Kind::shape,
       "conv(x: f32[1, 1, 2, 8], weight: f32[1, 1, 3, 3], bias: none): the height with padding "
       "is 2, less than the kernel's 3",
       CALL(conv2d(F(1, 1, 2, 8), F(1, 1, 3, 3)))},
      {Kind::shape,
       "conv(x: f32[8, 8], weight: f32[4, 3, 3, 3], bias: none): x must be [n, c, height, "
       "width] "
       "but has 2 axes",
       CALL(conv2d(F(8, 8), F(4, 3, 3, 3)))},
      {Kind::value,
       "conv(x: f32[1, 1, 8, 8], weight: f32[1, 1, 3, 3], bias: none, low = [1, 1, 1], high = "
       "[1, 1, 1]): padding must be one number from 0 for all sides, one for each of the 2 spatial "
       "axes, or two for each; low is [1, 1, 1]",
       CALL(conv2d(F(1, 1, 8, 8), F(1, 1, 3, 3), {}, 1, {1, 1, 1}))},
      {Kind::value,
       "conv2d: padding = \"full\" must be numbers, \"valid\", \"same\", \"same_upper\" or "
       "\"same_lower\"",
       CALL(conv2d(F(1, 1, 8, 8), F(1, 1, 3, 3), {}, 1, "full"))},
      {Kind::value,
       "conv_transpose2d: output_padding must be one number for all spatial axes or one for each, "
       "from 0 to stride - 1",
       CALL(conv_transpose2d(F(1, 1, 8, 8), F(1, 1, 3, 3), {}, 2, 0, 2))},
      {Kind::shape,
       "conv_transpose(x: f32[1, 3, 4], weight: f32[2, 3, 3], stride = [1], low = [0], high = [0], "
       "dilation = [1], shape = [1, 3, 6]): x has 3 channels but weight takes 2, its first size",
       CALL(conv_transpose1d(F(1, 3, 4), F(2, 3, 3)))},
      {Kind::value,
       "max_pool(x: f32[1, 1, 4, 4], kernel = [2, 2], stride = [2, 2], low = [2, 2], high = [2, "
       "2]): "
       "padding = 2 must be less than the kernel's reach, 2; pad() takes any",
       CALL(max_pool2d(F(1, 1, 4, 4), 2, 0, 2))},
      {Kind::value,
       "avg_pool(x: f32[1, 1, 4, 4], kernel = [0, 0], stride = [0, 0]): kernel must be one number "
       "from 1 for all spatial axes or one for each of the 2",
       CALL(avg_pool2d(F(1, 1, 4, 4), 0))},
      {Kind::shape,
       "max_unpool(x: f32[1, 1, 2, 2], indices: i64[1, 1, 2], shape = [1, 1, 4, 4]): indices must "
       "have the shape of x, [1, 1, 2, 2], but are [1, 1, 2]",
       CALL(max_unpool(F(1, 1, 2, 2), I(1, 1, 2), {4, 4}))},
      {Kind::value,
       "lp_pool(x: f32[1, 1, 4], p = 0.0, kernel = [2], stride = [2], low = [0], high = [0], "
       "dilation = [1]): p "
       "must be above 0",
       CALL(lp_pool(F(1, 1, 4), 0, 2))},
      {Kind::shape, "global_avg_pool(x: f32[2, 3]): x must be [n, c, ...] with spatial axes",
       CALL(global_avg_pool(F(2, 3)))},
  };
  return calls;
}

TEST(Errors, OfWindowsNameTheRule) { expect_errors(bad_window_calls(), "windows_errors_test.cpp"); }

}  // namespace
}  // namespace dyad::testing
