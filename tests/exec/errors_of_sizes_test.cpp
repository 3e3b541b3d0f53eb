// What a function does with sizes that it cannot take is what it does with them eagerly, also where
// a recording served other sizes before: the same error with the same numbers.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/ops/ops.h"
#include "exec_for_tests.h"

namespace dyad {
namespace {

using Step = std::function<Tensor(const Tensor&)>;

/// `x` of two rows, of which the number of columns varies.
Tensor rows_of(std::int64_t columns) {
  return reshape(arange(2 * columns), {2, columns}).to(f32) * 0.25f + 0.5f;
}

/// What `fn` makes of `x`, or the text of its error.
struct Outcome {
  Tensor value;
  std::string error;
};

Outcome outcome(const Step& fn, const Tensor& x) {
  manual_seed(4);
  try {
    return {fn(x), ""};
  } catch (const Error& error) {
    return {Tensor(), error.what()};
  }
}

void expect_same(const Step& compiled, const Step& eager, const Tensor& x) {
  const Outcome got = outcome(compiled, x), wanted = outcome(eager, x);
  EXPECT_EQ(got.error, wanted.error);
  ASSERT_EQ(got.value.defined(), wanted.value.defined());
  if (!got.value.defined()) return;
  EXPECT_TRUE(exec::same_bits(got.value, wanted.value));
}

struct Case {
  const char* name;
  Step step;
  std::vector<std::int64_t> taken = {8, 6, 10, 12};
  std::vector<std::int64_t> refused = {3};
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class ErrorsOfSizes : public ::testing::TestWithParam<Case> {};

TEST_P(ErrorsOfSizes, AreEagerOnes) {
  const Case& one = GetParam();
  const auto fast = compile(one.step, {.recheck = false});
  const auto compiled = [&](const Tensor& x) { return fast(x); };
  for (const std::int64_t columns : one.taken) {
    SCOPED_TRACE(columns);
    expect_same(compiled, one.step, rows_of(columns));
  }
  EXPECT_EQ(fast.explain().eager, 0);
  for (const std::int64_t columns : one.refused) {
    SCOPED_TRACE(columns);
    EXPECT_NE(outcome(one.step, rows_of(columns)).error, "");
    expect_same(compiled, one.step, rows_of(columns));
  }
  // What it took before it takes again.
  expect_same(compiled, one.step, rows_of(one.taken[0]));
}

const Case kCases[] = {
    {.name = "as_strided",
     .step = [](const Tensor& x) { return as_strided(x, {3, 2}, {2, 1}) * 2; },
     .refused = {2}},
    {.name = "histc_of_nothing",
     .step = [](const Tensor& x) { return histc(x, 5); },
     .taken = {8, 6, 10, 0, 12},
     .refused = {}},
    {"glu", [](const Tensor& x) { return glu(x); }},
    {"channel_shuffle", [](const Tensor& x) { return channel_shuffle(unsqueeze(x, -1), 2); }},
    {"multinomial", [](const Tensor& x) { return multinomial(x, 4, false); }},
    {"topk", [](const Tensor& x) { return topk(x, 4).values; }},
    {"select", [](const Tensor& x) { return select(x, 1, 4); }},
    {"unfold", [](const Tensor& x) { return unfold(x, 1, 5, 1); }},
    {"reshape",
     [](const Tensor& x) { return reshape(x, {x.size(1) / 2, -1, 2}); },
     {8, 6, 10, 12},
     {5}},
    {"reshape_to_rows", [](const Tensor& x) { return reshape(x, {-1, 4}); }},
    {"split",
     [](const Tensor& x) { return split(x, {4, x.size(1) / 2 * 2 - 4}, 1)[1]; },
     {8, 6, 10, 12},
     {5, 7}},
    {"pad_by_reflection",
     [](const Tensor& x) { return pad(x, {0, x.size(1) - 4}, {0, 1}, "reflect"); }},
    {"pad_without_elements",
     [](const Tensor& x) { return pad(x, {0, 1}, {0, 1}, "wrap"); },
     {8, 6, 10, 12},
     {0}},
    {"conv1d",
     [](const Tensor& x) { return conv1d(unsqueeze(x, 1), full({1, 1, 5}, 0.5f), Tensor()); }},
    {"group_norm", [](const Tensor& x) { return group_norm(unsqueeze(x, 2), 2); }},
    {"embedding_padding",
     [](const Tensor& x) { return embedding(tensor({0, 1}), transpose(x, 0, 1), -4); }},
    {"repeat_interleave",
     [](const Tensor& x) { return sum(repeat_interleave(x, arange(x.size(1) / 2 * 2), 1), {1}); }},
    {"stft", [](const Tensor& x) { return stft(x, 4, {.center = false}); }},
    {"stft_centered", [](const Tensor& x) { return stft(x, 6); }},
    {"arange", [](const Tensor& x) { return arange(x.size(1) - 5); }},
    {"full", [](const Tensor& x) { return full({x.size(1) - 5}, 0.5f); }},
    {"tril", [](const Tensor& x) { return tril(ones({x.size(1) - 4, 2})); }},
    {"mse_loss", [](const Tensor& x) { return mse_loss(x, ones({2, x.size(1) / 2 * 2})); }},
    {"bmm",
     [](const Tensor& x) { return bmm(reshape(x, {-1, 1, 2}), ones({x.size(1) / 2 * 2, 2, 1})); },
     {8, 6, 10, 12},
     {7}},
    {"mul_in_place",
     [](const Tensor& x) {
       Tensor y = ones({2, x.size(1) / 2 * 2});
       y.mul_(x);
       return y;
     }},
    {"median", [](const Tensor& x) { return median(x, 1).values; }, {8, 6, 10, 12}, {0}},
    {"quantile", [](const Tensor& x) { return quantile(x, 0.3, 1); }, {8, 6, 10, 12}, {0}},
    {"nanquantile", [](const Tensor& x) { return nanquantile(x, 0.3, 1); }, {8, 6, 10, 12}, {0}},
    {"pixel_unshuffle", [](const Tensor& x) { return pixel_unshuffle(unsqueeze(x, 0), 2); }},
    {"tile", [](const Tensor& x) { return tile(x, {x.size(1) - 5}); }, {8, 6, 10, 12}, {4}},
    {"quantize_blocks",
     [](const Tensor& x) {
       return quantize_linear(x, ones({2, x.size(1) / 2}), {}, {.axis = 1, .block_size = 2});
     }},
    {"cross",
     [](const Tensor& x) { return cross(reshape(x, {2, 2, -1}), ones({1, 1, 3})); },
     {6},
     {8, 4}},
    {"histogram",
     [](const Tensor& x) { return histogram(x, arange(x.size(1) - 4)); },
     {8, 6, 10, 12},
     {5}},
    {"broadcast_tensors",
     [](const Tensor& x) {
       return broadcast_tensors(std::vector<Tensor>{x, ones({x.size(1) / 2 * 2})})[1];
     }},
    {"smoothed_classes",
     [](const Tensor& x) {
       return cross_entropy(x, softmax(x * 0.5f, 1), {}, Reduction::mean, -100, 0.1);
     },
     {8, 6, 10, 12, 7, 11, 13, 3, 5},
     {}},
};

INSTANTIATE_TEST_SUITE_P(Functions, ErrorsOfSizes, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

/// A function of a vector, whose length only data tell, and lengths that it refuses.
struct Told {
  const char* name;
  Step step;
  std::vector<std::int64_t> refused;
};

void PrintTo(const Told& one, std::ostream* out) { *out << one.name; }

class ErrorsOfSizesThatDataTell : public ::testing::TestWithParam<Told> {};

/// 2, 3, 4... of `count` elements, then negative numbers.
Tensor positive_ones(std::int64_t count) {
  const Tensor numbers = arange(10).to(f32) + 2;
  return where(arange(10) < count, numbers, -numbers);
}

TEST_P(ErrorsOfSizesThatDataTell, AreEagerOnes) {
  const Told& one = GetParam();
  for (const bool is_dead : {false, true}) {
    SCOPED_TRACE(is_dead ? "dead" : "needed");
    const Step step = [&](const Tensor& x) {
      const Tensor made = one.step(masked_select(x, x > 0));
      return is_dead ? x * 2 : made;
    };
    const CompileOptions options{.recheck = false, .background = Background::never};
    const auto fast = compile(step, options);
    const auto compiled = [&](const Tensor& x) { return fast(x); };
    for (const std::int64_t count : {4, 8, 6, 10}) {
      SCOPED_TRACE(count);
      expect_same(compiled, step, positive_ones(count));
    }
    for (const std::int64_t count : one.refused) {
      SCOPED_TRACE(count);
      EXPECT_NE(outcome(step, positive_ones(count)).error, "");
      expect_same(compiled, step, positive_ones(count));
      const auto first = compile(step, options);
      expect_same([&](const Tensor& x) { return first(x); }, step, positive_ones(count));
    }
    expect_same(compiled, step, positive_ones(4));
  }
}

const Told kTold[] = {
    {"max", [](const Tensor& v) { return max(v); }, {0}},
    {"hardmax", [](const Tensor& v) { return hardmax(v, 0); }, {0}},
    {"gumbel_softmax", [](const Tensor& v) { return gumbel_softmax(v, 1, true, 0); }, {0}},
    {"quantile", [](const Tensor& v) { return quantile(v, 0.3, 0); }, {0}},
    {"nanquantile", [](const Tensor& v) { return nanquantile(v, 0.3, 0); }, {0}},
    {"median", [](const Tensor& v) { return median(v, 0).values; }, {0}},
    {"nanmedian", [](const Tensor& v) { return nanmedian(v, 0).values; }, {0}},
    {"glu", [](const Tensor& v) { return glu(v, 0); }, {1, 3, 5}},
    {"channel_shuffle",
     [](const Tensor& v) { return channel_shuffle(reshape(v, {1, -1, 1}), 2); },
     {3}},
    {"pixel_unshuffle",
     [](const Tensor& v) { return pixel_unshuffle(expand(v, {1, 2, v.size(0)}), 2); },
     {3}},
    {"stft", [](const Tensor& v) { return view_as_real(stft(v, 4, {.center = false})); }, {3}},
    {"stft_centered", [](const Tensor& v) { return view_as_real(stft(v, 6)); }, {1, 3}},
    {"multinomial", [](const Tensor& v) { return multinomial(v, 4, false); }, {3}},
    {"histogram", [](const Tensor& v) { return histogram(ones({3}), v); }, {0, 1}},
    {"compress", [](const Tensor& v) { return compress(v > 4, ones({10})); }, {}},
    {"compress_less", [](const Tensor& v) { return compress(v < 4, ones({8})); }, {9}},
    {"ctc_greedy_decode",
     [](const Tensor& v) { return ctc_greedy_decode(reshape(v, {1, 1, -1}), {}, 3).labels; },
     {2, 3}},
    {"tile", [](const Tensor& v) { return tile(ones({2}), {v.size(0) - 2}); }, {1}},
    {"linspace", [](const Tensor& v) { return linspace(0, 1, v.size(0) - 2); }, {1}},
    {"as_strided", [](const Tensor& v) { return as_strided(v, {2, 2}, {2, 1}); }, {3}},
    {"quantize_linear",
     [](const Tensor& v) {
       return quantize_linear(ones({4, 2}), slice(v, 0, 0, 4), {}, {.axis = 0});
     },
     {3}},
    {"irfft", [](const Tensor& v) { return irfft(complex(v, v)); }, {0, 1}},
};

INSTANTIATE_TEST_SUITE_P(Functions, ErrorsOfSizesThatDataTell, ::testing::ValuesIn(kTold),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace dyad
