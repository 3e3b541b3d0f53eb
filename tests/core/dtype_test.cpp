#include "dyad/core/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "dyad/base/error.h"

namespace dyad {
namespace {

/// The value of a format with `exponent_bits` and `mantissa_bits` by the formula of IEEE 754.
double by_formula(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const std::uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits >> (exponent_bits + mantissa_bits)) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(1.0 + std::ldexp(mantissa, -mantissa_bits), exponent - bias);
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

TEST(Half, EveryValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    ASSERT_TRUE(same(value, by_formula(bits, 5, 10))) << bits;
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(to_half(value))));
    } else {
      ASSERT_EQ(to_half(value).bits, bits);
    }
  }
}

TEST(BFloat16, EveryValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    ASSERT_TRUE(same(wide, by_formula(bits, 8, 7))) << bits;
    if (std::isnan(wide)) {
      ASSERT_TRUE(std::isnan(to_float(to_bfloat16(wide))));
    } else {
      ASSERT_EQ(to_bfloat16(wide).bits, bits);
    }
  }
}

// Between two neighbours, what lies below the middle goes down, above it up, and the middle to the
// one whose last bit is 0.
template <class To, class Back>
void check_rounding(std::uint16_t infinity, To to, Back back) {
  for (std::uint16_t bits = 0; bits < infinity; ++bits) {
    const double low = back(bits);
    // Beyond the largest value, the next one would be at the same distance again.
    const double high = bits + 1 == infinity ? 2 * low - back(bits - 1) : back(bits + 1);
    const double middle = (low + high) / 2;
    const auto exact = static_cast<float>(middle);
    ASSERT_EQ(exact, middle);
    const std::uint16_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(to(exact), even) << bits;
    ASSERT_EQ(to(-exact), even | 0x8000) << bits;
    ASSERT_EQ(to(std::nextafter(exact, 0.0f)), bits) << bits;
    ASSERT_EQ(to(std::nextafter(exact, std::numeric_limits<float>::infinity())), bits + 1) << bits;
  }
}

TEST(Half, RoundsToNearestEven) {
  check_rounding(
      0x7C00, [](float x) { return to_half(x).bits; },
      [](int bits) { return double{to_float(Half{static_cast<std::uint16_t>(bits)})}; });
}

TEST(BFloat16, RoundsToNearestEven) {
  check_rounding(
      0x7F80, [](float x) { return to_bfloat16(x).bits; },
      [](int bits) { return double{to_float(BFloat16{static_cast<std::uint16_t>(bits)})}; });
}

TEST(Half, OverflowAndNaN) {
  EXPECT_EQ(to_half(1e30f).bits, 0x7C00);
  EXPECT_EQ(to_half(-std::numeric_limits<float>::infinity()).bits, 0xFC00);
  // A NaN whose payload lies in the bits that are cut off stays a NaN.
  EXPECT_TRUE(std::isnan(to_float(to_half(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0xFF800001u)))));
}

TEST(DType, NamesParse) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
  }
  try {
    (void)parse_dtype("float");
    FAIL();
  } catch (const DTypeError& error) {
    EXPECT_EQ(
        error.message(),
        "there is no dtype 'float'; the dtypes are f64, f32, f16, bf16, i64, i32, i16, i8, u64, "
        "u32, u16, u8, bool, c128, c64, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0, f4e2m1, "
        "i4, i2, u4, u2, string");
  }
}

TEST(DType, Sets) {
  EXPECT_TRUE(contains(kFloat, bf16));
  EXPECT_FALSE(contains(kFloat, i64));
  EXPECT_TRUE(contains(kInteger, u8));
  EXPECT_FALSE(contains(kNumber, boolean));
  EXPECT_TRUE(contains(kAny, boolean));
  EXPECT_FALSE(contains(kAny, DType::string));
  EXPECT_TRUE(contains(kIndex, i32));
  EXPECT_FALSE(contains(kIndex, i16));
}

// torch.promote_types for each pair, NumPy's where PyTorch has no rule (data/make_promotion.py).
TEST(DType, PromotionIsThatOfPyTorchAndNumPy) {
  constexpr std::string_view table[kDTypeCount][kDTypeCount] = {
#include "tests/core/data/promotion.inc"
  };
  for (int a = 0; a < kDTypeCount; ++a) {
    for (int b = 0; b < kDTypeCount; ++b) {
      if (table[a][b].empty()) continue;
      EXPECT_EQ(name_of(promote(static_cast<DType>(a), static_cast<DType>(b))), table[a][b])
          << name_of(static_cast<DType>(a)) << " " << name_of(static_cast<DType>(b));
    }
  }
}

// Where neither has a rule.
TEST(DType, PromotionOfWhatOthersDoNotPromote) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto t = static_cast<DType>(i);
    EXPECT_EQ(promote(t, DType::string), DType::string);
    for (int k = 0; k < kDTypeCount; ++k) {
      const auto other = static_cast<DType>(k);
      EXPECT_EQ(promote(t, other), promote(other, t));
    }
    if (contains(kSmall, t)) {
      EXPECT_EQ(promote(t, boolean), t);
      EXPECT_EQ(promote(t, f16), f16);
      EXPECT_EQ(promote(t, c64), c64);
    }
    if (contains(kSmallFloat, t)) {
      EXPECT_EQ(promote(t, i64), f32);
      EXPECT_EQ(promote(t, u4), f32);
    }
  }
  EXPECT_EQ(promote(u32, c64), c64);
  EXPECT_EQ(promote(u16, c128), c128);
  EXPECT_EQ(promote(f8e5m2, f8e4m3fn), f32);
  EXPECT_EQ(promote(i4, i2), i4);
  EXPECT_EQ(promote(u4, u2), u4);
  EXPECT_EQ(promote(i4, u2), i4);
  EXPECT_EQ(promote(i2, u2), i4);
  EXPECT_EQ(promote(i4, u4), i8);
  EXPECT_EQ(promote(i4, u8), i16);
  EXPECT_EQ(promote(u4, i8), i8);
}

}  // namespace
}  // namespace dyad
