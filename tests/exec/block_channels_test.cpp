// Graphs whose images stay in blocks of eight channels between convolutions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "dyad/ops/attrs/epilogue.h"
#include "dyad/passes/epilogue_ops.h"
#include "exec_for_tests.h"

namespace dyad::exec {
namespace {

class BlockChannelsTest : public RestoresThreads {
 protected:
  void SetUp() override {
    ops::register_builtin_ops();
    passes::register_epilogue_ops();
    manual_seed(11);
  }
};

/// That under fast_math `count` convolutions of `fn` are in blocks, and that its results are nearly
/// those of eager mode, which lie as they do there.
void expect_in_blocks(const Function& fn, const Tensors& inputs, int count, Types types = {}) {
  if (types.empty()) types = types_of(inputs);
  const Ref<GraphImpl> graph = record(fn, types);
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    Executable executable(graph, {.fast_math = true, .channel_blocks = true});
    EXPECT_EQ(count_of(executable.lowered(), "conv_blocks"), count)
        << to_string(executable.lowered());
    const Tensors expected = fn(inputs);
    for (int run = 0; run < 2; ++run) {
      const Tensors given = executable.run(inputs);
      ASSERT_EQ(given.size(), expected.size());
      for (std::size_t i = 0; i < given.size(); ++i) expect_near(given[i], expected[i], 2e-4);
    }
  }
}

Tensor weight(std::int64_t out, std::int64_t in, std::int64_t kernel) {
  return literal(normal({out, in, kernel, kernel}) *
                 (1.0 / std::sqrt(static_cast<double>(in * kernel * kernel))));
}

Tensor in_blocks(const Tensor& image) {
  const Shape shape = image.shape();
  return contiguous(
      permute(reshape(image, {shape[0], shape[1] / 8, 8, shape[2], shape[3]}), {0, 1, 3, 4, 2}));
}

/// The graph of one `conv_blocks` on an image, a bias and a residual (where they are defined); its
/// weight is a constant or a fourth input.
Ref<GraphImpl> graph_of(const ops::ConvEpilogueAttrs& attrs, const Tensors& inputs,
                        const Tensor& weight, bool is_constant) {
  const auto graph = make_ref<GraphImpl>();
  std::vector<Value> values;
  for (const Tensor& input : inputs) {
    values.push_back(input.defined() ? graph->add_placeholder("x" + std::to_string(values.size()),
                                                              type_of(input), Loc())
                                     : Value());
  }
  const Value w = is_constant ? graph->add_constant(weight, Loc())
                              : graph->add_placeholder("w", type_of(weight), Loc());
  Node* const node = graph->append_checked(
      passes::kConvBlocksOp, Attrs::copy_of(attrs_info<ops::ConvEpilogueAttrs>, &attrs),
      {values[0], w, values[1], values[2]}, Loc());
  graph->outputs().push_back(node->output());
  return graph;
}

struct ConvCase {
  std::int64_t n, channels, out, height, width, kernel, stride, pad, dilation, groups;
};

/// That `conv_blocks` gives what conv2d gives, with everything that may be joined to it.
void expect_convolution(const ConvCase& s) {
  SCOPED_TRACE(
      fmt::format("{} images of {} x {} x {}, weight {} x {} x {}, stride {}, padding {}, "
                  "dilation {}, groups {}",
                  s.n, s.channels, s.height, s.width, s.out, s.kernel, s.kernel, s.stride, s.pad,
                  s.dilation, s.groups));
  const Tensor x = normal({s.n, s.channels, s.height, s.width}),
               w = normal({s.out, s.channels / s.groups, s.kernel, s.kernel}), b = normal({s.out});
  const Tensor sums = conv2d(x, w, {}, s.stride, s.pad, s.dilation, s.groups);
  const Tensor r = normal(sums.shape()), image = s.channels % 8 == 0 ? in_blocks(x) : x;
  const auto check = [&](std::string_view activation, const Tensor& bias, const Tensor& residual,
                         const Tensor& expected) {
    const ops::ConvEpilogueAttrs attrs{.stride = {s.stride, s.stride},
                                       .low = {s.pad, s.pad},
                                       .high = {s.pad, s.pad},
                                       .dilation = {s.dilation, s.dilation},
                                       .groups = s.groups,
                                       .activation = std::string(activation),
                                       .alpha = -2,
                                       .beta = 3};
    Tensors inputs{image, bias, residual};
    for (const bool is_constant : {true, false}) {
      const Ref<GraphImpl> graph = graph_of(attrs, inputs, w, is_constant);
      Tensors fed;
      for (const Tensor& input : inputs) {
        if (input.defined()) fed.push_back(input);
      }
      if (!is_constant) fed.push_back(w);
      for (const int threads : {1, 2}) {
        set_num_threads(threads);
        expect_near(Executable(graph).run(fed)[0], in_blocks(expected), 2e-4);
      }
    }
  };
  check("", {}, {}, sums);
  const Tensor whole = sums + reshape(b, {s.out, 1, 1}) + r;
  check("relu", b, in_blocks(r), relu(whole));
  check("clamp", b, {}, clamp(sums + reshape(b, {s.out, 1, 1}), -2, 3));
  check("silu", b, in_blocks(r), silu(whole));
}

TEST_F(BlockChannelsTest, TheOperatorIsTheConvolution) {
  constexpr ConvCase kCases[] = {
      {2, 16, 8, 9, 9, 3, 1, 1, 1, 1},    {1, 8, 24, 10, 8, 3, 2, 1, 1, 1},
      {3, 32, 16, 11, 11, 5, 1, 0, 2, 1}, {2, 16, 32, 7, 5, 1, 1, 0, 1, 1},
      {1, 24, 8, 8, 8, 1, 2, 0, 1, 1},    {2, 32, 32, 9, 9, 3, 1, 1, 1, 32},
      {1, 40, 40, 10, 7, 3, 2, 1, 1, 40}, {2, 3, 16, 12, 14, 7, 2, 3, 1, 1},
      {1, 1, 8, 6, 6, 3, 1, 0, 1, 1},     {2, 5, 8, 6, 6, 3, 1, 1, 1, 1},
      {0, 16, 8, 9, 9, 3, 1, 1, 1, 1},    {2, 32, 16, 6, 6, 3, 1, 1, 1, 2},
  };
  for (const ConvCase& s : kCases) expect_convolution(s);
}

TEST_F(BlockChannelsTest, ConvolutionsOfThreeByThree) {
  constexpr ConvCase kCases[] = {
      {1, 32, 32, 8, 8, 3, 1, 1, 1, 1},    {2, 40, 48, 7, 9, 3, 1, 0, 1, 1},
      {1, 64, 32, 14, 13, 3, 1, 2, 1, 1},  {3, 72, 64, 20, 20, 3, 1, 1, 1, 1},
      {1, 136, 32, 5, 3, 3, 1, 1, 1, 1},   {2, 32, 64, 3, 3, 3, 1, 0, 1, 1},
      {1, 32, 160, 30, 41, 3, 1, 1, 1, 1}, {0, 32, 32, 8, 8, 3, 1, 1, 1, 1},
  };
  for (const ConvCase& s : kCases) expect_convolution(s);
}

TEST_F(BlockChannelsTest, NaNStaysWhatItIs) {
  const Tensor w = normal({32, 32, 3, 3});
  const Tensor x = where(arange(64) == 9, std::numeric_limits<float>::quiet_NaN(), 1.0f);
  const Tensor image = in_blocks(expand(reshape(x, {1, 1, 8, 8}), {1, 32, 8, 8}));
  const ops::ConvEpilogueAttrs attrs{.low = {1, 1}, .high = {1, 1}};
  const Tensor given = Executable(graph_of(attrs, {image, {}, {}}, w, true)).run(Tensors{image})[0];
  EXPECT_TRUE(all(isnan(slice(slice(given, 2, 0, 3), 3, 0, 3))).item<bool>());
  EXPECT_FALSE(any(isnan(slice(slice(given, 2, 4), 3, 4))).item<bool>());
}

TEST_F(BlockChannelsTest, ANetworkWithResidualsAndPools) {
  const Tensor stem = weight(32, 3, 7), a = weight(32, 32, 3), b = weight(32, 32, 3),
               wider = weight(64, 32, 3), short_cut = weight(64, 32, 1), c = weight(64, 64, 3),
               last = weight(10, 64, 1), bias = normal({32});
  const Function fn = [&](std::span<const Tensor> in) -> Tensors {
    Tensor x = relu(conv2d(in[0], literal(stem), literal(bias), 2, 3));
    x = max_pool2d(x, 3, 2, 1);
    x = relu(conv2d(relu(conv2d(x, literal(a), {}, 1, 1)), literal(b), {}, 1, 1) + x);
    const Tensor y = conv2d(relu(conv2d(x, literal(wider), {}, 2, 1)), literal(c), {}, 1, 1);
    x = relu(y + conv2d(x, literal(short_cut), {}, 2));
    x = avg_pool2d(x, 2, 2);
    return {reshape(mean(x, {2, 3}), {-1, 64}), flatten(conv2d(x, literal(last)), 1)};
  };
  expect_in_blocks(fn, {normal({2, 3, 64, 64})}, 6);
  // One graph for all sizes.
  const Dim n = Dim::symbol("n"), h = Dim::symbol("h"), w = Dim::symbol("w");
  for (const std::int64_t side : {64, 70}) {
    for (const std::int64_t images : {0, 3}) {
      expect_in_blocks(fn, {normal({images, 3, side, 56})}, 6, {Type(f32, {n, 3, h, w})});
    }
  }
}

TEST_F(BlockChannelsTest, GatesNormsAndConcatenations) {
  const Tensor a = weight(32, 32, 3), b = weight(32, 32, 3), c = weight(48, 64, 3),
               squeeze = weight(8, 32, 1), excite = weight(32, 8, 1), scale = normal({1, 32, 1, 1}),
               shift = normal({32, 1, 1});
  const Function fn = [&](std::span<const Tensor> in) -> Tensors {
    const Tensor x = relu(conv2d(in[0], literal(a), {}, 1, 1));
    Tensor y = conv2d(x, literal(b), {}, 1, 1) * literal(scale) + literal(shift);
    const Tensor gate =
        conv2d(relu(conv2d(mean(y, {2, 3}, true), literal(squeeze))), literal(excite));
    y = y * sigmoid(gate) * in[1] + x * 0.5;
    const Tensor z = conv2d(concat({x, tanh(y)}, 1), literal(c), {}, 1, 1);
    return {sigmoid(z), sum(z, {-1, -2})};
  };
  expect_in_blocks(fn, {normal({2, 32, 20, 20}), normal({2, 1, 20, 20})}, 5);
}

TEST_F(BlockChannelsTest, DepthwiseConvolutions) {
  const Tensor a = weight(32, 32, 3), depthwise = weight(32, 1, 3), b = weight(64, 32, 1),
               c = weight(64, 64, 3);
  const Function fn = [&](std::span<const Tensor> in) -> Tensors {
    Tensor x = relu(conv2d(in[0], literal(a), {}, 1, 1));
    x = clamp(conv2d(x, literal(depthwise), {}, 2, 1, 1, 32), 0, 6);
    return {conv2d(conv2d(x, literal(b)), literal(c), {}, 1, 1)};
  };
  expect_in_blocks(fn, {normal({2, 32, 24, 24})}, 4);
}

TEST_F(BlockChannelsTest, WhatIsNotFasterStaysAsItIs) {
  const Tensor a = weight(32, 32, 5), odd = weight(12, 32, 3), b = weight(32, 12, 3);
  // One convolution between other operators turns its images itself.
  expect_in_blocks(
      [&](std::span<const Tensor> in) -> Tensors { return {conv2d(in[0], literal(a), {}, 1, 1)}; },
      {normal({1, 32, 20, 20})}, 0);
  // Twelve channels do not divide by eight.
  expect_in_blocks(
      [&](std::span<const Tensor> in) -> Tensors {
        return {conv2d(conv2d(in[0], literal(odd), {}, 1, 1), literal(b), {}, 1, 1)};
      },
      {normal({1, 32, 20, 20})}, 0);
  // Single taps and single channels are faster where channels come last.
  const Tensor tap = weight(64, 64, 1), depthwise = weight(64, 1, 3);
  expect_in_blocks(
      [&](std::span<const Tensor> in) -> Tensors {
        const Tensor y = conv2d(conv2d(in[0], literal(tap)), literal(depthwise), {}, 1, 1, 1, 64);
        return {conv2d(relu(y), literal(tap))};
      },
      {normal({1, 64, 20, 20})}, 0);
}

TEST_F(BlockChannelsTest, ExactGraphsHaveNone) {
  const Tensor a = weight(32, 32, 3);
  const Function fn = [&](std::span<const Tensor> in) -> Tensors {
    return {conv2d(conv2d(in[0], literal(a), {}, 1, 1), literal(a), {}, 1, 1)};
  };
  const Tensors inputs{normal({1, 32, 20, 20})};
  Executable executable(record(fn, types_of(inputs)), {.channel_blocks = true});
  EXPECT_EQ(count_of(executable.lowered(), "conv_blocks"), 0);
  EXPECT_TRUE(same_bits(executable.run(inputs)[0], fn(inputs)[0]));
  expect_in_blocks(fn, inputs, 2);
}

}  // namespace
}  // namespace dyad::exec
