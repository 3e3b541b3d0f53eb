#include "dyad/core/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "dyad/base/error.h"

namespace dyad {

DType parse_dtype(std::string_view name) {
  std::string known;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto t = static_cast<DType>(i);
    if (name_of(t) == name) return t;
    known += (i ? ", " : "") + std::string(name_of(t));
  }
  throw DTypeError("there is no dtype '" + std::string(name) + "'; the dtypes are " + known);
}

namespace {

struct IntegerKind {
  int width;
  bool is_signed;
};

/// False for what is no integer.
bool integer_kind(DType t, IntegerKind& kind) noexcept {
  if (is_integer(t)) {
    kind = {static_cast<int>(8 * size_of(t)), is_signed(t)};
    return true;
  }
  if (!contains(kSmallInteger, t)) return false;
  kind = {small_int_width(t), small_int_is_signed(t)};
  return true;
}

/// The smallest signed integer that holds all of both, or f64 when none does.
DType signed_above(int width) noexcept {
  for (const DType t : {i2, i4, i8, i16, i32, i64}) {
    IntegerKind kind{};
    integer_kind(t, kind);
    if (kind.width >= width) return t;
  }
  return f64;
}

}  // namespace

DType promote(DType a, DType b) noexcept {
  if (a == b) return a;
  const DType lo = std::max(a, b), hi = std::min(a, b);
  if (lo == DType::string) return DType::string;
  if (is_complex(lo) || is_complex(hi)) {
    return complex_dtype(a) == c128 || complex_dtype(b) == c128 ? c128 : c64;
  }
  if (is_floating(hi)) return hi == f16 && lo == bf16 ? f32 : hi;
  if (lo == boolean) return hi;
  if (hi == boolean) return lo;
  IntegerKind x{}, y{};
  if (!integer_kind(a, x) || !integer_kind(b, y)) return f32;
  if (x.is_signed == y.is_signed) return x.width > y.width ? a : b;
  const int whole = x.is_signed ? x.width : y.width, natural = x.is_signed ? y.width : x.width;
  return signed_above(std::max(whole, natural + 1));
}

// Rounds by adding half a unit in the last kept place, minus one when that place is even.
Half to_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return {static_cast<std::uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu))};
  }
  if (magnitude >= 0x477FF000u) return {static_cast<std::uint16_t>(sign | 0x7C00u)};
  if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 as a float aligns the value so that the FPU rounds at 2^-24.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return {
        static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3F000000u))};
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  return {static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13))};
}

float to_float(Half value) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1Fu, mantissa = value.bits & 0x3FFu;
  if (exponent == 31) {
    const std::uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7F800000u | quiet | (mantissa << 13));
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

BFloat16 to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

float to_float(BFloat16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

float small_float_value(DType dtype, std::uint8_t code) noexcept {
  if (dtype == f8e8m0) {
    const std::uint32_t bits = code == 0xFF ? 0x7FC00000u : code == 0 ? 0x00400000u : code << 23;
    return std::bit_cast<float>(bits);
  }
  const SmallFloatFormat f = small_float_format(dtype);
  const unsigned sign_bit = 1u << (f.width() - 1), magnitude = code & (sign_bit - 1);
  const bool negative = (code & sign_bit) != 0;
  float value = 0;
  if (f.has_nan && (f.negative_zero ? magnitude > f.overflow || (!f.is_ieee && magnitude == f.nan)
                                    : code == f.nan)) {
    return std::bit_cast<float>(0x7FC00000u);
  }
  if (f.is_ieee && magnitude == f.overflow) {
    value = std::bit_cast<float>(0x7F800000u);
  } else {
    const unsigned exponent = magnitude >> f.mantissa_bits;
    const unsigned mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
    const int power = static_cast<int>(exponent == 0 ? 1 : exponent) - f.bias - f.mantissa_bits;
    value = std::ldexp(
        static_cast<float>(exponent == 0 ? mantissa : mantissa + (1u << f.mantissa_bits)), power);
  }
  return negative ? -value : value;
}

std::uint8_t small_float_code(DType dtype, float value, bool saturate) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (dtype == f8e8m0) {
    const std::uint32_t exponent = (bits >> 23) & 0xFFu, last = saturate ? 0xFEu : 0xFFu;
    // Below 2^-126 there is one more, 2^-127.
    const bool up = (bits & 0x7FFFFFu) > (exponent == 0 ? 0x400000u : 0u) && exponent < last;
    return static_cast<std::uint8_t>(exponent + (up ? 1 : 0));
  }
  if (value != value) return small_float_format(dtype).nan;
  const SmallFloatFormat f = small_float_format(dtype);
  // The distance between neighbours, as a power of two: that of the exponent, or of subnormals.
  const int lowest = 127 + 1 - f.bias;
  const int exponent = std::max(static_cast<int>((bits >> 23) & 0xFFu), lowest);
  // Larger numbers than 2^17 all overflow.
  const float magnitude = std::min(std::fabs(value), 0x1p17f);
  const int step = std::min(exponent, 127 + 17) - 127 - f.mantissa_bits;
  const auto steps = static_cast<unsigned>(std::rint(std::ldexp(magnitude, -step)));
  unsigned code =
      (static_cast<unsigned>(step + 127 + f.mantissa_bits - lowest) << f.mantissa_bits) + steps;
  if (code > f.largest) code = saturate ? f.largest : f.overflow;
  if (code == f.nan) return f.nan;
  const bool negative = (bits >> 31) != 0 && (code != 0 || f.negative_zero);
  return static_cast<std::uint8_t>(code | (negative ? 1u << (f.width() - 1) : 0));
}

}  // namespace dyad
