#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/ops/ops.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

// A recording with symbols serves sizes of 0 and 1 where the function does the same at them.

namespace dyad {
namespace {

using dyad::testing::message_of;
using exec::same_bits;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Tensors = std::vector<Tensor>;

/// A function of one tensor of n rows, and what it takes besides.
struct Case {
  std::string name;
  std::function<Tensor(const Tensor& x, const Tensors& weights)> fn;
  Shape row;  ///< the shape of x behind its n rows
  std::vector<Shape> weights;
  std::size_t recordings = 1;  ///< with sizes of 2 and more, 1 and 0
};

std::vector<Case> cases() {
  return {
      {"linear",
       [](const Tensor& x, const Tensors& w) { return relu(matmul(x, w[0]) + w[1]); },
       {6},
       {{6, 5}, {5}}},
      {"mean_loss",
       [](const Tensor& x, const Tensors& w) { return mean(tanh(x * w[0]), {0}); },
       {6},
       {{6}}},
      {"softmax",
       [](const Tensor& x, const Tensors& w) { return log_softmax(x + w[0], 1); },
       {6},
       {{6}}},
      {"layer_norm",
       [](const Tensor& x, const Tensors& w) { return layer_norm(x, w[0], w[1]); },
       {6},
       {{6}, {6}}},
      {"conv",
       [](const Tensor& x, const Tensors& w) {
         return max_pool2d(relu(conv2d(x, w[0], w[1], 1, 1)), {2, 2});
       },
       {2, 6, 6},
       {{3, 2, 3, 3}, {3}}},
      {"batched_products",
       [](const Tensor& x, const Tensors& w) {
         return matmul(matmul(x, w[0]), transpose(x, 1, 2));
       },
       {3, 4},
       {{4, 4}}},
      {"attention",
       [](const Tensor& x, const Tensors& w) {
         const Tensor heads = transpose(reshape(matmul(x, w[0]), {x.size(0), 5, 2, 4}), 1, 2);
         const Tensor seen = scaled_dot_product_attention(heads, heads, heads);
         return reshape(transpose(seen, 1, 2), {x.size(0), 5, 8});
       },
       {5, 8},
       {{8, 8}}},
      {"reshapes",
       [](const Tensor& x, const Tensors& w) {
         return reshape(flatten(x * w[0], 1), {x.size(0) * 3, 2}) * 2.0f;
       },
       {6},
       {{6}}},
      {"cumulative",
       [](const Tensor& x, const Tensors& w) { return cumsum(x * w[0], 0); },
       {4},
       {{4}}},
      // The gradient of what is repeated is a sum, but of one row that row, to its sign of 0.
      {"repeated_row", [](const Tensor& x, const Tensors& w) { return x * w[0]; }, {4}, {{1, 4}}},
      {"pairs",
       [](const Tensor& x, const Tensors& w) {
         const Tensor y = x * w[0];
         return square(unsqueeze(y, 0) - unsqueeze(y, 1));
       },
       {4},
       {{4}}},
      // One step, and none of what nobody differentiates.
      {"steps",
       [](const Tensor& x, const Tensors& w) {
         const auto step = [&](const Tensor& h, const Tensor& row) {
           return std::pair(tanh(row * w[0] + h), row);
         };
         return x * w[0] + scan(step, w[1] * 2.0f, x).first;
       },
       {4},
       {{4}, {4}},
       2},
      {"steps_stacked",
       [](const Tensor& x, const Tensors& w) {
         const auto step = [&](const Tensor& h, const Tensor& row) {
           const Tensor next = tanh(matmul(row, w[0]) + h);
           return std::pair(next, next * row);
         };
         return scan(step, zeros({2, 4}), x * w[1]).second * w[1] + sum(w[0]) + sum(x);
       },
       {2, 4},
       {{4, 4}, {4}},
       2},
      {"branch",
       [](const Tensor& x, const Tensors& w) {
         return x.size(0) == 1 ? x + w[0] : x.size(0) == 0 ? x * w[0] : x - w[0];
       },
       {4},
       {{4}},
       3},
      {"squeeze",
       [](const Tensor& x, const Tensors& w) { return squeeze(x * w[0]) * 2.0f; },
       {4},
       {{4}},
       2},
  };
}

class SmallSizes : public ::testing::TestWithParam<Case> {
 protected:
  Tensors weights() const {
    manual_seed(3);
    Tensors made;
    for (const Shape& shape : GetParam().weights) made.push_back(randn(shape).requires_grad());
    return made;
  }
  Tensor rows(std::int64_t n, int call) const {
    Shape shape = GetParam().row;
    shape.insert(0, n);
    manual_seed(static_cast<std::uint64_t>(100 * call + n));
    return randn(shape);
  }
};

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

TEST_P(SmallSizes, ValuesAndGradientsInsideHaveEagersBits) {
  const Tensors w = weights();
  const auto step = [&](const Tensor& x) {
    const Tensor y = GetParam().fn(x, w);
    Tensors made = grad(sum(y * y), w);
    made.push_back(y);
    return made;
  };
  const auto fast = compile(step, {.varying = {{0, 0}}});
  int call = 0;
  for (const std::int64_t n : {7, 3, 1, 0, 1, 0, 5, 1, 0, 7, 1, 0}) {
    const Tensor x = rows(n, ++call);
    const Tensors got = fast(x), want = step(x);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(same_bits(got[i], want[i]))
          << "call " << call << ", size " << n << ", value " << i;
  }
  const Explanation told = fast.explain();
  EXPECT_EQ(told.recordings.size(), GetParam().recordings) << to_string(told);
  EXPECT_GE(told.replays, 3) << to_string(told);
}

TEST_P(SmallSizes, GradientsFromOutsideHaveEagersBits) {
  const Tensors w = weights();
  const auto forward = [&](const Tensor& x) { return GetParam().fn(x, w); };
  const auto fast = compile(forward, {.varying = {{0, 0}}});
  int call = 0;
  for (const std::int64_t n : {4, 6, 1, 0, 1, 0, 4, 1, 0}) {
    const Tensor x = rows(n, ++call);
    std::vector<Tensors> seen;
    for (const bool compiled : {false, true}) {
      Tensor leaf = x.clone().requires_grad();
      const Tensor y = compiled ? fast(leaf) : forward(leaf);
      Tensors wanted = w;
      wanted.push_back(leaf);
      seen.push_back(grad(sum(y * y), wanted));
      seen.back().push_back(y);
    }
    for (std::size_t i = 0; i < seen[0].size(); ++i)
      EXPECT_TRUE(same_bits(seen[1][i], seen[0][i]))
          << "call " << call << ", size " << n << ", value " << i;
  }
  EXPECT_LE(fast.explain().recordings.size(), GetParam().recordings + 1)
      << to_string(fast.explain());
}

INSTANTIATE_TEST_SUITE_P(Cases, SmallSizes, ::testing::ValuesIn(cases()), name_of_case);

TEST(SmallSizesOfCalls, ATrainingStepIsRecordedOnce) {
  const auto seen_by = [](bool compiled) {
    manual_seed(1);
    Tensors weights{randn({4, 8}).requires_grad(), zeros({8}).requires_grad(),
                    randn({8, 3}).requires_grad()};
    const auto step = [&](const Tensor& x, const Tensor& y) {
      for (Tensor& weight : weights) weight.zero_grad();
      Tensor loss = cross_entropy(matmul(relu(matmul(x, weights[0]) + weights[1]), weights[2]), y);
      loss.backward();
      const NoGrad no_tape;
      for (Tensor& weight : weights) weight.add_(weight.grad() * -0.1f);
      return loss.detach();
    };
    const auto fast =
        compile(step, {.varying = {{0, 0}, {1, 0}}, .on_recompile = OnRecompile::fail});
    Tensors seen;
    for (const std::int64_t n : {8, 5, 1, 8, 1, 1, 3, 0, 0}) {
      const Tensor x = randn({n, 4}), y = randint(0, 3, {n});
      seen.push_back(compiled ? fast(x, y) : step(x, y));
      for (const Tensor& weight : weights) seen.push_back(weight.detach().clone());
    }
    if (compiled) {
      const Explanation told = fast.explain();
      EXPECT_EQ(told.recordings.size(), 1u) << to_string(told);
      EXPECT_GE(told.replays, 4) << to_string(told);
    }
    return seen;
  };
  const Tensors eager = seen_by(false), fast = seen_by(true);
  ASSERT_EQ(eager.size(), fast.size());
  for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(same_bits(fast[i], eager[i])) << i;
}

TEST(SmallSizesOfCalls, SumsOfRepeatsOfNegativeZeros) {
  for (const std::int64_t n : {0, 1, 2, 7, 5000}) {
    const Tensor x = full({n}, -0.0);
    const auto fast = compile([](const Tensor& t) { return ops::sum_of_repeats(t, {0}); });
    for (int i = 0; i < 3; ++i) EXPECT_EQ(std::signbit(fast(x).item<float>()), n == 1) << n;
  }
}

/// The gradient of what was repeated is a sum; of one row eagerly the very tensor that is summed.
TEST(SmallSizesOfCalls, GradientsThatAreOneTensorOfOneRow) {
  const Tensor w = randn({1, 4}).requires_grad();
  const auto gradients = [&](const Tensor& x) { return grad(sum(square(x + w)), {x, w}); };
  const auto written = [&](const Tensor& given) {
    const Tensor x = given.detach().requires_grad();
    Tensors both = gradients(x);
    both[0].mul_(2);
    return both[1] + 0;
  };
  const auto shown = [&](const Tensor& given) { return gradients(given.detach().requires_grad()); };
  const auto fast_written = compile(written, {.varying = {{0, 0}}});
  const auto fast_shown = compile(shown, {.varying = {{0, 0}}});
  for (const std::int64_t n : {4, 5, 1, 1, 1, 3, 0, 0, 1}) {
    const Tensor x = randn({n, 4});
    EXPECT_TRUE(same_bits(fast_written(x), written(x))) << n;
    const Tensors got = fast_shown(x), want = shown(x);
    EXPECT_EQ(got[0].is_same(got[1]), want[0].is_same(want[1])) << n;
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << n;
  }
}

/// Without options a size becomes a symbol when it varies; from then on 1 and 0 are compared.
TEST(SmallSizesOfCalls, ExplainTellsWhatWasCompared) {
  const auto fn = [](const Tensor& x) { return tanh(x) * 2.0f; };
  const auto fast = compile(fn);
  for (const std::int64_t n : {8, 5, 1, 1, 0, 1}) {
    const Tensor x = randn({n, 4});
    EXPECT_TRUE(same_bits(fast(x), fn(x))) << n;
  }
  const Explanation told = fast.explain();
  ASSERT_EQ(told.recordings.size(), 2u);
  EXPECT_EQ(told.recordings[1].arguments[0], "f32[s0, 4]");
  ASSERT_EQ(told.recordings[1].small_sizes.size(), 2u);
  EXPECT_EQ(told.recordings[1].small_sizes[0].sizes, "s0 = 1");
  EXPECT_EQ(told.recordings[1].small_sizes[0].differs, "");
  EXPECT_THAT(to_string(told), AllOf(HasSubstr("\n    serves s0 = 1, too\n"),
                                     HasSubstr("\n    serves s0 = 0, too\n")));
}

TEST(SmallSizesOfCalls, TheSmallOneFirst) {
  const auto fn = [](const Tensor& x) { return exp(x) - 1.0f; };
  const auto fast = compile(fn);
  for (const std::int64_t n : {1, 1, 6, 1, 9, 0, 1, 0, 6}) {
    const Tensor x = randn({n, 3});
    EXPECT_TRUE(same_bits(fast(x), fn(x))) << n;
  }
  const Explanation told = fast.explain();
  ASSERT_EQ(told.recordings.size(), 2u) << to_string(told);
  EXPECT_EQ(told.recordings[0].arguments[0], "f32[1, 3]");
  EXPECT_EQ(told.recordings[1].arguments[0], "f32[s0, 3]");
  EXPECT_EQ(told.recordings[1].small_sizes.size(), 1u) << "of 1 there is a recording";
}

TEST(SmallSizesOfCalls, TheSmallOneFirstOfASizeThatIsSaidToVary) {
  const auto fn = [](const Tensor& x) { return exp(x) - 1.0f; };
  for (const OnRecompile policy : {OnRecompile::compile, OnRecompile::run_eagerly}) {
    const auto fast = compile(fn, {.varying = {{0, 0}}, .recheck = false, .on_recompile = policy});
    for (const std::int64_t n : {1, 0, 1, 6, 1, 9, 0, 1, 0, 6}) {
      const Tensor x = randn({n, 3});
      EXPECT_TRUE(same_bits(fast(x), fn(x))) << n;
    }
    const Explanation told = fast.explain();
    ASSERT_EQ(told.recordings.size(), 1u) << to_string(told);
    EXPECT_EQ(told.recordings[0].arguments[0], "f32[s0, 3]");
    EXPECT_EQ(told.recordings[0].small_sizes.size(), 2u);
    EXPECT_THAT(to_string(told),
                HasSubstr("\n  call 2 ran eagerly: axis 0 of argument 0 is 0, which tells nothing "
                          "of other sizes: a call at 2 or more is recorded for all"));
  }
}

TEST(SmallSizesOfCalls, OneThatNeverVariesIsRecordedInTheEnd) {
  const auto fn = [](const Tensor& x) { return exp(x) - 1.0f; };
  const auto fast = compile(fn, {.varying = {{0, 0}}, .recheck = false});
  for (int i = 0; i < 12; ++i) {
    const Tensor x = randn({1, 3});
    EXPECT_TRUE(same_bits(fast(x), fn(x))) << i;
  }
  EXPECT_EQ(fast.explain().recordings.size(), 1u);
  EXPECT_EQ(fast.explain().replays, 3);
  // Calls that may only be those recorded cannot wait.
  const auto strict =
      compile(fn, {.varying = {{0, 0}}, .recheck = false, .on_recompile = OnRecompile::fail});
  (void)strict(randn({1, 3}));
  (void)strict(randn({1, 3}));
  EXPECT_EQ(strict.explain().replays, 1);
}

/// What such calls write shows, and takes turns with others, as it would if they were recorded.
TEST(SmallSizesOfCalls, FirstOnesThatWrite) {
  Tensor total = zeros({3});
  const auto fast = compile(
      [&](const Tensor& x) {
        total.add_(sum(x, {0}));
        return total * 2;
      },
      {.varying = {{0, 0}}, .recheck = false});
  double expected = 0;
  for (const std::int64_t n : {1, 1, 4, 1, 7}) {
    expected += static_cast<double>(n);
    EXPECT_EQ(fast(ones({n, 3}))[0].item<double>(), 2 * expected);
    EXPECT_EQ(total[1].item<double>(), expected);
  }
  EXPECT_EQ(fast.explain().recordings.size(), 1u);
}

TEST(SmallSizesOfCalls, EachCombinationIsCompared) {
  const auto fn = [](const Tensor& x, const Tensor& y) { return sum(x, {0}) + sum(y, {0}); };
  const auto fast = compile(fn, {.varying = {{0, 0}, {1, 0}}, .on_recompile = OnRecompile::fail});
  for (const auto& [n, m] : std::vector<std::pair<int, int>>{
           {3, 5}, {1, 5}, {3, 1}, {1, 0}, {0, 4}, {1, 9}, {1, 0}, {6, 1}}) {
    const Tensor x = randn({n, 3}), y = randn({m, 3});
    EXPECT_TRUE(same_bits(fast(x, y), fn(x, y))) << n << ", " << m;
  }
  const Explanation told = fast.explain();
  ASSERT_EQ(told.recordings.size(), 1u);
  std::vector<std::string> sizes;
  for (const ExplainedSmallSizes& known : told.recordings[0].small_sizes)
    sizes.push_back(known.sizes);
  EXPECT_THAT(sizes, ::testing::ElementsAre("s0 = 1", "s1 = 1", "s0 = 1, s1 = 0", "s0 = 0"));
}

/// Equal sizes are one symbol; where one is 1 and the other is not, operands are repeated.
TEST(SmallSizesOfCalls, ASizeAgainstOne) {
  const auto fn = [](const Tensor& x, const Tensor& y) { return x * y + y; };
  const auto fast = compile(fn, {.varying = {{0, 0}, {1, 0}}});
  for (const auto& [n, m] : std::vector<std::pair<int, int>>{{4, 4},
                                                             {6, 6},
                                                             {1, 1},
                                                             {0, 0},
                                                             {1, 6},
                                                             {6, 1},
                                                             {1, 5},
                                                             {0, 1},
                                                             {1, 0},
                                                             {5, 5},
                                                             {1, 1}}) {
    for (int repeat = 0; repeat < 2; ++repeat) {
      const Tensor x = randn({n, 3}), y = randn({m, 3});
      EXPECT_TRUE(same_bits(fast(x, y), fn(x, y))) << n << ", " << m;
    }
  }
  EXPECT_THAT(message_of<ShapeError>([&] { (void)fast(randn({2, 3}), randn({0, 3})); }),
              HasSubstr("broadcast"));
}

/// Eagerly a reshape of one row or none is a view where one of several rows is a copy.
TEST(SmallSizesOfCalls, WhereAViewBecomesACopyIsAnotherRecording) {
  const auto fn = [](const Tensor& x) { return reshape(transpose(x, 0, 1), {-1}); };
  const auto fast = compile(fn, {.varying = {{0, 0}}});
  for (const std::int64_t n : {5, 4, 1, 1, 1, 1, 3, 1, 0, 0, 4}) {
    const Tensor x = randn({n, 3}), same = x.clone();
    Tensor got = fast(x), want = fn(same);
    EXPECT_TRUE(same_bits(got, want)) << n;
    got.fill_(7.0f);
    want.fill_(7.0f);
    EXPECT_TRUE(same_bits(x, same)) << n;
  }
  const Explanation told = fast.explain();
  ASSERT_EQ(told.recordings.size(), 3u) << to_string(told);
  EXPECT_THAT(to_string(told),
              HasSubstr("    does not serve s0 = 1: its results lie elsewhere in memory"));
  EXPECT_THAT(told.recordings[1].reason,
              HasSubstr("with s0 = 1 something else was done: its results lie"));
  EXPECT_EQ(told.recordings[1].arguments[0], "f32[1, 3]");
}

TEST(SmallSizesOfCalls, WritesInPlace) {
  const auto through_view = [](const Tensor& x, const Tensor& cache) {
    cache.slice(0, 1, 1 + x.size(0)).copy_(x);
    Tensor part = reshape(transpose(x, 0, 1), {-1});
    part.fill_(2.0f);
    Tensor(x).mul_(3.0f);
    return sum(cache) + sum(part);
  };
  const auto fast = compile(through_view, {.varying = {{0, 0}}});
  Tensor cache = zeros({9, 3}), other = zeros({9, 3});
  for (const std::int64_t n : {5, 4, 1, 1, 1, 0, 0, 0, 1, 6}) {
    const Tensor x = randn({n, 3}), same = x.clone();
    const Tensor got = fast(x, cache), want = through_view(same, other);
    EXPECT_TRUE(same_bits(got, want)) << n;
    EXPECT_TRUE(same_bits(x, same)) << n;
    EXPECT_TRUE(same_bits(cache, other)) << n;
  }
}

TEST(SmallSizesOfCalls, StridesOfOneRow) {
  const auto fn = [](const Tensor& x) {
    Tensor y = reshape(x, {-1});
    y.add_(1.0f);
    return y * 2.0f;
  };
  const auto fast = compile(fn, {.varying = {{0, 0}}});
  for (const std::int64_t n : {5, 4, 1, 1, 3, 1, 1}) {
    for (const bool wide : {false, true, true, false}) {
      const Tensor base = randn({n, 8}), same = base.clone();
      const auto part = [&](const Tensor& of) { return wide ? of.slice(1, 0, 7, 2) : of; };
      EXPECT_TRUE(same_bits(fast(part(base)), fn(part(same)))) << n;
      EXPECT_TRUE(same_bits(base, same)) << n << (wide ? " wide" : "");
    }
  }
}

TEST(SmallSizesOfCalls, TheLargestOfNothingIsEagersError) {
  const auto fn = [](const Tensor& x) { return max(x, {0}) * 2.0f; };
  const auto fast = compile(fn, {.varying = {{0, 0}}});
  const std::string eager = message_of<ShapeError>([&] { (void)fn(randn({0, 3})); });
  for (const std::int64_t n : {4, 6, 1, 0, 0, 3, 1, 0}) {
    const Tensor x = randn({n, 3});
    if (n == 0) {
      EXPECT_EQ(message_of<ShapeError>([&] { (void)fast(x); }), eager);
    } else {
      EXPECT_TRUE(same_bits(fast(x), fn(x))) << n;
    }
  }
  EXPECT_EQ(fast.explain().recordings.size(), 1u);
}

/// A way through the host's branches that was not compared for a size is not taken there.
TEST(SmallSizesOfCalls, WaysThroughBranchesAreComparedEach) {
  const auto fn = [](const Tensor& x, const Tensor& flag) {
    const Tensor y = exp(x);
    return flag.item() > 0 ? reshape(transpose(y, 0, 1), {-1}) : y - 1.0f;
  };
  const auto fast = compile(fn, {.varying = {{0, 0}}});
  int call = 0;
  for (const auto& [n, flag] : std::vector<std::pair<int, float>>{{4, 1.0f},
                                                                  {3, -1.0f},
                                                                  {4, 1.0f},
                                                                  {1, 1.0f},
                                                                  {1, 1.0f},
                                                                  {1, -1.0f},
                                                                  {1, -1.0f},
                                                                  {1, 1.0f},
                                                                  {0, -1.0f},
                                                                  {0, 1.0f},
                                                                  {0, -1.0f}}) {
    const Tensor x = randn({n, 3});
    EXPECT_TRUE(same_bits(fast(x, tensor(flag)), fn(x, tensor(flag)))) << "call " << ++call;
  }
  EXPECT_EQ(fast.explain().recordings.size(), 1u) << to_string(fast.explain());
}

TEST(SmallSizesOfCalls, AWayThatNoLargerSizeTookIsAnotherRecording) {
  const auto fn = [](const Tensor& x) { return sum(x).item() > 2 ? x * 2.0f : x - 1.0f; };
  const auto fast = compile(fn, {.varying = {{0, 0}}});
  for (const std::int64_t n : {4, 3, 1, 1, 1, 4}) {
    const Tensor x = ones({n, 1});
    EXPECT_TRUE(same_bits(fast(x), fn(x))) << n;
  }
  const Explanation told = fast.explain();
  ASSERT_EQ(told.recordings.size(), 2u) << to_string(told);
  EXPECT_THAT(to_string(told),
              HasSubstr("does not serve s0 = 1: the host's branches went another way"));
}

TEST(SmallSizesOfCalls, PoliciesForbidAnotherRecording) {
  const auto fn = [](const Tensor& x) { return x.size(0) == 1 ? x * 2.0f : x + 1.0f; };
  for (const OnRecompile policy : {OnRecompile::fail, OnRecompile::run_eagerly}) {
    const auto fast = compile(fn, {.varying = {{0, 0}}, .on_recompile = policy});
    for (const std::int64_t n : {4, 0, 7, 0}) {
      const Tensor x = randn({n, 3});
      EXPECT_TRUE(same_bits(fast(x), fn(x))) << n;
    }
    const Tensor x = randn({1, 3});
    if (policy == OnRecompile::fail) {
      EXPECT_THAT(message_of<RecompileError>([&] { (void)fast(x); }),
                  HasSubstr("guard s0 != 1 failed: s0, axis 0 of argument 0, was 4, is 1"));
    } else {
      EXPECT_TRUE(same_bits(fast(x), fn(x)));
      EXPECT_EQ(fast.explain().misses.size(), 1u);
    }
    EXPECT_EQ(fast.explain().recordings.size(), 1u);
  }
}

/// What the host does otherwise is found as at any size: here in the recording of its own.
TEST(SmallSizesOfCalls, StateOfTheHostIsFound) {
  int calls = 0;
  const auto fast =
      compile([&](const Tensor& x) { return x * static_cast<float>(++calls > 2 ? calls : 1); },
              {.varying = {{0, 0}}});
  (void)fast(randn({4}));
  (void)fast(randn({5}));
  (void)fast(randn({1}));
  (void)fast(randn({1}));
  EXPECT_THAT(message_of<GraphError>([&] { (void)fast(randn({1})); }),
              HasSubstr("it did something else than when it was recorded"));
}

}  // namespace
}  // namespace dyad
