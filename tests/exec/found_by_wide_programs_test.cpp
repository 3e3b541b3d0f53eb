// What random programs of most functions (tests/random_programs) once did otherwise in another
// mode: complex numbers, sizes that turn out to be 0 or 1, memory that results share.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "buckets_for_tests.h"
#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"

namespace dyad {
namespace {

using exec::compile_now;
using exec::count_up;
using exec::expect_replays_as_eagerly;
using exec::same_bits;
using Tensors = std::vector<Tensor>;

/// What the graph of `f` gives for x, where it knows no size.
Tensor in_symbols(const std::function<Tensor(Tensor)>& f, const Tensor& x) {
  Graph graph;
  Shape shape;
  for (int axis = 0; axis < x.rank(); ++axis)
    shape.push_back(Dim::symbol("n" + std::to_string(axis)));
  const Tensor in = graph.placeholder("x", x.dtype(), shape);
  const Tensor out = graph.define([&] { return f(in); });
  Session session(graph);
  return session.run({out}, {{"x", x}})[0];
}

TEST(FoundByWidePrograms, ACompiledFunctionWritesToComplexTensors) {
  const auto run = [](bool compiled) {
    Tensor z = complex(count_up({3}), ones({3}));
    const auto f = [&](Tensor x) {
      z.mul_(x);
      return z * 2;
    };
    const auto c = compile_now(f);
    for (int i = 0; i < 4; ++i) {
      const Tensor x = complex(full({3}, i), count_up({3}));
      static_cast<void>(compiled ? c(x) : f(x));
    }
    return z;
  };
  EXPECT_TRUE(same_bits(view_as_real(run(true)), view_as_real(run(false))));
}

TEST(FoundByWidePrograms, NumbersBesideComplexOnesKeepTheirDigitsInAGraph) {
  const Tensor z = complex(count_up({2}).to(f64), count_up({2}).to(f64));
  const auto f = [](const Tensor& x) { return view_as_real((0.001 - x) * 0.1 / (0.3 / (x + 4))); };
  EXPECT_TRUE(same_bits(in_symbols(f, z), f(z)));
}

TEST(FoundByWidePrograms, TheGradientOfARepeatedComplexTensorIsASum) {
  const auto f = [](Tensor x) -> Tensors {
    const Tensor z = complex(x, x * 2).detach().requires_grad();
    const Tensor y = expand(unsqueeze(z, 0), {x.size(0), x.size(0)});
    return {view_as_real(grad(sum(abs(y) * abs(y)), {z})[0])};
  };
  static_cast<void>(expect_replays_as_eagerly(f, {ones({3}), ones({3}), ones({1}), ones({4})}));
}

TEST(FoundByWidePrograms, AWindowThatTurnsOutToHaveOneElementIsOne) {
  const auto f = [](Tensor x) -> Tensors {
    const Dim n = x.size(0);
    return {hamming_window(n, false), hann_window(n), blackman_window(n), bartlett_window(n),
            kaiser_window(n)};
  };
  EXPECT_GT(expect_replays_as_eagerly(
                f, {zeros({5}), zeros({5}), zeros({4}), zeros({1}), zeros({1}), zeros({2})}),
            0);
}

TEST(FoundByWidePrograms, MseLossRefusesSizesThatOnlyDataTell) {
  const auto f = [](Tensor x) { return mse_loss(x, masked_select(x, x > 0)); };
  const auto c = compile_now(f);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(c(ones({1})), f(ones({1}))));
  EXPECT_THROW(static_cast<void>(c(-ones({1}))), ShapeError);
}

TEST(FoundByWidePrograms, ADiagonalMayTurnOutToBeEmpty) {
  const auto f = [](const Tensor& x) { return diagonal_scatter(x, diagonal(x, 1) * 2, 1); };
  for (const std::int64_t n : {1, 2, 4}) {
    const Tensor x = count_up({n, n});
    EXPECT_TRUE(same_bits(in_symbols(f, x), f(x))) << n;
  }
}

TEST(FoundByWidePrograms, BinsOfNoElementsAreEmptyInAGraphToo) {
  const auto counted = [](const Tensor& x) { return concat({histc(x, 3), histogram(x, 2).edges}); };
  for (const std::int64_t n : {0, 1, 4}) {
    EXPECT_TRUE(same_bits(in_symbols(counted, count_up({n})), counted(count_up({n})))) << n;
  }
}

TEST(FoundByWidePrograms, AnImageOfTheSameSizeIsACopy) {
  Tensor x = count_up({2, 3});
  Tensor y = resize(x, {2, 3});
  y.fill_(7);
  EXPECT_TRUE(same_bits(x, count_up({2, 3})));
  const auto f = [](Tensor in) -> Tensors { return {resize(in, {5, 2})}; };
  EXPECT_GT(expect_replays_as_eagerly(
                f, {count_up({5, 1}), count_up({5, 2}), count_up({5, 3}), count_up({5, 4})}),
            0);
}

TEST(FoundByWidePrograms, ALiteralMayBeDetached) {
  const auto c = compile_now([](Tensor x) { return detach(tensor({1.0, 2.0})) * x; });
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(same_bits(c(ones({2})), tensor({1.0, 2.0})));
  EXPECT_GT(c.explain().replays, 0);
}

TEST(FoundByWidePrograms, NothingIsConvolvedWithAnEmptyVector) {
  EXPECT_THROW(static_cast<void>(convolve(ones({2}), zeros({0}), "same")), ShapeError);
  EXPECT_THROW(static_cast<void>(convolve(zeros({0}), ones({2}))), ShapeError);
}

TEST(FoundByWidePrograms, RowsThatArePutHaveAGradient) {
  const Tensor x = ones({3, 2}).requires_grad(), rows = ones({2, 2}).requires_grad();
  const Tensor index = tensor({2, 0}).to(i64);
  sum(put_rows(x, index, rows) * count_up({3, 2})).backward();
  EXPECT_EQ(exec::bits(x.grad()), (std::vector<float>{0, 0, 1, 2, 0, 0}));
  EXPECT_EQ(exec::bits(rows.grad()), (std::vector<float>{3, 4, -1, 0}));
}

TEST(FoundByWidePrograms, SumsOfRowsHaveAGradient) {
  const Tensor rows = count_up({3, 2}).requires_grad();
  const Tensor index = tensor({4, 1, 4}).to(i64);
  sum(row_sums(rows, index) * count_up({3, 2})).backward();
  // Rows 0 and 2 are one: each is in both sums.
  EXPECT_EQ(exec::bits(rows.grad()), (std::vector<float>{2, 4, 1, 2, 2, 4}));
}

TEST(FoundByWidePrograms, ACompiledFunctionWritesToSmallFloats) {
  const auto run = [](bool compiled) {
    Tensor z = count_up({3}).to(f8e4m3fn);
    const auto f = [&](Tensor x) {
      z.copy_((z.to(f32) + x).to(f8e4m3fn));
      return z.to(f32) * 2;
    };
    const auto c = compile_now(f);
    for (int i = 0; i < 4; ++i) static_cast<void>(compiled ? c(ones({3})) : f(ones({3})));
    return z.to(f32);
  };
  EXPECT_TRUE(same_bits(run(true), run(false)));
}

TEST(FoundByWidePrograms, PaddedGradientsOfMeansOfWindowsAreNaNWhereEagerOnesAre) {
  const auto f = [](Tensor x) -> Tensors {
    const Tensor y = avg_pool1d(fmod(2.0, x), 2);
    return {y, grad(sum(y * y), {x})[0]};
  };
  for (int axis = 0; axis < 3; ++axis) {
    SCOPED_TRACE(axis);
    const auto c = compile(f, exec::padding({{0, axis}}));
    for (const std::int64_t n : {5, 6, 3}) {
      Shape shape{2, 3, 4};
      shape[static_cast<std::size_t>(axis)] = n;
      const Tensor numbers = arange(shape.numel()).to(f32) * 0.5f;  // of 0 there is no remainder
      const Tensor x = reshape(numbers, shape).requires_grad();
      const Tensors got = c(x), wanted = f(x);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        exec::expect_close(got[i], wanted[i], "result " + std::to_string(i));
    }
    EXPECT_GT(c.explain().replays, 0);
  }
}

TEST(FoundByWidePrograms, PaddedBagsAndSumsOfRowsAreNaNWhereEagerOnesAre) {
  Tensor table = reshape(arange(24).to(f32), {8, 3});
  table = where(reshape(arange(8), {8, 1}) == 2, std::numeric_limits<float>::quiet_NaN(), table)
              .requires_grad();
  const auto f = [&](const Tensor& index) -> Tensors {
    const Tensor bags = embedding_bag(index, table);
    return {bags, grad(sum(bags * bags), {table})[0]};
  };
  for (int axis = 0; axis < 2; ++axis) {
    SCOPED_TRACE(axis);
    const auto c = compile(f, exec::padding({{0, axis}}));
    for (const std::int64_t n : {5, 6, 3}) {
      Shape shape{4, 4};
      shape[static_cast<std::size_t>(axis)] = n;
      const Tensor index = reshape(arange(shape.numel()), shape) % 8;
      const Tensors got = c(index), wanted = f(index);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        exec::expect_close(got[i], wanted[i], "result " + std::to_string(i));
    }
    EXPECT_GT(c.explain().replays, 0);
  }
}

TEST(FoundByWidePrograms, GradientsOfSlicesWhoseComputedSizesTurnOutToBeOne) {
  const auto f = [](Tensor x) { return sum(index(x, {Slice{.step = 2}, ellipsis, 0}), {0}, true); };
  const auto c = compile(f, {.background = Background::never});
  for (const std::int64_t n : {1, 2, 3, 4, 2, 1, 5, 3, 8}) {
    Tensor x = count_up({n, 3, 2}).requires_grad(), same = x.detach().clone().requires_grad();
    const Tensor y = c(x), z = f(same);
    sum(y * y).backward();
    sum(z * z).backward();
    EXPECT_TRUE(same_bits(y.detach(), z.detach()));
    EXPECT_TRUE(same_bits(x.grad(), same.grad())) << n;
  }
}

}  // namespace
}  // namespace dyad
