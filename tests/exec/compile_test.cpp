#include "dyad/exec/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/base/log.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/core/storage.h"
#include "dyad/ir/graph.h"
#include "dyad/ops/ops.h"
#include "dyad/runtime/threads.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::message_of;
using exec::bits;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Compile, ReplaysWithTheSameBits) {
  const auto fn = [](const Tensor& x, const Tensor& y) { return tanh(x * y) + sigmoid(x - y); };
  const auto fast = compile(fn, {.recheck = false});
  for (int i = 0; i < 4; ++i) {
    manual_seed(static_cast<std::uint64_t>(i));
    const Tensor x = normal({7, 33}), y = normal({33});
    EXPECT_EQ(bits(fast(x, y)), bits(fn(x, y)));
  }
  const Explanation told = fast.explain();
  EXPECT_EQ(told.recordings.size(), 1u);
  EXPECT_EQ(told.recorded, 1);
  EXPECT_EQ(told.replays, 3);
  EXPECT_LT(told.recordings[0].kernels, told.recordings[0].nodes);
}

TEST(Compile, PassesAreSwitchedOffByName) {
  const auto fn = [](const Tensor& x) { return exp(tanh(x) * 2.0f) + tanh(x); };
  const auto whole = compile(fn, {.recheck = false});
  const auto apart = compile(fn, {.recheck = false, .passes_off = {"fuse", "cse"}});
  const Tensor x = normal({7, 33});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(bits(whole(x)), bits(fn(x)));
    EXPECT_EQ(bits(apart(x)), bits(fn(x)));
  }
  EXPECT_EQ(whole.explain().recordings[0].kernels, 1);
  EXPECT_EQ(apart.explain().recordings[0].kernels, 4);  // both tanh in one call of the threads
  EXPECT_THAT(message_of<ValueError>([&] { (void)compile(fn, {.passes_off = {"fusion"}}); }),
              AllOf(HasSubstr("passes_off: there is no pass 'fusion'; those that can be switched "
                              "off are fold_norms, "),
                    HasSubstr("compile_test.cpp:")));
}

TEST(Compile, GradientsOfPartsKeepTheirBits) {
  // Attention on parts of one tensor: its gradients are put side by side, not added to zeros.
  const auto fn = [](const Tensor& given) {
    Tensor x = given.detach().requires_grad();
    const Tensor parts = permute(reshape(x, {2, 70, 3, 4, 8}), {2, 0, 3, 1, 4});
    const Tensor y =
        scaled_dot_product_attention(parts[0], parts[1], parts[2], {.is_causal = true});
    sum(square(y)).backward();
    return x.grad();
  };
  const auto fast = compile(fn, {.recheck = false});
  const Tensor x = normal({2, 70, 96});
  const std::vector<float> expected = bits(fn(x));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(bits(fast(x)), expected);
  int sums = 0, concats = 0;
  for (const auto& node : fast.graphs()[0].compiled->nodes()) {
    sums += node->is("pad") ? 1 : 0;
    concats += node->is("concat") ? 1 : 0;
  }
  EXPECT_EQ(sums, 0);
  EXPECT_EQ(concats, 1);
}

TEST(Compile, AStepHoldsOneSetOfGradients) {
  Tensor w = normal({1000, 1000}).requires_grad();
  const auto step = compile(
      [&](const Tensor& x) {
        w.set_grad(Tensor());
        const Tensor loss = sum(matmul(x, w));
        loss.backward();
        return loss;
      },
      {.recheck = false});
  const Tensor x = ones({2, 1000});
  for (int i = 0; i < 3; ++i) (void)step(x);
  const std::size_t before = memory_stats().in_use;
  reset_peak_memory();
  (void)step(x);
  EXPECT_LT(memory_stats().peak, before + 1000 * 1000 * 4 / 2);
  EXPECT_EQ(w.grad()[0][0].item<float>(), 2);
}

