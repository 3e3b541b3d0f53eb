// What random programs (tests/random_programs) once did otherwise in another mode.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/session.h"
#include "dyad/ops/ops.h"
#include "exec_for_tests.h"

namespace dyad {
namespace {

using exec::bits;
using ::testing::HasSubstr;

Tensor ramp(std::int64_t count, double first = -1, double last = 2) {
  return linspace(first, last, count);
}

TEST(FoundByPrograms, SumsWithoutElementsOfTurnedTensors) {
  const Tensor turned = permute(zeros({0, 3, 2}), {2, 1, 0});
  const auto function = [](const Tensor& x) { return std::vector{sum(x, {1}), max(x, {1})}; };
  const auto fast = compile(function);
  for (int i = 0; i < 2; ++i) {
    for (const Tensor& y : fast(turned)) EXPECT_EQ(to_string(y.shape()), "[2, 0]");
    for (const Tensor& y : function(turned)) EXPECT_EQ(to_string(y.shape()), "[2, 0]");
  }
}

TEST(FoundByPrograms, AFusedReductionBeforeWhatNobodyReadsHasTheRowsOfTheReduction) {
  const auto function = [](const Tensor& x) {
    const Tensor scaled = x * 0.5f, total = sum(scaled, {0}, true);
    (void)lerp(scaled, scaled, full({}, 0.9f));
    return log_softmax(reshape(total, {1, 1}), 1) + exp(reshape(total, {1, 1}));
  };
  for (const std::int64_t size : {0, 1, 40}) {
    const auto fast = compile(function, {.recheck = false, .passes_off = {"dce"}});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(bits(fast(ramp(size))), bits(function(ramp(size))));
  }
}

TEST(FoundByPrograms, GradientsFromOutsideOfACallThatIsRecordedWithSymbols) {
  manual_seed(7);
  const auto function = [](const Tensor& x) {
    return tanh(reshape(x, {1, -1})).slice(1, 1, x.size(0)) * sum(x, {}, true);
  };
  const auto fast = compile(function);
  for (const std::int64_t size : {2, 3, 4, 5, 3}) {
    Tensor x = normal({size}).requires_grad(), y = x.detach().clone().requires_grad();
    sum(fast(x)).backward();
    sum(function(y)).backward();
    EXPECT_EQ(bits(x.grad()), bits(y.grad())) << size;
  }
}

TEST(FoundByPrograms, ArgumentsThatDependOnEachOtherGetTheirGradientsOnce) {
  const auto function = [](const Tensor& x, const Tensor& y) { return x * y + tanh(y); };
  const auto fast = compile(function);
  for (const float number : {1.5f, -2.0f, 0.25f, 3.0f}) {
    Tensor x = full({3}, number).requires_grad(), same = full({3}, number).requires_grad();
    sum(fast(x, x * 2.0f)).backward();
    sum(function(same, same * 2.0f)).backward();
    EXPECT_EQ(bits(x.grad()), bits(same.grad())) << number;
  }
}

TEST(FoundByPrograms, GradientsOfACallJoinThoseOfTheProgramInTheOrderOfTheTape) {
  manual_seed(8);
  const auto function = [](const Tensor& x) { return x * x + exp(x) * tanh(x); };
  const auto fast = compile(function);
  for (int i = 0; i < 5; ++i) {
    Tensor x = normal({100}).requires_grad(), same = x.detach().clone().requires_grad();
    sum(fast(x) + sin(x)).backward();
    sum(function(same) + sin(same)).backward();
    EXPECT_EQ(bits(x.grad()), bits(same.grad())) << i;
    const Tensor half = x.detach() / 3.0f, y = half * x, z = half * same;
    sum(fast(y) + cos(y)).backward();
    sum(function(z) + cos(z)).backward();
    EXPECT_EQ(bits(x.grad()), bits(same.grad())) << i;
  }
}

TEST(FoundByPrograms, GradientsThroughAViewHaveTheStridesOfEagerMode) {
  manual_seed(9);
  const auto function = [](const Tensor& x) { return matmul(x, transpose(x, -1, -2)); };
  const auto fast = compile(function);
  for (int i = 0; i < 5; ++i) {
    Tensor x = normal({7, 5}).requires_grad(), same = x.detach().clone().requires_grad();
    const Tensor y = fast(x), z = function(same);
    sum(y * y).backward();
    sum(z * z).backward();
    EXPECT_EQ(bits(x.grad()), bits(same.grad())) << i;
  }
}

TEST(FoundByPrograms, ALeafGetsTheSumOfAPassAtOnce) {
  Tensor w = ramp(50).requires_grad(), same = ramp(50).requires_grad();
  const auto function = [](const Tensor& v) { return rms_norm(v, v) + exp(v); };
  const auto fast = compile([&] { return function(w); });
  for (int i = 0; i < 5; ++i) {
    sum(fast() * 1.1f).backward();
    sum(function(same) * 1.1f).backward();
    EXPECT_EQ(bits(w.grad()), bits(same.grad())) << i;
  }
}

TEST(FoundByPrograms, ABackwardPassThroughAComputedArgumentRunsEagerly) {
  const auto step = [](const Tensor& y) {
    sum(y * y).backward();
    return y * 1.0f;
  };
  const auto fast = compile(step);
  for (const float number : {1.0f, 2.0f, 3.0f}) {
    Tensor x = full({2}, number).requires_grad();
    fast(x * number);
    EXPECT_EQ(bits(x.grad()), std::vector<float>(2, 2 * number * number * number));
  }
  EXPECT_THAT(fast.explain().recordings.at(0).refusal,
              HasSubstr("goes on into what an argument was computed from"));
}

TEST(FoundByPrograms, ScanOverALengthThatVaries) {
  const auto function = [](const Tensor& xs) {
    return scan(
        [](const Tensor& carry, const Tensor& x) { return std::pair(carry + x, carry * x); },
        zeros({}), xs);
  };
  const auto fast = compile(function, {.recheck = false});
  for (const std::int64_t length : {3, 4, 5, 4, 6, 3}) {
    const auto [last, all] = fast(ramp(length));
    const auto [want_last, want_all] = function(ramp(length));
    EXPECT_EQ(bits(last), bits(want_last)) << length;
    EXPECT_EQ(bits(all), bits(want_all)) << length;
  }
}

TEST(FoundByPrograms, ASizeThatIsOneByItsExpressionBroadcasts) {
  const auto function = [](const Tensor& x) {
    const Tensor first = slice(x, 0, 0, 1);  // min(s, 1) of s
    const Tensor y = x * first + expand_as(first, x);
    return y + grad(sum(y * y), {x})[0];
  };
  const auto fast = compile(function);
  for (const std::int64_t size : {2, 3, 4, 5}) {
    Tensor x = ramp(size).requires_grad();
    EXPECT_EQ(bits(fast(x)), bits(function(x))) << size;
  }
}

TEST(FoundByPrograms, DetachedResultsDoNotTrackGradientsAndAreNotAnotherTensor) {
  Tensor outside = ramp(3).requires_grad();
  const auto fast = compile([&](const Tensor& x) { return std::pair(detach(x), detach(outside)); });
  for (int i = 0; i < 4; ++i) {
    const auto [a, b] = fast(ramp(2).requires_grad());
    EXPECT_FALSE(a.tracks_grad());
    EXPECT_FALSE(b.tracks_grad());
  }
}

TEST(FoundByPrograms, ADetachedResultBesideItsTrackedOne) {
  const auto fast = compile([](const Tensor& x) {
    const Tensor y = x * 2.0f;
    return std::pair(detach(y), y);
  });
  for (int i = 0; i < 4; ++i) {
    const auto [a, b] = fast(ramp(2).requires_grad());
    EXPECT_FALSE(a.tracks_grad());
    EXPECT_TRUE(b.tracks_grad());
  }
}

TEST(FoundByPrograms, AWriteOfATrackedValueToAnArgumentRunsEagerly) {
  const auto fast = compile([](Tensor x, const Tensor& w) {
    x.copy_(w * 2.0f);
    return x * 1.0f;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor w = full({2}, 3.0f).requires_grad();
    sum(fast(ramp(2), w)).backward();
    EXPECT_EQ(bits(w.grad()), (std::vector<float>{2, 2}));
  }
}

TEST(FoundByPrograms, WritesToABroadcastViewOfNoElementsDoNothing) {
  const auto fast = compile([](const Tensor& x) {
    expand(x, {0}).fill_(7);
    expand(x, {3}).slice(0, 1, 1).fill_(7);
    return x * 1.0f;
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bits(fast(full({1}, 2.0f))), std::vector<float>{2});
}

TEST(FoundByPrograms, AGraphGivesTheGradientOfATensorThatGoesInTwiceOnce) {
  Tensor x = ramp(6).reshape({2, 3});
  const auto function = [](const Tensor& v) { return sum(square(einsum("ij,kj->ik", {v, v}))); };
  Graph graph;
  const Tensor by = graph.define([&] {
    const Tensor v = placeholder("x", f32, {"n", 3});
    return gradients(function(v), {v})[0];
  });
  Session session(graph);
  Tensor leaf = x.clone().requires_grad();
  EXPECT_EQ(bits(session.run({by}, {{"x", x}})[0]), bits(grad(function(leaf), {leaf})[0]));
}

TEST(FoundByPrograms, AGraphWithAHostBranchDrawsItsNumbersOnce) {
  const auto function = [](const Tensor& x) {
    const Tensor noise = normal({3});
    return sum(x) > 0.0f ? x + noise : x - noise;
  };
  Graph graph;
  const Tensor x = graph.placeholder("x", f32, {3});
  const Tensor y = graph.define([&] { return function(x); });
  Session session(graph);
  for (const float number : {1.0f, -1.0f}) {
    manual_seed(3);
    const Tensor got = session.run({y}, {{"x", full({3}, number)}})[0];
    manual_seed(3);
    EXPECT_EQ(bits(got), bits(function(full({3}, number))));
  }
}

TEST(FoundByPrograms, PlaceholdersMayBeCalledAsPartsOfGraphsAre) {
  const Tensor outside = ramp(3);
  Graph graph;
  const Tensor y = graph.define([&] {
    const Tensor v = placeholder("v1", f32, {3});
    return nonzero((v + outside) * placeholder("v0", f32, {3}));
  });
  Session session(graph);
  EXPECT_EQ(session.run({y}, {{"v1", ramp(3)}, {"v0", full({3}, 1.0f)}})[0].size(0).number(), 3);
}

TEST(FoundByPrograms, ABodyOfAGraphMayNotWriteToItsParameter) {
  Graph graph;
  try {
    graph.define([] {
      return while_loop([](const Tensor& s) { return sum(s) < 3.0f; },
                        [](Tensor s) { return s.add_(1.0f); }, placeholder("x", f32, {2}));
    });
    FAIL() << "a parameter was written";
  } catch (const GraphError& error) {
    EXPECT_THAT(error.what(), HasSubstr("while_loop: a function writes in place to a parameter of "
                                        "type f32[2]"));
  }
}

TEST(FoundByPrograms, AGraphDrawsTheNumbersOfALoopThatNothingNeeds) {
  const auto function = [](const Tensor& x) {
    const Tensor noisy =
        while_loop([](const Tensor& s) { return sum(s) < 5.0f; },
                   [](const Tensor& s) { return s + 1.0f + 0.0f * randn({2}); }, x);
    static_cast<void>(noisy);
    return randn({3});
  };
  Graph graph;
  const Tensor y = graph.define([&] { return function(placeholder("x", f32, {2})); });
  manual_seed(4);
  const Tensor got = Session(graph).run({y}, {{"x", zeros({2})}})[0];
  manual_seed(4);
  EXPECT_EQ(bits(got), bits(function(zeros({2}))));
}

TEST(FoundByPrograms, KernelsDoNotReachAroundALoopThatDraws) {
  const auto function = [](const Tensor& x) {
    const Tensor sum_of = scan(
                              [&](const Tensor& carry, const Tensor& each) {
                                const Tensor next = carry + each + (x + x) * rand_like(x);
                                return std::pair(next, next);
                              },
                              x, x)
                              .second;
    return std::pair(sum_of, where(sigmoid(x) > rand_like(x), x + x, x));
  };
  Graph graph;
  const auto [a, b] = graph.define([&] { return function(placeholder("x", f32, {1})); });
  manual_seed(5);
  const std::vector<Tensor> got = Session(graph).run({a, b}, {{"x", full({1}, 0.5f)}});
  manual_seed(5);
  const auto [want_a, want_b] = function(full({1}, 0.5f));
  EXPECT_EQ(bits(got[0]), bits(want_a));
  EXPECT_EQ(bits(got[1]), bits(want_b));
}

TEST(FoundByPrograms, AWriteThroughAViewThatGraphsCannotWriteRunsEagerly) {
  const auto fast = compile([](const Tensor& x) {
    unfold(x, 0, 2, 2).fill_(7);
    return x * 1.0f;
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bits(fast(full({3}, 1.0f))), (std::vector<float>{7, 7, 1}));
  }
  EXPECT_THAT(fast.explain().recordings.at(0).refusal, HasSubstr("made by unfold"));
}

TEST(FoundByPrograms, ResultsWhoseTapeIsUsedUpMayBeReturnedTwice) {
  const auto function = [](const Tensor& x) {
    const Tensor y = x * x;
    const Tensor by = grad(sum(y), {x})[0];
    return std::vector<Tensor>{y, y, by};
  };
  const auto fast = compile(function);
  for (int i = 0; i < 4; ++i) {
    Tensor x = full({2}, 3.0f).requires_grad();
    EXPECT_EQ(bits(fast(x)[2]), (std::vector<float>{6, 6}));
  }
}

TEST(FoundByPrograms, AttentionWithoutHeadsHasGradients) {
  Tensor q = zeros({0, 3, 4}).requires_grad();
  sum(scaled_dot_product_attention(q, q, q)).backward();
  EXPECT_EQ(q.grad().numel().number(), 0);
}

TEST(FoundByPrograms, LinearLayersWithoutInputsHaveGradients) {
  Tensor x = zeros({4, 0}).requires_grad(), w = zeros({3, 0}).requires_grad();
  sum(linear(x, w)).backward();
  EXPECT_EQ(w.grad().numel().number(), 0);
  EXPECT_TRUE(x.grad().shape().same_as(Shape{4, 0}));
}

}  // namespace
}  // namespace dyad
