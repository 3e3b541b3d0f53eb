// Mistakes of compiled functions that somebody who used them found.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/exec/checkpoint.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/custom_gradient.h"
#include "dyad/exec/verify.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::message_of;
using exec::same_bits;
using ::testing::HasSubstr;

TEST(FoundByUse, FastMathNeedsNoOtherCallBefore) {
  const auto seventh = compile([](Tensor x) { return x / 7; }, {.fast_math = true});
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(seventh(ones({2}))[0].item<float>(), 1.0f / 7, 1e-7);
}

TEST(FoundByUse, AShapeIsAGuard) {
  const auto is_four = compile([](Tensor x) { return x.sum() * 0 + (x.shape()[0] == 4 ? 1 : 2); });
  const auto mean_of =
      compile([](Tensor x) { return x.sum() / static_cast<float>(x.shape()[0].number()); });
  for (const int n : {4, 5, 6, 7, 8, 4, 4, 9, 10}) {
    EXPECT_EQ(is_four(ones({n})).item<float>(), n == 4 ? 1 : 2) << n;
    EXPECT_EQ(mean_of(ones({n})).item<float>(), 1) << n;
  }
}

TEST(FoundByUse, OneTensorInTwoPlacesIsOne) {
  const auto step = [](Tensor a, Tensor b) {
    sum(a * b * b).backward();
    return a.is_same(b) ? a * 2 : a * 1;
  };
  for (const bool begins_with_one : {true, false}) {
    const auto fast = compile(step);
    for (int i = 0; i < 8; ++i) {
      const bool one = (i < 3) == begins_with_one;
      Tensor x = ones({1}).requires_grad(), y = (ones({1}) * 2).detach().requires_grad();
      const Tensor made = fast(x, one ? x : y);
      EXPECT_EQ(x.grad()[0].item<float>(), one ? 3 : 4) << i;
      EXPECT_EQ(y.grad().defined(), !one) << i;
      if (!one) {
        EXPECT_EQ(y.grad()[0].item<float>(), 4) << i;
      }
      EXPECT_EQ(made[0].item<float>(), one ? 2 : 1) << i;
    }
    EXPECT_EQ(fast.explain().recordings.size(), 2u);
  }
  const Tensor w = ones({1}).requires_grad(), computed = w * 1;
  const auto inside = compile(
      [](Tensor a, Tensor b) { return grad(sum(a * b * b), {a, b}, {.retain_graph = true}); });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(inside(computed, computed)[0][0].item<float>(), 3);
}

TEST(FoundByUse, ACapturedTensorThatIsWrittenMayBeAnArgumentToo) {
  Tensor a = zeros({1});
  const auto f = compile([&](Tensor x) {
    a.add_(1);
    return x * 2;
  });
  for (int i = 1; i <= 8; ++i) EXPECT_EQ(f(a)[0].item<float>(), 2.0f * static_cast<float>(i));
}

TEST(FoundByUse, AHookThatIsRegisteredLaterRuns) {
  Tensor w = ones({1}).requires_grad();
  const auto f = compile([&](Tensor x, Tensor leaf) {
    w.zero_grad();
    sum(w * x * leaf).backward();
    return x * 1;
  });
  for (int i = 0; i < 9; ++i) {
    if (i == 4) w.register_hook([](const Tensor& g) { return g * 10; });
    Tensor leaf = ones({1}).requires_grad();
    if (i >= 6) leaf.register_hook([](const Tensor& g) { return g * 100; });
    static_cast<void>(f(ones({1}), leaf));
    EXPECT_EQ(w.grad()[0].item<float>(), i < 4 ? 1 : 10) << i;
    EXPECT_EQ(leaf.grad()[0].item<float>(), i < 6 ? 1 : 100) << i;
  }
  EXPECT_EQ(f.explain().recordings.size(), 3u);
}

