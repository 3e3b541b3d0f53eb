#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/exec/checkpoint.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/derivatives.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/exec/verify.h"
#include "dyad/exec/vmap.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

// What replayed calls leave behind beside the values of their results: the state of the random
// generator, the memory that results share, the tape.

namespace dyad {
namespace {

using dyad::testing::message_of;
using exec::compile_now;
using exec::same_bits;
using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;

constexpr int kCalls = 7;

/// Calls a function and its compiled form in turn: results and the generator's state agree.
void expect_same_draws(const std::function<Tensors(Tensor)>& f, std::int64_t replays) {
  const auto c = compile_now(f);
  for (int i = 0; i < kCalls; ++i) {
    const Tensor x = full({3}, i % 2 == 0 ? 1 : -1);
    manual_seed(static_cast<std::uint64_t>(40 + i));
    const Tensors eager = f(x);
    const RandomKey after = default_generator().state();
    manual_seed(static_cast<std::uint64_t>(40 + i));
    const Tensors compiled = c(x);
    EXPECT_EQ(after, default_generator().state()) << "call " << i;
    ASSERT_EQ(eager.size(), compiled.size());
    for (std::size_t k = 0; k < eager.size(); ++k) {
      EXPECT_TRUE(same_bits(eager[k], compiled[k])) << "call " << i << ", result " << k;
    }
  }
  EXPECT_EQ(c.explain().replays, replays);
}

TEST(ReplayedCalls, SeedTheGenerator) {
  const auto f = [](Tensor x) {
    manual_seed(5);
    return x + rand({2});
  };
  const auto c = compile_now(f);
  for (int i = 0; i < kCalls; ++i) {
    const Tensor eager = f(zeros({2}));
    EXPECT_TRUE(same_bits(eager, c(zeros({2})))) << "call " << i;
  }
  EXPECT_EQ(c.explain().replays, 4);
}

TEST(ReplayedCalls, SeedBetweenDraws) {
  expect_same_draws(
      [](Tensor x) -> Tensors {
        const Tensor before = rand({3});
        manual_seed(5);
        const Tensor first = randn({3}), second = dropout(x, 0.5);
        default_generator().set_state({9, 1000});
        return {before, first, second, rand({2})};
      },
      4);
}

TEST(ReplayedCalls, SeedAfterAChoice) {
  // Both ways are known after the second call: a fallback leaves nothing of the call before it.
  expect_same_draws(
      [](Tensor x) -> Tensors {
        const Tensor before = rand({3});
        manual_seed(7);
        const Tensor noise = rand({3});
        if (sum(x) > 0) {
          manual_seed(11);
          return {before, noise + rand({3}) * x};
        }
        return {before, noise};
      },
      4);
}

TEST(ReplayedCalls, SeedAndDrawNothing) {
  expect_same_draws(
      [](Tensor x) -> Tensors {
        manual_seed(21);
        return {x * 2};
      },
      4);
}

TEST(ReplayedCalls, SeedInsideACheckpoint) {
  const Tensor w = ones({3}).requires_grad();
  expect_same_draws(
      [w](Tensor x) -> Tensors {
        const Tensor y = checkpoint(
            [&](const Tensor& t) {
              manual_seed(3);
              return tanh(t * w) * rand({3});
            },
            x);
        return {y.detach(), grad(sum(y), {w})[0]};
      },
      4);
}

TEST(ReplayedCalls, SeedInsideLoopsOfTheHost) {
  expect_same_draws(
      [](Tensor x) -> Tensors {
        const auto [count, y] = while_loop([](const Tensor& i, const Tensor&) { return i < 2; },
                                           [](const Tensor& i, const Tensor& t) {
                                             manual_seed(13);
                                             return std::pair{i + 1, t + rand({3})};
                                           },
                                           std::pair{tensor(0, i64), x});
        return {y};
      },
      4);
}

TEST(ReplayedCalls, SeedInsideVmap) {
  const auto f = [](Tensor x) -> Tensors {
    return {vmap([](const Tensor& t) {
      manual_seed(17);
      return t + rand({});
    })(x)};
  };
  expect_same_draws(f, 4);
}

TEST(Seeding, WhileAGraphIsDefinedIsOfWhatTheDefinitionDraws) {
  Graph graph;
  const auto [made, w] = graph.define([] {
    const Tensor x = placeholder("x", f32, {2});
    manual_seed(5);
    const Tensor w = variable("w", rand({2}));
    return std::pair{x + rand({2}), w};
  });
  Session session(graph);
  manual_seed(6);
  const Tensors got = session.run({made, w}, {{"x", zeros({2})}});
  manual_seed(6);
  EXPECT_TRUE(same_bits(got[0], rand({2})));
  manual_seed(5);
  EXPECT_TRUE(same_bits(got[1], rand({2})));
}

TEST(Seeding, HappensInABranchOfAGraph) {
  Graph graph;
  const Tensor made = graph.define([] {
    const Tensor x = placeholder("x", f32, {2});
    return cond(
        sum(x) > 0,
        [](const Tensor& t) {
          manual_seed(5);
          return t + rand({2});
        },
        [](const Tensor& t) { return t + rand({2}); }, x);
  });
  Session session(graph);
  for (int i = 0; i < 3; ++i) {
    const Tensor got = session.run({made}, {{"x", ones({2})}})[0];
    const RandomKey after = default_generator().state();
    manual_seed(5);
    EXPECT_TRUE(same_bits(got, 1 + rand({2})));
    EXPECT_EQ(after, default_generator().state());
  }
}

TEST(ReplayedCalls, WithSeedsAreVerified) {
  const auto f = [](Tensor x) {
    const Tensor before = rand({2});
    manual_seed(5);
    return std::pair{x * before + rand({2}), x[0]};
  };
  const VerifyReport report = verify(f, ones({2}));
  EXPECT_TRUE(report.same()) << to_string(report);
}

// --- results in memory from outside -------------------------------------------------------------

struct SharedResult {
  std::string name;
  /// Of an argument f32[n, 4], n from 4 on, and a captured f32[4, 4].
  std::function<Tensors(const Tensor& x, const Tensor& w)> run;
};

const std::vector<SharedResult>& shared_results() {
  static const std::vector<SharedResult> cases = {
      {"row_of_an_argument", [](const Tensor& x, const Tensor&) -> Tensors { return {x[0]}; }},
      {"argument_itself", [](const Tensor& x, const Tensor&) -> Tensors { return {x}; }},
      {"view_of_a_view",
       [](const Tensor& x, const Tensor&) -> Tensors {
         return {x.slice(0, 1, 4).transpose(0, 1)[2], x[-1], x.detach()[1]};
       }},
      {"sizes_of_the_argument",
       [](const Tensor& x, const Tensor&) -> Tensors {
         return {x.slice(0, x.size(0) - 2, x.size(0)), x.reshape({-1}), x.slice(0, 0, kEnd, 2)};
       }},
      {"row_of_a_captured_tensor",
       [](const Tensor& x, const Tensor& w) -> Tensors {
         return {w[0], x * 1, w.transpose(0, 1)};
       }},
      {"after_a_write_to_the_argument",
       [](const Tensor& x, const Tensor&) -> Tensors {
         Tensor row = x[1];
         Tensor all = x;
         all.add_(1);
         return {row, all, all[2]};
       }},
      {"after_a_write_through_a_view",
       [](const Tensor& x, const Tensor& w) -> Tensors {
         Tensor row = w[1];
         row.copy_(x[0] * 2);
         Tensor part = x[2];
         part.fill_(3);
         return {row, w[1], w, part, x};
       }},
      {"beside_what_it_makes",
       [](const Tensor& x, const Tensor&) -> Tensors {
         Tensor y = x * 2;
         return {y[0], x[0], y, y.reshape({-1})};
       }},
      {"reshape_of_an_argument",
       [](const Tensor& x, const Tensor&) -> Tensors {
         return {x.slice(0, 0, 4).reshape({2, 8})};
       }},
      {"literal",
       [](const Tensor& x, const Tensor&) -> Tensors { return {tensor({1.0f, 2.0f}), x + 1}; }}};
  return cases;
}

class SharedResults : public ::testing::TestWithParam<SharedResult> {};

TEST_P(SharedResults, ShareMemoryAsEagerOnesDo) {
  const auto& run = GetParam().run;
  const bool tracks[] = {false, true};
  for (const bool varies : tracks) {
    Tensor w = ones({4, 4}), v = ones({4, 4});
    const auto c = compile_now([&](Tensor x) { return run(x, v); });
    for (int i = 0; i < 9; ++i) {
      const int rows = varies ? 4 + i % 3 : 4;
      // In another layout too.
      const bool turned = i % 4 == 3;
      const auto fresh = [&] {
        const Tensor all = arange(rows * 4).to(f32).reshape({rows, 4});
        return turned ? all.transpose(0, 1).clone().transpose(0, 1) : all;
      };
      Tensor x = fresh(), y = fresh();
      const Tensors eager = run(x, w), compiled = c(y);
      ASSERT_EQ(eager.size(), compiled.size());
      for (std::size_t k = 0; k < eager.size(); ++k) {
        ASSERT_TRUE(same_bits(eager[k], compiled[k])) << "call " << i << ", result " << k;
      }
      for (std::size_t k = 0; k < eager.size(); ++k) {
        Tensor(eager[k]).fill_(100 + static_cast<int>(k));
        Tensor(compiled[k]).fill_(100 + static_cast<int>(k));
        EXPECT_TRUE(same_bits(x, y)) << "call " << i << ", result " << k;
        EXPECT_TRUE(same_bits(w, v)) << "call " << i << ", result " << k;
        for (std::size_t j = 0; j < eager.size(); ++j) {
          EXPECT_TRUE(same_bits(eager[j], compiled[j]))
              << "call " << i << ", result " << j << " after a write to " << k;
        }
      }
    }
    EXPECT_GE(c.explain().replays, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SharedResults, ::testing::ValuesIn(shared_results()),
                         [](const auto& info) { return info.param.name; });

TEST(SharedResults, HaveGradients) {
  const auto f = [](Tensor x) { return std::pair{x[0], x.transpose(0, 1)[1]}; };
  const auto c = compile_now(f);
  for (int i = 0; i < kCalls; ++i) {
    const auto through = [&](const auto& function, bool computed) {
      Tensor leaf = arange(6).to(f32).reshape({2, 3}).requires_grad();
      Tensor x = computed ? leaf * 2 : leaf;
      auto [a, b] = function(x);
      EXPECT_TRUE(share_memory(a, x));
      EXPECT_TRUE(share_memory(b, x));
      EXPECT_TRUE(a.tracks_grad());
      const std::string refused = message_of<GradError>([&] { a.fill_(7); });
      (sum(a * a) + sum(b * 3) + sum(x)).backward();
      return std::pair{leaf.grad(), refused};
    };
    for (const bool computed : {false, true}) {
      const auto [grad, refused] = through(f, computed);
      const auto [replayed, refused_too] = through(c, computed);
      EXPECT_TRUE(same_bits(grad, replayed)) << "call " << i;
      EXPECT_EQ(refused.substr(0, refused.find('\n')),
                refused_too.substr(0, refused_too.find('\n')));
      EXPECT_THAT(refused, HasSubstr("shares memory with a view that tracks gradients"));
    }
  }
  EXPECT_GE(c.explain().replays, 4);
}

TEST(SharedResults, OfGradientsFromBefore) {
  const auto results = [](bool compiled) {
    Tensor w = ones({2, 3}).requires_grad();
    sum(w * w).backward();
    const auto f = [&](Tensor x) { return std::pair{w.grad()[1], x + 1}; };
    const auto c = compile_now(f);
    Tensors seen;
    for (int i = 0; i < kCalls; ++i) {
      auto [row, other] = compiled ? c(ones({2})) : f(ones({2}));
      row.fill_(10 + i);
      seen.push_back(w.grad().clone());
    }
    return seen;
  };
  const Tensors eager = results(false), compiled = results(true);
  for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(same_bits(eager[i], compiled[i])) << i;
}

// --- second derivatives from outside ------------------------------------------------------------

TEST(SecondDerivatives, OfACompiledFunctionFromOutside) {
  Tensor w = (arange(9).to(f32).reshape({3, 3}) * 0.1f).requires_grad();
  const auto f = [&](Tensor x) { return tanh(matmul(x, w)); };
  const auto c = compile_now(f);
  const auto both = [&](const auto& function, const Tensor& x) -> Tensors {
    const Tensor y = function(x);
    const Tensors g = grad(sum(y * y), {x, w}, {.create_graph = true});
    const Tensors h = grad(sum(g[0] * g[0]) + sum(g[1]), {x, w});
    return {y.detach(), g[0].detach(), g[1].detach(), h[0], h[1]};
  };
  for (int i = 0; i < kCalls; ++i) {
    const Tensor x = (arange(6).to(f32).reshape({2, 3}) * (0.1f + 0.01f * static_cast<float>(i)))
                         .requires_grad();
    const Tensors eager = both(f, x), compiled = both(c, x);
    for (std::size_t k = 0; k < eager.size(); ++k) {
      EXPECT_TRUE(same_bits(eager[k], compiled[k])) << "call " << i << ", value " << k;
    }
  }
  EXPECT_THAT(c.explain().recordings[0].refusal,
              HasSubstr("second derivatives of its results are taken outside, with create_graph"));
  EXPECT_EQ(c.explain().eager, kCalls - 1);
}

TEST(SecondDerivatives, OfACallReplayedBefore) {
  const auto c = compile_now([](Tensor x) { return x * x * x; });
  Tensor x = tensor({1.0f, 2.0f}).requires_grad();
  for (int i = 0; i < 3; ++i) static_cast<void>(grad(sum(c(x)), {x}));
  const Tensor y = c(x);  // the fourth call is recorded again
  const Tensor replayed = [&] {
    for (;;) {
      const std::int64_t before = c.explain().replays;
      Tensor made = c(x);
      if (c.explain().replays > before) return made;
    }
  }();
  EXPECT_THAT(message_of<GradError>(
                  [&] { static_cast<void>(grad(sum(replayed), {x}, {.create_graph = true})); }),
              AllOf(HasSubstr("second derivatives of a compiled function from outside"),
                    HasSubstr("its next calls run eagerly and have them"),
                    HasSubstr("replayed_calls_test.cpp:")));
  const Tensor g = grad(sum(c(x)), {x}, {.create_graph = true})[0];
  EXPECT_TRUE(same_bits(grad(sum(g), {x})[0], tensor({6.0f, 12.0f})));
}

TEST(SecondDerivatives, ByTransformsOfACompiledFunction) {
  const auto f = [](Tensor x) { return sum(tanh(x) * x); };
  const auto c = compile_now(f);
  const Tensor v = tensor({1.0f, -2.0f, 0.5f});
  for (int i = 0; i < kCalls; ++i) {
    const Tensor x = tensor({0.5f, -1.0f, 0.25f * static_cast<float>(i)});
    const auto of = [](const auto& function) {
      return [&function](const Tensor& t) { return function(t); };
    };
    EXPECT_TRUE(same_bits(hessian(of(f), x), hessian(of(c), x))) << i;
    EXPECT_TRUE(same_bits(hvp(of(f), x, v).second, hvp(of(c), x, v).second)) << i;
  }
}

TEST(SecondDerivatives, OfTheFirstCallAddUpInTheOrderOfTheTape) {
  const auto f = [](Tensor x) { return log_softmax(x, 0); };
  const auto c = compile_now(f);
  const Tensor start = tensor({-1.0f, -2.0f, 2.0f, 0.0f, 2.0f, 3.0f});
  Tensor x = start.clone().requires_grad(), same = start.clone().requires_grad();
  const auto twice = [](const Tensor& y, const Tensor& of) {
    const Tensor g = grad(sum(y * y * 0.5 + y), {of}, {.create_graph = true})[0];
    sum(g * g * 0.5 + g).backward();
  };
  twice(f(x), x);
  twice(c(same), same);
  EXPECT_TRUE(same_bits(x.grad(), same.grad()));
}

TEST(SecondDerivatives, LeaveFirstOnesCompiled) {
  const auto c = compile_now([](Tensor x) { return x * x; });
  Tensor x = tensor({1.0f, 2.0f}).requires_grad();
  for (int i = 0; i < kCalls; ++i) {
    const Tensor g = grad(sum(c(x)), {x})[0];
    EXPECT_TRUE(same_bits(g, tensor({2.0f, 4.0f})));
  }
  EXPECT_EQ(c.explain().replays, 4);
}

}  // namespace
}  // namespace dyad
