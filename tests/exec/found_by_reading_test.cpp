// Mistakes of compiled functions, graphs and sessions that a reader of the sources found.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/exec/autocast.h"
#include "dyad/exec/checkpoint.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/print.h"
#include "dyad/exec/read_graph.h"
#include "dyad/exec/session.h"
#include "dyad/exec/verify.h"
#include "dyad/passes/pipeline.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

TEST(FoundByReading, RowsOfAnEmptyTableAreRefusedAsEagerly) {
  Graph g;
  const Tensor out = g.define([] {
    const Tensor table = placeholder("table", f32, {"rows", 8});
    const Tensor picked = index_select(table, 0, placeholder("index", i64, {"n"}));
    return picked - sum(picked, {1}, true);
  });
  Session session(g);
  const Tensor index = zeros({400}, i64);
  const std::string eager =
      message_of<IndexError>([&] { (void)index_select(zeros({0, 8}), 0, index); });
  const std::string compiled = message_of<IndexError>(
      [&] { (void)session.run({out}, {{"table", zeros({0, 8})}, {"index", index}}); });
  EXPECT_THAT(compiled, HasSubstr(eager.substr(0, eager.find('\n'))));
}

struct WithNumber {
  Tensor value;
  double count;
};
struct WithTensors {
  Tensor value;
  std::vector<Tensor> more;
};
static_assert(exec::pack::holds_number<WithNumber>(), "a replay cannot compute `count`");
static_assert(exec::pack::holds_number<std::vector<WithNumber>>());
static_assert(!exec::pack::holds_number<WithTensors>());

TEST(FoundByReading, ACastForOneGraphIsNoValueOfAnother) {
  const Tensor w = ones({4, 4}).requires_grad(), x = ones({2, 4});
  const auto product = [&] { return matmul(x, w); };
  const Autocast scope(bf16);
  Graph first, second;
  const Tensor a = first.define(product), b = second.define(product);
  EXPECT_TRUE(exec::same_bits(Session(first).run({a})[0], Session(second).run({b})[0]));
}

TEST(FoundByReading, GraphsThatPrintAreReadByProgramsThatDoNot) {
  exec::register_all_ops();
  EXPECT_NE(find_op("print"), nullptr);
}

TEST(FoundByReading, WhatPrintsIsFoundInOneSweep) {
  Graph g;
  const Tensor out = g.define([] {
    Tensor y = variable("w", ones({3}));
    for (int i = 0; i < 60; ++i) y = y * y;  // 2^60 ways lead to w
    print("{}", y);
    return placeholder("x", f32, {3}) + 1.0f;
  });
  ::testing::internal::CaptureStdout();
  const Tensor result = Session(g).run({out}, {{"x", zeros({3})}})[0];
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "[1. 1. 1.]\n");
  EXPECT_TRUE(exec::same_bits(result, ones({3})));
}

TEST(FoundByReading, ACheckpointKnowsItsCallersLine) {
  Graph g;
  const int line = __LINE__ + 3;
  g.define([] {
    const Tensor x = placeholder("x", f32, {3});
    return checkpoint([](const Tensor& t) { return t * 2.0f; }, x);
  });
  const std::string here = "found_by_reading_test.cpp:" + std::to_string(line);
  EXPECT_THAT(g.to_string(), HasSubstr(here));
  EXPECT_THAT(g.to_string(), ::testing::Not(HasSubstr("checkpoint.h")));
  const Tensor none;
  try {
    const int at = __LINE__ + 1;
    (void)checkpoint([](const Tensor& t) { return t; }, none);
    FAIL() << at;
  } catch (const ValueError& e) {
    EXPECT_THAT(to_string(e.where()), HasSubstr("found_by_reading_test.cpp"));
  }
}

TEST(FoundByReading, TheTableOfKernelsIsThereWhileOthersRun) {
  const auto f = compile([](const Tensor& x) { return tanh(matmul(x, x)) + 1.0f; });
  const Tensor x = uniform({200, 200});
  for (int i = 0; i < 3; ++i) (void)f(x);
  std::atomic<bool> ends = false;
  std::thread other([&] {
    while (!ends) (void)f(x);
  });
  int tables = 0;
  for (int i = 0; i < 50; ++i) tables += !f.explain().recordings.at(0).table.empty();
  ends = true;
  other.join();
  EXPECT_EQ(tables, 50);
}

TEST(FoundByReading, AnErrorInVerifyLeavesTheGeneratorWhereTheCallDid) {
  const auto draws = [](const Tensor& x) { return x + uniform({3}); };
  const Tensor x = ones({3});
  manual_seed(3);
  (void)draws(x);
  const RandomKey after = default_generator().state();
  const passes::RegisteredPass wrong(
      {"fails", "throws", passes::PassUse::optional,
       [](const Ref<GraphImpl>&, const passes::LowerOptions&) -> Ref<GraphImpl> {
         throw ValueError("this pass fails");
       }});
  manual_seed(3);
  EXPECT_THAT(message_of<ValueError>([&] { (void)verify(draws, x); }),
              HasSubstr("this pass fails"));
  EXPECT_EQ(default_generator().state(), after);
}

TEST(FoundByReading, AFunctionIsNotExplainedByItselfWhileItIsRecorded) {
  const std::function<void()>* inside = nullptr;
  auto f = compile(
      [&](const Tensor& x) {
        (*inside)();
        return x + 1.0f;
      },
      {.recheck = false, .name = "self"});
  for (const std::function<void()>& act : {std::function<void()>([&] { (void)f.explain(); }),
                                           std::function<void()>([&] { (void)f.graphs(); }),
                                           std::function<void()>([&] { f.reset(); })}) {
    inside = &act;
    EXPECT_THAT(message_of<GraphError>([&] { (void)f(ones({2})); }),
                ::testing::AllOf(HasSubstr("self: "), HasSubstr("while it is recorded")));
  }
  const std::function<void()> nothing = [] {};
  inside = &nothing;
  (void)f(ones({2}));
  EXPECT_THAT(to_string(f.explain()), HasSubstr("self"));
}

TEST(FoundByReading, EagerCallsThatWriteTakeTurnsWithReplays) {
  Tensor total = zeros({64});
  const auto add = compile(
      [&](const Tensor& x) {
        const NoGrad no_grad;
        total.add_(sum(x, {0}));
        return x;
      },
      {.dynamic_sizes = false, .recheck = false, .max_recordings = 1});
  constexpr int kCalls = 300;
  (void)add(ones({2, 64}));
  std::thread other([&] {
    for (int i = 0; i < kCalls; ++i) (void)add(ones({3, 64}));  // fits no recording: eager
  });
  for (int i = 0; i < kCalls; ++i) (void)add(ones({2, 64}));
  other.join();
  EXPECT_TRUE(exec::same_bits(total, full({64}, 2.0f + 5.0f * kCalls)));
}

}  // namespace
}  // namespace dyad
