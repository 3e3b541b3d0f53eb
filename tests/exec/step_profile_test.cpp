#include "dyad/exec/step_profile.h"

#include "dyad/exec/control_flow.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad::exec {
namespace {

using dyad::testing::message_of;

std::map<std::string, std::int64_t> calls_of(const StepProfile& profile) {
  std::map<std::string, std::int64_t> calls;
  for (const StepTime& step : profile.steps()) {
    std::string name;
    for (const StepTime::Part& part : step.parts) name += (name.empty() ? "" : "+") + part.op;
    calls[name] += step.calls;
    EXPECT_GE(step.seconds, 0);
  }
  return calls;
}

TEST(StepProfile, CountsEachKernelWithTheOperatorsInIt) {
  Graph g;
  const Tensor y = g.define([] {
    const Tensor x = placeholder("x", f32, {"n", 4});
    return sum(tanh(matmul(x, variable("w", ones({4, 4}))) + 1.0f), {1});
  });
  Session session(g);
  const Tensor x = ones({3, 4});
  (void)session.run({y}, {{"x", x}});
  StepProfile profile;
  EXPECT_TRUE(profile.steps().empty());
  for (int i = 0; i < 5; ++i) (void)session.run({y}, {{"x", x}});
  EXPECT_EQ(calls_of(profile),
            (std::map<std::string, std::int64_t>{{"matmul", 5}, {"add+tanh+sum", 5}}));
  const StepTime fused = profile.steps()[profile.steps()[0].parts.size() == 3 ? 0 : 1];
  EXPECT_THAT(to_string(fused.parts[1].loc), ::testing::StartsWith("step_profile_test.cpp:"));
}

TEST(StepProfile, StepsInALoopCountOnTheirOwn) {
  Graph g;
  (void)g.define([] {
    const Tensor x = placeholder("x", f32, {64, 64});
    return while_loop(
        [](const Tensor& i, const Tensor&) { return i < 10; },
        [](const Tensor& i, const Tensor& s) { return std::tuple(i + 1, matmul(s, s) * 0.01f); },
        std::tuple(tensor(0), x));
  });
  Session session(g);
  const std::vector<Feed> feeds{{"x", ones({64, 64})}};
  StepProfile profile;
  (void)session.run(g.outputs(), feeds);
  const auto calls = calls_of(profile);
  EXPECT_EQ(calls.at("matmul"), 10);
  EXPECT_EQ(calls.at("lt"), 11);
  EXPECT_EQ(calls.at("while_loop"), 1);
}

TEST(StepProfile, OnlyTheInnermostIsActiveAndOnlyOnItsThread) {
  EXPECT_EQ(StepProfile::active(), nullptr);
  StepProfile outer;
  {
    StepProfile inner;
    EXPECT_EQ(StepProfile::active(), &inner);
  }
  EXPECT_EQ(StepProfile::active(), &outer);
}

TEST(SessionMemory, CountsWhatTakesTurnsAndWhatIsGivenOut) {
  Graph g;
  const Tensor y = g.define([] {
    Tensor x = placeholder("x", f32, {"n", 256});
    const Tensor w = variable("w", ones({256, 256}));
    for (int i = 0; i < 4; ++i) x = matmul(x, w);
    return x;
  });
  Session session(g);
  for (const std::int64_t n : {1, 8}) {
    const auto use = session.memory({y}, {{"x", ones({n, 256})}});
    ASSERT_TRUE(use.has_value());
    const auto row = static_cast<std::size_t>(1024 * n);
    EXPECT_EQ(use->results, row);
    EXPECT_EQ(use->apart, 3 * row);
    EXPECT_EQ(use->intermediate, 2 * row);
    EXPECT_EQ(use->live_peak, 2 * row);
  }
  EXPECT_THAT(message_of<GraphError>([&] { (void)session.memory({y}, {}); }),
              ::testing::HasSubstr("is not fed"));
  EXPECT_EQ(session.explain().recordings.at(0).plans, 0);
  session.prepare({y}, {{"x", ones({8, 256})}});
  EXPECT_EQ(session.explain().recordings.at(0).plans, 1);
  StepProfile profile;
  (void)session.run({y}, {{"x", ones({8, 256})}});
  const Explanation told = session.explain(&profile);
  EXPECT_EQ(told.replays, 1);
  const ExplainedRecording& recording = told.recordings.at(0);
  EXPECT_EQ(recording.plans, 1);
  EXPECT_THAT(recording.reason, ::testing::StartsWith("fetches matmul: f32[n, 256] (step_profile"));
  EXPECT_THAT(recording.arguments, ::testing::ElementsAre("\"x\": f32[n, 256]"));
  ASSERT_EQ(recording.table.size(), 4U);
  for (const ExplainedKernel& kernel : recording.table) {
    EXPECT_EQ(kernel.parts.at(0).op, "matmul");
    EXPECT_EQ(kernel.operations, 2 * 8 * 256 * 256);
    EXPECT_EQ(kernel.calls, 1);
  }
}

TEST(SessionMemory, IsNotKnownWhereDataDecideOnSizes) {
  Graph g;
  const Tensor y = g.define([] { return nonzero(placeholder("x", f32, {4})) + 1; });
  Session session(g);
  const Tensor x = tensor({1.0f, 0.0f, 2.0f, 0.0f});
  EXPECT_FALSE(session.memory({y}, {{"x", x}}).has_value());
  session.prepare({y}, {{"x", x}});
  StepProfile profile;
  (void)session.run({y}, {{"x", x}});
  EXPECT_EQ(calls_of(profile).at("nonzero"), 1);
}

}  // namespace
}  // namespace dyad::exec
