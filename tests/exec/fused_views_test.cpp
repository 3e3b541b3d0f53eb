#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "exec_for_tests.h"

// What is read through views is computed where it is read, at the places that these show.

namespace dyad::exec {
namespace {

class FusedViews : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(5); }
  void TearDown() override { set_num_threads(1); }
};

int kernels_through_views(const Function& fn, const Tensors& inputs) {
  Executable executable(record(fn, types_of(inputs)));
  static_cast<void>(executable.run(inputs));
  return executable.stats().kernels;
}

Tensors seen_turned(std::span<const Tensor> in) {
  return {sin(transpose(exp(in[0]) + in[1], 0, 1)) * in[2]};
}

Tensors seen_in_part(std::span<const Tensor> in) {
  const Tensor h = tanh(in[0] * in[1]);
  return {sqrt(abs(slice(h, 0, 1, kEnd, 2))) + 1};
}

/// The gates of an LSTM's cell, written out.
Tensors gates(std::span<const Tensor> in) {
  const std::vector<Tensor> parts = chunk(in[0] + in[1] + in[2], 4, 1);
  const Tensor c = sigmoid(parts[0]) * in[3] + sigmoid(parts[1]) * tanh(parts[2]);
  return {c, sigmoid(parts[3]) * tanh(c)};
}

Tensors through_several(std::span<const Tensor> in) {
  const Tensor inner = flip(transpose(in[0] * 2, 0, 1), {1});
  const Tensor outer = select(unsqueeze(exp(inner) - in[1], 0), 0, 0);
  return {cos(transpose(outer * outer, 0, 1)) / 3};
}

Tensors into_a_reduction(std::span<const Tensor> in) {
  return {sum(square(transpose(exp(in[0]), 0, 1)), {0}),
          max(abs(slice(in[0] * in[1], 1, 0, 2)), {-1}, true)};
}

TEST_F(FusedViews, OneKernel) {
  const Tensor x = normal({6, 8});
  EXPECT_EQ(kernels_through_views(seen_turned, {x, normal({8}), normal({6})}), 1);
  EXPECT_EQ(kernels_through_views(seen_in_part, {x, x}), 1);
  EXPECT_EQ(kernels_through_views(gates, {x, x, normal({8}), normal({6, 2})}), 1);
  EXPECT_EQ(kernels_through_views(through_several, {x, normal({8, 6})}), 1);
  EXPECT_EQ(kernels_through_views(into_a_reduction, {x, x}), 2);
}

TEST_F(FusedViews, OfManyTensorsInManyParts) {
  // As many operands as there are parts of each tensor: more than a kernel takes.
  for (const int count : {3, 8, 20}) {
    const auto of_many = [](std::span<const Tensor> in) {
      Tensor sum = in[0];
      for (const Tensor& x : in.subspan(1)) sum = sum * 0.5 + x;
      const std::vector<Tensor> parts = chunk(sum, 4, 1);
      const Tensor y = tanh(parts[0]) * parts[1] + transpose(transpose(parts[2], 0, 1), 0, 1);
      const std::vector<Tensor> again = chunk(y - flip(parts[3], {0}), 2, 0);
      return Tensors{exp(again[0]) * sigmoid(again[1])};
    };
    Tensors in;
    for (int i = 0; i < count; ++i) in.push_back(normal({6, 8}));
    expect_as_eager(of_many, in);
  }
}

TEST_F(FusedViews, WhatIsReadElsewhereTooIsComputedOnce) {
  const Tensor x = normal({6, 8});
  const auto given = [](std::span<const Tensor> in) {
    const Tensor h = exp(in[0]);
    return Tensors{h, sin(transpose(h, 0, 1))};
  };
  const auto overlapping = [](std::span<const Tensor> in) {
    const Tensor h = exp(in[0]);
    return Tensors{sin(slice(h, 0, 0, 4)) * cos(slice(h, 0, 2, 6))};
  };
  const auto repeated = [](std::span<const Tensor> in) {
    return Tensors{select(exp(in[0]), 0, 1) + in[0]};
  };
  for (const Function& fn : {Function(given), Function(overlapping), Function(repeated)}) {
    EXPECT_EQ(kernels_through_views(fn, {x}), 2);
    expect_as_eager(fn, {x});
  }
}

