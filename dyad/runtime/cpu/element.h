#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "dyad/core/complex.h"
#include "dyad/core/dtype.h"

namespace dyad::runtime::cpu {

/// The 16 bytes of a c128.
struct Word16 {
  std::uint64_t low, high;
};

/// Calls `f` with a value-initialised unsigned integer of so many bytes: 8, 4, 2, otherwise 1.
template <class F>
decltype(auto) with_unsigned(std::size_t bytes, F&& f) {
  switch (bytes) {
    case 8:
      return f(std::uint64_t{});
    case 4:
      return f(std::uint32_t{});
    case 2:
      return f(std::uint16_t{});
    default:
      return f(std::uint8_t{});
  }
}

/// Calls `f` with a value-initialised unsigned integer (or Word16) as wide as an element: for
/// kernels that only move data.
template <class F>
decltype(auto) with_word(DType dtype, F&& f) {
  if (size_of(dtype) == 16) return f(Word16{});
  return with_unsigned(size_of(dtype), std::forward<F>(f));
}

/// Calls `f` with a value-initialised element of the C++ type of `dtype`; bool goes as u8.
template <class F>
decltype(auto) with_element(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::f16:
      return f(Half{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i16:
      return f(std::int16_t{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::u64:
      return f(std::uint64_t{});
    case DType::u32:
      return f(std::uint32_t{});
    case DType::u16:
      return f(std::uint16_t{});
    default:
      return f(std::uint8_t{});
  }
}

/// The same for floating dtypes only; others are taken as f32.
template <class F>
decltype(auto) with_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::f16:
      return f(Half{});
    case DType::bf16:
      return f(BFloat16{});
    default:
      return f(float{});
  }
}

/// Calls `f` with a value-initialised number of what the elements of a floating dtype are computed
/// in: f64, otherwise f32.
template <class F>
decltype(auto) with_computed(DType dtype, F&& f) {
  return dtype == DType::f64 ? f(double{}) : f(float{});
}

/// Like with_element, with c64 and c128, as std::complex, for kernels that add and multiply:
/// integers wrap, so that signed ones go as the unsigned ones of their width.
template <class F>
decltype(auto) with_addend(DType dtype, F&& f) {
  switch (dtype) {
    case DType::c128:
      return f(std::complex<double>{});
    case DType::c64:
      return f(std::complex<float>{});
    case DType::f64:
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return with_floating(dtype, std::forward<F>(f));
    default:
      return with_unsigned(size_of(dtype), std::forward<F>(f));
  }
}

/// Calls `f` with a value-initialised index of an index tensor's dtype.
template <class F>
decltype(auto) with_index(DType dtype, F&& f) {
  return dtype == DType::i32 ? f(std::int32_t{}) : f(std::int64_t{});
}

template <class T>
inline constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// What sums of elements are kept in: f32 for f16 and bf16, an unsigned integer (which wraps) for
/// integers.
template <class T>
struct AccumulatorOf {
  using type = T;
};
template <class T>
  requires is_half<T>
struct AccumulatorOf<T> {
  using type = float;
};
template <std::integral T>
struct AccumulatorOf<T> {
  using type = std::uint64_t;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

template <class T>
[[nodiscard]] inline Accumulator<T> load(T value) noexcept {
  if constexpr (is_half<T>) {
    return to_float(value);
  } else {
    return static_cast<Accumulator<T>>(value);
  }
}

/// The element that an accumulated value is stored as: rounded once, integers wrapped.
template <class T>
[[nodiscard]] inline T store(Accumulator<T> value) noexcept {
  if constexpr (std::is_same_v<T, Half>) {
    return to_half(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(value);
  } else {
    return static_cast<T>(value);
  }
}

/// An element as a number that can be compared: f32 for f16 and bf16.
template <class T>
[[nodiscard]] inline auto comparable(T value) noexcept {
  if constexpr (is_half<T>) {
    return to_float(value);
  } else {
    return value;
  }
}

/// The bits of `value` as an element of `dtype`, in the first bytes.
[[nodiscard]] Word16 element_bits(DType dtype, double value);

}  // namespace dyad::runtime::cpu
