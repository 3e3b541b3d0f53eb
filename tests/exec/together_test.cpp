// Kernels that follow one another and need nothing of one another are one call of the threads.
#include "dyad/autograd/grad_mode.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/executable.h"
#include "dyad/exec/plan_text.h"
#include "dyad/exec/step_profile.h"
#include "exec_for_tests.h"

namespace dyad::exec {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string plan_together(std::string_view text) {
  ops::register_builtin_ops();
  return plan_text(*parse_graph(text), {});
}

TEST(Together, UpdatesOfParametersAreOneCall) {
  EXPECT_THAT(plan_together(R"(graph {
    %g = placeholder : f32[4]
    %h = placeholder : f32[6]
    %v = variable : f32[4]
    %w = variable : f32[6]
    %a = sub(%v, %g)
    %b = sub(%w, %h)
    %0 = assign(%v, %a)
    %1 = assign(%w, %b)
    %s = sum(%g)
    return %s
  })"),
              HasSubstr(R"(  0: sum(%g) -> %4
  variables are written from here on:
  1 to 2 in one call of the threads:
  1: sub(%v, %g) -> %0 over %v
  2: sub(%w, %h) -> %1 over %w
)"));
}

TEST(Together, WhatNeedsAnotherOnesResultOrMemoryWaits) {
  // %b reads %a; %d is written where %c, which %b reads, was read.
  const std::string plan = plan_together(R"(graph {
    %x = placeholder : f32[4]
    %y = placeholder : f32[4]
    %a = exp(%x)
    %b = sin(%a)
    %c = cumsum(%b) {axis = 0}
    %d = cos(%c)
    %e = tanh(%y)
    %f = cumsum(%d) {axis = 0}
    %g = cumsum(%e) {axis = 0}
    return %f, %g
  })");
  EXPECT_THAT(plan, HasSubstr(R"(  1: sin(%0) -> %1 over %0
  2: cumsum(%1) -> %2
  3 to 4 in one call of the threads:
  3: cos(%2) -> %3 over %2
  4: tanh(%y) -> %4
  5: cumsum)"));
  EXPECT_THAT(plan, Not(HasSubstr("0 to 1 in one call")));
}

TEST(Together, MemoryThatWasReadIsNotWrittenInTheSameCall) {
  // %d may lie where %b lay, whose last reader is %c.
  const std::string plan = plan_together(R"(graph {
    %x = placeholder : f32[64]
    %y = placeholder : f32[64]
    %b = cumsum(%x) {axis = 0}
    %c = cos(%b)
    %d = exp(%y)
    %e = cumsum(%d) {axis = 0}
    return %c, %e
  })");
  EXPECT_THAT(plan, Not(HasSubstr("in one call")));
}

class TogetherTraining : public RestoresThreads {
 protected:
  void make() {
    manual_seed(3);
    parameters = means = squares = {};
    for (const std::int64_t size : {1, 3, 17, 4096, 70000, 5, 300000, 16, 33}) {
      parameters.push_back(normal({size}).requires_grad());
      means.push_back(zeros({size}));
      squares.push_back(ones({size}));
    }
  }

  Tensor step(const Tensor& x) {
    for (Tensor& p : parameters) p.zero_grad();
    Tensor loss = zeros({});
    for (const Tensor& p : parameters) loss = loss + sum(p * p * x);
    loss.backward();
    const NoGrad no_tape;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      means[i].copy_(means[i] * 0.9f + parameters[i].grad() * 0.1f);
      squares[i].copy_(squares[i] * 0.99f + square(parameters[i].grad()) * 0.01f);
      parameters[i].copy_(parameters[i] - means[i] / (sqrt(squares[i]) + 1e-3f));
    }
    return loss;
  }

  std::vector<Tensor> train(const std::function<Tensor(const Tensor&)>& by) {
    std::vector<Tensor> losses;
    for (int i = 0; i < 6; ++i) losses.push_back(by(full({}, 0.5f + 0.1f * static_cast<float>(i))));
    losses.insert(losses.end(), parameters.begin(), parameters.end());
    losses.insert(losses.end(), squares.begin(), squares.end());
    return losses;
  }

  std::vector<Tensor> parameters, means, squares;
};

TEST_F(TogetherTraining, GivesEagersBitsOnAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    make();
    std::vector<Tensor> eager;
    for (const Tensor& t : train([&](const Tensor& x) { return step(x); }))
      eager.push_back(t.detach().clone());
    make();
    const auto fast = compile([&](const Tensor& x) { return step(x); },
                              CompileOptions{.background = Background::never});
    const std::vector<Tensor> compiled = train([&](const Tensor& x) { return fast(x); });
    ASSERT_EQ(compiled.size(), eager.size());
    for (std::size_t i = 0; i < eager.size(); ++i)
      EXPECT_TRUE(same_bits(compiled[i].detach(), eager[i])) << i << " on " << threads;
    EXPECT_GT(fast.explain().replays, 2);
  }
}

TEST_F(TogetherTraining, AProfileTellsTheTimeOfEachKernel) {
  make();
  const auto fast = compile([&](const Tensor& x) { return step(x); },
                            CompileOptions{.background = Background::never});
  static_cast<void>(train([&](const Tensor& x) { return fast(x); }));
  const StepProfile profile;
  static_cast<void>(fast(ones({})));
  int updates = 0;
  const Explanation told = fast.explain(&profile);
  for (const ExplainedKernel& kernel : told.recordings[0].table) {
    const bool is_update = std::ranges::any_of(
        kernel.parts, [](const ExplainedKernel::Part& part) { return part.op == "sqrt"; });
    if (!is_update) continue;
    ++updates;
    EXPECT_EQ(kernel.calls, 1);
    EXPECT_GT(kernel.seconds, 0);
  }
  EXPECT_GE(updates, 9);
}

}  // namespace
}  // namespace dyad::exec
