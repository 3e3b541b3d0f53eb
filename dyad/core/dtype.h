#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace dyad {

/// The element type of a tensor. One byte; compares and copies as a number. c64 and c128 are
/// complex numbers of two f32 and two f64. The small ones (f8..., f4e2m1, i4, i2, u4, u2) take one
/// byte an element and are what tensors are stored in: they are moved, reshaped, compared bit by
/// bit and cast, and quantisation writes and reads them; arithmetic is done in what they are cast
/// to.
enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  c128,
  c64,
  f8e4m3fn,    ///< 4 bits of exponent, 3 of mantissa, no infinity, to 448
  f8e4m3fnuz,  ///< the same without -0, one NaN, to 240
  f8e5m2,      ///< as IEEE 754 would have it, to 57344
  f8e5m2fnuz,  ///< no infinity, no -0, one NaN, to 57344
  f8e8m0,      ///< a power of two, 2^-127 to 2^127, or NaN: the scale of a block
  f4e2m1,      ///< 0 0.5 1 1.5 2 3 4 6 and their negatives
  i4,
  i2,
  u4,
  u2,
  string,
};

inline constexpr DType f64 = DType::f64, f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16,
                       i64 = DType::i64, i32 = DType::i32, i16 = DType::i16, i8 = DType::i8,
                       u64 = DType::u64, u32 = DType::u32, u16 = DType::u16, u8 = DType::u8,
                       boolean = DType::boolean, c128 = DType::c128, c64 = DType::c64,
                       f8e4m3fn = DType::f8e4m3fn, f8e4m3fnuz = DType::f8e4m3fnuz,
                       f8e5m2 = DType::f8e5m2, f8e5m2fnuz = DType::f8e5m2fnuz,
                       f8e8m0 = DType::f8e8m0, f4e2m1 = DType::f4e2m1, i4 = DType::i4,
                       i2 = DType::i2, u4 = DType::u4, u2 = DType::u2;
inline constexpr int kDTypeCount = 26;

/// Bytes of one element. A string is kept as the address of its text (core/text.h).
[[nodiscard]] constexpr std::size_t size_of(DType t) noexcept {
  constexpr std::uint8_t sizes[kDTypeCount] = {8,  4, 2, 2, 8, 4, 2, 1, 8, 4, 2, 1, 1,
                                               16, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 8};
  return sizes[static_cast<int>(t)];
}
/// `f32`, `i64`, `bool`...: the name that messages, text graphs and `parse_dtype` use.
[[nodiscard]] constexpr std::string_view name_of(DType t) noexcept {
  constexpr std::string_view names[kDTypeCount] = {
      "f64",        "f32",    "f16",    "bf16", "i64",  "i32", "i16",      "i8",         "u64",
      "u32",        "u16",    "u8",     "bool", "c128", "c64", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2",
      "f8e5m2fnuz", "f8e8m0", "f4e2m1", "i4",   "i2",   "u4",  "u2",       "string"};
  return names[static_cast<int>(t)];
}

/// A set of dtypes as a bit mask, for what an operator accepts.
using DTypeSet = std::uint32_t;
[[nodiscard]] constexpr DTypeSet set_of(DType t) noexcept { return 1u << static_cast<int>(t); }
[[nodiscard]] constexpr DTypeSet set_of(std::initializer_list<DType> dtypes) noexcept {
  DTypeSet set = 0;
  for (const DType t : dtypes) set |= set_of(t);
  return set;
}
[[nodiscard]] constexpr bool contains(DTypeSet set, DType t) noexcept {
  return (set & set_of(t)) != 0;
}
/// What arithmetic takes: kFloat, kInteger (kSigned and kUnsigned) and, with bool, kAny.
inline constexpr DTypeSet kFloat = set_of({f64, f32, f16, bf16}),
                          kSigned = set_of({i64, i32, i16, i8}),
                          kUnsigned = set_of({u64, u32, u16, u8}), kInteger = kSigned | kUnsigned,
                          kBool = set_of(boolean), kNumber = kFloat | kInteger,
                          kAny = kNumber | kBool, kIndex = set_of({i64, i32}),
                          kComplex = set_of({c128, c64});
/// What elements are stored in, and nothing is computed in.
inline constexpr DTypeSet kFloat8 = set_of({f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0}),
                          kSmallFloat = kFloat8 | set_of(f4e2m1),
                          kSmallInteger = set_of({i4, i2, u4, u2}),
                          kSmall = kSmallFloat | kSmallInteger;
/// Plain data: all but strings. kEverything is what can be moved.
inline constexpr DTypeSet kPlain = kAny | kComplex | kSmall,
                          kEverything = kPlain | set_of(DType::string);

/// f64, f32, f16 and bf16: the floating-point dtypes that arithmetic is done in.
[[nodiscard]] constexpr bool is_floating(DType t) noexcept { return t <= DType::bf16; }
/// f16 and bf16, whose sums are made in f32.
[[nodiscard]] constexpr bool is_narrow(DType t) noexcept {
  return t == DType::f16 || t == DType::bf16;
}
/// Integers that arithmetic is done in.
[[nodiscard]] constexpr bool is_integer(DType t) noexcept {
  return t >= DType::i64 && t <= DType::u8;
}
[[nodiscard]] constexpr bool is_complex(DType t) noexcept { return contains(kComplex, t); }
/// Of the dtypes that arithmetic is done in, those with negative numbers.
[[nodiscard]] constexpr bool is_signed(DType t) noexcept { return t <= DType::i8 || is_complex(t); }
/// What a tensor that has a gradient holds: floating-point or complex numbers, floats of 8 and 4
/// bits included.
[[nodiscard]] constexpr bool is_differentiable(DType t) noexcept {
  return is_floating(t) || contains(kComplex | kSmallFloat, t);
}
/// The dtype of gradients by values of a differentiable dtype: f32 for floats of 8 and 4 bits, in
/// which nothing adds up, else the same.
[[nodiscard]] constexpr DType grad_dtype(DType t) noexcept {
  return contains(kSmallFloat, t) ? DType::f32 : t;
}
/// The dtype of a complex number's parts, and of its absolute value; any other dtype itself.
[[nodiscard]] constexpr DType real_dtype(DType t) noexcept {
  return t == DType::c128 ? DType::f64 : t == DType::c64 ? DType::f32 : t;
}
/// The complex dtype that holds numbers of `t`: c128 for f64, else c64.
[[nodiscard]] constexpr DType complex_dtype(DType t) noexcept {
  return t == DType::c128 || t == DType::f64 ? DType::c128 : DType::c64;
}

