#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

// Arguments as users of NumPy and PyTorch write them: a number where a list of axes or sizes goes,
// integers that a double does not hold, Python's operators.

namespace dyad {
namespace {

using ::testing::ElementsAre;
using Whole = std::vector<std::int64_t>;

class Spellings : public ::testing::Test {
 protected:
  /// [[1, 5, 2], [4, 0, 3]]
  const Tensor x = tensor({{1.0f, 5.0f, 2.0f}, {4.0f, 0.0f, 3.0f}});
};

std::vector<double> doubles(const Tensor& t) { return t.contiguous().to_vector<double>(); }

TEST_F(Spellings, AnAxisIsANumber) {
  EXPECT_THAT(doubles(sum(x, 0)), ElementsAre(5, 5, 5));
  EXPECT_THAT(doubles(x.sum(-1)), ElementsAre(8, 7));
  EXPECT_THAT(doubles(x.sum(x.rank() - 1)), ElementsAre(8, 7));
  EXPECT_THAT(doubles(x.sum(std::size_t{1})), ElementsAre(8, 7));
  EXPECT_EQ(to_string(sum(x, 0, true).shape()), "[1, 3]");
  EXPECT_THAT(doubles(mean(x, 0)), ElementsAre(2.5, 2.5, 2.5));
  EXPECT_THAT(doubles(max(x, 0)), ElementsAre(4, 5, 3));
  EXPECT_THAT(doubles(min(x, 1)), ElementsAre(1, 0));
  EXPECT_THAT(doubles(amax(x, 1)), ElementsAre(5, 4));
  EXPECT_THAT(doubles(x.amin(0)), ElementsAre(1, 0, 2));
  EXPECT_THAT(doubles(prod(x, 0)), ElementsAre(4, 0, 6));
  EXPECT_THAT(doubles(var(x, 0)), ElementsAre(4.5, 12.5, 0.5));
  EXPECT_THAT(doubles(var(x, 0, 0)), ElementsAre(2.25, 6.25, 0.25));
  EXPECT_THAT(doubles(std_mean(x, 0).second), ElementsAre(2.5, 2.5, 2.5));
  EXPECT_THAT(doubles(any(x - 4, 0)), ElementsAre(1, 1, 1));
  EXPECT_THAT(doubles(all(x, 0)), ElementsAre(1, 0, 1));
  EXPECT_THAT(doubles(norm(x, 1, 0)), ElementsAre(5, 5, 5));
  EXPECT_THAT(doubles(logsumexp(log(x), -1)), ElementsAre(::testing::DoubleNear(2.0794, 1e-4),
                                                          ::testing::DoubleNear(1.9459, 1e-4)));
  EXPECT_THAT(doubles(count_nonzero(x, 0)), ElementsAre(2, 1, 2));
  EXPECT_THAT(doubles(nansum(x, 1)), ElementsAre(8, 7));
  EXPECT_THAT(doubles(ptp(x, 0)), ElementsAre(3, 5, 1));
}

TEST_F(Spellings, SoAreShiftsCountsAndSizes) {
  EXPECT_THAT(doubles(flip(x, 0)), ElementsAre(4, 0, 3, 1, 5, 2));
  EXPECT_THAT(doubles(roll(x, 1, 0)), ElementsAre(4, 0, 3, 1, 5, 2));
  EXPECT_THAT(doubles(x.roll(1, -1)), ElementsAre(2, 1, 5, 3, 4, 0));
  EXPECT_THAT(doubles(roll(x, 2)), ElementsAre(0, 3, 1, 5, 2, 4));
  EXPECT_THAT(doubles(tile(x[0], 2)), ElementsAre(1, 5, 2, 1, 5, 2));
  EXPECT_THAT(doubles(fftshift(x, 0)), ElementsAre(4, 0, 3, 1, 5, 2));
  EXPECT_EQ(to_string(x.repeat(2).shape()), "[2, 6]");
  EXPECT_EQ(to_string(x.reshape(-1).shape()), "[6]");
  EXPECT_EQ(to_string(x.view(-1).shape()), "[6]");
  EXPECT_EQ(to_string(zeros(3).shape()), "[3]");
  EXPECT_EQ(to_string(full(2, 7, i64).shape()), "[2]");
  EXPECT_EQ(to_string(randn(x.size(1)).shape()), "[3]");
  EXPECT_EQ(to_string(empty(0).shape()), "[0]");
}

TEST_F(Spellings, ListsMeanWhatTheyMeant) {
  EXPECT_EQ(sum(x, {}).item(), 15);
  EXPECT_THAT(doubles(sum(x, {0})), ElementsAre(5, 5, 5));
  EXPECT_EQ(sum(x, {0, 1}).item(), 15);
  EXPECT_EQ(to_string(zeros({}).shape()), "[]");
  EXPECT_EQ(to_string(zeros({0}).shape()), "[0]");
  static_assert(!std::is_convertible_v<bool, Ints>, "sum(x, true) is not the sum along axis 1");
  static_assert(!std::is_convertible_v<double, Ints> && !std::is_convertible_v<bool, Sizes>);
  static_assert(!std::is_convertible_v<int, Shape>, "normal(0, 1) has no shape");
  static_assert(!std::is_convertible_v<int, InlineVector<int, 2>>);
}

TEST_F(Spellings, WrongNumbersAreRefused) {
  EXPECT_THROW((void)sum(x, 2), IndexError);
  EXPECT_THROW((void)x.flip(-3), IndexError);
  EXPECT_THROW((void)zeros(-1), ValueError);
}

TEST_F(Spellings, RangesOfFloats) {
  EXPECT_THAT(doubles(arange(0.5, 3.5, 1.0, f32)), ElementsAre(0.5, 1.5, 2.5));
  EXPECT_THAT(doubles(arange(0.0, 1.0, 0.25)), ElementsAre(0, 0.25, 0.5, 0.75));
  EXPECT_THAT(doubles(arange(0, 1, 0.5f)), ElementsAre(0, 0.5));
  EXPECT_THAT(doubles(arange(2.5)), ElementsAre(0, 1, 2));
  EXPECT_EQ(arange(2.0).dtype(), f32);
  EXPECT_EQ(arange(0, 3).dtype(), i64);
  EXPECT_EQ(arange(3, f32).dtype(), f32);
  const auto fast = compile([](const Tensor& t) { return t * arange(0.0, 0.5, 0.1, f64); });
  const Tensor one = ones({}, f64);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(doubles(fast(one)), (std::vector<double>{0, 0.1, 0.2, 3 * 0.1, 0.4}));
  }
}

constexpr std::int64_t kOdd = (std::int64_t{1} << 53) + 1;
constexpr std::int64_t kNearlyMost = std::numeric_limits<std::int64_t>::max() - 1;
constexpr std::uint64_t kMostOfAll = std::numeric_limits<std::uint64_t>::max();

/// What f(x) gives, eagerly and compiled.
template <class F>
Whole in_modes(const F& f, const Tensor& given) {
  const Whole eager = f(given).template to_vector<std::int64_t>();
  const auto fast = compile(f);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fast(given).template to_vector<std::int64_t>(), eager);
  return eager;
}

