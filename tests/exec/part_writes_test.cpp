#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/exec/cancel_scope.h"
#include "dyad/exec/compile.h"
#include "dyad/ops/index.h"
#include "dyad/ops/scatter.h"
#include "exec_for_tests.h"

// Parts of captured tensors are written where they lie, one after the other, and what fails
// afterwards takes that back: a cache of keys and values costs what is put into it.

namespace dyad {
namespace {

using exec::compile_now;
using exec::same_bits;
using Tensors = std::vector<Tensor>;
using CacheStep = std::function<Tensors(Tensor& cache, const Tensors& in)>;

constexpr std::int64_t kRows = 512, kWidth = 64;

/// Runs `step` on a cache eagerly and on another one compiled: the same results, or errors, and the
/// same caches. Gives the bytes for intermediate values.
std::int64_t run_on_cache(const CacheStep& step, const std::vector<Tensors>& calls) {
  const NoGrad off;
  manual_seed(5);
  Tensor cache = normal({kRows, kWidth}), same = cache.clone();
  const auto c = compile_now(std::function<Tensors(const Tensors&)>(
      [&](const Tensors& in) -> Tensors { return step(same, in); }));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    std::string expected, error;
    Tensors eager, compiled;
    try {
      eager = step(cache, calls[i]);
    } catch (const Error& e) {
      expected = e.message();
    }
    try {
      compiled = c(calls[i]);
    } catch (const Error& e) {
      error = e.message();
    }
    EXPECT_EQ(error, expected) << "call " << i;
    EXPECT_EQ(compiled.size(), eager.size());
    for (std::size_t k = 0; k < std::min(eager.size(), compiled.size()); ++k)
      EXPECT_TRUE(same_bits(compiled[k], eager[k])) << "call " << i;
    EXPECT_TRUE(same_bits(same, cache)) << "call " << i;
  }
  const Explanation page = c.explain();
  EXPECT_GE(page.replays, 1);
  std::int64_t bytes = 0;
  for (const ExplainedRecording& recording : page.recordings) bytes += recording.memory;
  return bytes;
}

Tensors row_at(std::int64_t row) { return {normal({1, kWidth}), full({1}, row, i64)}; }

std::vector<Tensors> cache_calls() {
  return {row_at(3), row_at(4), row_at(5), row_at(500), row_at(0), row_at(7)};
}
constexpr std::int64_t kSmall = kRows * kWidth * 4 / 4;

TEST(PartWrites, OfOneCacheOneAfterTheOther) {
  EXPECT_LT(run_on_cache(
                [](Tensor& cache, const Tensors& in) -> Tensors {
                  slice(cache, 0, 0, 1).copy_(in[0]);
                  slice(cache, 0, 7, 8).copy_(in[0] * 2);
                  select(cache, 1, 3).fill_(1);
                  return {sum(in[0])};
                },
                cache_calls()),
            kSmall);
}

TEST(PartWrites, ReadBetweenAndAfter) {
  EXPECT_LT(run_on_cache(
                [](Tensor& cache, const Tensors& in) -> Tensors {
                  const Tensor before = sum(cache);
                  slice(cache, 0, 0, 1).copy_(in[0]);
                  const Tensor between = matmul(in[0], transpose(cache, 0, 1));
                  slice(cache, 0, 1, 2).copy_(in[0] * 2);
                  return {before, between, matmul(in[0], transpose(cache, 0, 1)), sum(cache)};
                },
                cache_calls()),
            kSmall);
}

TEST(PartWrites, AtPlacesThatDataTell) {
  EXPECT_LT(run_on_cache(
                [](Tensor& cache, const Tensors& in) -> Tensors {
                  cache.index_copy_(0, in[1], in[0]);
                  cache.index_add_(0, remainder(in[1] + 1, kRows), in[0]);
                  cache.index_fill_(0, remainder(in[1] + 2, kRows), 0.5f);
                  return {softmax(matmul(in[0], transpose(cache, 0, 1)), 1)};
                },
                cache_calls()),
            kSmall);
}

TEST(PartWrites, AreTakenBackWhereSomethingFails) {
  std::vector<Tensors> calls = cache_calls();
  for (const std::int64_t row : {std::int64_t{600}, std::int64_t{3}, std::int64_t{-513}})
    calls.push_back(row_at(row));
  // An addition that is done twice would be seen.
  EXPECT_LT(run_on_cache(
                [](Tensor& cache, const Tensors& in) -> Tensors {
                  cache.index_add_(0, full({2}, 4, i64), concat({in[0], in[0]}, 0));
                  slice(cache, 0, 9, 10).copy_(slice(cache, 0, 4, 5) * 2 + in[0]);
                  select(cache, 0, 10).copy_(sum(cache, {0}));
                  return {index_select(cache, 0, in[1]), sum(cache)};
                },
                calls),
            kSmall);
  // The operator that writes fails itself, along rows and along the last axis.
  static_cast<void>(run_on_cache(
      [](Tensor& cache, const Tensors& in) -> Tensors {
        cache.index_add_(0, full({1}, 4, i64), in[0]);
        cache.index_copy_(0, concat({full({1}, 2, i64), in[1]}, 0), concat({in[0], in[0]}, 0));
        return {sum(cache)};
      },
      calls));
  static_cast<void>(run_on_cache(
      [](Tensor& cache, const Tensors& in) -> Tensors {
        const Tensor places = expand(reshape(in[1], {1, 1}), {1, 2}) / 10;
        cache.scatter_add_(1, places.to(i64), ones({1, 2}));
        return {sum(cache)};
      },
      calls));
}

TEST(PartWrites, OldValuesThatAreStillNeeded) {
  static_cast<void>(run_on_cache(
      [](Tensor& cache, const Tensors& in) -> Tensors {
        const Tensor old = cache.clone(), rows = slice(cache, 0, 0, 4) * 1;
        slice(cache, 0, 0, 1).copy_(in[0]);
        cache.index_copy_(0, in[1], in[0] + 1);
        return {old, rows, slice(old, 0, 0, 2) + slice(cache, 0, 0, 2)};
      },
      cache_calls()));
  static_cast<void>(run_on_cache(
      [](Tensor& cache, const Tensors& in) -> Tensors {
        slice(cache, 0, 1, 3).copy_(slice(cache, 0, 0, 2).clone());
        slice(cache, 0, 3, 5).copy_(slice(cache, 0, 1, 3) + in[0]);
        return {sum(cache)};
      },
      cache_calls()));
  static_cast<void>(run_on_cache(
      [](Tensor& cache, const Tensors& in) -> Tensors {
        slice(cache, 0, 1, 2).copy_(in[0]);
        const Tensor between = cache.clone();
        slice(cache, 0, 1, 2).copy_(in[0] * 2);
        return {between, cache.clone()};
      },
      cache_calls()));
}

TEST(PartWrites, WeightsThatWereKeptInAnotherLayout) {
  const Tensor h = normal({48, kRows});
  static_cast<void>(run_on_cache(
      [&](Tensor& cache, const Tensors& in) -> Tensors {
        const Tensor before = matmul(h, cache);
        cache.index_copy_(0, in[1], in[0]);
        return {before, matmul(h, cache)};
      },
      cache_calls()));
}

TEST(PartWrites, OfPartsOfParts) {
  static_cast<void>(run_on_cache(
      [](Tensor& cache, const Tensors& in) -> Tensors {
        Tensor block = slice(cache, 0, 8, 16), heads = reshape(cache, {kRows, 4, 16});
        slice(block, 0, 1, 2).copy_(in[0]);
        select(select(heads, 0, 3), 0, 2).fill_(2);
        return {sum(cache), sum(block)};
      },
      cache_calls()));
}

/// The same for memory that is an argument. Gives the bytes for intermediate values and results.
std::int64_t run_on_argument(const CacheStep& step) {
  const NoGrad off;
  manual_seed(5);
  Tensor cache = normal({kRows, kWidth}), same = cache.clone();
  const auto c = compile_now(std::function<Tensors(const Tensors&)>([&](const Tensors& in) {
    Tensor argument = in[0];
    return step(argument, {in[1], in[2]});
  }));
  for (Tensors in : cache_calls()) {
    const Tensors eager = step(cache, in);
    const void* const memory = same.raw_data();
    const Tensors compiled = c(Tensors{same, in[0], in[1]});
    EXPECT_EQ(compiled.size(), eager.size());
    for (std::size_t k = 0; k < std::min(eager.size(), compiled.size()); ++k)
      EXPECT_TRUE(same_bits(compiled[k], eager[k]));
    EXPECT_TRUE(same_bits(same, cache));
    EXPECT_EQ(same.raw_data(), memory);
  }
  EXPECT_GE(c.explain().replays, 1);
  std::int64_t bytes = 0;
  for (const ExplainedRecording& recording : c.explain().recordings) bytes += recording.memory;
  return bytes;
}

TEST(PartWrites, OfAnArgument) {
  EXPECT_LT(run_on_argument([](Tensor& cache, const Tensors& in) -> Tensors {
              cache.index_copy_(0, in[1], in[0]);
              slice(cache, 0, 1, 2).copy_(in[0] * 2);
              return {matmul(in[0], transpose(cache, 0, 1)), cache};
            }),
            kSmall);
  static_cast<void>(run_on_argument([](Tensor& cache, const Tensors& in) -> Tensors {
    const Tensor next = cache * 0.5f + in[0];
    cache.copy_(next);
    return {next, sum(cache)};
  }));
  static_cast<void>(run_on_argument([](Tensor& cache, const Tensors& in) -> Tensors {
    const Tensor old = cache * 1, rows = slice(cache, 0, 0, 2);
    cache.mul_(0.5f).add_(in[0]);
    return {old, rows.clone(), sum(cache)};
  }));
}

TEST(PartWrites, ArgumentsThatChangePlaces) {
  const auto f = [](Tensor a, Tensor b, const Tensor& x) {
    const Tensor old = a * 1;
    a.copy_(b + x);
    b.copy_(old);
    return sum(a * b);
  };
  const auto c = compile_now(f);
  manual_seed(6);
  Tensor a = normal({3, 4}), b = normal({3, 4}), p = a.clone(), q = b.clone();
  for (int i = 0; i < 6; ++i) {
    const Tensor x = normal({4});
    EXPECT_TRUE(same_bits(f(a, b, x), c(p, q, x)));
    EXPECT_TRUE(same_bits(a, p));
    EXPECT_TRUE(same_bits(b, q));
  }
  // Those that lie in one memory.
  const auto g = [](Tensor to, const Tensor& from) {
    to.add_(from);
    return sum(to * from);
  };
  const auto d = compile_now(g);
  for (int i = 0; i < 6; ++i) {
    Tensor one = normal({4, 4}), two = one.clone();
    EXPECT_TRUE(
        same_bits(g(one, transpose(one.clone(), 0, 1)), d(two, transpose(two.clone(), 0, 1))));
    EXPECT_TRUE(same_bits(one, two));
  }
}

TEST(PartWrites, GradientsThatAddUp) {
  manual_seed(7);
  const Tensor w = normal({64, 64}).requires_grad(), same = w.detach().clone().requires_grad();
  const auto step = [](const Tensor& of, const Tensor& x) {
    const Tensor loss = sum(tanh(matmul(x, of)));
    loss.backward();
    return loss.detach();
  };
  const auto c = compile_now([&](const Tensor& x) { return step(same, x); });
  for (int i = 0; i < 8; ++i) {
    const Tensor x = normal({3, 64});
    EXPECT_TRUE(same_bits(step(w, x), c(x)));
    EXPECT_TRUE(same_bits(w.grad(), same.grad()));
  }
  // A function that is given the gradient which it changes.
  const auto given = compile_now([&](const Tensor& x, const Tensor& gradient) {
    const Tensor before = gradient * 1, loss = step(same, x);
    return std::vector<Tensor>{loss, before};
  });
  for (int i = 0; i < 5; ++i) {
    const Tensor x = normal({3, 64}), before = same.grad().clone();
    const Tensor loss = step(w, x);
    const std::vector<Tensor> made = given(x, same.grad());
    EXPECT_TRUE(same_bits(made[0], loss));
    EXPECT_TRUE(same_bits(made[1], before));
    EXPECT_TRUE(same_bits(w.grad(), same.grad()));
  }
}

}  // namespace
}  // namespace dyad
