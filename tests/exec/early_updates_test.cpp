/// Updates of parameters between the steps that compute gradients, where that saves memory.
#include <sstream>

#include "dyad/autograd/grad_mode.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/plan_text.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"

namespace dyad::exec {
namespace {

class EarlyUpdates : public RestoresThreads {
 protected:
  void SetUp() override { set_num_threads(1); }
};

/// The steps of a graph's plan, without what lies where.
std::string steps_of(const std::string& graph) {
  ops::register_builtin_ops();
  std::istringstream lines(plan_text(*parse_graph(graph), {}));
  std::string text;
  for (std::string line; std::getline(lines, line) && line != "buffers:";) text += line + "\n";
  return text;
}

/// The gradients of two layers and their updates; `between` are steps between the gradients, `rate`
/// makes the learning rate.
std::string two_layers(const std::string& between, const std::string& rate,
                       const std::string& results) {
  return R"(graph {
    %w1 = variable : f32[256, 256]
    %w2 = variable : f32[256, 256]
    %t = variable : f32[]
    %x = placeholder : f32[16, 256]
    %dy = placeholder : f32[16, 256]
    %i = placeholder : i64[16, 1]
    %h = matmul(%x, %w1)
    %g2 = matmul(%h, %dy) {transpose_a = true}
    %dh = matmul(%dy, %w2) {transpose_b = true}
    %d = cos(%dh)
    %loss = sum(%h)
    )" + between +
         R"(
    %g1 = matmul(%x, %d) {transpose_a = true}
    %rate = )" +
         rate + R"(
    %next1 = sgd_step(%w1, %g1, %rate, %t)
    %next2 = sgd_step(%w2, %g2, %rate, %t)
    %after = add(%t, %t)
    %0 = assign(%w1, %next1)
    %1 = assign(%w2, %next2)
    %2 = assign(%t, %after)
    return %loss)" +
         results + "\n}";
}

// The learning rate, which only updates need, is computed when the first of them asks for it; the
// first layer's comes when nothing else reads its weight.
TEST_F(EarlyUpdates, MakeRoomForTheNextGradient) {
  EXPECT_EQ(steps_of(two_layers("", "exp(%t)", "")), R"(steps:
  0: matmul(%x, %w1) -> %0
  1: matmul(%0, %dy) -> %1
  2: matmul(%dy, %w2) -> %2
  3: exp(%t) -> %6
  variables are written from here on:
  4 to 5 in one call of the threads:
  4: sgd_step(%w2, %1, %6, %t) -> %8 over %w2
  5: cos(%2) -> %3 over %2
  6: sum(%0) -> %4
  7: matmul(%x, %3) -> %5
  8: sgd_step(%w1, %5, %6, %t) -> %7 over %w1
  9: add(%t, %t) -> %9 over %t
)");
}

TEST_F(EarlyUpdates, ComeLastBehindAStepThatMayFail) {
  EXPECT_EQ(steps_of(two_layers("%picked = gather(%d, %i) {axis = 1}", "exp(%t)", ", %picked")),
            R"(steps:
  0: matmul(%x, %w1) -> %0
  1: matmul(%0, %dy) -> %1
  2: matmul(%dy, %w2) -> %2
  3: cos(%2) -> %3 over %2
  4: sum(%0) -> %4
  5: gather(%3, %i) -> %5
  6: matmul(%x, %3) -> %6
  7: exp(%t) -> %7
  variables are written from here on:
  8 to 9 in one call of the threads:
  8: sgd_step(%w1, %6, %7, %t) -> %8 over %w1
  9: sgd_step(%w2, %1, %7, %t) -> %9 over %w2
  10: add(%t, %t) -> %10 over %t
)");
}

TEST_F(EarlyUpdates, ComeLastWhereGradientsStay) {
  EXPECT_EQ(steps_of(two_layers("", "exp(%t)", ", %g1, %g2")), R"(steps:
  0: matmul(%x, %w1) -> %0
  1: matmul(%0, %dy) -> %1
  2: matmul(%dy, %w2) -> %2
  3: cos(%2) -> %3 over %2
  4: sum(%0) -> %4
  5: matmul(%x, %3) -> %5
  6: exp(%t) -> %6
  variables are written from here on:
  7 to 8 in one call of the threads:
  7: sgd_step(%w1, %5, %6, %t) -> %7 over %w1
  8: sgd_step(%w2, %1, %6, %t) -> %8 over %w2
  9: add(%t, %t) -> %9 over %t
)");
}

TEST_F(EarlyUpdates, ComeLastWhereAllWaitForOneNumber) {
  EXPECT_EQ(steps_of(two_layers("", "max(%g1) {axes = [0, 1]}", "")), R"(steps:
  0: matmul(%x, %w1) -> %0
  1: matmul(%0, %dy) -> %1
  2: matmul(%dy, %w2) -> %2
  3: cos(%2) -> %3 over %2
  4: sum(%0) -> %4
  5: matmul(%x, %3) -> %5
  6: max(%5) -> %6
  variables are written from here on:
  7 to 8 in one call of the threads:
  7: sgd_step(%w1, %5, %6, %t) -> %7 over %w1
  8: sgd_step(%w2, %1, %6, %t) -> %8 over %w2
  9: add(%t, %t) -> %9 over %t
)");
}

// Each number is looked at once, although there are as many ways to it as a Fibonacci number.
TEST_F(EarlyUpdates, WaitForNumbersThatDependOnManyOthers) {
  std::string rate = "exp(%t)\n    %n0 = sin(%t)\n    %n1 = cos(%n0)";
  for (int i = 2; i < 100; ++i)
    rate += "\n    %n" + std::to_string(i) + " = add(%n" + std::to_string(i - 1) + ", %n" +
            std::to_string(i - 2) + ")";
  std::string graph = two_layers("", rate, "");
  const std::string used = "%g2, %rate";
  graph.replace(graph.find(used), used.size(), "%g2, %n99");
  const std::string steps = steps_of(graph);
  EXPECT_LT(steps.find("variables are written"), steps.find("cos(%2)")) << steps;
}

/// A step whose first layer's gradient is NaN once the second layer's weight is negative.
TEST_F(EarlyUpdates, ComeLastWhereResultsAreChecked) {
  Graph g;
  const Tensor x = g.placeholder("x", f32, {16, 256}), dy = g.placeholder("dy", f32, {16, 256});
  const Tensor w1 = g.variable("w1", ones({256, 256})), w2 = g.variable("w2", ones({256, 256}));
  const auto [done, second] = g.define([&] {
    const Tensor g2 = matmul(transpose(dy, 0, 1), dy);
    const Tensor dh = log(matmul(x, w2));
    const Tensor next = assign(w2, w2 - g2);
    const Tensor g1 = matmul(transpose(dh, 0, 1), x);
    return std::tuple{sum(assign(w1, w1 - g1)) + sum(next), w2};
  });
  Session s(g);
  const auto run = [&](float value) {
    (void)s.run({done}, {{"x", full({16, 256}, value)}, {"dy", ones({16, 256})}});
  };
  const auto weight = [&] { return s.run({second}, {})[0].to_vector<float>()[0]; };
  run(1);
  EXPECT_EQ(weight(), -15);
  const DetectAnomaly scope;
  EXPECT_THROW(run(1), AnomalyError);
  EXPECT_EQ(weight(), -15);
}

}  // namespace
}  // namespace dyad::exec
