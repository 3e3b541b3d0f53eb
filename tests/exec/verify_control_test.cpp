#include <array>
#include <source_location>
#include <tuple>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/exec/compared_graph.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/verify.h"
#include "dyad/ops/custom.h"
#include "dyad/runtime/op_kernel.h"
#include "exec_for_tests.h"
#include "wrong_pass.h"

// verify() of functions with loops and branches: operators that a pass breaks inside of them.

namespace dyad {
namespace {

using exec::wrong_pass;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kFile = "verify_control_test.cpp:";

std::string line(int number) { return kFile + std::to_string(number); }
int here(std::source_location at = std::source_location::current()) {
  return static_cast<int>(at.line());
}

/// Functions with an `exp` in their loop or branch, which write what they give or do not.
class VerifyControl : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { manual_seed(4); }

  Tensor give(const Tensor& y) {
    const NoGrad no_tape;
    if (GetParam()) seen_.copy_(-y);
    return y;
  }
  /// Sums of exp(v), but for the first slice.
  Tensor scans(const Tensor& x) {
    exp_ = here() + 1;
    const auto body = [](const Tensor& c, const Tensor& v) { return std::pair(c + exp(v * c), c); };
    node_ = here() + 1;
    return give(scan(body, zeros({3}), x).first);
  }
  Tensor loops(const Tensor& x) {
    exp_ = here() + 1;
    const auto body = [](const Tensor& c) { return c + sum(exp(c)) * 0.125f; };
    node_ = here() + 1;
    return give(while_loop([](const Tensor& c) { return sum(c) < 30.0f; }, body, x));
  }
  Tensor branches(const Tensor& x) {
    exp_ = here() + 1;
    const auto then = [](const Tensor& v) { return exp(v) + 1.0f; };
    return give(cond(sum(x) > 0.0f, then, [](const Tensor& v) { return -v; }, x));
  }
  /// The report on a function whose `exp` a pass breaks.
  template <class F>
  VerifyReport report_of(const F& function, const Tensor& x) {
    const passes::RegisteredPass wrong(wrong_pass("wrong", "exp", "sigmoid"), "cse");
    const passes::RegisteredPass harmless(wrong_pass("harmless", "erf", "exp"), "fuse");
    return verify(function, x);
  }
  void expect_exp_is_named(const VerifyReport& report) const {
    ASSERT_TRUE(report.difference) << to_string(report);
    EXPECT_EQ(report.difference->op, "exp");
    EXPECT_EQ(report.difference->pass, "wrong");
    EXPECT_THAT(to_string(report.difference->loc), line(exp_));
    EXPECT_THAT(to_string(report), HasSubstr("the pass 'wrong' makes it differ"));
  }

