#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "buckets_for_tests.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/ops/ops.h"
#include "exec_for_tests.h"

// CompileOptions::buckets: arguments padded, what mixes elements masked, results cut.
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using exec::bits;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using ::dyad::testing::bare_message_of;
using exec::expect_close;
using exec::padding;

using Function = std::function<Tensor(Tensor)>;

/// Calls at sizes that fall in both buckets, are one, are beyond the last; gives what explain()
/// tells.
ExplainedRecording expect_same(const Function& fn, const std::function<Tensor(std::int64_t)>& make,
                               int axis = 0) {
  const auto c = compile(fn, padding({{0, axis}}));
  for (const std::int64_t size : {5, 3, 8, 12, 16, 7, 20, 2, 13}) {
    const Tensor x = make(size);
    expect_close(c(x), fn(x), "size " + std::to_string(size));
  }
  const Explanation told = c.explain();
  EXPECT_EQ(told.recordings.size(), 1u);
  EXPECT_EQ(told.recorded, 1);
  return told.recordings[0];
}

/// The same for what is padded throughout: a plan for each bucket, and one for what is beyond them.
void expect_padded(const Function& fn, const std::function<Tensor(std::int64_t)>& make,
                   int axis = 0) {
  const ExplainedRecording told = expect_same(fn, make, axis);
  EXPECT_THAT(told.no_buckets, IsEmpty());
  EXPECT_THAT(told.unpadded, IsEmpty());
  EXPECT_EQ(told.plans, 3);
}

Tensor rows(std::int64_t n) { return normal({n, 4}); }

TEST(Buckets, ExplainTellsOfThem) {
  const auto c = compile([](Tensor x) { return x * 2.0f; }, padding({{0, 0}}));
  for (const std::int64_t n : {3, 4, 5, 9}) c(rows(n));
  EXPECT_THAT(c.explain().recordings[0].buckets, ElementsAre("s0 = 8, 16"));
  EXPECT_THAT(to_string(c.explain()), HasSubstr("    pads s0 = 8, 16\n"));
  EXPECT_EQ(c.explain().recordings[0].plans, 2);
}

TEST(Buckets, OptionsAreChecked) {
  const auto make = [](std::vector<std::int64_t> sizes) {
    return compile([](Tensor x) { return x; }, {.buckets = {{{0, 0}, std::move(sizes)}}});
  };
  for (const std::vector<std::int64_t>& bad :
       {std::vector<std::int64_t>{}, {8, 8}, {16, 8}, {1, 8}, {-4}}) {
    try {
      make(bad);
      FAIL() << "accepted";
    } catch (const ValueError& error) {
      EXPECT_THAT(error.what(), HasSubstr("must be 2 or more, the smallest first, each once"));
    }
  }
  EXPECT_THROW(
      compile([](Tensor x) { return x; }, {.dynamic_sizes = false, .buckets = {{{0, 0}, {8}}}}),
      ValueError);
  const auto other = compile([](Tensor x) { return x; }, {.buckets = {{{1, 0}, {8}}}});
  try {
    other(rows(3));
    FAIL() << "accepted";
  } catch (const ValueError& error) {
    EXPECT_THAT(error.what(), HasSubstr("buckets names argument 1, but the call has 1 tensors"));
  }
  const auto twice =
      compile([](Tensor x) { return x; }, {.buckets = {{{0, 0}, {8}}, {{0, -2}, {16}}}});
  try {
    twice(rows(3));
    FAIL() << "accepted";
  } catch (const ValueError& error) {
    EXPECT_THAT(error.what(), HasSubstr("buckets names axis -2 of argument 0 a second time"));
  }
}

TEST(Buckets, PointwiseOperatorsAndBroadcasting) {
  const Tensor bias = normal({4});
  expect_padded([&](Tensor x) { return tanh(x + bias) * exp(x) - 1.0f; }, rows);
}