TEST(Compile, ARecompilationMayBeForbidden) {
  const auto fn = [](const Tensor& x, int n) {
    const Tensor y = x * static_cast<float>(n);
    return mean(y) > 0.5f ? y : -y;
  };
  const auto fast = compile(fn, {.recheck = false, .on_recompile = OnRecompile::fail, .name = "f"});
  (void)fast(ones({4}), 1);
  EXPECT_EQ(bits(fast(ones({4}), 1)), bits(fn(ones({4}), 1)));
  EXPECT_THAT(message_of<RecompileError>([&] { (void)fast(ones({5}), 1); }),
              AllOf(HasSubstr("compiled function 'f', call 3 fits no recording, and on_recompile "
                              "forbids another: size of argument 0 along axis 0 was 4, is 5"),
                    HasSubstr("compile_test.cpp:")));
  EXPECT_THAT(message_of<RecompileError>([&] { (void)fast(ones({4}, i64), 1); }),
              HasSubstr("argument 0 was f32[4], is i64[4]"));
  EXPECT_THAT(message_of<RecompileError>([&] { (void)fast(ones({4}), 2); }),
              HasSubstr("on_recompile forbids another: argument 1 was 1, is 2"));
  const std::string read = message_of<RecompileError>([&] { (void)fast(zeros({4}), 1); });
  EXPECT_THAT(read, HasSubstr("forbids another: the host read false, before true"));
  EXPECT_THAT(read, ::testing::ContainsRegex("compile_test.cpp:[0-9]+"));
  EXPECT_EQ(bits(fast(ones({4}), 1)), bits(fn(ones({4}), 1)));
  EXPECT_EQ(fast.explain().recordings.size(), 1u);
}

TEST(Compile, AFailedGuardTellsArgumentOldAndNewSizeAndLine) {
  int line = 0;
  const auto expect_told = [&](const auto& fn, const std::string& guard) {
    const auto fast =
        compile(fn, {.varying = {{0, 0}}, .recheck = false, .on_recompile = OnRecompile::fail});
    (void)fast(ones({5, 8}));
    const std::string told = message_of<RecompileError>([&] { (void)fast(ones({2, 8})); });
    EXPECT_THAT(told,
                HasSubstr("guard " + guard + " failed: s0, axis 0 of argument 0, was 5, is 2\n"));
    EXPECT_THAT(told, HasSubstr("compile_test.cpp:" + std::to_string(line)));
  };
  expect_told(
      [&](const Tensor& x) {
        line = __LINE__ + 1;
        return x.size(0) > 3 ? x * 2.0f : x;
      },
      "s0 > 3");
  expect_told(
      [&](const Tensor& x) {
        line = __LINE__ + 1;
        return x * static_cast<float>(x.shape()[0].number());
      },
      "s0 == 5");
  expect_told(
      [&](const Tensor& x) {
        line = __LINE__ + 1;
        return x.numel().value() > 20 ? x * 2.0f : x;
      },
      "8*s0 == 40");
}

TEST(Compile, SizesKnownToVaryNeedNoOtherRecording) {
  const auto fn = [](const Tensor& x, const Tensor& y) { return sum(x * y, {0}) * mean(y); };
  for (const OnRecompile policy : {OnRecompile::fail, OnRecompile::run_eagerly}) {
    const auto fast = compile(fn, {.varying = {{0, 0}, {1, -2}}, .on_recompile = policy});
    for (const std::int64_t n : {3, 4, 100, 3, 7}) {
      const Tensor x = randn({n, 4}), y = randn({n, 4});
      EXPECT_EQ(bits(fast(x, y)), bits(fn(x, y))) << n;
    }
    const Explanation told = fast.explain();
    ASSERT_EQ(told.recordings.size(), 1u);
    EXPECT_EQ(told.recordings[0].arguments, std::vector<std::string>({"f32[s0, 4]", "f32[s0, 4]"}));
    EXPECT_EQ(told.eager, 0);
  }
  const auto other = compile(fn, {.varying = {{0, 0}, {1, 0}}, .on_recompile = OnRecompile::fail});
  (void)other(ones({3, 4}), ones({3, 4}));
  EXPECT_THAT(message_of<RecompileError>([&] { (void)other(ones({3, 5}), ones({3, 5})); }),
              HasSubstr("size of argument 0 along axis 1 was 4, is 5"));
  const auto lacks = compile(fn, {.varying = {{2, 0}}, .name = "f"});
  EXPECT_THAT(message_of<ValueError>([&] { (void)lacks(ones({3}), ones({3})); }),
              HasSubstr("f: varying names argument 2, but the call has 2 tensors"));
  const auto flat = compile(fn, {.varying = {{1, -2}}, .name = "f"});
  EXPECT_THAT(message_of<ValueError>([&] { (void)flat(ones({3}), ones({3})); }),
              HasSubstr("f: varying names axis -2 of argument 1, which is f32[3]"));
}