TEST_F(Spellings, WholeNumbersKeepTheirDigits) {
  const Tensor i = tensor({1, 2}, i64), first = tensor({0}, i64);
  EXPECT_EQ(in_modes([&](const Tensor& t) { return masked_fill(t, t > 1, kOdd); }, i),
            (Whole{1, kOdd}));
  EXPECT_EQ(in_modes([&](const Tensor& t) { return scatter(t, 0, first, kOdd); }, i),
            (Whole{kOdd, 2}));
  EXPECT_EQ(in_modes([&](const Tensor& t) { return index_fill(t, 0, first, -kOdd); }, i),
            (Whole{-kOdd, 2}));
  EXPECT_EQ(in_modes([&](const Tensor& t) { return index_put(t, {0}, kOdd); }, i),
            (Whole{kOdd, 2}));
  EXPECT_EQ(in_modes([](const Tensor& t) { return full({2}, kNearlyMost, i64) - t; }, i),
            (Whole{kNearlyMost - 1, kNearlyMost - 2}));
  EXPECT_EQ(in_modes([](const Tensor& t) { return full_like(t, -kOdd) + t; }, i),
            (Whole{1 - kOdd, 2 - kOdd}));
  Tensor filled = zeros({2}, i64);
  const Tensor view = filled[1];
  filled.fill_(kNearlyMost);
  EXPECT_EQ(view.item<std::int64_t>(), kNearlyMost);
  EXPECT_EQ(doubles(full({1}, kOdd, f64)), (std::vector<double>{9007199254740992}));
  EXPECT_EQ(doubles(full({1}, kOdd, u8)), (std::vector<double>{255}));
}

