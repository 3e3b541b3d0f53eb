#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/ops/ops.h"
#include "exec_for_tests.h"

// Scans of one step, and of none, where a recording has them as loops: served by that where they do
// the same, and never where they do not.

namespace dyad {
namespace {

using exec::same_bits;
using ::testing::HasSubstr;

using Tensors = std::vector<Tensor>;
using Pair = std::pair<Tensor, Tensor>;
using Function = std::function<Tensors(const Tensor&)>;

const std::vector<std::int64_t> kFewAndMany{5, 8, 1, 1, 0, 0, 1, 9, 2, 0, 1, 1, 30};

/// Calls it with normal rows of each of the lengths, eagerly and compiled: the same bits and the
/// same state of the generator. Writes into the results, which changes what they share memory with.
Explanation compare(const Function& fn, const std::vector<std::int64_t>& lengths = kFewAndMany,
                    const Shape& row = {2, 3}) {
  const auto fast = compile(fn, {.varying = {{0, 0}}});
  manual_seed(7);
  for (const std::int64_t length : lengths) {
    Shape shape = row;
    shape.insert(0, length);
    const Tensor x = normal(shape), same = x.clone();
    const RandomKey before = default_generator().state();
    const Tensors want = fn(x);
    const RandomKey after = default_generator().state();
    default_generator().set_state(before);
    const Tensors got = fast(same);
    EXPECT_EQ(default_generator().state(), after) << length;
    EXPECT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(same_bits(got[i], want[i])) << "length " << length << ", result " << i;
    for (const auto& [results, given] : {std::pair(&got, &same), std::pair(&want, &x)}) {
      for (const Tensor& result : *results) Tensor(result).add_(1);
    }
    EXPECT_TRUE(same_bits(same, x)) << "length " << length << ", what was written";
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(same_bits(got[i], want[i])) << "length " << length << ", result " << i;
  }
  return fast.explain();
}

/// Which nobody can see who asks the operators.
bool has_one_row(const Tensor& x) { return x.impl()->shape[0].number() == 1; }

Pair sums_of(const Tensor& x, const Tensor& first = zeros({2, 3})) {
  return scan([](const Tensor& h, const Tensor& row) { return Pair(tanh(h + row), h * row); },
              first, x);
}

TEST(FewSteps, ValuesOfStates) {
  const Explanation told = compare([](const Tensor& x) {
    const auto [h, rows] = sums_of(x * 2, ones({2, 3}));
    return Tensors{h, rows, mean(rows + 1, {1}), sum(h) * static_cast<double>(h.rank())};
  });
  EXPECT_EQ(told.recordings.size(), 1U) << to_string(told);
}

TEST(FewSteps, StatesThatAreReturnedOrWritten) {
  const Tensor first = ones({2, 3});
  const Explanation told = compare([&](const Tensor& x) {
    Tensor begin = first * 2;
    auto [h, rows] = sums_of(x, begin);
    begin.add_(1);
    h.mul_(2);
    return Tensors{begin, h, rows};
  });
  EXPECT_EQ(told.recordings.size(), 1U) << to_string(told);
}

TEST(FewSteps, OfOtherTypes) {
  for (const DType dtype : {DType::f64, DType::f16, DType::bf16, DType::i64, DType::boolean}) {
    const Explanation told = compare([&](const Tensor& x) {
      const Tensor rows = dtype == boolean ? x > 0 : cast(x * 3, dtype);
      const auto step = [&](const Tensor& h, const Tensor& row) {
        const Tensor next = dtype == boolean ? logical_xor(h, row) : h * 2 + row;
        return Pair(next, next);
      };
      const auto [h, all] = scan(step, zeros({2, 3}, dtype), rows);
      return Tensors{cast(h, f32), cast(all, f32)};
    });
    EXPECT_EQ(told.recordings.size(), 1U) << to_string(told);
  }
}

TEST(FewSteps, DrawnNumbers) {
  const auto noisy = [](const Tensor& x) {
    const auto step = [](const Tensor& h, const Tensor& row) {
      const Tensor next = tanh(h + row * uniform({3}));
      return Pair(next, next + normal({2, 3}));
    };
    return scan(step, zeros({2, 3}), x);
  };
  const Explanation told = compare([&](const Tensor& x) {
    const Tensor before = uniform({2});
    const auto [h, rows] = noisy(x);
    const auto [other, more] = noisy(x);
    return Tensors{before, h, rows, other, more, normal({3})};
  });
  EXPECT_LE(told.recordings.size(), 3U) << to_string(told);
}

/// Conds that draw alike are not the same.
TEST(FewSteps, BranchesThatDraw) {
  static_cast<void>(compare([](const Tensor& x) {
    const auto drawn = [&](double low) {
      return cond(sum(x) > low, [] { return uniform({2}); }, [] { return normal({2}); });
    };
    const auto [h, rows] = sums_of(x);
    const Tensor a = drawn(0), b = drawn(0);
    return has_one_row(x) ? Tensors{h, b, a} : Tensors{h, a, b};
  }));
}

TEST(FewSteps, OneThatDrawsInAnotherOrder) {
  const Explanation told = compare([](const Tensor& x) {
    Tensor a, b;
    if (has_one_row(x)) {
      b = normal({2});
      a = uniform({2});
    } else {
      a = uniform({2});
      b = normal({2});
    }
    return Tensors{sums_of(x).first, a, b};
  });
  EXPECT_GT(told.recordings.size(), 1U);
  EXPECT_THAT(to_string(told), HasSubstr("does not serve s0 = 1"));
}

TEST(FewSteps, OneThatComputesWithAnotherNumber) {
  const Explanation told = compare([](const Tensor& x) {
    const auto [h, rows] = sums_of(x);
    return Tensors{h * (has_one_row(x) ? 3.0 : 2.0), rows};
  });
  EXPECT_THAT(to_string(told), HasSubstr("does not serve s0 = 1"));
  const Explanation inside = compare([](const Tensor& x) {
    const double scale = has_one_row(x) ? 3 : 2;
    const auto step = [&](const Tensor& h, const Tensor& row) { return Pair(h * scale, row); };
    const auto [h, rows] = scan(step, ones({2, 3}), x);
    return Tensors{h, rows};
  });
  EXPECT_THAT(to_string(inside), HasSubstr("does not serve s0 = 1"));
}

TEST(FewSteps, OneWhoseResultIsOtherMemory) {
  const Explanation told = compare([](const Tensor& x) {
    const auto [h, rows] = sums_of(x);
    return Tensors{h, has_one_row(x) ? reshape(h, {3, 2}) : reshape(h.clone(), {3, 2}), rows};
  });
  EXPECT_THAT(to_string(told), HasSubstr("does not serve s0 = 1"));
  const Explanation given = compare([](const Tensor& x) {
    const Tensor h = sums_of(x).first;
    const Tensor row = has_one_row(x) ? reshape(x, {-1}) : reshape(x * 1, {-1});
    return Tensors{h, row};
  });
  EXPECT_THAT(to_string(given), HasSubstr("does not serve s0 = 1"));
}

/// A counter of the host makes steps differ, so that there is no loop.
TEST(FewSteps, AFirstStepThatIsOther) {
  static_cast<void>(compare([](const Tensor& x) {
    int count = 0;
    const auto step = [&](const Tensor& h, const Tensor& row) {
      return Pair(count++ == 0 ? h + row : tanh(h) * row, row);
    };
    const auto [h, rows] = scan(step, ones({2, 3}), x);
    return Tensors{h, rows};
  }));
}

TEST(FewSteps, SeveralLoopsAndOtherSmallSizes) {
  const auto fn = [](const Tensor& x, const Tensor& y) {
    const auto sums = [](const Tensor& rows, const Tensor& first) {
      return scan([](const Tensor& h, const Tensor& row) { return Pair(tanh(h + row), row * h); },
                  first, rows);
    };
    const auto [h, rows] = sums(x, zeros({3}));
    const auto [other, more] = sums(flip(y, {0}), h);
    return Tensors{h, rows, other, more, sum(rows) + sum(more)};
  };
  const auto fast = compile(fn, {.varying = {{0, 0}, {1, 0}}});
  manual_seed(3);
  for (const auto& [n, m] : std::vector<std::pair<int, int>>{{4, 7},
                                                             {1, 5},
                                                             {1, 6},
                                                             {3, 1},
                                                             {3, 1},
                                                             {1, 0},
                                                             {1, 0},
                                                             {0, 3},
                                                             {0, 4},
                                                             {1, 1},
                                                             {9, 2}}) {
    const Tensor x = normal({n, 3}), y = normal({m, 3});
    const Tensors got = fast(x, y), want = fn(x, y);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(same_bits(got[i], want[i])) << n << ", " << m << ", result " << i;
  }
  EXPECT_LE(fast.explain().recordings.size(), 2U) << to_string(fast.explain());
}

/// Inside of a loop of many steps one of few is a difference, or a number.
TEST(FewSteps, InsideOfOtherLoops) {
  const Explanation told = compare(
      [](const Tensor& x) {
        const Tensor some = slice(x, 0, 0, x.size(0) / 4);
        const auto step = [&](const Tensor& h, const Tensor& row) {
          const auto [inner, parts] = scan(
              [&](const Tensor& s, const Tensor& part) { return Pair(s + part * row, part * s); },
              h, some);
          return Pair(inner, sum(parts));
        };
        const auto [h, rows] = scan(step, ones({2, 3}), x);
        return Tensors{h, rows};
      },
      {4, 5, 6, 7, 8, 9, 5, 6, 7, 12, 1, 1, 0, 2, 3});
  EXPECT_LE(told.recordings.size(), 6U) << to_string(told);
}

TEST(FewSteps, AStateThatIsAResultToo) {
  const Tensor first = ones({2, 3});
  const Explanation told = compare(
      [&](const Tensor& x) {
        const auto step = [](const Tensor& h, const Tensor&) { return Pair(h, h); };
        const auto [h, rows] = scan(step, first, x);
        return Tensors{sum(h * h), rows};
      },
      {5, 6, 7, 1, 5, 6, 1});
  EXPECT_LE(told.recordings.size(), 4U) << to_string(told);
}

}  // namespace
}  // namespace dyad
