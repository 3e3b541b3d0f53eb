#include "dyad/core/number.h"

#include <gtest/gtest.h>

#include <limits>

namespace dyad {
namespace {

constexpr std::int64_t kOdd = (std::int64_t{1} << 53) + 1;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TEST(Number, KnowsWhatItIs) {
  EXPECT_EQ(Number(true).dtype(), DType::boolean);
  EXPECT_EQ(Number(-3).dtype(), DType::i64);
  EXPECT_EQ(Number(2.5f).dtype(), DType::f64);
  EXPECT_EQ(Number(kMost).dtype(), DType::u64);
  EXPECT_EQ(Number(kMost / 2).dtype(), DType::i64);
  EXPECT_EQ(Number(-3).floating(), -3);
  EXPECT_EQ(Number(kOdd).integer(), kOdd);
}

TEST(Number, KnowsWhichDTypeAloneHoldsIt) {
  EXPECT_TRUE(Number(kOdd).only_in(DType::i64));
  EXPECT_TRUE(Number(-kOdd).only_in(DType::i64));
  EXPECT_TRUE(Number(kOdd).only_in(DType::u64));
  EXPECT_FALSE(Number(-kOdd).only_in(DType::u64));
  EXPECT_FALSE(Number(kOdd).only_in(DType::f64));
  EXPECT_FALSE(Number(kOdd).only_in(DType::i32));
  EXPECT_FALSE(Number(kOdd - 1).only_in(DType::i64));
  EXPECT_FALSE(Number(static_cast<double>(kOdd)).only_in(DType::i64));
  EXPECT_TRUE(Number(std::numeric_limits<std::int64_t>::max()).only_in(DType::i64));
  EXPECT_FALSE(Number(std::numeric_limits<std::int64_t>::min()).only_in(DType::i64));
  EXPECT_TRUE(Number(kMost).only_in(DType::u64));
  EXPECT_FALSE(Number(kMost).only_in(DType::i64));
  EXPECT_FALSE(Number(kMost / 2 + 1).only_in(DType::u64));
}

}  // namespace
}  // namespace dyad