TEST(Compile, ARecompilationMayRunEagerlyInstead) {
  const auto fn = [](const Tensor& x) { return mean(x) > 0.5f ? x * 3.0f : -x; };
  const auto fast = compile(fn, {.recheck = false, .on_recompile = OnRecompile::run_eagerly});
  (void)fast(ones({4}));
  for (const Tensor& x : {ones({5}), zeros({4}), ones({4}), zeros({7})}) {
    EXPECT_EQ(bits(fast(x)), bits(fn(x)));
  }
  const Explanation told = fast.explain();
  EXPECT_EQ(told.recordings.size(), 1u);
  EXPECT_EQ(told.eager, 3);
  EXPECT_EQ(told.replays, 1);
  ASSERT_EQ(told.misses.size(), 3u);
  EXPECT_EQ(told.misses[0].call, 2);
  EXPECT_EQ(told.misses[0].reason, "size of argument 0 along axis 0 was 4, is 5");
  EXPECT_EQ(told.misses[1].reason, "the host read false, before true");
  EXPECT_THAT(to_string(told),
              HasSubstr("  call 3 ran eagerly: the host read false, before true at "
                        "compile_test.cpp:"));
}

TEST(Compile, RecordingsHaveABound) {
  const auto fn = [](const Tensor& x, int n) { return x * static_cast<float>(n); };
  const auto fast = compile(fn, {.recheck = false, .max_recordings = 2});
  for (int n = 0; n < 20; ++n) EXPECT_EQ(bits(fast(ones({2}), n)), bits(fn(ones({2}), n)));
  const Explanation told = fast.explain();
  EXPECT_EQ(told.recordings.size(), 2u);
  EXPECT_EQ(told.eager, 18);
  EXPECT_EQ(told.misses.size(), 8u);
  EXPECT_EQ(told.misses.back().call, 20);
}

/// The warnings that come while it lives.
class Warnings {
 public:
  Warnings() {
    set_log_sink([this](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) lines.emplace_back(text);
    });
  }
  ~Warnings() { set_log_sink({}); }
  std::vector<std::string> lines;
};

TEST(Compile, CallsBeyondTheBoundAreWarnedOfOnceWithWhatChanges) {
  const auto fn = [](const std::vector<Tensor>& xs, double rate) { return xs.back() * rate; };
  const auto fast = compile(fn, {.recheck = false, .max_recordings = 2, .name = "scale"});
  const std::vector<Tensor> two(2, ones({2})), three(3, ones({2}));
  const Warnings warnings;
  (void)fast(two, 0.5);
  (void)fast(three, 0.5);
  EXPECT_THAT(warnings.lines, ::testing::IsEmpty());
  for (const double rate : {0.25, 0.125}) EXPECT_EQ(bits(fast(two, rate)), bits(fn(two, rate)));
  EXPECT_THAT(warnings.lines,
              ElementsAre(AllOf(
                  ::testing::StartsWith("compiled function 'scale' (compile_test.cpp:"),
                  HasSubstr("), call 3, runs eagerly, because none of its 2 recordings "
                            "(max_recordings) serves it: argument 1 was 0.5, is 0.25. Numbers and "
                            "lengths of lists are part of a recording; pass what changes often as "
                            "a tensor"))));
  const Explanation told = fast.explain();
  ASSERT_EQ(told.misses.size(), 2u);
  // Compared with the recording of as many elements, which is not the newest.
  EXPECT_EQ(told.misses[1].reason, "argument 1 was 0.5, is 0.125");
}

TEST(Compile, WhatIsNotCompiledIsWarnedOfOnce) {
  const auto fn = [](const Tensor& x) { return x * sum(x).item<float>(); };
  const auto fast = compile(fn, {.recheck = false, .max_outcomes = 2, .name = "read"});
  const auto asked = compile(fn, {.recheck = false, .on_recompile = OnRecompile::run_eagerly});
  const Warnings warnings;
  for (int n = 1; n < 8; ++n) {
    const Tensor x = full({2}, n);
    EXPECT_EQ(bits(fast(x)), bits(fn(x)));
    (void)asked(x);
  }
  EXPECT_THAT(
      warnings.lines,
      ElementsAre(AllOf(HasSubstr("compiled function 'read' (compile_test.cpp:"),
                        HasSubstr(") runs eagerly: what the host reads at compile_test.cpp:"),
                        HasSubstr(" (max_outcomes is 2)"))));
}

