// Convolutions in dtypes that the CPU has none for: casts and one in f32 in a graph.
#include <fmt/format.h>

#include "dyad/autograd/gradients.h"
#include "dyad/runtime/convolutions.h"
#include "exec_for_tests.h"

namespace dyad::exec {
namespace {

/// A convolution and what it is of.
struct Convolution {
  std::string name;
  Shape x, weight;
  std::int64_t stride = 1, padding = 0, groups = 1;
  bool bias = true, last = false;  ///< whether images have their channels last
};

std::vector<Convolution> convolutions() {
  return {
      {.name = "of rows", .x = {2, 3, 9}, .weight = {4, 3, 3}},
      {.name = "padded", .x = {2, 16, 10, 9}, .weight = {32, 16, 3, 3}, .padding = 1},
      {.name = "channels last",
       .x = {2, 16, 10, 9},
       .weight = {32, 16, 3, 3},
       .padding = 1,
       .last = true},
      {.name = "of Winograd's size", .x = {2, 32, 24, 24}, .weight = {64, 32, 3, 3}, .padding = 1},
      {.name = "in steps of two", .x = {3, 8, 7, 8}, .weight = {8, 8, 3, 3}, .stride = 2},
      {.name = "pixel by pixel", .x = {2, 32, 9, 8}, .weight = {16, 32, 1, 1}},
      {.name = "pixel by pixel, channels last",
       .x = {2, 32, 9, 8},
       .weight = {16, 32, 1, 1},
       .bias = false,
       .last = true},
      {.name = "in groups", .x = {2, 8, 6, 6}, .weight = {4, 4, 3, 3}, .groups = 2},
      {.name = "channel by channel", .x = {2, 8, 6, 6}, .weight = {8, 1, 3, 3}, .groups = 8},
      {.name = "channel by channel, channels last",
       .x = {2, 8, 6, 6},
       .weight = {8, 1, 3, 3},
       .groups = 8,
       .last = true},
      {.name = "of space", .x = {1, 4, 5, 6, 7}, .weight = {6, 4, 2, 2, 2}},
      {.name = "to one pixel", .x = {2, 4, 3, 3}, .weight = {4, 4, 3, 3}},
      {.name = "to one channel", .x = {2, 3, 8, 8}, .weight = {1, 3, 3, 3}, .padding = 1},
      {.name = "to one column", .x = {2, 3, 8, 3}, .weight = {6, 3, 3, 3}},
      {.name = "of no image", .x = {0, 3, 5, 5}, .weight = {2, 3, 3, 3}},
      {.name = "of no channel", .x = {2, 0, 5, 5}, .weight = {2, 0, 3, 3}},
  };
}

Tensor convolved(const Convolution& c, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  switch (c.x.size()) {
    case 3:
      return conv1d(x, weight, bias, c.stride, c.padding, 1, c.groups);
    case 4:
      return conv2d(x, weight, bias, c.stride, c.padding, 1, c.groups);
    default:
      return conv3d(x, weight, bias, c.stride, c.padding, 1, c.groups);
  }
}

/// `images` with the axis of channels innermost in memory.
Tensor channels_last(const Tensor& images) {
  return transpose(transpose(images, 1, -1).contiguous(), 1, -1);
}

class WidenedConvs : public ::testing::TestWithParam<DType> {};

/// The result, behind a relu in the same dtype, and all gradients have eager execution's bits and
/// strides, with the pass and without, of any number of images.
TEST_P(WidenedConvs, GiveTheBitsOfEager) {
  manual_seed(3);
  for (const Convolution& c : convolutions()) {
    const auto half = [&](const Tensor& t) { return t.to(GetParam()).requires_grad(); };
    const Tensor weight = half(normal(c.weight) * 0.2f);
    const Tensor bias = c.bias ? half(normal({c.weight[0]})) : Tensor();
    const auto step = [&](const Tensor& x) {
      const Tensor y = convolved(c, x, weight, bias), z = relu(y);
      Tensors all{y, z};
      std::vector<Tensor> leaves{x, weight};
      if (bias.defined()) leaves.push_back(bias);
      for (const Tensor& g : grad(sum(z * z), leaves)) all.push_back(g);
      return all;
    };
    CompileOptions options{.background = Background::never}, off = options;
    off.passes_off = {"widen_convs"};
    const auto fast = compile(step, options), without = compile(step, off);
    for (int call = 0; call < 5; ++call) {
      Shape shape = c.x;
      if (shape[0].number() > 0) shape[0] = shape[0] + call % 3;
      const Tensor images = normal(shape);
      const Tensor x = half(c.last ? channels_last(images) : images);
      const Tensors eager = step(x);
      for (const Tensors& given : {fast(x), without(x)}) {
        ASSERT_EQ(given.size(), eager.size());
        for (std::size_t i = 0; i < given.size(); ++i) {
          EXPECT_TRUE(same_bits(given[i], eager[i]))
              << c.name << ", result " << i << ", call " << call;
          if (eager[i].numel() == 0) continue;
          EXPECT_EQ(given[i].strides(), eager[i].strides())
              << c.name << ", result " << i << ", call " << call;
        }
      }
    }
    EXPECT_LE(fast.explain().recordings.size(), 2U) << c.name;
    EXPECT_EQ(fast.explain().eager, 0) << c.name;
  }
}

TEST_P(WidenedConvs, AreThoseOfF32) {
  const Function fn = [](std::span<const Tensor> in) {
    return Tensors{conv2d(in[0], in[1], Tensor(), 1, 1)};
  };
  manual_seed(5);
  const Tensors inputs{normal({2, 16, 8, 8}).to(GetParam()),
                       (normal({8, 16, 3, 3}) * 0.2f).to(GetParam())};
  const Executable executable(record(fn, types_of(inputs)));
  const auto& nodes = executable.lowered().nodes();
  const auto conv = std::ranges::find_if(nodes, [](const auto& n) { return n->is("conv"); });
  ASSERT_NE(conv, nodes.end());
  EXPECT_EQ((*conv)->types()[0].dtype(), runtime::convolves(GetParam()) ? GetParam() : DType::f32);
  expect_as_eager(fn, inputs);
}

INSTANTIATE_TEST_SUITE_P(Halves, WidenedConvs, ::testing::Values(DType::f16, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace dyad::exec
