#include "dyad/exec/verify.h"

#include <source_location>
#include <tuple>

#include "dyad/autograd/grad_mode.h"
#include "dyad/core/generator.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/ir/op.h"
#include "dyad/runtime/op_kernel.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"
#include "wrong_pass.h"

namespace dyad {
namespace {

using ::dyad::testing::message_of;
using exec::wrong_pass;
using ::testing::AllOf;
using ::testing::HasSubstr;

Tensor chain(const Tensor& x) {
  const Tensor a = tanh(x);
  const Tensor b = exp(a);
  return b * 2.0f + sqrt(abs(a));
}

TEST(VerifyFunction, FindsTheSameBits) {
  manual_seed(3);
  const Tensor x = normal({4, 5});
  const VerifyReport report = verify(chain, x);
  EXPECT_TRUE(report.same()) << to_string(report);
  EXPECT_EQ(report.values, 1);
  EXPECT_EQ(to_string(report), "the same bits: 1 value from 6 operators\n");
}

TEST(VerifyFunction, NamesTheOperatorTheLineAndThePassThatAreWrong) {
  const passes::RegisteredPass wrong(wrong_pass("wrong", "exp", "sigmoid"), "cse");
  const passes::RegisteredPass harmless(wrong_pass("harmless", "erf", "exp"), "cse");
  const VerifyReport report = verify(chain, zeros({3}));
  ASSERT_TRUE(report.difference);
  const VerifyDifference& found = *report.difference;
  EXPECT_EQ(found.op, "exp");
  EXPECT_EQ(found.type, "f32[3]");
  EXPECT_EQ(found.element, 0);
  EXPECT_EQ(found.eager, "1.0");
  EXPECT_EQ(found.compiled, "0.5");
  EXPECT_EQ(found.pass, "wrong");
  EXPECT_THAT(to_string(report),
              AllOf(::testing::ContainsRegex("exp at verify_test.cpp:[0-9]+ differs first: "),
                    HasSubstr("the pass 'wrong' makes it differ")));
  EXPECT_FALSE(report.same());
}

TEST(VerifyFunction, CompilesAsTheCompiledFunctionDoes) {
  const passes::RegisteredPass wrong(wrong_pass("wrong", "exp", "sigmoid"), "cse");
  EXPECT_FALSE(verify(compile(chain), zeros({3})).same());
  EXPECT_TRUE(verify(compile(chain, {.threads = 2, .passes_off = {"wrong"}}), zeros({3})).same());
  // What fast_math allows, by its name.
  const auto scaled = [](const Tensor& x) { return x * 1.1f * 1.3f; };
  const Tensor x = normal({100});
  EXPECT_TRUE(verify(compile(scaled), x).same());
  const VerifyReport report = verify(compile(scaled, {.fast_math = true}), x);
  ASSERT_TRUE(report.difference);
  EXPECT_EQ(report.difference->op, "mul");
  EXPECT_EQ(report.difference->pass, "fast_math");
  const auto careful = compile(scaled, {.passes_off = {"fast_math"}, .fast_math = true});
  EXPECT_TRUE(verify(careful, x).same());
}

TEST(VerifySession, ComparesWhatARunWouldFetchAndWritesNothing) {
  Graph graph;
  const auto [y, now] = graph.define([] {
    const Tensor x = placeholder("x", f32, {"n", 3});
    const Tensor w = variable("w", ones({3}));
    const Tensor noisy = chain(x * w) + uniform({3});
    return std::pair{noisy, assign(w, w + 1.0f) * 2.0f};
  });
  Session session(graph);
  const Tensor x = normal({4, 3});
  const RandomKey before = default_generator().state();
  const VerifyReport report = session.verify({y, now}, {{"x", x}});
  EXPECT_TRUE(report.same()) << to_string(report);
  EXPECT_EQ(report.values, 2);
  EXPECT_EQ(default_generator().state().offset, before.offset);
  EXPECT_EQ(session.run({now}, {})[0].to_vector<float>(), (std::vector<float>{4, 4, 4}));
  EXPECT_THAT(message_of<GraphError>([&] { static_cast<void>(session.verify({y}, {})); }),
              HasSubstr("is not fed, but the fetches need it"));
}

TEST(VerifySession, NamesTheOperatorAndThePass) {
  const passes::RegisteredPass wrong(wrong_pass("wrong", "exp", "sigmoid"), "cse");
  Graph graph;
  const Tensor y = graph.define([] { return chain(placeholder("x", f32, {"n"})); });
  Session session(graph);
  const VerifyReport report = session.verify({y}, {{"x", zeros({3})}});
  ASSERT_TRUE(report.difference);
  EXPECT_EQ(report.difference->op, "exp");
  EXPECT_EQ(report.difference->pass, "wrong");
  EXPECT_THAT(to_string(report), HasSubstr("exp at verify_test.cpp:"));
}

TEST(VerifyFunction, OfTwoWrongPassesTheFirstIsNamed) {
  const passes::RegisteredPass late(wrong_pass("late", "exp", "sigmoid"), "fuse");
  const passes::RegisteredPass early(wrong_pass("early", "tanh", "neg"), "cse");
  const VerifyReport report = verify(chain, ones({3}));
  ASSERT_TRUE(report.difference);
  EXPECT_EQ(report.difference->op, "tanh");
  EXPECT_EQ(report.difference->pass, "early");
}

TEST(VerifyFunction, ManyPassesAreBisected) {
  for (const char* const before : {"canonical", "hoist", "cse", "dce", "fuse", "recompute", ""}) {
    const passes::RegisteredPass wrong(wrong_pass("wrong", "exp", "sigmoid"), before);
    const passes::RegisteredPass harmless(wrong_pass("harmless", "erf", "exp"), "wrong");
    const VerifyReport report =
        verify(compile(chain, {.passes_off = {"fuse", "fuse_rows"}}), zeros({3}));
    ASSERT_TRUE(report.difference) << before;
    EXPECT_EQ(report.difference->pass, "wrong") << before;
  }
}

TEST(VerifyFunction, APassThatIsAlwaysOnIsNamedToo) {
  const passes::RegisteredPass wrong(
      wrong_pass("wrong", "exp", "sigmoid", passes::PassUse::required), "cse");
  const passes::RegisteredPass harmless(
      wrong_pass("harmless", "erf", "exp", passes::PassUse::required), "cse");
  const VerifyReport report = verify(chain, zeros({3}));
  ASSERT_TRUE(report.difference);
  EXPECT_EQ(report.difference->op, "exp");
  EXPECT_EQ(report.difference->pass, "wrong");
}

/// x, and 1 more in a compiled graph.
struct Moody {
  using Attrs = NoAttrs;
  static constexpr ArgInfo inputs[] = {{"x", kFloat}};
  static constexpr ArgInfo outputs[] = {{"out"}};
  static constexpr Schema schema{
      .name = "test_moody", .inputs = inputs, .outputs = outputs, .doc = "x, mostly."};
  static Types infer(const InferIn& in, const Attrs&) { return {in[0]}; }
};

const bool kMoodyRegistered = [] {
  register_op<Moody>();
  runtime::register_kernel("test_moody", {.run = [](const runtime::OpCall& call) {
                             const float more = call.memo != nullptr ? 1.0f : 0.0f;
                             const Tensor x = call.inputs[0].contiguous();
                             for (std::int64_t i = 0; i < x.numel().number(); ++i)
                               call.outputs[0].data<float>()[i] = x.data<float>()[i] + more;
                           }});
  return true;
}();

TEST(VerifyFunction, KernelsThatDifferAreNoPassesFault) {
  ASSERT_TRUE(kMoodyRegistered);
  const auto fn = [](const Tensor& x) {
    return apply<Moody>({}, Loc(std::source_location::current()), exp(x));
  };
  const VerifyReport report = verify(fn, zeros({3}));
  ASSERT_TRUE(report.difference);
  EXPECT_EQ(report.difference->op, "test_moody");
  EXPECT_FALSE(report.difference->pass);
  EXPECT_THAT(to_string(report),
              HasSubstr("no pass does that: the kernels that run give something else"));
}

TEST(VerifyFunction, ATrainingStepIsCalledOnceAndComparedWhole) {
  manual_seed(5);
  Tensor up = normal({4, 8}).requires_grad(), down = normal({8, 1}).requires_grad();
  int calls = 0;
  const auto step = [&](const Tensor& x, const Tensor& y) {
    ++calls;
    up.set_grad(Tensor());
    down.set_grad(Tensor());
    Tensor loss = mse_loss(matmul(dropout(tanh(matmul(x, up)), 0.5), down), y);
    loss.backward();
    const NoGrad no_tape;
    up.sub_(up.grad() * 0.1f);
    down.sub_(down.grad() * 0.1f);
    return loss;
  };
  const Tensor x = normal({6, 4}), y = normal({6, 1});
  VerifyReport report = verify(step, std::tuple(x, y));
  EXPECT_TRUE(report.same()) << to_string(report);
  EXPECT_EQ(calls, 1);
  EXPECT_GE(report.values, 5);  // the loss, two weights and their gradients
  const auto random = default_generator().state();
  const passes::RegisteredPass wrong(wrong_pass("wrong", "tanh_backward", "mul"), "dce");
  report = verify(step, std::tuple(x, y));
  ASSERT_TRUE(report.difference);
  EXPECT_EQ(report.difference->op, "tanh_backward");
  EXPECT_EQ(report.difference->pass, "wrong");
  EXPECT_NE(default_generator().state(), random) << "the call has drawn its numbers";
}

TEST(VerifyFunction, SaysWhyNothingWasCompared) {
  const VerifyReport report =
      verify([](const Tensor& x) { return x * x.data<float>()[0]; }, ones({2}));
  EXPECT_FALSE(report.same());
  EXPECT_THAT(to_string(report), HasSubstr("nothing to compare: "));
}

}  // namespace
}  // namespace dyad