TEST(Compile, OptionsBelowTheLeastAreErrors) {
  const auto refusal = [](const CompileOptions& options) {
    return message_of<ValueError>(
        [&] { (void)compile([](const Tensor& x) { return x; }, options); });
  };
  const auto says = [](const std::string& text) {
    return AllOf(::testing::StartsWith(text), HasSubstr("\n  at compile_test.cpp:"));
  };
  EXPECT_THAT(refusal({.threads = -3}),
              says("compile: threads = -3, but must be 0 or more: 0 takes as many as "
                   "set_num_threads() says"));
  EXPECT_THAT(refusal({.max_outcomes = -1}),
              says("compile: max_outcomes = -1, but must be 1 or more: values of one host read, of "
                   "which the first call has one"));
  EXPECT_THAT(refusal({.max_recordings = 0}),
              says("compile: max_recordings = 0, but must be 1 or more: recordings, of which the "
                   "first call makes one"));
  EXPECT_THAT(refusal({.memory_limit = -5}),
              says("compile: memory_limit = -5, but must be 0 or more: bytes, 0 for no limit"));
}

TEST(Compile, ExplainsWithoutCompiling) {
  const auto fast = compile([](const Tensor& x) { return x.size(0) > 4 ? x * 2.0f : x; });
  for (const std::int64_t n : {2, 3}) (void)fast(ones({n}));
  EXPECT_FALSE(fast.explain().recordings[1].compiled);
  EXPECT_THAT(to_string(fast.explain()), HasSubstr("to be compiled by the next such call"));
  EXPECT_THAT(to_string(fast.explain()), HasSubstr("holds while s0 <= 4"));
}

TEST(Compile, ExplainsWhatTheHostReadsAndNotesOnceWithACount) {
  const auto fast = compile(
      [](const Tensor& x) {
        Tensor y = x;
        for (int i = 0; i < 3; ++i) y = softmax(y * 2, -1) + 1;
        if (sum(y).item<float>() == 0) return x;
        return sum(y * 0.1f) > 100.0f ? y * 3.0f : y;
      },
      {.recheck = false});
  const Tensor x = normal({900, 256});
  for (int i = 0; i < 2; ++i) (void)fast(x);
  Explanation told = fast.explain();
  told.recordings[0].fusion = {"one", "another", "one", "one"};
  const std::string text = to_string(told);
  EXPECT_THAT(text, ContainsRegex("the host reads a number at compile_test.cpp:[0-9]+: so far "
                                  "[0-9.]+\n"));
  EXPECT_THAT(text, ContainsRegex("the host reads a bool at compile_test.cpp:[0-9]+: so far "
                                  "true\n"));
  EXPECT_THAT(text, HasSubstr("\n    fusion: one (3 times)\n    fusion: another\n"));
  EXPECT_EQ(text.find("fusion: one\n"), std::string::npos) << text;
}

TEST(Compile, TellsTheGraphsOfEachStretchBetweenHostReads) {
  const auto fast = compile([](const Tensor& x) {
    const Tensor y = tanh(x) * 2.0f;
    return sum(y).item() > 0 ? exp(y) + 1.0f : y;
  });
  EXPECT_TRUE(fast.graphs().empty());
  for (const float value : {1.0f, -1.0f}) (void)fast(full({3}, value));
  const std::vector<CompiledGraph> graphs = fast.graphs();
  ASSERT_EQ(graphs.size(), 3u);  // what both share, then a way for each outcome
  EXPECT_THAT(to_string(*graphs[0].recorded), HasSubstr("tanh"));
  EXPECT_THAT(to_string(*graphs[0].compiled), HasSubstr("fused"));
}

