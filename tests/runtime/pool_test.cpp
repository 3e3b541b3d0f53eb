#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dyad/ops/attrs/nn.h"
#include "tests/runtime/support.h"

namespace dyad::testing {
namespace {

struct PoolCase {
  std::int64_t n, c, h, w;
  Ints kernel, stride, padding;

  [[nodiscard]] std::int64_t oh() const { return (h + 2 * padding[0] - kernel[0]) / stride[0] + 1; }
  [[nodiscard]] std::int64_t ow() const { return (w + 2 * padding[1] - kernel[1]) / stride[1] + 1; }
};

std::vector<PoolCase> pool_cases() {
  return {{2, 3, 8, 8, {2, 2}, {2, 2}, {0, 0}},  {1, 17, 7, 9, {3, 2}, {2, 1}, {1, 1}},
          {2, 1, 5, 5, {3, 3}, {1, 1}, {1, 1}},  {2, 8, 9, 6, {3, 2}, {2, 2}, {1, 1}},
          {1, 24, 5, 6, {2, 2}, {2, 1}, {0, 1}}, {2, 64, 6, 5, {3, 3}, {2, 2}, {1, 1}}};
}

ops::PoolAttrs pool_attrs(const Ints& kernel, const Ints& stride, const Ints& padding,
                          bool count_include_pad = true) {
  return {.kernel = kernel,
          .stride = stride,
          .low = Shape(padding),
          .high = Shape(padding),
          .count_include_pad = count_include_pad,
          .adaptive = {}};
}

ops::AvgPoolBackwardAttrs avg_backward_attrs(const ops::PoolAttrs& a, const Shape& shape) {
  return {.kernel = a.kernel,
          .stride = a.stride,
          .low = a.low,
          .high = a.high,
          .count_include_pad = a.count_include_pad,
          .adaptive = {},
          .shape = shape};
}

/// Calls `visit(index of the input)` for the window of an output, row-major.
template <class Visit>
void for_window(const PoolCase& s, std::span<const std::int64_t> out, Visit visit) {
  for (std::int64_t kh = 0; kh < s.kernel[0]; ++kh) {
    for (std::int64_t kw = 0; kw < s.kernel[1]; ++kw) {
      const std::int64_t in[] = {out[0], out[1], out[2] * s.stride[0] - s.padding[0] + kh,
                                 out[3] * s.stride[1] - s.padding[1] + kw};
      if (in[2] >= 0 && in[2] < s.h && in[3] >= 0 && in[3] < s.w)
        visit(std::span<const std::int64_t>(in));
    }
  }
}

/// The input position of an output's largest element: the first, NaN before all.
std::vector<std::int64_t> position(const PoolCase& s, const Tensor& x,
                                   std::span<const std::int64_t> out) {
  std::vector<std::int64_t> best;
  for_window(s, out, [&](auto in) {
    const double value = value_at(x, in);
    const double held = best.empty() ? 0 : value_at(x, best);
    if (best.empty() || value > held || (std::isnan(value) && !std::isnan(held))) {
      best.assign(in.begin(), in.end());
    }
  });
  return best;
}

class MaxPool : public ::testing::TestWithParam<DType> {};

TEST_P(MaxPool, ForwardBackwardAndTake) {
  for (const PoolCase& s : pool_cases()) {
    const ops::PoolAttrs attrs = pool_attrs(s.kernel, s.stride, s.padding);
    for (const Lie lie : {Lie::dense, Lie::channels_last, Lie::spread}) {
      const Tensor x = random(GetParam(), {s.n, s.c, s.h, s.w}, 1, lie);
      const Tensor y = run_kernel("max_pool", &attrs, {x}, GetParam(), {s.n, s.c, s.oh(), s.ow()});
      const Tensor grad = random(GetParam(), {s.n, s.c, s.oh(), s.ow()}, 2, lie);
      const Tensor other = random(GetParam(), {s.n, s.c, s.h, s.w}, 3, lie);
      const Tensor dx =
          run_kernel("max_pool_backward", &attrs, {grad, x}, GetParam(), {s.n, s.c, s.h, s.w});
      const Tensor taken =
          run_kernel("max_pool_take", &attrs, {other, x}, GetParam(), {s.n, s.c, s.oh(), s.ow()});
      const Tensor expected = make(f64, {s.n, s.c, s.h, s.w});
      for_each_index(x.shape().numbers(), [&](auto i) { set_value(expected, i, 0); });
      for_each_index(y.shape().numbers(), [&](auto out) {
        const auto at = position(s, x, out);
        EXPECT_EQ(value_at(y, out), value_at(x, at));
        EXPECT_EQ(value_at(taken, out), value_at(other, at));
        set_value(expected, at, value_at(expected, at) + value_at(grad, out));
      });
      EXPECT_EQ(values(dx), values(expected));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, MaxPool, ::testing::Values(f64, f32, f16, bf16, i64, i32, i8),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(MaxPoolEdges, NanIsLargestAndTheFirstOfEqualsCounts) {
  const ops::PoolAttrs attrs = pool_attrs({2, 2}, {2, 2}, {0, 0});
  const Tensor x = make(f32, {1, 1, 2, 4}), grad = make(f32, {1, 1, 1, 2});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double elements[] = {1, nan, 3, 3, 5, nan, 2, 3};
  int i = 0;
  for_each_index(x.shape().numbers(), [&](auto index) { set_value(x, index, elements[i++]); });
  for_each_index(grad.shape().numbers(), [&](auto index) { set_value(grad, index, 1); });
  const auto y = values(run_kernel("max_pool", &attrs, {x}, f32, {1, 1, 1, 2}));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 3);
  EXPECT_EQ(values(run_kernel("max_pool_backward", &attrs, {grad, x}, f32, {1, 1, 2, 4})),
            (std::vector<double>{0, 1, 1, 0, 0, 0, 0, 0}));
}

TEST(MaxPoolEdges, NanIsLargestInImagesOfManyChannels) {
  const ops::PoolAttrs attrs = pool_attrs({2, 2}, {2, 2}, {0, 0});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  // Of each window, which is the same in all channels but for one that begins with NaN.
  const double windows[4][4] = {{1, nan, 3, 2},
                                {5, 2, 4, nan},
                                {-infinity, -infinity, -infinity, -infinity},
                                {-1, -3, 0, -2}};
  for (const std::int64_t channels : {8, 24, 32}) {
    const Tensor x = make(f32, {1, channels, 4, 4}, Lie::channels_last);
    for_each_index(x.shape().numbers(), [&](auto at) {
      const auto window = static_cast<std::size_t>(at[2] / 2 * 2 + at[3] / 2);
      const auto element = static_cast<std::size_t>(at[2] % 2 * 2 + at[3] % 2);
      set_value(x, at, at[1] == 5 && element == 0 ? nan : windows[window][element]);
    });
    const auto y = values(run_kernel("max_pool", &attrs, {x}, f32, {1, channels, 2, 2}));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const bool is_nan = i / 4 == 5 || i % 4 < 2;
      EXPECT_EQ(std::isnan(y[i]), is_nan) << i;
      if (!is_nan) {
        EXPECT_EQ(y[i], i % 4 == 2 ? -infinity : 0) << i;
      }
    }
  }
}

TEST(MaxPoolEdges, InfinitiesAndEmptyBatches) {
  const ops::PoolAttrs attrs = pool_attrs({2, 2}, {2, 2}, {1, 1});
  const Tensor x = make(f32, {1, 1, 2, 2});
  for_each_index(x.shape().numbers(), [&](auto index) {
    set_value(x, index, -std::numeric_limits<double>::infinity());
  });
  EXPECT_EQ(values(run_kernel("max_pool", &attrs, {x}, f32, {1, 1, 2, 2})),
            std::vector<double>(4, -std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(
      values(run_kernel("max_pool", &attrs, {make(f32, {0, 1, 2, 2})}, f32, {0, 1, 2, 2})).empty());
}

class AvgPool : public ::testing::TestWithParam<DType> {};

TEST_P(AvgPool, ForwardAndBackward) {
  for (const PoolCase& s : pool_cases()) {
    for (const bool count_padding : {true, false}) {
      const ops::PoolAttrs attrs = pool_attrs(s.kernel, s.stride, s.padding, count_padding);
      const ops::AvgPoolBackwardAttrs back = avg_backward_attrs(attrs, {s.n, s.c, s.h, s.w});
      for (const Lie lie : {Lie::dense, Lie::channels_last}) {
        const Tensor x = random(GetParam(), {s.n, s.c, s.h, s.w}, 1, lie);
        const Tensor grad = random(GetParam(), {s.n, s.c, s.oh(), s.ow()}, 2, lie);
        const Tensor y =
            run_kernel("avg_pool", &attrs, {x}, GetParam(), {s.n, s.c, s.oh(), s.ow()});
        const Tensor dx =
            run_kernel("avg_pool_backward", &back, {grad}, GetParam(), {s.n, s.c, s.h, s.w});
        const Tensor expected = make(f64, {s.n, s.c, s.h, s.w});
        for_each_index(x.shape().numbers(), [&](auto i) { set_value(expected, i, 0); });
        const double tolerance = GetParam() == f64 ? 1e-12 : GetParam() == f32 ? 1e-5 : 2e-2;
        for_each_index(y.shape().numbers(), [&](auto out) {
          double sum = 0, inside = 0;
          for_window(s, out, [&](auto in) {
            sum += value_at(x, in);
            ++inside;
          });
          const double count =
              count_padding ? static_cast<double>(s.kernel[0] * s.kernel[1]) : inside;
          EXPECT_NEAR(value_at(y, out), sum / count, tolerance);
          for_window(s, out, [&](auto in) {
            set_value(expected, in, value_at(expected, in) + value_at(grad, out) / count);
          });
        });
        for_each_index(dx.shape().numbers(), [&](auto i) {
          EXPECT_NEAR(value_at(dx, i), value_at(expected, i), tolerance);
        });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, AvgPool, ::testing::Values(f64, f32, f16, bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(PoolBits, DoNotDependOnThreads) {
  const ops::PoolAttrs max = pool_attrs({3, 3}, {1, 1}, {1, 1});
  const ops::AvgPoolBackwardAttrs avg = avg_backward_attrs(max, {8, 32, 24, 24});
  const Tensor x = random(f32, {8, 32, 24, 24}, 1), grad = random(f32, {8, 32, 24, 24}, 2);
  std::vector<Tensor> results[2];
  for (const int threads : {1, 2}) {
    const Threads scope(threads);
    results[threads - 1] = {run_kernel("max_pool", &max, {x}, f32, {8, 32, 24, 24}),
                            run_kernel("max_pool_backward", &max, {grad, x}, f32, {8, 32, 24, 24}),
                            run_kernel("avg_pool_backward", &avg, {grad}, f32, {8, 32, 24, 24})};
  }
  for (std::size_t k = 0; k < results[0].size(); ++k)
    EXPECT_TRUE(same_bits(results[0][k], results[1][k])) << k;
}

}  // namespace
}  // namespace dyad::testing