/// The dtype named `name`; throws DTypeError listing the names when there is none.
[[nodiscard]] DType parse_dtype(std::string_view name);

/// The smallest dtype that both convert to, as PyTorch's promotion of two tensors documents it.
/// Where PyTorch has no rule: u16, u32 and u64 meet integers as in NumPy (u64 and a signed integer
/// give f64), small integers follow the same rule, small floats meet anything but bool, floats and
/// complex numbers in f32, and anything meets a string as a string.
[[nodiscard]] DType promote(DType a, DType b) noexcept;

/// Half and bfloat16 as stored; arithmetic is done in f32.
struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

/// IEEE 754 conversions, to nearest even; NaN stays NaN (quiet).
[[nodiscard]] Half to_half(float value) noexcept;
[[nodiscard]] float to_float(Half value) noexcept;
[[nodiscard]] BFloat16 to_bfloat16(float value) noexcept;
[[nodiscard]] float to_float(BFloat16 value) noexcept;

/// One element of a floating-point dtype of 8 or 4 bits, as stored: the code in the low bits.
template <DType D>
struct SmallFloat {
  std::uint8_t bits;
};
/// One element of i4, i2, u4 or u2: a byte that holds the number (the low bits count).
template <DType D>
struct SmallInt {
  std::int8_t bits;
};

/// How a small floating-point dtype lays out its bits: sign, exponent, mantissa.
struct SmallFloatFormat {
  int exponent_bits, mantissa_bits, bias;
  std::uint8_t largest;   ///< code of the largest finite number
  std::uint8_t overflow;  ///< of what a larger one becomes when conversion does not saturate
  std::uint8_t nan;       ///< of NaN, or of what NaN becomes where there is none
  bool is_ieee;           ///< codes above `largest` are infinity, then NaN
  bool has_nan;
  bool negative_zero;
  [[nodiscard]] constexpr int width() const noexcept { return 1 + exponent_bits + mantissa_bits; }
};
/// The format of one of kSmallFloat but f8e8m0, which has neither sign nor mantissa.
[[nodiscard]] constexpr SmallFloatFormat small_float_format(DType t) noexcept {
  switch (t) {
    case DType::f8e4m3fn:
      return {4, 3, 7, 0x7E, 0x7F, 0x7F, false, true, true};
    case DType::f8e4m3fnuz:
      return {4, 3, 8, 0x7F, 0x80, 0x80, false, true, false};
    case DType::f8e5m2:
      return {5, 2, 15, 0x7B, 0x7C, 0x7E, true, true, true};
    case DType::f8e5m2fnuz:
      return {5, 2, 16, 0x7F, 0x80, 0x80, false, true, false};
    default:
      return {2, 1, 1, 0x7, 0x7, 0x8, false, false, true};
  }
}
/// Bits of an element of kSmallInteger.
[[nodiscard]] constexpr int small_int_width(DType t) noexcept {
  return t == DType::i4 || t == DType::u4 ? 4 : 2;
}
[[nodiscard]] constexpr bool small_int_is_signed(DType t) noexcept {
  return t == DType::i4 || t == DType::i2;
}

/// The number behind a code of a small floating-point dtype, and the code of a number: to nearest,
/// ties to even (f8e8m0: the next power of two that is not smaller, the sign dropped, as ONNX's
/// Cast). What is too large becomes the largest number, infinity too, or, without `saturate`,
/// infinity or NaN where the dtype has one (f4e2m1 always saturates). NaN stays NaN; in f4e2m1 it
/// becomes -0.
[[nodiscard]] float small_float_value(DType dtype, std::uint8_t code) noexcept;
[[nodiscard]] std::uint8_t small_float_code(DType dtype, float value,
                                            bool saturate = true) noexcept;
template <DType D>
[[nodiscard]] float to_float(SmallFloat<D> value) noexcept {
  return small_float_value(D, value.bits);
}

/// The DType of a C++ type: `dtype_of<float>` is f32. std::complex has one in core/complex.h.
template <class T>
inline constexpr DType dtype_of = DType::string;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<Half> = DType::f16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<long long> = DType::i64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int16_t> = DType::i16;
template <>
inline constexpr DType dtype_of<std::int8_t> = DType::i8;
template <>
inline constexpr DType dtype_of<std::uint64_t> = DType::u64;
template <>
inline constexpr DType dtype_of<unsigned long long> = DType::u64;
template <>
inline constexpr DType dtype_of<std::uint32_t> = DType::u32;
template <>
inline constexpr DType dtype_of<std::uint16_t> = DType::u16;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <DType D>
inline constexpr DType dtype_of<SmallFloat<D>> = D;
template <DType D>
inline constexpr DType dtype_of<SmallInt<D>> = D;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

template <class T>
concept Element = dtype_of<T> != DType::string;

}  // namespace dyad
