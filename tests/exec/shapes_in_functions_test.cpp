// Functions that ask for shapes and numbers of elements serve any sizes by one recording; what they
// ask to know as numbers is guarded.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
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
