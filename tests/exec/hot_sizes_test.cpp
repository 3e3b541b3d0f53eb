#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/executable.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/substitute.h"
#include "dyad/ops/ops.h"
#include "dyad/passes/pipeline.h"
#include "exec_for_tests.h"

// CompileOptions::hot_calls: sizes that come often get a version of their own, with the same bits.

namespace dyad {
namespace {

using exec::bits;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CompileOptions after(int calls, Background background = Background::never) {
  return {.varying = {{0, 0}}, .recheck = false, .background = background, .hot_calls = calls};
}

std::vector<std::string> hot_sizes_of(const auto& compiled) {
  return compiled.explain().recordings[0].hot_sizes;
}

TEST(HotSizes, GetAVersionOfTheirOwn) {
  const Tensor w = normal({8, 8});
  const auto fn = [&](Tensor x) { return softmax(gelu(matmul(x, w)), 1) + sum(x); };
  const auto c = compile(fn, after(3));
  for (const std::int64_t rows : {5, 64, 7, 64, 64, 9, 64, 64, 5}) {
    const Tensor x = normal({rows, 8});
    EXPECT_EQ(bits(c(x)), bits(fn(x))) << rows;
  }
  EXPECT_THAT(hot_sizes_of(c), ElementsAre("s0 = 64"));
  EXPECT_THAT(to_string(c.explain()), HasSubstr("    has a version of its own for s0 = 64\n"));
  EXPECT_EQ(c.explain().recorded, 1);
}

TEST(HotSizes, NumbersHaveNoVersions) {
  const auto fn = [](Tensor x) { return x * 2.0f + 1.0f; };
  const auto c = compile(fn, {.recheck = false, .background = Background::never, .hot_calls = 2});
  for (int i = 0; i < 6; ++i) c(ones({4}));
  EXPECT_THAT(hot_sizes_of(c), IsEmpty());
}

TEST(HotSizes, NoneWhereNoneAreWanted) {
  const auto c = compile([](Tensor x) { return x * 2.0f; }, after(0));
  for (int i = 0; i < 100; ++i) c(ones({4}));
  EXPECT_THAT(hot_sizes_of(c), IsEmpty());
  EXPECT_THROW(compile([](Tensor x) { return x; }, {.hot_calls = -1}), ValueError);
}

TEST(HotSizes, NoMoreThanEight) {
  const auto c = compile([](Tensor x) { return exp(x) * 2.0f; }, after(2));
  for (int round = 0; round < 4; ++round) {
    for (std::int64_t n = 2; n < 20; ++n) c(ones({n}));
  }
  EXPECT_EQ(hot_sizes_of(c).size(), 8u);
}

TEST(HotSizes, AMemoryLimitHoldsThoughTheFirstCallWasSmall) {
  // What is computed again was decided by the first call's sizes, which are far below the limit.
  Tensor w = full({64, 64}, 0.01f).requires_grad();
  const auto fn = [&](Tensor x) {
    w.set_grad(Tensor());
    for (int layer = 0; layer < 6; ++layer) x = tanh(matmul(x, w));
    sum(x * x).backward();
    return w.grad();
  };
  CompileOptions options = after(3);
  options.memory_limit = std::int64_t{7} * 512 * 64 * 4;
  const auto c = compile(fn, options);
  c(normal({8, 64}));
  const Tensor x = normal({512, 64});
  const std::vector<float> expected = bits(fn(x));
  EXPECT_EQ(bits(c(x)), expected);
  const std::int64_t before = c.explain().recordings[0].memory;
  EXPECT_GT(before, options.memory_limit);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(bits(c(x)), expected);
  EXPECT_THAT(hot_sizes_of(c), ElementsAre("s0 = 512"));
  EXPECT_LT(c.explain().recordings[0].memory, before * 3 / 4);
}

TEST(HotSizes, WritesGoOnWhereTheyLie) {
  Tensor count = zeros({4});
  Tensor eager_count = zeros({4});
  const auto add_to = [](Tensor& into, const Tensor& x) {
    into.add_(sum(x, {0}));
    return into * 2.0f;
  };
  const auto c = compile([&](Tensor x) { return add_to(count, x); }, after(2));
  for (int i = 0; i < 8; ++i) {
    const Tensor x = normal({i % 3 == 0 ? 6 : 3, 4});
    EXPECT_EQ(bits(c(x)), bits(add_to(eager_count, x)));
  }
  EXPECT_EQ(bits(count), bits(eager_count));
  EXPECT_FALSE(hot_sizes_of(c).empty());
}

TEST(HotSizes, LoopsAndBranchesInside) {
  const auto fn = [](Tensor x) {
    const auto made = scan(
        [](const Tensor& state, const Tensor& row) {
          const Tensor next = tanh(state + row);
          return std::pair(next, next * 2.0f);
        },
        zeros({4}), x);
    return cond(
        sum(x) > 0.0f, [&] { return made.second * 2.0f; },
        [&] { return made.second + reshape(x, {-1, 4}); });
  };
  const auto c = compile(fn, after(2));
  for (int i = 0; i < 10; ++i) {
    const Tensor x = normal({i % 4 == 0 ? 6 : 3, 4});
    EXPECT_EQ(bits(c(x)), bits(fn(x)));
  }
  EXPECT_FALSE(hot_sizes_of(c).empty());
}

TEST(HotSizes, AStepIsTakenOnceWhereTheirVersionCannotBeMade) {
  const passes::RegisteredPass picky(
      {"picky", "throws where sizes are numbers", passes::PassUse::optional,
       [](const Ref<GraphImpl>& graph, const passes::LowerOptions&) -> Ref<GraphImpl> {
         for (const Value v : graph->placeholders()) {
           if (v.type().shape()[0].is_number()) throw MemoryError("no memory for numbers");
         }
         return graph;
       }});
  const auto train = [](Tensor& w) {
    return [&w](const Tensor& x) {
      const NoGrad guard;
      w.add_(sum(x) * uniform({4}));
      return w * 2.0f;
    };
  };
  Tensor w = zeros({4}), expected_w = zeros({4});
  const auto fn = train(expected_w);
  const auto step = compile(train(w), after(2));
  manual_seed(11);
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < 6; ++i) expected.push_back(bits(fn(ones({3}))));
  manual_seed(11);
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(bits(step(ones({3}))), expected[static_cast<std::size_t>(i)]) << i;
  EXPECT_EQ(bits(w), bits(expected_w));
  EXPECT_EQ(step.explain().recorded, 1);
}

TEST(HotSizes, MadeInTheBackgroundWhileCallsGoOn) {
  const Tensor w = normal({8, 8});
  const auto fn = [&](Tensor x) { return tanh(matmul(x, w)) + 1.0f; };
  const auto c = compile(fn, after(3, Background::always));
  const Tensor x = normal({16, 8});
  const std::vector<float> expected = bits(fn(x));
  c(x);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (hot_sizes_of(c).empty() && std::chrono::steady_clock::now() < give_up)
    EXPECT_EQ(bits(c(x)), expected);
  EXPECT_THAT(hot_sizes_of(c), ElementsAre("s0 = 16"));
  EXPECT_EQ(bits(c(x)), expected);
}

TEST(HotSizes, AFunctionMayGoWhileTheyAreMade) {
  struct Meeting {
    std::atomic<int> arrived = 0;
    std::atomic<bool> open = true;
  };
  const auto meeting = std::make_shared<Meeting>();
  const passes::RegisteredPass waits(
      {"waits", "waits", passes::PassUse::required,
       [meeting](const Ref<GraphImpl>& graph, const passes::LowerOptions&) {
         ++meeting->arrived;
         meeting->arrived.notify_all();
         meeting->open.wait(false);
         return graph;
       }});
  auto c = std::make_optional(
      compile([](Tensor x) { return tanh(x) + 1.0f; }, after(2, Background::always)));
  const auto call_often = [&](const Tensor& x) {
    for (int i = 0; i < 4; ++i) (*c)(x);
  };
  const Tensor first = normal({5, 2}), second = normal({6, 2});
  (*c)(first);
  static_cast<void>(c->explain());
  call_often(first);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (hot_sizes_of(*c).empty() && std::chrono::steady_clock::now() < give_up) (*c)(first);
  ASSERT_EQ(hot_sizes_of(*c).size(), 1u);
  // One of them is there, the next one is being made.
  meeting->open = false;
  const int before = meeting->arrived;
  call_often(second);
  meeting->arrived.wait(before);
  std::thread end([&] { c.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  meeting->open = true;
  meeting->open.notify_all();
  end.join();
}

TEST(HotSizes, ThreadsCallMeanwhile) {
  const Tensor w = normal({8, 8});
  const auto fn = [&](Tensor x) { return tanh(matmul(x, w)) + 1.0f; };
  const auto c = compile(fn, after(4));
  c(normal({3, 8}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Tensor x = full({8 + t % 2, 8}, 0.1f * static_cast<float>(t + 1));
      const std::vector<float> expected = bits(fn(x));
      for (int i = 0; i < 20; ++i) EXPECT_EQ(bits(c(x)), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(hot_sizes_of(c).size(), 2u);
}

TEST(WithSizes, PutsNumbersIntoTypesAttributesAndRegions) {
  const Ref<GraphImpl> graph = parse_graph(R"(graph {
  %x = placeholder : f32[n, 4]
  %y = reshape(%x) {shape = [4*n]}
  return %y
})");
  const Ref<GraphImpl> numbers =
      with_sizes(*graph, [](Dim symbol) { return symbol.same_as("n") ? Dim(6) : symbol; });
  const std::string text = to_string(*numbers, {.lines = false});
  EXPECT_THAT(text, HasSubstr("f32[6, 4]"));
  EXPECT_THAT(text, HasSubstr("shape = [24]"));
  EXPECT_THAT(text, HasSubstr("f32[24]"));
}

}  // namespace
}  // namespace dyad