TEST(FoundByUse, AnErrorThatTheFunctionCatchesIsCaughtInEachCall) {
  const auto sizes = compile([](Tensor x, Tensor y) {
    try {
      return x + y;
    } catch (const Error&) {
      return x.sum() + y.sum();
    }
  });
  for (const auto& [a, b] : {std::pair(3, 4), {4, 5}, {5, 6}, {6, 6}, {5, 5}, {3, 4}}) {
    const Tensor made = sizes(ones({a}), ones({b}));
    EXPECT_EQ(made.rank(), a == b ? 1 : 0) << a << ", " << b;
  }
  const auto data = compile([](Tensor x, Tensor i) {
    try {
      return index_select(x, 0, i);
    } catch (const IndexError&) {
      return zeros({1});
    }
  });
  for (const int i : {0, 1, 2, 0, 1, 7, 2, 7}) {
    EXPECT_EQ(data(ones({3}), tensor({i}, i64))[0].item<float>(), i == 7 ? 0 : 1) << i;
  }
}

TEST(FoundByUse, AnErrorOfAReplayIsTheEagerOne) {
  const auto pick = [](Tensor x, Tensor i) { return index_select(x * 2, 0, i); };
  const auto fast = compile(pick);
  for (int i = 0; i < 3; ++i) static_cast<void>(fast(ones({3}), tensor({i}, i64)));
  const auto text_of = [](const auto& call) -> std::string {
    try {
      static_cast<void>(call(ones({3}), tensor({7}, i64)));
    } catch (const IndexError& error) {
      return error.message();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(text_of(fast), text_of(pick));
  EXPECT_TRUE(same_bits(fast(ones({3}), tensor({1}, i64)), full({1}, 2.0f)));
}

TEST(FoundByUse, ArgumentsWithGapsThatAreWritten) {
  const auto f = compile([](Tensor x) {
    x.add_(1);
    return x * 2;
  });
  for (int i = 0; i < 8; ++i) {
    const Tensor wide = zeros({2, 4});
    const bool gaps = i == 3 || i == 6;
    const Tensor x = gaps ? wide.slice(1, 0, kEnd, 2) : zeros({2, 2});
    EXPECT_EQ(sum(f(x)).item<float>(), 8) << i;
    if (gaps) {
      EXPECT_EQ(sum(wide).item<float>(), 4) << i;
    }
  }
}

TEST(FoundByUse, LoopsAreVerified) {
  const auto halves = [](Tensor x) {
    return while_loop([](Tensor y) { return sum(y) > 1.f; }, [](Tensor y) { return y * 0.5f; }, x);
  };
  EXPECT_THAT(to_string(verify(halves, full({3}, 100.0f))), HasSubstr("the same bits"));
  const auto sums = [](Tensor x) {
    return scan(
               [](Tensor h, Tensor v) {
                 Tensor n = h + v;
                 return std::pair(n, n);
               },
               zeros({3}), x)
        .second;
  };
  EXPECT_THAT(to_string(verify(sums, ones({5, 3}))), HasSubstr("the same bits"));
}

TEST(FoundByUse, WaysThroughTheHostsBranchesAreBounded) {
  const auto f = compile(
      [](Tensor x) {
        Tensor y = x;
        for (int i = 0; i < 6; ++i) {
          if (x[i] > 0.f) y = y * 2;
        }
        return y;
      },
      {.max_outcomes = 2});
  manual_seed(3);
  for (int i = 0; i < 200; ++i) {
    const Tensor x = normal({6});
    float factor = 1;
    for (int k = 0; k < 6; ++k) factor *= x[k].item<float>() > 0 ? 2.0f : 1.0f;
    ASSERT_TRUE(same_bits(f(x), x * factor));
  }
  const ExplainedRecording recording = f.explain().recordings.at(0);
  EXPECT_THAT(recording.refusal, HasSubstr("more than 32 ways lead through the host's branches"));
}

TEST(FoundByUse, AGraphThatSaysMoreOfSizesThanIsSoDoesNotRun) {
  ops::register_builtin_ops();
  const Ref<GraphImpl> graph = parse_graph(
      "graph {\n  %x = placeholder : f32[s0]\n"
      "  %y = slice(%x) {axis = 0, begin = 2, end = s0, step = 1} : f32[s0 - 2]\n"
      "  return %y\n}");
  exec::Executable executable(graph);
  EXPECT_TRUE(same_bits(executable.run(exec::Tensors{ones({5})})[0], ones({3})));
  EXPECT_THAT(testing::message_of<GraphError>(
                  [&] { static_cast<void>(executable.run(exec::Tensors{ones({1})})); }),
              HasSubstr("slice gives [0] at these sizes, but the graph says [-1]"));
}

/// What it reads only the pass tells that comes later, on other gradients.
TEST(FoundByUse, AHookThatReadsANumberRunsTheFunctionEagerly) {
  const auto halved = [](const Tensor& g) { return sum(g) > 10.0 ? g * 0.5 : g; };
  const auto hooked = [&](Tensor x) {
    Tensor y = x * 1;
    y.register_hook(halved);
    return y * y;
  };
  const auto by_hand = [&](Tensor x) {
    const auto twice =
        custom_gradient([](const Tensor& t) { return t * 2; },
                        [&](const CustomGradient& g) { return halved(g.grad()) * 2; });
    return twice(x);
  };
  for (const std::function<Tensor(Tensor)>& fn :
       {std::function<Tensor(Tensor)>(hooked), std::function<Tensor(Tensor)>(by_hand)}) {
    const auto fast = compile(fn);
    for (int i = 0; i < 6; ++i) {
      std::vector<Tensor> grads;
      for (const bool compiled : {false, true}) {
        Tensor x = ones({2}).requires_grad();
        sum((compiled ? fast(x) : fn(x)) * (i % 3 == 0 ? 10.0 : 1.0)).backward();
        grads.push_back(x.grad());
      }
      EXPECT_TRUE(same_bits(grads[1], grads[0])) << i;
    }
    EXPECT_EQ(fast.explain().eager, 5);
    EXPECT_THAT(to_string(fast.explain()),
                HasSubstr("the gradient of a result reads a number of its own on the host (in a "
                          "hook or a custom gradient)"));
  }
}

/// A function that is generic may do something else with each of them.
TEST(FoundByUse, CppTypesOfArgumentsTellCallsOfAGenericFunctionApart) {
  const auto add = compile([](const Tensor& x, auto n) { return x + n; });
  const Tensor yes = ones({2}, boolean);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(add(yes, 1).dtype(), i64);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(add(yes, true).dtype(), boolean);
  const Explanation told = add.explain();
  ASSERT_EQ(told.recordings.size(), 2u);
  EXPECT_EQ(told.recordings[1].reason, "the arguments had other C++ types");

  const auto same = compile([](auto x) { return x; });
  const Tensor x = ones({2});
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(same_bits(same(x), x));
    EXPECT_TRUE(same_bits(std::get<0>(same(std::tuple(x))), x));
  }
  const auto by_arg = compile([](const Tensor& t, const Arg& n) { return t + n; });
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(by_arg(yes, 0).dtype(), i64);
    EXPECT_EQ(by_arg(yes, 0.0).dtype(), f32);
    EXPECT_EQ(by_arg(yes, false).dtype(), boolean);
  }
  const auto any = compile([](const Tensor& t, const auto&... all) { return (t + ... + all); });
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(any(x, 1));
    EXPECT_EQ(any(x)[0].item<float>(), 1);
    EXPECT_EQ(any(x, 2.5)[0].item<float>(), 3.5f);
  }
  for (const ExplainedRecording& one : any.explain().recordings)
    EXPECT_TRUE(one.reason == "first call" || one.reason == "the arguments had other C++ types")
        << one.reason;
  // Others convert them.
  const auto shifted = compile([](const Tensor& t, std::int64_t n) { return t + n; });
  for (int i = 0; i < 4; ++i) static_cast<void>(i % 2 == 0 ? shifted(x, 2) : shifted(x, 2L));
  EXPECT_EQ(shifted.explain().recordings.size(), 1u);
}

