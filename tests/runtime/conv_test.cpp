#include <gtest/gtest.h>

#include <cmath>

#include "dyad/core/storage.h"
#include "dyad/ops/attrs/nn.h"
#include "tests/runtime/support.h"

namespace dyad::testing {
namespace {

struct ConvCase {
  std::int64_t n, c, h, w, o, kh, kw;
  Ints stride{1, 1}, padding{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;

  [[nodiscard]] std::int64_t oh() const {
    return (h + 2 * padding[0] - dilation[0] * (kh - 1) - 1) / stride[0] + 1;
  }
  [[nodiscard]] std::int64_t ow() const {
    return (w + 2 * padding[1] - dilation[1] * (kw - 1) - 1) / stride[1] + 1;
  }
};

std::vector<ConvCase> conv_cases() {
  return {{2, 1, 9, 8, 5, 3, 3},
          {2, 16, 6, 7, 20, 3, 3, {1, 1}, {1, 1}},
          {1, 3, 11, 11, 8, 5, 3, {2, 3}, {2, 1}},
          {2, 20, 9, 9, 6, 3, 3, {1, 1}, {2, 2}, {2, 2}},
          {2, 8, 6, 6, 12, 3, 3, {1, 1}, {1, 1}, {1, 1}, 4},
          {2, 6, 5, 5, 6, 3, 3, {2, 2}, {1, 1}, {1, 1}, 6},
          {3, 4, 5, 5, 7, 1, 1},
          {2, 20, 4, 5, 18, 1, 1},
          {1, 33, 3, 5, 16, 1, 1},
          {2, 64, 4, 4, 68, 3, 3, {1, 1}, {1, 1}},
          {1, 66, 5, 6, 64, 3, 3, {2, 2}, {1, 1}}};
}

/// Calls `visit(x index, weight index, out index)` for each product of the convolution.
template <class Visit>
void for_each_product(const ConvCase& s, Visit visit) {
  const std::int64_t per_group = s.o / s.groups, channels = s.c / s.groups;
  const std::int64_t space[] = {s.n, s.o, s.oh(), s.ow(), channels, s.kh, s.kw};
  for_each_index(space, [&](auto i) {
    const std::int64_t ih = i[2] * s.stride[0] - s.padding[0] + i[5] * s.dilation[0];
    const std::int64_t iw = i[3] * s.stride[1] - s.padding[1] + i[6] * s.dilation[1];
    if (ih < 0 || ih >= s.h || iw < 0 || iw >= s.w) return;
    const std::int64_t x[] = {i[0], i[1] / per_group * channels + i[4], ih, iw};
    const std::int64_t weight[] = {i[1], i[4], i[5], i[6]}, out[] = {i[0], i[1], i[2], i[3]};
    visit(std::span(x), std::span(weight), std::span(out));
  });
}

Tensor zeros(std::span<const std::int64_t> sizes) {
  Tensor t = make_empty(f64, Shape(sizes));
  for_each_index(sizes, [&](auto index) { set_value(t, index, 0); });
  return t;
}

void add(const Tensor& t, std::span<const std::int64_t> index, double value) {
  set_value(t, index, value_at(t, index) + value);
}

/// Values of `t` are those of `expected` (f64, exact), rounded to the dtype of `t`.
void expect_values(const Tensor& t, const Tensor& expected) {
  const Tensor scratch = make(t.dtype(), {});
  for_each_index(t.shape().numbers(), [&](auto index) {
    set_value(scratch, {}, value_at(expected, index));
    ASSERT_EQ(value_at(t, index), value_at(scratch, {}));
  });
}

class Conv : public ::testing::TestWithParam<DType> {};

TEST_P(Conv, Forward) {
  for (const ConvCase& s : conv_cases()) {
    const ops::ConvAttrs attrs{s.stride, Shape(s.padding), Shape(s.padding), s.dilation, s.groups};
    for (const Lie lie : {Lie::dense, Lie::channels_last, Lie::spread}) {
      const Tensor x = random(GetParam(), {s.n, s.c, s.h, s.w}, 1, lie);
      const Tensor w = random(GetParam(), {s.o, s.c / s.groups, s.kh, s.kw}, 2, lie);
      const Tensor bias = random(GetParam(), {s.o}, 3);
      for (const bool with_bias : {false, true}) {
        const Tensor y = run_kernel("conv", &attrs, {x, w, with_bias ? bias : Tensor()}, GetParam(),
                                    {s.n, s.o, s.oh(), s.ow()});
        const Tensor expected = zeros(y.shape().numbers());
        for_each_product(s, [&](auto ix, auto iw, auto iy) {
          add(expected, iy, value_at(x, ix) * value_at(w, iw));
        });
        if (with_bias) {
          for_each_index(y.shape().numbers(),
                         [&](auto i) { add(expected, i, value_at(bias, i.subspan(1, 1))); });
        }
        expect_values(y, expected);
      }
    }
  }
}

TEST_P(Conv, BackwardInput) {
  for (const ConvCase& s : conv_cases()) {
    const ops::ConvBackwardAttrs attrs{s.stride,   Shape(s.padding), Shape(s.padding),
                                       s.dilation, s.groups,         Shape{s.n, s.c, s.h, s.w}};
    for (const Lie lie : {Lie::dense, Lie::channels_last, Lie::spread}) {
      const Tensor grad = random(GetParam(), {s.n, s.o, s.oh(), s.ow()}, 1, lie);
      const Tensor w = random(GetParam(), {s.o, s.c / s.groups, s.kh, s.kw}, 2, lie);
      const Tensor dx =
          run_kernel("conv_transpose", &attrs, {grad, w}, GetParam(), {s.n, s.c, s.h, s.w});
      const Tensor expected = zeros(dx.shape().numbers());
      for_each_product(s, [&](auto ix, auto iw, auto iy) {
        add(expected, ix, value_at(grad, iy) * value_at(w, iw));
      });
      expect_values(dx, expected);
    }
  }
}

TEST_P(Conv, BackwardWeight) {
  for (const ConvCase& s : conv_cases()) {
    const ops::ConvBackwardAttrs attrs{s.stride,         Shape(s.padding),
                                       Shape(s.padding), s.dilation,
                                       s.groups,         Shape{s.o, s.c / s.groups, s.kh, s.kw}};
    for (const Lie lie : {Lie::dense, Lie::channels_last, Lie::spread}) {
      const Tensor grad = random(GetParam(), {s.n, s.o, s.oh(), s.ow()}, 1, lie);
      const Tensor x = random(GetParam(), {s.n, s.c, s.h, s.w}, 2, lie);
      const Tensor dw = run_kernel("conv_backward_weight", &attrs, {grad, x}, GetParam(),
                                   {s.o, s.c / s.groups, s.kh, s.kw});
      const Tensor expected = zeros(dw.shape().numbers());
      for_each_product(s, [&](auto ix, auto iw, auto iy) {
        add(expected, iw, value_at(grad, iy) * value_at(x, ix));
      });
      expect_values(dw, expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Conv, ::testing::Values(f64, f32, f16, bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(ConvLayout, ImagesAreChannelsLast) {
  const ops::ConvAttrs attrs;
  const Tensor y = run_kernel(
      "conv", &attrs, {random(f32, {2, 3, 5, 5}, 1), random(f32, {7, 3, 2, 2}, 2), Tensor()}, f32,
      {2, 7, 4, 4});
  EXPECT_EQ(y.strides(), (Strides{7 * 16, 1, 7 * 4, 7}));
}

TEST(ConvEmpty, NoImagesGiveNothingAndZeroGradients) {
  const ops::ConvAttrs attrs;
  const Tensor w = random(f32, {4, 2, 3, 3}, 1);
  EXPECT_TRUE(
      values(run_kernel("conv", &attrs, {make(f32, {0, 2, 5, 5}), w, Tensor()}, f32, {0, 4, 3, 3}))
          .empty());
  const ops::ConvBackwardAttrs back{.shape = Shape{4, 2, 3, 3}};
  EXPECT_EQ(
      values(run_kernel("conv_backward_weight", &back,
                        {make(f32, {0, 4, 3, 3}), make(f32, {0, 2, 5, 5})}, f32, {4, 2, 3, 3})),
      std::vector<double>(72, 0.0));
}

TEST(ConvWeights, OverwrittenWeightsAreSeen) {
  // The packed copy of a weight must not outlive its elements, however they are written, and
  // however often it was used.
  const ops::ConvAttrs attrs;
  const Tensor x = random(f32, {1, 16, 6, 6}, 1), w = random(f32, {16, 16, 3, 3}, 2);
  const auto convolved = [&] {
    return run_kernel("conv", &attrs, {x, w, Tensor()}, f32, {1, 16, 4, 4});
  };
  const std::int64_t last[] = {15, 15, 2, 2}, out[] = {0, 15, 1, 1}, in[] = {0, 15, 3, 3};
  for (const bool counted : {true, false}) {
    for (const int calls : {1, 2, 3, 4}) {
      SCOPED_TRACE(calls);
      const Tensor before = convolved();
      for (int i = 1; i < calls; ++i) EXPECT_TRUE(same_bits(before, convolved()));
      set_value(w, last, value_at(w, last) + 1);
      if (counted) w.impl()->storage->bump_version();
      EXPECT_EQ(value_at(convolved(), out), value_at(before, out) + value_at(x, in));
    }
  }
}

TEST(ConvWeights, WrittenBetweenCallsLeaveNoCopies) {
  const ops::ConvAttrs attrs;
  const Tensor x = random(f32, {2, 256, 6, 6}, 1);
  std::vector<Tensor> weights;  // 4.7 MB each
  for (int i = 0; i < 4; ++i) weights.push_back(random(f32, {512, 256, 3, 3}, 2));
  const auto use = [&](const Tensor& w) {
    (void)run_kernel("conv", &attrs, {x, w, Tensor()}, f32, {2, 512, 4, 4});
    w.impl()->storage->bump_version();
  };
  use(weights[0]);
  const std::size_t before = memory_stats().in_use;
  for (int step = 0; step < 2; ++step) {
    for (const Tensor& w : weights) use(w);
  }
  EXPECT_LE(memory_stats().in_use, before + (std::size_t{1} << 20));
}

TEST(ConvBits, SameRunToRunAtEachThreadCount) {
  const Tensor x = make(f32, {8, 16, 20, 20}), w = make(f32, {32, 16, 3, 3}),
               g = make(f32, {8, 32, 18, 18});
  int i = 0;
  for (const Tensor& t : {x, w, g}) {
    for_each_index(t.shape().numbers(), [&](auto index) { set_value(t, index, std::sin(++i)); });
  }
  const ops::ConvAttrs attrs;
  const ops::ConvBackwardAttrs to_x{.shape = x.shape()}, to_w{.shape = w.shape()};
  for (const int threads : {1, 2}) {
    const Threads scope(threads);
    const auto run = [&] {
      return std::vector<Tensor>{
          run_kernel("conv", &attrs, {x, w, Tensor()}, f32, {8, 32, 18, 18}),
          run_kernel("conv_transpose", &to_x, {g, w}, f32, {8, 16, 20, 20}),
          run_kernel("conv_backward_weight", &to_w, {g, x}, f32, {32, 16, 3, 3})};
    };
    const auto first = run();
    for (int round = 0; round < 3; ++round) {
      const auto again = run();
      for (std::size_t k = 0; k < first.size(); ++k)
        EXPECT_TRUE(same_bits(first[k], again[k])) << k;
    }
  }
}

}  // namespace
}  // namespace dyad::testing