TEST(Buckets, PaddingDoesNotReachReductions) {
  expect_padded([](Tensor x) { return sum(exp(x), {0}); }, rows);
  expect_padded([](Tensor x) { return mean(x + 1.0f, {0}, true); }, rows);
  expect_padded([](Tensor x) { return mean(x); }, rows);
  expect_padded([](Tensor x) { return max(-abs(x) - 1.0f, {0}); }, rows);
  expect_padded([](Tensor x) { return min(abs(x) + 1.0f); }, rows);
  expect_padded([](Tensor x) { return prod(x * 0.5f + 3.0f, {0}); }, rows);
  expect_padded([](Tensor x) { return all(x > -100.0f); }, rows);
  expect_padded([](Tensor x) { return any(x < -100.0f, {0}); }, rows);
  expect_padded([](Tensor x) { return sum(1.0f / x); }, rows);  // infinite in the padding
  expect_padded([](Tensor x) { return sum(x.to(DType::i64)); }, rows);
  expect_padded([](Tensor x) { return var(x, {0}); }, rows);
  expect_padded([](Tensor x) { return logsumexp(x, {0}); }, rows);
}

TEST(Buckets, SoftmaxAlongThePaddedAxisAndTheOther) {
  expect_padded([](Tensor x) { return softmax(x, 0); }, rows);
  expect_padded([](Tensor x) { return log_softmax(x, 1); }, rows);
}

TEST(Buckets, Products) {
  const Tensor w = normal({4, 3});
  expect_padded([&](Tensor x) { return matmul(log(abs(x)), w); }, rows);
  // The padded axis is summed over; log(0) is infinite there.
  expect_padded([&](Tensor x) { return matmul(transpose(log(abs(x)), 0, 1), x); }, rows);
  expect_padded([&](Tensor x) { return matmul(x, transpose(x, 0, 1)); }, rows);
}

TEST(Buckets, AxesJoinedAndTakenApart) {
  const auto make = [](std::int64_t n) { return normal({3, n, 4}); };
  const Tensor w = normal({4, 5});
  expect_padded(
      [&](Tensor x) {
        const Tensor flat = reshape(x, {-1, 4});  // [3 * n, 4]
        const Tensor y = matmul(relu(flat), w);
        return reshape(y, {3, -1, 5}) - mean(y, {0});
      },
      make, 1);
  expect_padded([&](Tensor x) { return sum(reshape(x, {-1}), {0}); }, make, 1);
  expect_padded([&](Tensor x) { return reshape(permute(x, {1, 0, 2}), {-1, 2, 6}); }, make, 1);
  expect_padded([&](Tensor x) { return reshape(x + 1.0f, {-1}); }, make, 1);
}

TEST(Buckets, Views) {
  expect_padded([](Tensor x) { return slice(x, 1, 1, 3) * 2.0f; }, rows);
  expect_padded([](Tensor x) { return select(x, 0, 1) + sum(x, {0}); }, rows);
  expect_padded([](Tensor x) { return select(x, 0, -1) * 2.0f; }, rows);
  expect_padded([](Tensor x) { return slice(x, 0, 1) - slice(x, 0, 0, -1); }, rows);
  expect_padded([](Tensor x) { return sum(slice(x, 0, 0, kEnd, 2), {0}); }, rows);
  expect_padded([](Tensor x) { return expand(sum(x, {0}, true), {x.size(0), 4}) + x; }, rows);
  expect_padded([](Tensor x) { return unsqueeze(x, 1) * unsqueeze(x, 0); }, rows);
}

TEST(Buckets, WhatHasNoRuleRunsAtExactSizes) {
  for (const Function& fn :
       {Function([](Tensor x) { return sort(x, 0).values + x; }),
        Function([](Tensor x) { return logcumsumexp(flip(x, {0}), 0) + sort(x, 0).values; })}) {
    const ExplainedRecording told = expect_same(fn, rows);
    EXPECT_THAT(told.no_buckets, IsEmpty());
    EXPECT_EQ(told.unpadded.size(), 1u);
  }
}

TEST(Buckets, BackwardsAndFromTheEnd) {
  expect_padded([](Tensor x) { return flip(x * 2.0f, {0}) + 1.0f; }, rows);
  expect_padded([](Tensor x) { return flip(x, {0, 1}) * x; }, rows);
  expect_padded([](Tensor x) { return slice(x, 0, -2) + 1.0f; }, rows);
  expect_padded([](Tensor x) { return slice(x, 0, kEnd, kStart, -2) * 3.0f; }, rows);
  expect_padded([](Tensor x) { return slice(concat({x, x * 2.0f}, 0), 0, x.size(0)) - x; }, rows);
}

