#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/core/dtype.h"
#include "dyad/core/shape.h"

namespace dyad {

/// Calls `f` with a std::type_identity of the C++ type behind `dtype`; DTypeError for strings,
/// which have none.
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
    case DType::u8:
      return f(std::type_identity<std::uint8_t>());
    case DType::boolean:
      return f(std::type_identity<bool>());
    case DType::string:
      break;
  }
  throw DTypeError("elements of dtype " + std::string(name_of(dtype)) + " are no numbers");
}

/// One element as another type: floating to integer truncates, saturates out of range and makes 0
/// of NaN; integers wrap; to bool compares with 0; to f16 and bf16 rounds once from the source
/// (f64 through f32).
template <Element To, Element From>
[[nodiscard]] To convert_element(From value) noexcept {
  if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
    if constexpr (std::is_same_v<From, To>) {
      return value;
    } else {
      return convert_element<To>(to_float(value));
    }
  } else if constexpr (std::is_same_v<To, Half>) {
    return to_half(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
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
