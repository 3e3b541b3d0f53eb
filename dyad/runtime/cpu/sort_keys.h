#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "dyad/runtime/cpu/element.h"

namespace dyad::runtime::cpu {

template <class T>
struct SortKeyOf {
  using type = std::make_unsigned_t<T>;
};
template <>
struct SortKeyOf<double> {
  using type = std::uint64_t;
};
template <>
struct SortKeyOf<float> {
  using type = std::uint32_t;
};
template <class T>
  requires is_half<T>
struct SortKeyOf<T> {
  using type = std::uint16_t;
};
/// An unsigned integer as wide as an element.
template <class T>
using SortKey = typename SortKeyOf<T>::type;

/// Keys are ordered as elements are: all NaNs equal and the greatest, -0 equal to 0.
template <class T>
[[nodiscard]] inline SortKey<T> sort_key(T value) noexcept {
  using Key = SortKey<T>;
  constexpr Key kSign = static_cast<Key>(Key{1} << (8 * sizeof(Key) - 1));
  if constexpr (std::is_unsigned_v<T>) {
    return value;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<Key>(static_cast<Key>(value) ^ kSign);
  } else {
    const auto number = comparable(value);
    if (number != number) return static_cast<Key>(~Key{0});
    const Key bits = number == 0 ? Key{0} : std::bit_cast<Key>(value);
    return (bits & kSign) != 0 ? static_cast<Key>(~bits) : static_cast<Key>(bits | kSign);
  }
}

}  // namespace dyad::runtime::cpu
