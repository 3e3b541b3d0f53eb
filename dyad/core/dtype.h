#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dyad {

/// The element type of a tensor. One byte; compares and copies as a number.
enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean, string };

inline constexpr DType f64 = DType::f64, f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16,
                       i64 = DType::i64, i32 = DType::i32, i16 = DType::i16, i8 = DType::i8,
                       u8 = DType::u8, boolean = DType::boolean;
inline constexpr int kDTypeCount = 11;

/// Bytes of one element (0 for string, which is no plain data).
[[nodiscard]] constexpr std::size_t size_of(DType t) noexcept {
  constexpr std::size_t sizes[kDTypeCount] = {8, 4, 2, 2, 8, 4, 2, 1, 1, 1, 0};
  return sizes[static_cast<int>(t)];
}
/// `f32`, `i64`, `bool`...: the name that messages, text graphs and `parse_dtype` use.
[[nodiscard]] constexpr std::string_view name_of(DType t) noexcept {
  constexpr std::string_view names[kDTypeCount] = {"f64", "f32", "f16", "bf16", "i64",   "i32",
                                                   "i16", "i8",  "u8",  "bool", "string"};
  return names[static_cast<int>(t)];
}
[[nodiscard]] constexpr bool is_floating(DType t) noexcept { return t <= DType::bf16; }
[[nodiscard]] constexpr bool is_integer(DType t) noexcept {
  return t >= DType::i64 && t <= DType::u8;
}
[[nodiscard]] constexpr bool is_signed(DType t) noexcept { return t <= DType::i8; }

/// The dtype named `name`; throws DTypeError listing the names when there is none.
[[nodiscard]] DType parse_dtype(std::string_view name);

/// The smallest dtype that both convert to, as PyTorch's promotion of two tensors documents it.
[[nodiscard]] DType promote(DType a, DType b) noexcept;

/// A set of dtypes as a bit mask, for what an operator accepts.
using DTypeSet = std::uint16_t;
[[nodiscard]] constexpr DTypeSet set_of(DType t) noexcept {
  return static_cast<DTypeSet>(1u << static_cast<int>(t));
}
inline constexpr DTypeSet kFloat = 0x000F, kInteger = 0x01F0, kBool = 0x0200,
                          kNumber = kFloat | kInteger, kAny = kNumber | kBool,
                          kIndex = set_of(DType::i64) | set_of(DType::i32);
[[nodiscard]] constexpr bool contains(DTypeSet set, DType t) noexcept {
  return (set & set_of(t)) != 0;
}

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

/// The DType of a C++ type: `dtype_of<float>` is f32.
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
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

template <class T>
concept Element = dtype_of<T> != DType::string;

}  // namespace dyad