TEST(FoundByUse, SizesThatOnlyDataTellAreToldWithTheirLine) {
  const auto fast = compile([](const Tensor& x) {
    const Tensor chosen = nonzero(x > 0);
    return chosen.size(0) == 0 ? x * 2 : x;
  });
  static_cast<void>(fast(ones({3})));
  static_cast<void>(fast(ones({3})));
  EXPECT_THAT(to_string(fast.explain()),
              HasSubstr("depends on a size that only data tell: u0 compared with 0 (found_by_use"));
}

/// A number that the pass computes again was there before it.
TEST(FoundByUse, ACheckpointThatBranchesIsDifferentiatedFromOutside) {
  manual_seed(1);
  const Tensor w = normal({4, 4}).requires_grad();
  const auto fn = [&](const Tensor& x) {
    return checkpoint(
        [&](const Tensor& t) {
          const Tensor h = tanh(matmul(t, w));
          return mean(h) > 0 ? h * 2 : h * h;
        },
        x);
  };
  const auto fast = compile(fn);
  for (int i = 0; i < 10; ++i) {
    const Tensor given = normal({3, 4});
    std::vector<Tensor> grads;
    for (const bool compiled : {false, true}) {
      Tensor x = given.clone().requires_grad();
      grads.push_back(grad(sum(square(compiled ? fast(x) : fn(x))), {x})[0]);
    }
    EXPECT_TRUE(same_bits(grads[1], grads[0])) << i;
  }
  EXPECT_EQ(fast.explain().eager, 0) << to_string(fast.explain());
}