TEST(Buckets, Concatenations) {
  const Tensor four = normal({3, 4});
  expect_padded([](Tensor x) { return concat({x, x * 2.0f}, 0) + 1.0f; }, rows);
  expect_padded([&](Tensor x) { return concat({four, x, four, exp(x)}, 0); }, rows);
  expect_padded([](Tensor x) { return concat({x, x * 2.0f}, 1); }, rows);
  expect_padded([&](Tensor x) { return sum(concat({x, four}, 0) * 2.0f, {0}); }, rows);
  expect_padded(
      [](Tensor x) { return matmul(transpose(concat({x, x}, 0), 0, 1), concat({x, x}, 0)); }, rows);
}

TEST(Buckets, OrdersOfOtherDTypes) {
  const auto whole = [](std::int64_t n) { return randint(-5, 6, {n, 3}); };
  const Tensor none = zeros({0, 3}, i64);
  expect_padded([&](Tensor x) { return concat({x, none, x * 2, x}, 0); }, whole);
  expect_padded([](Tensor x) { return cumsum(x, 0) - cumsum(x, 0, false, true); }, whole);
  expect_padded([](Tensor x) { return concat({x > 0, x < 2}, 0); }, whole);
  expect_padded([](Tensor x) { return flip(x.to(f64) * 0.5, {0}); }, whole);
  expect_padded([](Tensor x) { return cumsum(x.to(bf16), 0).to(f32); }, whole);
}

TEST(Buckets, SlicesOfMoreThanThereIs) {
  const auto fn = [](Tensor x) { return slice(x, 0, -5) * 2.0f; };
  const auto c = compile(fn, padding({{0, 0}}));
  for (const std::int64_t n : {10, 3, 5, 2, 12, 4}) {
    const Tensor x = rows(n);
    EXPECT_EQ(bits(c(x)), bits(fn(x))) << n;
  }
}

TEST(Buckets, OfFunctionsThatAreChecked) {
  const auto fn = [](Tensor x) { return softmax(x * 2.0f, 0) + concat({x, x}, 0).size(0); };
  CompileOptions options = padding({{0, 0}});
  options.recheck = true;
  const auto c = compile(fn, options);
  for (const std::int64_t n : {10, 12, 3, 2, 9, 30, 16, 5}) {
    const Tensor x = rows(n);
    expect_close(c(x), fn(x), std::to_string(n));
  }
  EXPECT_EQ(c.explain().recordings.size(), 1u);
  EXPECT_GT(c.explain().replays, 3);
}

TEST(Buckets, BesideRanges) {
  const auto fn = [](Tensor x) { return x.size(0) <= 16 ? softmax(x, 0) : x; };
  CompileOptions options = padding({{0, 0}});
  options.varying = {{0, 0, 2, 16}};
  const auto c = compile(fn, options);
  for (const std::int64_t n : {10, 12, 3, 16}) {
    const Tensor x = rows(n);
    expect_close(c(x), fn(x), std::to_string(n));
  }
  EXPECT_EQ(c.explain().recordings[0].plans, 2);
  options.varying = {{0, 0, 2, 15}};
  options.name = "f";
  const auto refused = compile(fn, options);
  EXPECT_EQ(
      bare_message_of<ValueError>([&] { refused(rows(10)); }),
      "f: the last of the buckets for axis 0 of argument 0 is 16, but varying says that it is "
      "from 2 to 15");
}

TEST(Buckets, RunningSums) {
  expect_padded([](Tensor x) { return cumsum(x, 0) * 2.0f; }, rows);
  expect_padded([](Tensor x) { return cumsum(x, 0, true, true); }, rows);
  expect_padded([](Tensor x) { return cumsum(x, 1) + cumprod(x, 0) + cumprod(x, 0, true); }, rows);
  expect_padded([](Tensor x) { return logcumsumexp(x, 0); }, rows);
  expect_padded([](Tensor x) { return cummax(x, 0).values - cummin(x, 0).values; }, rows);
  expect_padded([](Tensor x) { return linear_scan(x * 0.5f, x, 0) + linear_scan(x, x, 0, true); },
                rows);
}

TEST(Buckets, LoopsAndBranchesRunAtExactSizes) {
  const Function fn = [](Tensor x) {
    const auto made = scan(
        [](const Tensor& state, const Tensor& row) {
          const Tensor next = tanh(state + row);
          return std::pair(next, next * 2.0f);
        },
        zeros({4}), x * 2.0f);
    return sum(made.second, {0}) + made.first;
  };
  EXPECT_THAT(expect_same(fn, rows).no_buckets, IsEmpty());
}