TEST_F(Spellings, SoDoesU64) {
  const auto natural = [](const Tensor& t) { return t.to_vector<std::uint64_t>(); };
  EXPECT_THAT(natural(full({1}, kMostOfAll, u64)), ElementsAre(kMostOfAll));
  EXPECT_THAT(natural(full({1}, kMostOfAll / 2 + 1, u64)), ElementsAre(kMostOfAll / 2 + 1));
  EXPECT_THAT(natural(full({1}, kOdd, u64)), ElementsAre(kOdd));
  EXPECT_EQ(full({1}, kMostOfAll, f32).item(), 18446744073709551616.0);
  EXPECT_EQ(full({1}, kMostOfAll, i64).item<std::int64_t>(), kNearlyMost + 1);
  const Tensor x = tensor({1, 2}, u64);
  EXPECT_THAT(natural(masked_fill(x, x > 1, kMostOfAll)), ElementsAre(1, kMostOfAll));
  EXPECT_THAT(natural(clamp(full({1}, kMostOfAll, u64), 0, kMostOfAll - 1)),
              ElementsAre(kMostOfAll - 1));
}

TEST_F(Spellings, SoDoBounds) {
  const Tensor i = tensor({-kNearlyMost, kOdd - 1, kOdd, kOdd + 1, kNearlyMost}, i64);
  EXPECT_EQ(in_modes([](const Tensor& t) { return clamp(t, kOdd); }, i),
            (Whole{kOdd, kOdd, kOdd, kOdd + 1, kNearlyMost}));
  EXPECT_EQ(in_modes([](const Tensor& t) { return t.clamp(0, kOdd); }, i),
            (Whole{0, kOdd - 1, kOdd, kOdd, kOdd}));
  EXPECT_EQ(in_modes([](const Tensor& t) { return clamp(t, -kOdd, kNearlyMost - 1); }, i),
            (Whole{-kOdd, kOdd - 1, kOdd, kOdd + 1, kNearlyMost - 1}));
  EXPECT_EQ(in_modes([](const Tensor& t) { return clamp(t, 0, kMostOfAll); }, i),
            (Whole{0, kOdd - 1, kOdd, kOdd + 1, kNearlyMost}));
  EXPECT_THAT(doubles(clamp(tensor({1, 2}, i32), kOdd)), ElementsAre(::testing::_, ::testing::_));
  EXPECT_THAT(testing::message_of<ValueError>([&] { (void)clamp(i, kOdd, kOdd - 2); }),
              ::testing::HasSubstr("clamp(i64[5]): low = 9007199254740993 must not be above high = "
                                   "9007199254740991"));
  EXPECT_THROW((void)clamp(i, kNearlyMost + 1, kNearlyMost), ValueError);
  EXPECT_THROW((void)clamp(i, kOdd, std::numeric_limits<double>::quiet_NaN()), ValueError);
}

TEST_F(Spellings, OperatorsOfPython) {
  const Tensor i = tensor({7, -7, 1}, i64);
  EXPECT_THAT(doubles(i % 4), ElementsAre(3, 1, 1));
  EXPECT_THAT(doubles(10 % tensor({3.0, -3.0})), ElementsAre(1, -2));
  EXPECT_THAT(doubles(i << 2), ElementsAre(28, -28, 4));
  EXPECT_THAT(doubles(i >> 1), ElementsAre(3, -4, 0));
  EXPECT_THAT(doubles(1 << tensor({0, 3}, i64)), ElementsAre(1, 8));
}

TEST_F(Spellings, Subscripts) {
  EXPECT_THAT(doubles(x[0]), ElementsAre(1, 5, 2));
  EXPECT_THAT(doubles(x[-1]), ElementsAre(4, 0, 3));
  EXPECT_THAT(doubles(x[x > 2]), ElementsAre(5, 4, 3));
  EXPECT_THAT(doubles(x[tensor({1, 0, 1}, i64)]), ElementsAre(4, 0, 3, 1, 5, 2, 4, 0, 3));
  EXPECT_THAT(doubles(x[{1, 2}]), ElementsAre(4, 0, 3));
  EXPECT_THAT(doubles(x[Slice{.step = -1}]), ElementsAre(4, 0, 3, 1, 5, 2));
  EXPECT_THROW((void)x[tensor({2}, i64)], IndexError);
}

}  // namespace
}  // namespace dyad