  Tensor seen_ = zeros({3});
  int exp_ = 0, node_ = 0;  ///< their lines
};

TEST_P(VerifyControl, NamesTheOperatorInTheStepOfAScan) {
  const VerifyReport report = report_of([&](const Tensor& x) { return scans(x); }, ones({5, 3}));
  expect_exp_is_named(report);
  EXPECT_THAT(report.difference->inside, ElementsAre("step 0 of the scan at " + line(node_)));
  EXPECT_EQ(report.difference->eager, "1.0");
  EXPECT_EQ(report.difference->compiled, "0.5");
}

TEST_P(VerifyControl, NamesTheFirstStepThatDiffers) {
  const passes::RegisteredPass wrong(wrong_pass("wrong", "relu", "neg"), "cse");
  const auto sums = [&](const Tensor& x) {
    const auto body = [](const Tensor& c, const Tensor& v) { return std::pair(c + relu(v), v); };
    return give(scan(body, zeros({3}), x).first);
  };
  const Tensor x = zeros({5, 3});
  select(x, 0, 2).fill_(1.0f);
  const VerifyReport report = verify(sums, x);
  ASSERT_TRUE(report.difference) << to_string(report);
  EXPECT_EQ(report.difference->op, "relu");
  EXPECT_THAT(report.difference->inside, ElementsAre(HasSubstr("step 2 of the scan at ")));
  EXPECT_THAT(to_string(report),
              ::testing::ContainsRegex("^relu at verify_control_test.cpp:[0-9]+, in step 2 of the "
                                       "scan at verify_control_test.cpp:[0-9]+, differs first: "));
}

TEST_P(VerifyControl, NamesTheOperatorInTheStepOfAWhileLoop) {
  const VerifyReport report = report_of([&](const Tensor& x) { return loops(x); }, zeros({3}));
  expect_exp_is_named(report);
  EXPECT_THAT(report.difference->inside, ElementsAre("step 0 of the while_loop at " + line(node_)));
}

TEST_P(VerifyControl, NamesTheOperatorInABranch) {
  const VerifyReport report = report_of([&](const Tensor& x) { return branches(x); }, ones({3}));
  expect_exp_is_named(report);
}

TEST_P(VerifyControl, SoundLoopsAndBranchesAreTheSame) {
  const std::array reports{
      verify([&](const Tensor& x) { return scans(x); }, normal({5, 3})),
      verify([&](const Tensor& x) { return loops(x); }, zeros({3})),
      verify([&](const Tensor& x) { return branches(x); }, ones({3})),
  };
  for (const VerifyReport& report : reports) {
    EXPECT_TRUE(report.same()) << to_string(report);
    EXPECT_EQ(report.values, GetParam() ? 2 : 1) << to_string(report);
  }
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutWrites, VerifyControl, ::testing::Bool());

TEST(VerifyWrites, BeginWithWhatTheCallFound) {
  Tensor count = full({2}, 1.0f);
  const auto step = [&](Tensor x) {
    const NoGrad no_tape;
    const Tensor before = exp(count) + x;
    count.add_(before);
    x.mul_(2.0f);
    return before;
  };
  const passes::RegisteredPass wrong(wrong_pass("wrong", "exp", "neg"), "cse");
  const Tensor x = zeros({2});
  const VerifyReport report = verify(step, x);
  ASSERT_TRUE(report.difference);
  EXPECT_EQ(report.difference->eager, "2.7182817");  // of 1, not of what the call made of it
  EXPECT_EQ(report.difference->compiled, "-1.0");
  EXPECT_THAT(exec::bits(count), ElementsAre(1.0f + std::exp(1.0f), 1.0f + std::exp(1.0f)));
}

TEST(VerifyWrites, GradientsThatWereThereAreAddedTo) {
  Tensor w = full({2}, 3.0f).requires_grad();
  w.set_grad(full({2}, 5.0f));
  const auto step = [&](const Tensor& x) {
    sum(exp(w * x)).backward();
    const NoGrad no_tape;
    w.sub_(w.grad());
  };
  const VerifyReport report = verify(step, ones({2}));
  EXPECT_TRUE(report.same()) << to_string(report);
  EXPECT_EQ(report.values, 2);
  EXPECT_EQ(exec::bits(w.grad())[0], 5.0f + std::exp(3.0f));
  const passes::RegisteredPass wrong(wrong_pass("wrong", "exp", "neg"), "cse");
  const VerifyReport other = verify(step, ones({2}));
  ASSERT_TRUE(other.difference);
  EXPECT_EQ(other.difference->op, "exp");
}

/// Gives another result in each call: adds how many there were.
struct Counted {
  using Attrs = NoAttrs;
  static constexpr ArgInfo inputs[] = {{"x", kFloat}};
  static constexpr ArgInfo outputs[] = {{"out"}};
  static constexpr Schema schema{.name = "test_verify_counted",
                                 .inputs = inputs,
                                 .outputs = outputs,
                                 .doc = "Adds the number of its calls."};
  static Types infer(const InferIn& in, const Attrs&) { return {in[0]}; }
};

void run_counted(const runtime::OpCall& call) {
  static float calls = 0;
  calls += 1;
  call.outputs[0].data<float>()[0] = call.inputs[0].data<float>()[0] + calls;
}

const bool kRegistered = [] {
  register_op<Counted>();
  runtime::register_kernel("test_verify_counted", {.run = run_counted});
  return true;
}();

TEST(VerifyWrites, AreComparedWithThoseOfTheCallItself) {
  ASSERT_TRUE(kRegistered);
  Tensor seen = zeros({1});
  const auto write = [&](const Tensor& x) {
    const NoGrad no_tape;
    seen.copy_(apply<Counted>({}, Loc(), x));
  };
  EXPECT_THAT([&] { static_cast<void>(verify(write, ones({1}))); },
              ::testing::ThrowsMessage<InternalError>(
                  HasSubstr("the written value of f32[1] of a recorded call is not that of the "
                            "call")));
}

/// A graph's first difference, computed from such tensors.
std::optional<VerifyDifference> first_in(const GraphImpl& graph, const exec::Tensors& given) {
  exec::GraphFeed feed;
  for (std::size_t i = 0; i < given.size(); ++i)
    feed.placeholders["x" + std::to_string(i)] = given[i];
  return exec::ComparedGraph(graph, feed, graph.outputs()).find_first();
}

TEST(VerifyControlNodes, ABranchInsideOfALoopIsLookedInto) {
  const exec::Function model = [](std::span<const Tensor> in) -> exec::Tensors {
    const auto body = [](const Tensor& c, const Tensor& v) {
      const auto twice = [](const Tensor& t) { return t * 2.0f; };
      const Tensor next = cond(sum(v) > 2.5f, [](const Tensor& t) { return exp(t); }, twice, v);
      return std::pair(c + next, next);
    };
    const auto [last, all] = scan(body, in[0], in[1]);
    return {last, all};
  };
  const exec::Tensors given{zeros({2}), exec::count_up({4, 2})};
  const Ref<GraphImpl> graph = exec::record(model, exec::types_of(given));
  EXPECT_FALSE(first_in(*graph, given));
  const passes::RegisteredPass wrong(wrong_pass("wrong", "exp", "neg"), "cse");
  const auto found = first_in(*graph, given);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->op, "exp");
  EXPECT_EQ(found->pass, "wrong");
  EXPECT_THAT(found->inside, ElementsAre(HasSubstr("step 1 of the scan at "),
                                         HasSubstr("the first function of the cond at ")));
}