TEST_F(FusedViews, GiveTheBitsAndLayoutsOfEager) {
  for (const Shape& shape :
       {Shape{6, 8}, {1, 4}, {300, 700}, {2, 4}, {5, 2048}, {0, 4}, {129, 64}}) {
    SCOPED_TRACE(to_string(shape));
    const Dim rows = shape[0], columns = shape[1];
    const Tensor x = normal(shape), turned = transpose(normal({columns, rows}), 0, 1),
                 repeated = expand(normal({1, columns}), shape);
    for (const Tensor& a : {x, turned, repeated}) {
      expect_as_eager(seen_turned, {a, normal({columns}), normal({rows})});
      expect_as_eager(seen_in_part, {a, turned});
      expect_as_eager(seen_in_part, {repeated, a});
      expect_as_eager(gates, {a, x, normal({columns}), normal({rows, columns.number() / 4})});
      expect_as_eager(through_several, {a, normal({columns, rows})});
      if (x.numel() > 0) expect_as_eager(into_a_reduction, {a, x});
    }
  }
  const auto in_four_axes = [](std::span<const Tensor> in) {
    const Tensor heads = permute(gelu(in[0]) * in[1], {0, 2, 1, 3});
    const Tensor y = heads * 0.5 + in[2];
    return Tensors{y, sum(y, {1, 3})};
  };
  expect_as_eager(in_four_axes, {normal({2, 5, 3, 4}), normal({3, 1}), normal({5, 1})});
  const auto strides_of = [](const Tensor& x) {
    const Strides& s = x.impl()->strides;
    return std::vector<std::int64_t>(s.begin(), s.end());
  };
  const Tensors in{normal({6, 8}), normal({8}), normal({6})};
  Executable executable(record(seen_turned, types_of(in)));
  EXPECT_EQ(strides_of(executable.run(in)[0]), strides_of(seen_turned(in)[0]));
}

TEST_F(FusedViews, InRowsThatRunAFewAtATime) {
  const auto parts_of_a_norm = [](std::span<const Tensor> in) {
    const Tensor h = layer_norm(in[0], in[1], in[1]);
    const std::vector<Tensor> parts = chunk(h * in[1], 2, 1);
    return Tensors{softmax(sigmoid(parts[0]) * parts[1], -1)};
  };
  const auto turned_norm = [](std::span<const Tensor> in) {
    return Tensors{softmax(transpose(layer_norm(in[0], in[1], in[1]) * 2, 0, 1) + in[0], -1)};
  };
  for (const int size : {4, 64, 640}) {
    SCOPED_TRACE(size);
    expect_as_eager(parts_of_a_norm, {normal({300, size}), normal({size})});
    expect_as_eager(turned_norm, {normal({size, size}), normal({size})});
  }
}

TEST_F(FusedViews, InTrainingStepsOfAnySize) {
  const auto step = [](const Tensor& x, const Tensor& w, const Tensor& u) {
    Tensor h = zeros({x.size(1), 8}), c = h;
    for (int t = 0; t < 3; ++t) {
      const std::vector<Tensor> parts = chunk(matmul(select(x, 0, t), w) + matmul(h, u), 4, 1);
      c = sigmoid(parts[0]) * c + sigmoid(parts[1]) * tanh(parts[2]);
      h = sigmoid(parts[3]) * tanh(c);
    }
    const std::vector<Tensor> grads =
        grad(sum(h * transpose(exp(transpose(h, 0, 1)), 0, 1)), {w, u});
    return std::pair(grads[0], grads[1]);
  };
  const Tensor w = normal({6, 32}).requires_grad(), u = normal({8, 32}).requires_grad();
  const auto c = compile_now(step);
  for (const std::int64_t batch : {5, 9, 64, 5, 300}) {
    const Tensor x = normal({3, batch, 6});
    const auto [eager_w, eager_u] = step(x, w, u);
    const auto [given_w, given_u] = c(x, w, u);
    EXPECT_TRUE(same_bits(given_w, eager_w)) << batch;
    EXPECT_TRUE(same_bits(given_u, eager_u)) << batch;
  }
}

}  // namespace
}  // namespace dyad::exec
