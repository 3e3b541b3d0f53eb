// Ranges of sizes that vary, and what follows from guards.

#include "dyad/exec/guarded_sizes.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using ::dyad::testing::bare_message_of;
using ::dyad::testing::message_of;
using exec::bits;
using exec::DimGuard;
using exec::GuardedSizes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

DimGuard less(Dim a, Dim b, bool answer = true) {
  return {DimGuard::Kind::less, a, b, answer ? 1 : 0, {}};
}

TEST(GuardedSizes, KnowWhatFollowsFromBounds) {
  const Dim s = "s", t = "t";
  const std::vector<DimGuard> guards = {less(s, 9), less(s, 3, false)};
  const GuardedSizes known(guards);
  EXPECT_EQ(known.less(s, 10), true);
  EXPECT_EQ(known.less(s, 9), true);
  EXPECT_EQ(known.less(s, 8), std::nullopt);
  EXPECT_EQ(known.less(s, 3), false);
  EXPECT_EQ(known.less(2, s), true);
  EXPECT_EQ(known.less(8, s), false);
  EXPECT_EQ(known.less(7, s), std::nullopt);
  EXPECT_EQ(known.equal(s, 9), false);
  EXPECT_EQ(known.equal(2, s), false);
  EXPECT_EQ(known.equal(s, 5), std::nullopt);
  EXPECT_EQ(known.less(2 * s + 1, 18), true);
  EXPECT_EQ(known.less(s * s, 65), true);
  EXPECT_EQ(known.less(s / 2, 1), false);
  EXPECT_EQ(known.less(s / 2, 5), true);
  EXPECT_EQ(known.less(max(s, t), 3), false);
  EXPECT_EQ(known.less(min(s, t), 9), true);
  EXPECT_EQ(known.less(s + t, 3), false);
  EXPECT_EQ(known.less(s + t, 9), std::nullopt);
  EXPECT_EQ(known.less(t, 10), std::nullopt);
}

TEST(GuardedSizes, KnowWhatFollowsFromRelations) {
  const Dim s = "s", t = "t", u = "u";
  const std::vector<DimGuard> guards = {less(s, t), {DimGuard::Kind::equal, u, t + 1, 1, {}}};
  const GuardedSizes known(guards);
  EXPECT_EQ(known.less(s, t + 1), true);
  EXPECT_EQ(known.less(t, s), false);
  EXPECT_EQ(known.less(s + 1, u), true);
  EXPECT_EQ(known.less(s + 2, u), std::nullopt);
  EXPECT_EQ(known.equal(s, t), false);
  EXPECT_EQ(known.equal(u - t, 1), true);
  const std::vector<DimGuard> twice = {less(2 * s, 7, false), less(3 * s, 14)};
  const GuardedSizes one(twice);
  EXPECT_EQ(one.value(s), 4);
  EXPECT_EQ(one.value(s + 2), 6);
  EXPECT_EQ(one.equal(s, 4), true);
  EXPECT_EQ(one.value(t), std::nullopt);
}

/// Does something else for long sequences.
Tensor by_length(const Tensor& x) { return x.size(0) <= 512 ? tanh(x) : x * 2.0f; }

TEST(VaryingSizes, WhatARangeDecidesIsNoGuard) {
  const auto fast =
      compile(by_length, {.varying = {{0, 0, 2, 512}}, .on_recompile = OnRecompile::fail});
  for (const int n : {7, 2, 512, 100, 7}) {
    const Tensor x = normal({n, 3});
    EXPECT_EQ(bits(fast(x)), bits(by_length(x)));
  }
  const Explanation page = fast.explain();
  EXPECT_EQ(page.recordings.size(), 1u);
  EXPECT_EQ(page.eager, 0);
  EXPECT_THAT(page.recordings[0].guards, ElementsAre(HasSubstr("s0 >= 2"), HasSubstr("s0 <= 512")));
  // Without one the other way is another recording.
  const auto any = compile(by_length, {.varying = {{0, 0}}});
  for (const int n : {7, 700, 7, 700}) static_cast<void>(any(ones({n, 3})));
  EXPECT_EQ(any.explain().recordings.size(), 2u);
}

