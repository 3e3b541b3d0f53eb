#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/ops/ops.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

// Errors of elements are those of eager execution where nothing needs the result, too.

namespace dyad {
namespace {

using exec::compile_now;

std::string refusal(const std::function<void()>& action) {
  return testing::bare_message_of<Error>(action);
}

struct Refusing {
  const char* name;
  Tensor fits, refused;
  std::function<Tensor(const Tensor&)> call;
};

Tensor whole(std::vector<std::int64_t> numbers) { return tensor(numbers); }

std::vector<Refusing> refusing() {
  const Tensor table = reshape(arange(12).to(f32), {4, 3}), matrix = eye(2);
  const Tensor fits = whole({0, 3}), beyond = whole({0, 4});
  const Tensor places = whole({0, 2}), rates = full({2}, 0.5);
  return {
      {"index_select", fits, beyond, [=](Tensor i) { return index_select(table, 0, i); }},
      {"gather", reshape(fits, {2, 1}), reshape(beyond, {2, 1}),
       [=](Tensor i) { return gather(table, 0, i); }},
      {"embedding", fits, beyond, [=](Tensor i) { return embedding(i, table); }},
      {"embedding_bag", fits, beyond, [=](Tensor i) { return embedding_bag(i, table, places); }},
      {"scatter_add", places, whole({0, 3}),
       [=](Tensor i) { return scatter_add(zeros({3}), 0, i, ones({2})); }},
      {"cross_entropy", places, whole({0, 3}),
       [=](Tensor i) { return cross_entropy(slice(table, 0, 0, 2), i); }},
      {"bincount", fits, whole({0, -1}), [](Tensor i) { return bincount(i); }},
      {"inverse", matrix, zeros({2, 2}), [](Tensor a) { return inverse(a); }},
      {"solve", matrix, zeros({2, 2}), [](Tensor a) { return solve(a, ones({2, 1})); }},
      {"cholesky", matrix, -matrix, [](Tensor a) { return cholesky(a); }},
      {"bernoulli", rates, rates * 4, [](Tensor p) { return bernoulli(p); }},
      {"poisson", rates, -rates, [](Tensor rate) { return poisson(rate); }},
      {"multinomial", rates, -rates, [](Tensor w) { return multinomial(w, 1); }},
  };
}

TEST(DeadChecks, RefuseWhatEagerExecutionRefuses) {
  for (const Refusing& one : refusing()) {
    SCOPED_TRACE(one.name);
    const std::string text = refusal([&] { (void)one.call(one.refused); });
    const auto unused = compile_now([&](Tensor x) {
      (void)one.call(x);
      return ones({2});
    });
    const auto overwritten = compile_now([&](Tensor x) {
      Tensor y = one.call(x);
      y.fill_(2);
      return y;
    });
    for (int i = 0; i < 4; ++i) {
      (void)unused(one.fits);
      (void)overwritten(one.fits);
    }
    EXPECT_EQ(refusal([&] { (void)unused(one.refused); }), text);
    EXPECT_EQ(refusal([&] { (void)overwritten(one.refused); }), text);
    EXPECT_GT(unused.explain().replays, 0);
    EXPECT_GT(overwritten.explain().replays, 0);
  }
}

TEST(DeadChecks, InsideOfLoopsAndBranches) {
  const Tensor table = ones({4, 3});
  const auto c = compile_now([&](Tensor index) {
    const auto look_up = [&](Tensor sum, Tensor i) {
      (void)index_select(table, 0, reshape(i, {1}));
      return std::pair{sum + 1, sum};
    };
    (void)scan(look_up, zeros({}), index);
    return ones({2});
  });
  for (int i = 0; i < 4; ++i) (void)c(whole({0, 1, 3}));
  EXPECT_GT(c.explain().replays, 0);
  EXPECT_EQ(refusal([&] { (void)c(whole({0, 1, 4})); }),
            refusal([&] { (void)index_select(table, 0, whole({4})); }));
}

TEST(DeadChecks, OfSizesThatDataTellInLoops) {
  const std::function<Tensor(Tensor)> calls[] = {
      [](Tensor v) { return max(v); },
      [](Tensor v) { return hardmax(v, 0); },
      [](Tensor v) { return quantile(v, 0.5, 0); },
      [](Tensor v) { return multinomial(v, 1, false); },
  };
  for (const auto& call : calls) {
    SCOPED_TRACE(&call - calls);
    const auto f = [&](Tensor x) {
      const auto step = [&](Tensor i, Tensor v) {
        (void)call(masked_select(v, v > i));
        return std::pair{i + 1, v * 1};
      };
      return while_loop([](Tensor i, Tensor) { return i < 3; }, step, std::pair{zeros({}), x})
          .second;
    };
    const auto c = compile_now(f);
    for (int i = 0; i < 4; ++i) (void)c(tensor({1.0f, 2.0f, 5.0f}));
    EXPECT_GT(c.explain().replays, 0);
    const Tensor few = tensor({1.0f, 2.0f, 0.5f});
    EXPECT_NE(refusal([&] { (void)f(few); }), "");
    EXPECT_EQ(refusal([&] { (void)c(few); }), refusal([&] { (void)f(few); }));
  }
}

TEST(DeadChecks, OfAScanOfNoStepsNameNumbers) {
  const auto f = [](Tensor x) {
    const auto step = [&](Tensor sum, Tensor) {
      (void)max(x, {0, 1});
      return std::pair{sum, sum};
    };
    return scan(step, x, x).first;
  };
  const auto c = compile_now(f);
  (void)c(ones({2, 3}));
  EXPECT_EQ(refusal([&] { (void)c(ones({0, 2})); }), refusal([&] { (void)f(ones({0, 2})); }));
}

}  // namespace
}  // namespace dyad