TEST(Compile, ARecompilationHasALine) {
  const auto first = std::source_location::current().line();
  const auto fn = [](const Tensor& x, const Tensor& y, int n) {
    const Tensor scaled = x * static_cast<float>(n);
    return add(scaled, y);
  };
  const auto fast = compile(fn, {.recheck = false});
  const auto line_of_newest = [&] { return fast.explain().recordings.back().loc.line(); };
  (void)fast(ones({4}), ones({4}), 1);
  EXPECT_FALSE(fast.explain().recordings[0].loc) << "the first call";
  (void)fast(ones({4}), ones({4}, f64), 1);
  EXPECT_EQ(line_of_newest(), first + 3) << "the first operator that reads the argument";
  (void)fast(ones({1}), ones({4}), 1);
  EXPECT_EQ(line_of_newest(), first + 2);
  (void)fast(ones({4}), ones({4}), 2);
  EXPECT_EQ(line_of_newest(), first + 5) << "the function: no operator reads a number";
}

TEST(Compile, ASizeThatVariesBecomesASymbol) {
  const auto fn = [](const Tensor& x) { return sum(reshape(x, {x.size(0) * 2, -1}) * 2, {0}); };
  const auto fast = compile(fn, {.recheck = false});
  for (const std::int64_t n : {3, 5, 9, 4, 3, 17}) {
    const Tensor x = normal({n, 8});
    EXPECT_EQ(bits(fast(x)), bits(fn(x))) << n;
  }
  const Explanation told = fast.explain();
  ASSERT_EQ(told.recordings.size(), 2u);
  EXPECT_THAT(told.recordings[1].reason, HasSubstr("size of argument 0 along axis 0 was 3, is 5"));
  EXPECT_EQ(told.recordings[1].arguments[0], "f32[s0, 8]");
}

/// A size that equals an expression of others, as the guard of the recording says: operators that
/// the compiler puts in the place of the recorded one compare them again.
TEST(Compile, SizesThatTheGuardsKnowToBeEqual) {
  const auto fn = [](const Tensor& q, const Tensor& cache, const Tensor& row, const Tensor& mask) {
    const Tensor k = concat({cache, row}, 2);
    return scaled_dot_product_attention(q, k, k, {.mask = mask});
  };
  for (const Background background : {Background::never, Background::always}) {
    const auto fast = compile(fn, {.background = background});
    for (const std::int64_t past : {3, 5, 4, 7, 9, 2, 6}) {
      const Tensor q = normal({1, 2, 4, 8}), cache = normal({1, 2, past, 8});
      const Tensor row = normal({1, 2, 4, 8}), mask = uniform({4, past + 4}) > 0.3f;
      EXPECT_EQ(bits(fast(q, cache, row, mask)), bits(fn(q, cache, row, mask))) << past;
      if (background == Background::always) (void)fast.explain();  // waits for the compiler
    }
    EXPECT_EQ(fast.explain().recordings.size(), 2u);
  }
}

TEST(Compile, AnotherDtypeIsAnotherRecording) {
  const auto fast = compile([](const Tensor& x) { return x + x; });
  (void)fast(ones({2}));
  EXPECT_EQ(fast(ones({2}, i64)).dtype(), i64);
  EXPECT_THAT(fast.explain().recordings[1].reason, HasSubstr("argument 0 was f32[2], is i64[2]"));
}

TEST(Compile, NumbersAmongTheArgumentsAreGuards) {
  const auto fast =
      compile([](const Tensor& x, double scale) { return x * scale; }, {.recheck = false});
  for (const double scale : {2.0, 3.0, 2.0, 3.0})
    EXPECT_EQ(fast(tensor(5.0f), scale).item(), 5 * scale);
  ASSERT_EQ(fast.explain().recordings.size(), 2u);
  EXPECT_EQ(fast.explain().recordings[1].reason, "argument 1 was 2, is 3");
}

enum class Shade : std::uint8_t { light, dark };

struct Settings {
  float rate = 0.1f;
  bool training = true;
  Shade shade = Shade::light;
  std::vector<Tensor> weights;
};

