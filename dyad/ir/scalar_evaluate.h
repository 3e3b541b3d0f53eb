#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "dyad/ir/scalar.h"
#include "dyad/ir/scalar_semantics.h"

namespace dyad::scalar {

/// A value as the low bits of a 64-bit word: how constants, slots and `evaluate` hold it.
template <class T>
[[nodiscard]] std::uint64_t to_bits(T value) noexcept {
  if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<std::uint64_t>(value);
  else if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<std::uint32_t>(value);
  else if constexpr (std::is_same_v<T, bool>)
    return value ? 1 : 0;
  else
    return static_cast<std::make_unsigned_t<T>>(value);
}
template <class T>
[[nodiscard]] T from_bits(std::uint64_t bits) noexcept {
  if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(bits);
  else if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  else if constexpr (std::is_same_v<T, bool>)
    return bits != 0;
  else
    return static_cast<T>(bits);
}

/// Runs one instruction on operand bits; `operand` is the type of its first operand.
[[nodiscard]] std::uint64_t evaluate(const Instruction& instruction, ScalarType operand,
                                     const std::array<std::uint64_t, 3>& args);

/// Calls `f` with a value-initialised C++ object of the type.
template <class F>
decltype(auto) with_type(ScalarType type, F&& f) {
  switch (type) {
    case ScalarType::f64:
      return f(double{});
    case ScalarType::f32:
      return f(float{});
    case ScalarType::i64:
      return f(std::int64_t{});
    case ScalarType::i32:
      return f(std::int32_t{});
    case ScalarType::u64:
      return f(std::uint64_t{});
    case ScalarType::boolean:
      break;
  }
  return f(bool{});
}

/// A bit pattern for a slot of the type that `value` converts to: what a caller writes into
/// KernelArgs::slots.
[[nodiscard]] std::uint64_t slot_bits(ScalarType type, double value);
[[nodiscard]] std::uint64_t slot_bits(ScalarType type, std::int64_t value);

}  // namespace dyad::scalar