TEST(Buckets, PicksByIndex) {
  const Tensor table = normal({7, 3});
  const auto indices = [](std::int64_t n) { return randint(0, 7, {n}); };
  expect_padded([&](Tensor i) { return embedding(i, table) * 2.0f; }, indices);
  expect_padded([&](Tensor i) { return sum(index_select(table, 0, i), {0}); }, indices);
  const auto classes = [](std::int64_t n) { return randint(0, 4, {n}); };
  const Tensor logits = normal({40, 4});
  expect_padded([&](Tensor y) { return cross_entropy(slice(logits, 0, 0, y.size(0)), y); },
                classes);
}

TEST(Buckets, GradientsTakenOutside) {
  const Tensor w = normal({4, 4}).requires_grad();
  const auto fn = [&](Tensor x) { return softmax(tanh(matmul(x, w)), 0); };
  const auto c = compile(fn, padding({{0, 0}}));
  for (const std::int64_t n : {5, 7, 12, 8}) {
    Tensor x = rows(n).requires_grad(), same = x.detach().clone().requires_grad();
    const Tensor weights = rows(n);
    Tensor of_w[2];
    for (const bool compiled : {true, false}) {
      w.set_grad(Tensor());
      const Tensor y = compiled ? c(x) : fn(same);
      sum(y * weights).backward();
      of_w[compiled ? 0 : 1] = w.grad().clone();
    }
    expect_close(of_w[0], of_w[1], "weight");
    expect_close(x.grad(), same.grad(), "argument");
  }
  EXPECT_THAT(c.explain().recordings[0].no_buckets, IsEmpty());
}

TEST(Buckets, HostBranches) {
  const auto fn = [](Tensor x) {
    if (sum(x) > 0.0f) return mean(x * 2.0f, {0});
    return sum(x, {0}) - 1.0f;
  };
  const auto c = compile(fn, padding({{0, 0}}));
  for (const std::int64_t n : {5, 6, 12, 7, 9, 4, 16}) {
    for (const float sign : {1.0f, -1.0f}) {
      const Tensor x = abs(rows(n)) * sign;
      expect_close(c(x), fn(x), std::to_string(n));
    }
  }
  const Explanation told = c.explain();
  EXPECT_EQ(told.recordings.size(), 1u);
  EXPECT_EQ(told.recordings[0].ways, 2);
  EXPECT_EQ(told.recorded, 2);
}

TEST(Buckets, TwoAxes) {
  const auto fn = [](Tensor x, Tensor y) { return matmul(x, y) - mean(x); };
  const auto c = compile(fn, padding({{0, 0}, {0, 1}, {1, 0}}));
  for (const auto& [n, k] :
       {std::pair(5, 6), std::pair(12, 7), std::pair(9, 15), std::pair(3, 3)}) {
    const Tensor x = normal({n, k}), y = normal({k, 4});
    expect_close(c(x, y), fn(x, y), std::to_string(n) + " by " + std::to_string(k));
  }
}

TEST(Buckets, SizesThatAreReadOnTheWay) {
  expect_padded([](Tensor x) { return x / sqrt(size_tensor(x.size(0)).to(DType::f32)); }, rows);
  expect_padded([](Tensor x) { return arange(x.size(0)) * 2; }, rows);
  // A size that the host knows as a number is a guard: the padded one does not pass it.
  const auto fn = [](Tensor x) { return x * static_cast<float>(x.size(0).value()); };
  const auto c = compile(fn, padding({{0, 0}}));
  for (const std::int64_t n : {5, 5, 7, 7, 8})
    expect_close(c(rows(n) * 0 + 1), fn(rows(n) * 0 + 1), "");
}