/// Each call changes one thing: the reason of its recording says which, from what and to what.
TEST(Compile, WhatChangedAmongTheArgumentsIsNamed) {
  const auto fast = compile(
      [](const Settings& settings, const std::tuple<std::optional<int>, std::uint64_t>& numbers,
         const std::vector<std::vector<double>>& table, const Tensor& x) {
        Tensor sum = x.defined() ? x * settings.rate : ones({2});
        for (const Tensor& weight : settings.weights) sum += weight;
        return sum + static_cast<double>(std::get<1>(numbers)) + table[0][0];
      },
      {.recheck = false});
  Settings settings{.weights = {ones({2})}};
  std::tuple<std::optional<int>, std::uint64_t> numbers{std::nullopt, 7};
  std::vector<std::vector<double>> table{{0.5}, {1, 2}};
  Tensor x = ones({2});
  std::size_t recordings = 0;
  const auto reason = [&] {
    (void)fast(settings, numbers, table, x);
    const Explanation told = fast.explain();
    EXPECT_EQ(told.recordings.size(), ++recordings);
    return told.recordings.back().reason;
  };
  EXPECT_EQ(reason(), "first call");
  settings.rate = 0.2f;
  EXPECT_EQ(reason(), "argument 0.rate was 0.1, is 0.2");
  settings.training = false;
  EXPECT_EQ(reason(), "argument 0.training was true, is false");
  settings.shade = Shade::dark;
  EXPECT_EQ(reason(), "argument 0.shade was 0, is 1");
  settings.weights.push_back(ones({2}));
  EXPECT_EQ(reason(), "argument 0.weights had 1 element, has 2");
  settings.weights[1] = ones({2}, f64);
  EXPECT_EQ(reason(), "argument 0.weights[1] was f32[2], is f64[2]");
  settings.weights[1] = ones({1}, f64);
  EXPECT_EQ(reason(), "size of argument 0.weights[1] along axis 0 was 2, is 1");
  std::get<0>(numbers) = 3;
  EXPECT_EQ(reason(), "argument 1[0] had no value, has one");
  std::get<0>(numbers) = -4;
  EXPECT_EQ(reason(), "argument 1[0] was 3, is -4");
  std::get<1>(numbers) = ~std::uint64_t{0};
  EXPECT_EQ(reason(), "argument 1[1] was 7, is 18446744073709551615");
  table[1][1] = 0.1;
  EXPECT_EQ(reason(), "argument 2[1][1] was 2, is 0.1");
  table[1].pop_back();
  EXPECT_EQ(reason(), "argument 2[1] had 2 elements, has 1");
  x = Tensor();
  EXPECT_EQ(reason(), "argument 3 was a tensor, is undefined");
}

struct Branching {
  Tensor w1 = normal({4, 4}).requires_grad(), w2 = normal({4, 2}).requires_grad();
  Tensor operator()(const Tensor& x) const {
    Tensor h = mean(x) > 0.5f ? matmul(x, w1) : relu(matmul(x, w1));
    return matmul(h, w2);
  }
};

TEST(Compile, AHostBranchRecordsBothWaysInEitherOrder) {
  manual_seed(5);
  const Branching model;
  const Tensor high = uniform({3, 4}) + 0.6f, low = uniform({3, 4}) - 0.6f;
  for (const bool high_first : {true, false}) {
    const auto fast = compile([&](const Tensor& x) { return model(x); }, {.recheck = false});
    for (int i = 0; i < 6; ++i) {
      const Tensor& x = (i % 2 == 0) == high_first ? high : low;
      EXPECT_EQ(bits(fast(x)), bits(model(x)));
    }
    const Explanation told = fast.explain();
    ASSERT_EQ(told.recordings.size(), 1u);
    EXPECT_EQ(told.recordings[0].ways, 2);
    EXPECT_EQ(told.recorded, 2);
    EXPECT_EQ(told.replays, 4);
    ASSERT_EQ(told.recordings[0].decisions.size(), 1u);
    EXPECT_EQ(told.recordings[0].decisions[0].outcomes.size(), 2u);
  }
}

TEST(Compile, GradientsFromOutsideEqualEager) {
  manual_seed(6);
  const Branching model;
  const auto fast = compile([&](const Tensor& x) { return model(x); }, {.recheck = false});
  for (int i = 0; i < 6; ++i) {
    const Tensor x = uniform({3, 4}) + (i % 2 ? 0.6f : -0.6f);
    sum(square(model(x))).backward();
    const auto g1 = bits(model.w1.grad()), g2 = bits(model.w2.grad());
    model.w1.zero_grad(), model.w2.zero_grad();
    sum(square(fast(x))).backward();
    EXPECT_EQ(bits(model.w1.grad()), g1);
    EXPECT_EQ(bits(model.w2.grad()), g2);
    model.w1.zero_grad(), model.w2.zero_grad();
  }
}