TEST(VerifyControlNodes, AConditionIsLookedInto) {
  const exec::Function model = [](std::span<const Tensor> in) -> exec::Tensors {
    return {while_loop([](const Tensor& c) { return sum(exp(c)) < 100.0f; },
                       [](const Tensor& c) { return c + 1.0f; }, in[0])};
  };
  const exec::Tensors given{zeros({2})};
  const Ref<GraphImpl> graph = exec::record(model, exec::types_of(given));
  EXPECT_FALSE(first_in(*graph, given));
  const passes::RegisteredPass wrong(wrong_pass("wrong", "lt", "ge"), "cse");
  const auto found = first_in(*graph, given);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->op, "lt");
  EXPECT_THAT(found->inside,
              ElementsAre(HasSubstr("the condition of step 0 of the while_loop at ")));
}

TEST(VerifyControlNodes, GradientsOfLoopsAreTheSameAndLookedInto) {
  const exec::Function model = [](std::span<const Tensor> in) -> exec::Tensors {
    const Tensor last = while_loop([](const Tensor& c) { return sum(c) < 30.0f; },
                                   [&](const Tensor& c) { return c + tanh(c * in[1]); }, in[0]);
    const exec::Tensors of{sum(last)}, seeds{ones({})}, by{in[0], in[1]};
    return autograd::graph_gradients(of, seeds, by, Loc());
  };
  const exec::Tensors given{ones({2}), ones({2})};
  const Ref<GraphImpl> graph = exec::record(model, exec::types_of(given));
  EXPECT_EQ(exec::count_of(*graph, "while_states"), 1);
  EXPECT_FALSE(first_in(*graph, given));
  EXPECT_FALSE(first_in(*graph, {full({2}, 50.0f), ones({2})})) << "of no steps";
  const passes::RegisteredPass wrong(wrong_pass("wrong", "tanh_backward", "mul"), "cse");
  const auto found = first_in(*graph, given);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->op, "tanh_backward");
  EXPECT_EQ(found->pass, "wrong");
  EXPECT_THAT(found->inside,
              ElementsAre(HasSubstr("what follows the steps of the while_states at "),
                          HasSubstr("step 0 of the scan at ")));
}

TEST(VerifyControlNodes, TheLoopItselfIsNamedWhereItsStepsAreRight) {
  const passes::RegisteredPass wrong(
      {"wrong", "makes mistakes", passes::PassUse::optional,
       [](const Ref<GraphImpl>& graph, const passes::LowerOptions&) {
         passes::Rewriter rewriter(*graph);
         for (const auto& node : graph->nodes()) {
           if (node->is("scan")) {
             rewriter.set(node->output(), rewriter.at(node->inputs()[0]));
             for (int i = 1; i < static_cast<int>(node->types().size()); ++i)
               rewriter.set(node->output(i), rewriter.at(node->inputs()[1]));
           } else {
             rewriter.copy(*node);
           }
         }
         return rewriter.finish();
       }},
      "cse");
  const auto sums = [](const Tensor& x) {
    const auto body = [](const Tensor& c, const Tensor& v) { return std::pair(c + v, c + v); };
    return scan(body, zeros({3}), x).first;
  };
  const VerifyReport report = verify(sums, ones({5, 3}));
  ASSERT_TRUE(report.difference);
  EXPECT_EQ(report.difference->op, "scan");
  EXPECT_EQ(report.difference->pass, "wrong");
  EXPECT_TRUE(report.difference->inside.empty());
}

}  // namespace
}  // namespace dyad
