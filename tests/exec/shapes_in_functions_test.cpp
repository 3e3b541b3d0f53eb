// Functions that ask for shapes and numbers of elements serve any sizes by one recording; what they
// ask to know as numbers is guarded.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/core/printing.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/ops/ops.h"
#include "exec_for_tests.h"

namespace dyad {
namespace {

using exec::bits;
using ::testing::HasSubstr;

/// Calls `fn` compiled on ten heights; how many recordings that made, the first of all included.
template <class F>
std::size_t recordings_of(const F& fn) {
  const auto fast = compile(fn, {.recheck = false});
  for (const std::int64_t rows : {5, 6, 9, 17, 4, 30, 7, 8, 33, 12}) {
    const Tensor x = reshape(arange(rows * 4), {rows, 4}).to(f32) * 0.25f;
    manual_seed(3);
    const std::vector<Tensor> wanted = {fn(x)};
    manual_seed(3);
    EXPECT_EQ(bits(fast(x)), bits(wanted[0])) << rows;
  }
  EXPECT_EQ(fast.explain().eager, 0);
  return fast.explain().recordings.size();
}

// The first call's sizes are numbers, the second one's recording is for all.
constexpr std::size_t kOneForAll = 2;

TEST(ShapesInFunctions, SizesAreOperands) {
  const Tensor x = tensor({{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}});
  EXPECT_EQ(bits(sum(x) / x.size(0)), bits(full({}, 10.5)));
  EXPECT_EQ(bits(x.numel() - x), bits(6 - x));
  EXPECT_EQ(bits(clamp(x, 2, x.size(1))), bits(clamp(x, 2, 3)));
  EXPECT_EQ(bits(clamp(x, x.size(0), x.size(1) + 1)), bits(clamp(x, 2, 4)));
  EXPECT_EQ(bits(where(x > x.size(1), x.size(0), x)), bits(where(x > 3, 2, x)));
  const Tensor of_size = x.size(0) * 1.5;
  EXPECT_EQ(of_size.dtype(), f32);
  EXPECT_EQ(bits(of_size), bits(full({}, 3.0)));
  // A size is a scalar of i64 in every mode, whatever it meets.
  EXPECT_EQ((x.to(f16) * x.size(0)).dtype(), f16);
  EXPECT_EQ((x.to(i32) * x.size(0)).dtype(), i32);
  EXPECT_EQ((tensor(2).to(i32) * x.size(0)).dtype(), i64);
  // It is not rounded to what bf16 and f16 hold, as numbers are not.
  const Tensor many = ones({1001, 70}), count = tensor(1001.0f).to(bf16);
  EXPECT_EQ(bits((count * 500 / many.size(0)).to(f32)), bits((count * 500 / 1001).to(f32)));
  EXPECT_EQ(bits((ones({2}, f16) / many.numel()).to(f32)), bits((ones({2}, f16) / 70070).to(f32)));
  Tensor narrow = ones({2}, f16) * 1000;
  narrow /= many.numel();
  EXPECT_EQ(bits(narrow.to(f32)), bits((ones({2}, f16) * 1000 / 70070).to(f32)));
  EXPECT_EQ(bits(x.clamp(2, x.size(1))), bits(clamp(x, 2, 3)));
  EXPECT_EQ(bits(x.clone().clamp_(x.size(0), 4)), bits(clamp(x, 2, 4)));

  EXPECT_EQ(recordings_of([](const Tensor& x) { return sum(x, {0}) / x.size(0); }), kOneForAll);
  EXPECT_EQ(recordings_of([](const Tensor& x) {
              Tensor mean = sum(x);
              mean /= x.numel();
              return x - mean;
            }),
            kOneForAll);
  EXPECT_EQ(recordings_of([](const Tensor& x) {
              const Tensor last = clamp(arange(x.size(0)) + 2, 0, x.size(0) - 1);
              return index_select(x, 0, last) * tensor(2).to(i32) * x.size(0);
            }),
            kOneForAll);
  EXPECT_EQ(recordings_of([](const Tensor& x) {
              const Tensor leaf = x.detach().requires_grad();
              return grad(sum(square(leaf)) / leaf.size(0), {leaf})[0];
            }),
            kOneForAll);
  EXPECT_EQ(
      recordings_of([](const Tensor& x) { return ((x.to(bf16) / x.numel()) * x.size(0)).to(f32); }),
      kOneForAll);
  Graph graph;
  const Tensor mean = graph.define([] {
    const Tensor any = placeholder("x", f32, {"n", 3});
    return sum(any) / any.size(0);
  });
  Session session(graph);
  EXPECT_EQ(bits(session.run({mean}, {{"x", x}})[0]), bits(full({}, 10.5)));
}

TEST(ShapesInFunctions, PrintTheSizesOfTheCall) {
  std::ostringstream out;
  const auto fast = compile(
      [&](const Tensor& x) {
        out << x.shape() << " " << x.size(0) * 2 << " " << Dim("elsewhere") << "; ";
        return x * 2;
      },
      {.recheck = false});
  for (const int rows : {3, 5, 7}) (void)fast(ones({rows, 4}));
  EXPECT_EQ(out.str(), "[3, 4] 6 elsewhere; [5, 4] 10 elsewhere; ");
  EXPECT_EQ(fast.explain().recordings.size(), kOneForAll);
}

TEST(ShapesInFunctions, ShapesOfArgumentsAndOfWhatWasComputedAreSymbols) {
  EXPECT_EQ(recordings_of([](const Tensor& x) { return x + ones(x.shape()); }), kOneForAll);
  EXPECT_EQ(recordings_of([](const Tensor& x) {
              const Tensor half = slice(x, 1, 0, 2);
              return half + normal(half.shape());
            }),
            kOneForAll);
  EXPECT_EQ(recordings_of([](const Tensor& x) {
              const Shape& s = x.shape();
              return reshape(x, {s[0] * 2, 2});
            }),
            kOneForAll);
  EXPECT_EQ(recordings_of([](const Tensor& x) {
              Shape rows = x.shape();
              rows.back() = 1;
              return cat({x, zeros(rows)}, 1);
            }),
            kOneForAll);
  EXPECT_EQ(recordings_of([](const Tensor& x) { return sum(x) / x.shape().numel().value(); }), 10u);
}

TEST(ShapesInFunctions, ComparedShapesAreGuardedNoMoreThanNeeded) {
  EXPECT_EQ(recordings_of([](const Tensor& x) {
              const Tensor y = tanh(x);
              return x.shape() == y.shape() ? y : x;
            }),
            kOneForAll);
  EXPECT_EQ(recordings_of([](const Tensor& x) { return x.shape()[0] > 2 ? -x : x; }), kOneForAll);
}

TEST(ShapesInFunctions, NumbersOfSizesAreGuarded) {
  EXPECT_EQ(
      recordings_of([](const Tensor& x) { return x * static_cast<float>(x.shape()[0].number()); }),
      10u);
  EXPECT_EQ(
      recordings_of([](const Tensor& x) { return x * static_cast<float>(x.size(0).number()); }),
      10u);
  EXPECT_EQ(recordings_of([](const Tensor& x) {
              const std::span<const std::int64_t> rows = x.shape().numbers();
              const std::span<const std::int64_t> turned = transpose(x, 0, 1).shape().numbers();
              return x * static_cast<float>(rows[0] * 100 + turned[1]);
            }),
            10u);
}

TEST(ShapesInFunctions, AGuardHasTheLineWhereItsOwnSizeWasAsked) {
  int line = 0;
  const auto fast = compile(
      [&](const Tensor& x) {
        const auto [rows, here] = std::pair(x.size(0), __LINE__);
        line = here;
        const Dim columns = x.size(1);
        return rows > 7 ? reshape(x, {columns, rows}) : x;
      },
      {.varying = {{0, 0}, {0, 1}}, .recheck = false});
  (void)fast(ones({9, 4}));
  const std::vector<std::string> guards = fast.explain().recordings.at(0).guards;
  ASSERT_EQ(guards.size(), 1u);
  EXPECT_THAT(guards[0], HasSubstr("shapes_in_functions_test.cpp:" + std::to_string(line)));
}

TEST(ShapesInFunctions, AGradientThatIsSetHasTheShapeForAnySize) {
  const auto fn = [](const Tensor& x) {
    Tensor leaf = x.detach().clone();
    leaf.requires_grad();
    leaf.set_grad(ones(x.shape()));
    sum(leaf * leaf).backward();
    return leaf.grad();
  };
  EXPECT_LE(recordings_of(fn), 3u);
}

}  // namespace
}  // namespace dyad