TEST(VaryingSizes, SizesOutOfTheirRangeAreErrors) {
  Tensor calls = zeros({1});
  const auto counted = [&](const Tensor& x) {
    calls.copy_(calls + 1.0f);
    return by_length(x);
  };
  const auto fast = compile(counted, {.varying = {{0, -2, 2, 512}}, .name = "step"});
  fast(ones({4, 3}));
  fast(ones({5, 3}));
  EXPECT_EQ(message_of<ValueError>([&] {
              fast(ones({513, 3}));
            }).substr(0, message_of<ValueError>([&] { fast(ones({513, 3})); }).find('\n')),
            "step: axis -2 of argument 0 is 513, but varying says that it is from 2 to 512");
  EXPECT_THAT(message_of<ValueError>([&] { fast(ones({1, 3})); }), HasSubstr("is 1, but"));
  EXPECT_EQ(calls.to_vector<float>()[0], 2.0f);
  const auto least = compile(by_length, {.varying = {{0, 0, 3}}});
  EXPECT_THAT(message_of<ValueError>([&] { least(ones({2, 3})); }),
              HasSubstr("is 2, but varying says that it is 3 or more"));
  EXPECT_EQ(bare_message_of<ValueError>(
                [] { static_cast<void>(compile(by_length, {.varying = {{0, 0, 4, 3}}})); }),
            "compile: varying has sizes from 4 to 3, but they must be 0 or more, the smallest "
            "first, and reach 2");
  EXPECT_THROW(compile(by_length, {.varying = {{0, 0, 0, 1}}}), ValueError);
  EXPECT_THROW(compile(by_length, {.varying = {{0, 0, 0, std::int64_t{1} << 62}}}), ValueError);
}

TEST(VaryingSizes, EqualSizesOfOtherRangesAreTwoSizes) {
  const auto fn = [](const Tensor& x) { return softmax(x, -1) + x.size(0); };
  const auto apart =
      compile(fn, {.varying = {{0, 0, 2, 64}, {0, 1, 2, 512}}, .on_recompile = OnRecompile::fail});
  for (const auto& [rows, columns] : {std::pair(8, 8), {8, 9}, {3, 100}}) {
    const Tensor x = normal({rows, columns});
    EXPECT_EQ(bits(apart(x)), bits(fn(x)));
  }
  const auto same =
      compile(fn, {.varying = {{0, 0, 2, 64}, {0, 1, 2, 64}}, .on_recompile = OnRecompile::fail});
  same(normal({8, 8}));
  EXPECT_THROW(same(normal({8, 9})), RecompileError);
}

TEST(VaryingSizes, ANamedAxisIsOneSizeWithAnEqualOneThatIsNot) {
  const auto fn = [](const Tensor& x, const Tensor& y) { return x + y; };
  const auto fast = compile(fn, {.varying = {{0, 0}}, .buckets = {{{1, 0}, {8, 16}}}});
  for (const int n : {5, 7, 12}) {
    const Tensor x = normal({n, 2}), y = normal({n, 2});
    EXPECT_EQ(bits(fast(x, y)), bits(fn(x, y)));
  }
  EXPECT_TRUE(fast.explain().recordings[0].unpadded.empty());
}

TEST(VaryingSizes, RangesHoldInsideOfOtherRecordingsToo) {
  const auto inner = compile(by_length, {.varying = {{0, 0, 2, 9}}});
  const auto outer = compile([&](const Tensor& x) { return inner(x) + 1.0f; });
  EXPECT_THROW(outer(ones({10, 2})), ValueError);
  EXPECT_EQ(bits(outer(ones({9, 2}))), bits(tanh(ones({9, 2})) + 1.0f));
}

TEST(VaryingSizes, RangesHoldInLaterRecordingsToo) {
  const auto fn = [](const Tensor& x, int kind) {
    const Tensor y = x.size(0) > 1 ? x * 3.0f : x;
    return kind == 0 ? y : exp(y);
  };
  const auto fast = compile(fn, {.varying = {{0, 0, 2, 9}}});
  for (int call = 0; call < 9; ++call) {
    const Tensor x = normal({2 + call % 8, 2});
    EXPECT_EQ(bits(fast(x, call % 2)), bits(fn(x, call % 2)));
  }
  const Explanation page = fast.explain();
  EXPECT_EQ(page.recordings.size(), 2u);
  for (const ExplainedRecording& one : page.recordings) EXPECT_EQ(one.guards.size(), 2u);
}

}  // namespace
}  // namespace dyad