TEST(Buckets, WhatCannotBePadded) {
  const auto refused = [](auto fn) {
    const auto c = compile(fn, padding({{0, 0}}));
    for (const std::int64_t n : {5, 7, 12}) {
      Tensor x = rows(n), same = x.clone();
      const Tensor got = c(x), want = fn(same);
      EXPECT_EQ(bits(got), bits(want));
      EXPECT_EQ(bits(x), bits(same));
    }
    return c.explain().recordings[0].no_buckets;
  };
  EXPECT_EQ(refused([](Tensor x) {
              x.add_(1.0f);
              return x * 2.0f;
            }),
            "argument 0 is written");
  EXPECT_EQ(refused([](Tensor x) { return transpose(x, 0, 1); }),
            "result 0 lies in an argument's memory");
  const auto two = compile(
      [](Tensor x) {
        const Tensor y = x * 2.0f;
        return std::pair(y, transpose(y, 0, 1));
      },
      padding({{0, 0}}));
  two(rows(3));
  EXPECT_EQ(two.explain().recordings[0].no_buckets, "results 0 and 1 share memory");
}

TEST(Buckets, PartsOfTensorsFromOutsideAreWritten) {
  Tensor padded = zeros({20, 4}), eager = zeros({20, 4});
  const auto fn = [](const Tensor& cache, const Tensor& x) {
    slice(cache, 0, 0, x.size(0)).copy_(x * 2.0f);
    return sum(cache, {0});
  };
  const auto c = compile([&](const Tensor& x) { return fn(padded, x); }, padding({{0, 0}}));
  for (const std::int64_t n : {5, 7, 3, 12, 16, 4}) {
    const Tensor x = rows(n);
    expect_close(c(x), fn(eager, x), std::to_string(n));
    EXPECT_EQ(bits(padded), bits(eager)) << n;
  }
  EXPECT_THAT(c.explain().recordings[0].no_buckets, IsEmpty());
}

TEST(Buckets, ResultsLieAsEagerOnesDo) {
  const auto fn = [](Tensor x) { return std::pair(x * 2.0f, sum(x)); };
  const auto c = compile(fn, padding({{0, 0}}));
  c(rows(3));
  for (const std::int64_t n : {5, 8}) {
    const Tensor y = c(rows(n)).first;
    EXPECT_TRUE(y.is_contiguous());
    EXPECT_EQ(y.impl()->storage->bytes(), static_cast<std::size_t>(n) * 16);
  }
}

TEST(Buckets, ArgumentsOfAnyLayoutAndEmptyOnes) {
  const auto fn = [](Tensor x) { return sum(x * 2.0f, {0}); };
  const auto c = compile(fn, padding({{0, 0}}));
  for (const std::int64_t n : {5, 7, 0, 1, 0, 1, 12}) {
    const Tensor x = transpose(normal({4, n}), 0, 1);
    expect_close(c(x), fn(x), std::to_string(n));
  }
}

TEST(Buckets, RandomNumbersAreDrawnForThePaddedSize) {
  const auto c = compile([](Tensor x) { return dropout(x, 0.5) + normal({x.size(0), 100}) * 0.0f; },
                         padding({{0, 0}}));
  for (const std::int64_t n : {5, 7, 12, 9}) {
    const Tensor y = c(ones({n, 100}));
    const double kept =
        sum((y != 0.0f).to(DType::f32)).item<double>() / static_cast<double>(n * 100);
    EXPECT_GT(kept, 0.3);
    EXPECT_LT(kept, 0.7);
  }
  EXPECT_THAT(c.explain().recordings[0].unpadded, IsEmpty());
}

TEST(Buckets, ThreadsAndTheBackground) {
  const Tensor w = normal({4, 4});
  const auto fn = [&](Tensor x) { return mean(tanh(matmul(x, w)), {0}); };
  CompileOptions options = padding({{0, 0}});
  options.background = Background::always;
  const auto c = compile(fn, options);
  c(rows(3));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Tensor x = full({4 + 3 * t, 4}, 0.1f * static_cast<float>(t + 1));
      for (int i = 0; i < 20; ++i) expect_close(c(x), fn(x), "thread " + std::to_string(t));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Buckets, ErrorsOfDataAreThoseOfTheCall) {
  const Tensor table = normal({4, 3});
  const auto c = compile([&](Tensor i) { return index_select(table, 0, i); }, padding({{0, 0}}));
  c(randint(0, 4, {5}));
  c(randint(0, 4, {5}));
  EXPECT_THROW(c(full({6}, 9, DType::i64)), IndexError);
  EXPECT_EQ(c(zeros({6}, DType::i64)).shape()[0].number(), 6);
}

}  // namespace
}  // namespace dyad
