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
using exec::same_bits;
using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;

constexpr int kCalls = 7;

template <class F>
auto compile_now(F function) {
  return compile(std::move(function), {.background = Background::never});
}

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

}  // namespace
}  // namespace dyad