TEST(Compile, GradOfAResultByAnArgument) {
  const auto fast = compile([](const Tensor& x) { return std::pair{tanh(x), x * 3.0f}; });
  for (int call = 0; call < 4; ++call) {  // recorded, recorded again, replayed
    Tensor x = normal({5}).requires_grad();
    const auto [first, second] = fast(x);
    EXPECT_EQ(bits(grad(sum(second), {x}, {.retain_graph = true})[0]), std::vector<float>(5, 3.0f));
    EXPECT_EQ(bits(grad(sum(first), {x})[0]), bits(grad(sum(tanh(x)), {x})[0]));
  }
}

TEST(Compile, AResultThatItsOwnGradientReadsIsFreed) {
  const Tensor w = normal({300}).requires_grad();
  const auto fast = compile(
      [&](const Tensor& x) {
        const Tensor h = tanh(x * w);  // its gradient reads h, and so does that of h * h
        return std::pair{h, h * h};
      },
      {.recheck = false});
  const Tensor x = normal({300});
  for (int call = 0; call < 2; ++call) (void)fast(x);
  const std::size_t before = memory_stats().in_use;
  for (int call = 0; call < 3; ++call) (void)fast(x);
  EXPECT_EQ(memory_stats().in_use, before);
}

TEST(Compile, AWholeTrainingStepIsOneGraph) {
  const auto train = [](bool compiled) {
    manual_seed(8);
    Tensor w = normal({4, 1}).requires_grad();
    const auto step = [&](const Tensor& x, const Tensor& y) {
      w.zero_grad();
      Tensor loss = mse_loss(matmul(x, w), y);
      loss.backward();
      no_grad([&] { w.sub_(w.grad() * 0.1f); });
      return loss;
    };
    const auto fast = compile(step);
    std::vector<float> losses;
    for (int i = 0; i < 20; ++i) {
      const Tensor x = normal({16, 4}), y = sum(x, {1}, true);
      losses.push_back((compiled ? fast(x, y) : step(x, y)).item<float>());
    }
    const auto values = bits(w), grads = bits(w.grad());
    losses.insert(losses.end(), values.begin(), values.end());
    losses.insert(losses.end(), grads.begin(), grads.end());
    if (compiled) {
      EXPECT_EQ(fast.explain().recordings.size(), 1u) << to_string(fast.explain());
    }
    return losses;
  };
  const int before = get_num_threads();
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    EXPECT_EQ(train(true), train(false));
  }
  set_num_threads(before);
}

TEST(Compile, RandomNumbersAreThoseOfEager) {
  const auto fn = [](const Tensor& x) { return dropout(x, 0.5) + normal({4}); };
  const auto fast = compile(fn, {.recheck = false});
  std::vector<std::vector<float>> eager, compiled;
  manual_seed(3);
  for (int i = 0; i < 4; ++i) eager.push_back(bits(fn(ones({4}))));
  manual_seed(3);
  for (int i = 0; i < 4; ++i) compiled.push_back(bits(fast(ones({4}))));
  EXPECT_EQ(eager, compiled);
  EXPECT_NE(eager[0], eager[1]);
}

TEST(Compile, HostStateThatChangesIsAnErrorWithItsLine) {
  int calls = 0;
  const auto fast = compile([&](const Tensor& x) { return x * static_cast<float>(++calls); });
  (void)fast(ones({2}));
  const std::string text = message_of<GraphError>([&] { (void)fast(ones({2})); });
  EXPECT_THAT(text, HasSubstr("it did something else than when it was recorded"));
  EXPECT_THAT(text, HasSubstr("compile_test.cpp"));
}

TEST(Compile, AHostReadThatTakesTooManyValuesRunsEagerly) {
  const auto fast = compile([](const Tensor& x) { return x * sum(x).item<float>(); },
                            {.recheck = false, .max_outcomes = 3});
  for (int i = 0; i < 8; ++i) {
    const Tensor x = full({2}, i);
    EXPECT_EQ(fast(x).to_vector<float>()[0], static_cast<float>(2 * i * i));
  }
  EXPECT_THAT(fast.explain().recordings[0].refusal, HasSubstr("max_outcomes is 3"));
  EXPECT_THAT(fast.explain().recordings[0].refusal, HasSubstr("compare the tensor itself"));
  EXPECT_THAT(to_string(fast.explain()), HasSubstr("runs eagerly"));
}

