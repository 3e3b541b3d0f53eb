// Convolutions and products in dtypes that the CPU has none for: casts and one in f32 in a graph.
#include <functional>
#include <string>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/runtime/library_calls.h"
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

class WidenedCalls : public ::testing::TestWithParam<DType> {
 protected:
  static Tensor half(const Tensor& t) { return t.to(GetParam()).requires_grad(); }
};

/// A step gives what it gives eagerly, bits and strides, with the pass and without; `argument`
/// makes that of each call, of which each third has the same sizes.
void expect_steps_as_eager(const std::string& name,
                           const std::function<Tensors(const Tensor&)>& step,
                           const std::function<Tensor(int)>& argument) {
  const CompileOptions options{.background = Background::never};
  CompileOptions off = options;
  off.passes_off = {"widen_calls"};
  const auto fast = compile(step, options), without = compile(step, off);
  for (int call = 0; call < 5; ++call) {
    const Tensor x = argument(call);
    const Tensors eager = step(x);
    for (const Tensors& given : {fast(x), without(x)}) {
      ASSERT_EQ(given.size(), eager.size());
      for (std::size_t i = 0; i < given.size(); ++i) {
        EXPECT_TRUE(same_bits(given[i], eager[i])) << name << ", result " << i << ", call " << call;
        if (eager[i].numel() == 0) continue;
        EXPECT_EQ(given[i].strides(), eager[i].strides())
            << name << ", result " << i << ", call " << call;
      }
    }
  }
  EXPECT_LE(fast.explain().recordings.size(), 2U) << name;
  EXPECT_EQ(fast.explain().eager, 0) << name;
}

/// `y`, a relu behind it in the same dtype, and all gradients.
Tensors with_gradients(const Tensor& y, std::vector<Tensor> leaves) {
  const Tensor z = relu(y);
  Tensors all{y, z};
  for (const Tensor& g : grad(sum(z * z), leaves)) all.push_back(g);
  return all;
}

TEST_P(WidenedCalls, OfAnyNumberOfImagesGiveTheBitsOfEager) {
  manual_seed(3);
  for (const Convolution& c : convolutions()) {
    const Tensor weight = half(normal(c.weight) * 0.2f);
    const Tensor bias = c.bias ? half(normal({c.weight[0]})) : Tensor();
    const auto step = [&](const Tensor& x) {
      std::vector<Tensor> leaves{x, weight};
      if (bias.defined()) leaves.push_back(bias);
      return with_gradients(convolved(c, x, weight, bias), leaves);
    };
    expect_steps_as_eager(c.name, step, [&](int call) {
      Shape shape = c.x;
      if (shape[0].number() > 0) shape[0] = shape[0] + call % 3;
      const Tensor images = normal(shape);
      return half(c.last ? channels_last(images) : images);
    });
  }
}

TEST_P(WidenedCalls, OfAnyNumberOfRowsGiveTheBitsOfEager) {
  manual_seed(4);
  struct Product {
    std::string name;
    Shape x, weight;
    std::function<Tensor(const Tensor& x, const Tensor& weight)> of;
  };
  const Tensor bias = half(normal({40}));
  const auto linear_of = [&](const Tensor& x, const Tensor& w) { return linear(x, w, bias); };
  const auto plain = [](const Tensor& x, const Tensor& w) { return matmul(x, w); };
  const std::vector<Product> products{
      {"linear", {3, 24}, {40, 24}, linear_of},
      {"linear of sequences", {3, 5, 24}, {40, 24}, linear_of},
      {"linear without bias",
       {3, 24},
       {9, 24},
       [](const Tensor& x, const Tensor& w) { return linear(x, w); }},
      {"linear of turned rows",
       {3, 24, 5},
       {40, 24},
       [&](const Tensor& x, const Tensor& w) { return linear(transpose(x, 1, 2), w, bias); }},
      {"linear by turned weights",
       {3, 24},
       {24, 40},
       [&](const Tensor& x, const Tensor& w) { return linear(x, transpose(w, 0, 1), bias); }},
      {"matrices", {7, 24}, {24, 16}, plain},
      {"matrices, the second turned",
       {7, 24},
       {16, 24},
       [](const Tensor& x, const Tensor& w) { return matmul(x, transpose(w, 0, 1)); }},
      {"matrices, a part of the first",
       {7, 48},
       {24, 16},
       [](const Tensor& x, const Tensor& w) { return matmul(slice(x, 1, 8, 32), w); }},
      {"batches", {3, 6, 24}, {24, 16}, plain},
      {"batches by batches", {3, 1, 6, 24}, {1, 4, 24, 16}, plain},
      {"with itself",
       {7, 24},
       {1},
       [](const Tensor& x, const Tensor& w) { return matmul(x, transpose(x, 0, 1)) * w; }},
      {"linear of an expanded row",
       {3, 1, 24},
       {40, 24},
       [&](const Tensor& x, const Tensor& w) { return linear(expand(x, {-1, 5, 24}), w, bias); }},
      {"linear of no columns", {3, 0}, {40, 0}, linear_of},
      {"batches, the second expanded",
       {3, 6, 24},
       {24, 16},
       [](const Tensor& x, const Tensor& w) { return matmul(x, expand(w, {x.size(0), 24, 16})); }},
      {"rows backwards",
       {7, 24},
       {24, 16},
       [](const Tensor& x, const Tensor& w) { return matmul(flip(x, {0, 1}), w); }},
      {"by a vector", {7, 24}, {24}, plain},
      {"of no rows", {0, 24}, {24, 16}, plain},
      {"of no columns", {7, 0}, {0, 16}, plain},
  };
  for (const Product& p : products) {
    const Tensor weight = half(normal(p.weight));
    const auto step = [&](const Tensor& x) { return with_gradients(p.of(x, weight), {x, weight}); };
    expect_steps_as_eager(p.name, step, [&](int call) {
      Shape shape = p.x;
      if (shape[0].number() > 0) shape[0] = shape[0] + call % 3;
      return half(normal(shape));
    });
  }
}

TEST_P(WidenedCalls, AreThoseOfF32) {
  const Function fn = [](std::span<const Tensor> in) {
    return Tensors{conv2d(in[0], in[1], Tensor(), 1, 1), linear(in[2], in[3])};
  };
  manual_seed(5);
  const auto scaled = [](const Shape& shape) { return (normal(shape) * 0.2f).to(GetParam()); };
  const Tensors inputs{scaled({2, 16, 8, 8}), scaled({8, 16, 3, 3}), scaled({3, 8}),
                       scaled({5, 8})};
  const Executable executable(record(fn, types_of(inputs)));
  const auto expect_dtype = [&](std::string_view name, bool is_there) {
    const auto& nodes = executable.lowered().nodes();
    const auto call = std::ranges::find_if(nodes, [&](const auto& n) { return n->is(name); });
    ASSERT_NE(call, nodes.end());
    EXPECT_EQ((*call)->types()[0].dtype(), is_there ? GetParam() : DType::f32) << name;
  };
  expect_dtype("conv", runtime::convolves(GetParam()));
  expect_dtype("linear", runtime::multiplies(GetParam()));
  expect_as_eager(fn, inputs);
}

INSTANTIATE_TEST_SUITE_P(Halves, WidenedCalls, ::testing::Values(DType::f16, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace dyad::exec
