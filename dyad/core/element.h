#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/core/complex.h"
#include "dyad/core/dtype.h"
#include "dyad/core/shape.h"

namespace dyad {

/// Calls `f` with a std::type_identity of the C++ type behind `dtype`, one of kPlain; DTypeError
/// for strings, which are no plain data (core/text.h).
template <class F>
decltype(auto) visit_element(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(std::type_identity<double>());
    case DType::f32:
      return f(std::type_identity<float>());
    case DType::f16:
      return f(std::type_identity<Half>());
    case DType::bf16:
      return f(std::type_identity<BFloat16>());
    case DType::i64:
      return f(std::type_identity<std::int64_t>());
    case DType::i32:
      return f(std::type_identity<std::int32_t>());
    case DType::i16:
      return f(std::type_identity<std::int16_t>());
    case DType::i8:
      return f(std::type_identity<std::int8_t>());
    case DType::u64:
      return f(std::type_identity<std::uint64_t>());
    case DType::u32:
      return f(std::type_identity<std::uint32_t>());
    case DType::u16:
      return f(std::type_identity<std::uint16_t>());
    case DType::u8:
      return f(std::type_identity<std::uint8_t>());
    case DType::boolean:
      return f(std::type_identity<bool>());
    case DType::c128:
      return f(std::type_identity<std::complex<double>>());
    case DType::c64:
      return f(std::type_identity<std::complex<float>>());
    case DType::f8e4m3fn:
      return f(std::type_identity<SmallFloat<DType::f8e4m3fn>>());
    case DType::f8e4m3fnuz:
      return f(std::type_identity<SmallFloat<DType::f8e4m3fnuz>>());
    case DType::f8e5m2:
      return f(std::type_identity<SmallFloat<DType::f8e5m2>>());
    case DType::f8e5m2fnuz:
      return f(std::type_identity<SmallFloat<DType::f8e5m2fnuz>>());
    case DType::f8e8m0:
      return f(std::type_identity<SmallFloat<DType::f8e8m0>>());
    case DType::f4e2m1:
      return f(std::type_identity<SmallFloat<DType::f4e2m1>>());
    case DType::i4:
      return f(std::type_identity<SmallInt<DType::i4>>());
    case DType::i2:
      return f(std::type_identity<SmallInt<DType::i2>>());
    case DType::u4:
      return f(std::type_identity<SmallInt<DType::u4>>());
    case DType::u2:
      return f(std::type_identity<SmallInt<DType::u2>>());
    case DType::string:
      break;
  }
  throw DTypeError("elements of dtype " + std::string(name_of(dtype)) + " are no numbers");
}

/// The same for the dtypes that arithmetic is done in, kAny; DTypeError for all others.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(std::type_identity<double>());
    case DType::f32:
      return f(std::type_identity<float>());
    case DType::f16:
      return f(std::type_identity<Half>());
    case DType::bf16:
      return f(std::type_identity<BFloat16>());
    case DType::i64:
      return f(std::type_identity<std::int64_t>());
    case DType::i32:
      return f(std::type_identity<std::int32_t>());
    case DType::i16:
      return f(std::type_identity<std::int16_t>());
    case DType::i8:
      return f(std::type_identity<std::int8_t>());
    case DType::u64:
      return f(std::type_identity<std::uint64_t>());
    case DType::u32:
      return f(std::type_identity<std::uint32_t>());
    case DType::u16:
      return f(std::type_identity<std::uint16_t>());
    case DType::u8:
      return f(std::type_identity<std::uint8_t>());
    case DType::boolean:
      return f(std::type_identity<bool>());
    default:
      break;
  }
  throw DTypeError("nothing is computed with elements of dtype " + std::string(name_of(dtype)));
}

template <class T>
inline constexpr bool is_complex_element = false;
template <class T>
inline constexpr bool is_complex_element<std::complex<T>> = true;
/// Elements that are read through a wider type.
template <class T>
inline constexpr bool is_packed_float =
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || contains(kSmallFloat, dtype_of<T>);
template <class T>
inline constexpr bool is_small_int = contains(kSmallInteger, dtype_of<T>);

/// The number that a byte of a small integer dtype holds.
template <DType D>
[[nodiscard]] constexpr std::int32_t to_int(SmallInt<D> value) noexcept {
  constexpr int shift = 32 - small_int_width(D);
  const std::uint32_t high = static_cast<std::uint32_t>(value.bits) << shift;
  return small_int_is_signed(D) ? static_cast<std::int32_t>(high) >> shift
                                : static_cast<std::int32_t>(high >> shift);
}

/// One element as another type: floating to integer truncates, saturates out of range and makes 0
/// of NaN; integers wrap; to bool compares with 0; to f16, bf16 and the small floats rounds once
/// from the source (f64 through f32), the small floats saturate; complex to real drops the
/// imaginary part.
template <Element To, Element From>
[[nodiscard]] To convert_element(From value) noexcept {
  if constexpr (std::is_same_v<From, To>) {
    return value;
  } else if constexpr (is_complex_element<To>) {
    using Part = typename To::value_type;
    if constexpr (is_complex_element<From>) {
      return {static_cast<Part>(value.real()), static_cast<Part>(value.imag())};
    } else {
      return {convert_element<Part>(value), Part(0)};
    }
  } else if constexpr (is_complex_element<From>) {
    if constexpr (std::is_same_v<To, bool>) {
      return value != From();
    } else {
      return convert_element<To>(value.real());
    }
  } else if constexpr (is_packed_float<From>) {
    return convert_element<To>(to_float(value));
  } else if constexpr (is_small_int<From>) {
    return convert_element<To>(to_int(value));
  } else if constexpr (std::is_same_v<To, Half>) {
    return to_half(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else if constexpr (is_packed_float<To>) {
    return {small_float_code(dtype_of<To>, static_cast<float>(value))};
  } else if constexpr (is_small_int<To>) {
    constexpr int width = small_int_width(dtype_of<To>);
    constexpr bool is_signed = small_int_is_signed(dtype_of<To>);
    constexpr int low = is_signed ? -(1 << (width - 1)) : 0, high = low + (1 << width) - 1;
    if constexpr (std::is_floating_point_v<From>) {
      const auto whole = convert_element<std::int32_t>(value);
      return {static_cast<std::int8_t>(whole < low ? low : whole > high ? high : whole)};
    } else {
      const To bits{static_cast<std::int8_t>(value)};
      return {static_cast<std::int8_t>(to_int(bits))};
    }
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(value)) return To(0);
    // The bound below is a power of two, exact in every floating type.
    const From low = static_cast<From>(std::numeric_limits<To>::min());
    const From above = std::ldexp(From(1), std::numeric_limits<To>::digits);
    if (value <= low) return std::numeric_limits<To>::min();
    if (value >= above) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

/// Calls `f(offset)` for each element of an array in logical (row-major) order, with its distance
/// from the first in elements.
template <class F>
void for_each_offset(const Shape& shape, const Strides& strides, F&& f) {
  const auto sizes = shape.numbers();
  for (const std::int64_t size : sizes) {
    if (size == 0) return;
  }
  Ints index(sizes.size(), 0);
  std::int64_t offset = 0;
  for (;;) {
    f(offset);
    std::size_t axis = sizes.size();
    for (;;) {
      if (axis == 0) return;
      --axis;
      offset += strides[axis];
      if (++index[axis] < sizes[axis]) break;
      offset -= strides[axis] * sizes[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace dyad