TEST(Compile, AWhileOfTheHostIsAWayForEachNumberOfSteps) {
  int calls = 0;
  const auto root = [&](const Tensor& x) {  // Newton's method
    ++calls;
    Tensor y = x;
    while ((max(abs(y * y - x)) > 1e-3f).item<bool>()) y = (y + x / y) * 0.5f;
    return y;
  };
  const auto fast = compile(root, {.recheck = false});
  const std::vector<float> numbers{2, 50, 9, 2000, 3, 2000, 50, 8, 1};
  std::set<std::size_t> ways;  // lengths of the paths
  for (const float number : numbers) {
    const Tensor x = full({3}, number).requires_grad(), again = full({3}, number).requires_grad();
    const Tensor eager = root(x);
    sum(eager).backward();
    const Tensor y = fast(again);
    sum(y).backward();
    EXPECT_EQ(bits(y.detach()), bits(eager.detach())) << number;
    EXPECT_EQ(bits(again.grad()), bits(x.grad())) << number;
    std::size_t steps = 0;
    for (double at = number; std::abs(at * at - number) > 1e-3; at = (at + number / at) / 2)
      ++steps;
    ways.insert(steps);
  }
  ASSERT_EQ(fast.explain().recordings.size(), 1u);
  EXPECT_LT(ways.size(), numbers.size());
  EXPECT_EQ(static_cast<std::size_t>(calls), numbers.size() + ways.size())
      << "a way is recorded once";
}

TEST(Compile, TuplesVectorsAndAggregatesPassThrough) {
  struct Pair {
    Tensor sum, product;
  };
  const auto fast = compile(
      [](const std::vector<Tensor>& xs, const std::tuple<Tensor, int>& y) {
        return Pair{xs[0] + xs[1], xs[0] * std::get<0>(y)};
      },
      {.recheck = false});
  for (int i = 1; i < 4; ++i) {
    const Pair p =
        fast(std::vector<Tensor>{tensor(1.0f), tensor(2.0f)}, std::tuple(full({}, i), 7));
    EXPECT_EQ(p.sum.item(), 3);
    EXPECT_EQ(p.product.item(), i);
  }
}

TEST(Compile, LiteralsInsideAreConstants) {
  const auto fast = compile([](const Tensor& x) { return x + tensor({1.0f, 2.0f}); });
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(bits(fast(full({2}, i))),
              (std::vector<float>{1.0f + static_cast<float>(i), 2.0f + static_cast<float>(i)}));
}

TEST(Compile, TablesMadeAnewInEachCallAreOneConstant) {
  std::vector<float> table(100);
  std::iota(table.begin(), table.end(), 0.0f);
  const auto fast = compile([&](const Tensor& x) { return x * tensor(table, {10, 10}); });
  for (int i = 0; i < 5; ++i) (void)fast(full({10}, i));
  EXPECT_GT(fast.explain().replays, 0);
  EXPECT_EQ(fast.explain().recordings.size(), 1u);
  table[57] = -1;  // the check at a power of two sees it
  EXPECT_THROW(
      {
        for (int i = 0; i < 5; ++i) (void)fast(full({10}, i));
      },
      GraphError);
}

TEST(Compile, AccumulatedGradientsAreFed) {
  Tensor w = tensor(2.0f).requires_grad();
  const auto fast = compile(
      [&](const Tensor& x) {
        Tensor loss = w * x;
        loss.backward();
        return loss;
      },
      {.recheck = false});
  for (int i = 1; i <= 5; ++i) {
    (void)fast(tensor(3.0f));
    EXPECT_EQ(w.grad().item<float>(), 3.0f * static_cast<float>(i));
  }
}

TEST(Compile, OverwritingBetweenCallAndBackwardIsAnError) {
  Tensor w = tensor({2.0f}).requires_grad();
  const auto fast = compile([&](const Tensor& x) { return sum(w * w * x); }, {.recheck = false});
  (void)fast(ones({1}));
  Tensor loss = fast(ones({1}));
  no_grad([&] { w.mul_(2); });
  EXPECT_THAT(message_of<GradError>([&] { loss.backward(); }),
              HasSubstr("was overwritten in place after the call"));
}

}  // namespace
}  // namespace dyad