/// That the arguments lie otherwise does not hide it.
TEST(FoundByUse, WhatTheHostChangedIsFoundInAnyLayout) {
  float factor = 1;
  const auto fast = compile([&](const Tensor& x) { return x * factor; }, {.varying = {{0, 1}}});
  static_cast<void>(fast(ones({4, 3}).t()));
  static_cast<void>(fast(ones({5, 3}).t()));
  factor = 2;
  static_cast<void>(fast(ones({6, 3}).t()));
  EXPECT_THAT(message_of<GraphError>([&] { static_cast<void>(fast(ones({7, 3}).t())); }),
              HasSubstr("it did something else than when it was recorded"));
  EXPECT_EQ(fast(ones({8, 3}).t())[0][0].item<float>(), 2);
}

TEST(FoundByUse, GradientsOfPartsOfComplexNumbersInAnyLayout) {
  const auto fn = [](const Tensor& x) {
    const Tensor z = x.detach().requires_grad();
    const Tensor c = complex(z, z * 2);
    return grad(sum(angle(c) + real(c) * imag(c)), {z})[0];
  };
  const auto fast = compile(fn);
  for (int i = 0; i < 8; ++i) {
    const Tensor x = i % 2 == 0 ? normal({5, 4}) : normal({4, 5}).t();
    EXPECT_TRUE(same_bits(fast(x), fn(x))) << i;
  }
}

/// Reading it would give what the tensor was when it was recorded.
TEST(FoundByUse, ARecordingThatIsFoundToBeOutOfDateServesNoCall) {
  Tensor h = zeros({2});
  const auto fast = compile([&](const Tensor& x) {
    h = h + x;
    return h * 1;
  });
  float expected = 0;
  for (int i = 1; i <= 6; ++i) {
    expected += 1;
    if (i % 2 == 0) {
      EXPECT_THAT(message_of<GraphError>([&] { static_cast<void>(fast(ones({2}))); }),
                  HasSubstr("another tensor from outside is used"));
    } else {
      EXPECT_EQ(fast(ones({2}))[0].item<float>(), expected) << i;
    }
  }
}

TEST(FoundByUse, ResultsMayHoldTensorsThatAreUndefined) {
  struct State {
    Tensor h, c;
  };
  const auto f = compile([](Tensor x) {
    return std::pair(State{x * 2, Tensor()}, std::vector<Tensor>{Tensor(), x + 1});
  });
  for (int i = 0; i < 4; ++i) {
    const auto [state, list] = f(full({2}, static_cast<float>(i)));
    EXPECT_TRUE(same_bits(state.h, full({2}, 2.0f * static_cast<float>(i))));
    EXPECT_FALSE(state.c.defined());
    EXPECT_FALSE(list.at(0).defined());
    EXPECT_TRUE(same_bits(list.at(1), full({2}, 1.0f + static_cast<float>(i))));
  }
  EXPECT_GT(f.explain().replays, 0);
}

}  // namespace
}  // namespace dyad
