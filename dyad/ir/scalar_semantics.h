#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "dyad/core/dtype.h"

/// What each scalar operation computes, as C++: the one definition that folding and the interpreter
/// share and that generated code is tested against. Files that include it must be compiled with
/// -ffp-contract=off. The sign and payload of a NaN result are not defined.
namespace dyad::scalar::semantics {

template <class T>
using Wrap = std::make_unsigned_t<T>;

template <class T>
[[gnu::always_inline]] inline T neg(T a) {
  if constexpr (std::integral<T>)
    return static_cast<T>(Wrap<T>(0) - static_cast<Wrap<T>>(a));
  else
    return -a;
}
template <class T>
[[gnu::always_inline]] inline T abs(T a) {
  if constexpr (std::unsigned_integral<T>)
    return a;
  else if constexpr (std::integral<T>)
    return a < 0 ? neg(a) : a;
  else
    return std::fabs(a);
}
template <class T>
[[gnu::always_inline]] inline T add(T a, T b) {
  if constexpr (std::integral<T>)
    return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
  else
    return a + b;
}
template <class T>
[[gnu::always_inline]] inline T sub(T a, T b) {
  if constexpr (std::integral<T>)
    return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b));
  else
    return a - b;
}
template <class T>
[[gnu::always_inline]] inline T mul(T a, T b) {
  if constexpr (std::integral<T>)
    return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
  else
    return a * b;
}
template <class T>
[[gnu::always_inline]] inline T div(T a, T b) {
  if constexpr (std::unsigned_integral<T>)
    return b == 0 ? T(0) : static_cast<T>(a / b);
  else if constexpr (std::integral<T>)
    return b == 0 ? T(0) : b == -1 ? neg(a) : static_cast<T>(a / b);
  else
    return a / b;
}
template <std::integral T>
[[gnu::always_inline]] inline T rem(T a, T b) {
  if constexpr (std::unsigned_integral<T>)
    return b == 0 ? T(0) : static_cast<T>(a % b);
  else
    return b == 0 || b == -1 ? T(0) : static_cast<T>(a % b);
}
template <std::integral T>
[[gnu::always_inline]] inline T shl(T a, T b) {
  return static_cast<T>(static_cast<Wrap<T>>(a) << (b & T(sizeof(T) * 8 - 1)));
}
template <std::integral T>
[[gnu::always_inline]] inline T shr(T a, T b) {
  return static_cast<T>(static_cast<Wrap<T>>(a) >> (b & T(sizeof(T) * 8 - 1)));
}
template <std::integral T>
[[gnu::always_inline]] inline T sar(T a, T b) {
  return static_cast<T>(a >> (b & T(sizeof(T) * 8 - 1)));
}

template <class To, class From>
[[gnu::always_inline]] inline To convert(From x) {
  if constexpr (std::same_as<To, bool>) {
    return x != From(0);
  } else if constexpr (std::floating_point<From> && std::unsigned_integral<To>) {
    constexpr From half = static_cast<From>(std::uint64_t{1} << 63), limit = half * 2;
    // Below 2^63 the conversion is one to i64, above it one of what is left.
    const bool upper = x >= half;
    const From inside = x > From(0) && x < limit ? (upper ? x - half : x) : From(0);
    const To truncated = static_cast<To>(static_cast<std::int64_t>(inside)) +
                         (upper && x < limit ? To{1} << 63 : To{0});
    return x >= limit ? std::numeric_limits<To>::max() : truncated;
  } else if constexpr (std::floating_point<From> && std::integral<To>) {
    // 2^31 and 2^63 are exact in both floating types, the largest integers are not.
    constexpr From limit = static_cast<From>(std::uint64_t{1} << (sizeof(To) * 8 - 1));
    const From inside = x < limit && x >= -limit ? x : From(0);
    const To truncated = static_cast<To>(inside);
    return x >= limit   ? std::numeric_limits<To>::max()
           : x < -limit ? std::numeric_limits<To>::min()
                        : truncated;
  } else {
    return static_cast<To>(x);
  }
}

/// What `ldexp` adds to a whole number to have it in the low bits.
template <std::floating_point T>
inline constexpr T kWholeBits = sizeof(T) == 8 ? T(0x1.8p52) : T(0x1.8p23);

/// By two factors, which are normal numbers each: only the second product is rounded.
template <std::floating_point T>
[[gnu::always_inline]] inline T ldexp(T x, T n) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  using Unsigned = std::make_unsigned_t<Bits>;
  constexpr int mantissa = sizeof(T) == 8 ? 52 : 23, bias = sizeof(T) == 8 ? 1023 : 127;
  const auto bits = [](T a) { return std::bit_cast<Unsigned>(a); };
  const auto power = [](Bits e) {
    return std::bit_cast<T>((static_cast<Unsigned>(e) + bias) << mantissa);
  };
  const auto whole = static_cast<Bits>(bits(n + kWholeBits<T>) - bits(kWholeBits<T>));
  const Bits half = whole >> 1;
  return x * power(half) *
         power(static_cast<Bits>(static_cast<Unsigned>(whole) - static_cast<Unsigned>(half)));
}

[[gnu::always_inline]] inline float round_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t nearest = (bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0xFFFF0000u;
  return std::bit_cast<float>(x != x ? (bits | 0x00400000u) & 0xFFFF0000u : nearest);
}
inline float round_f16(float x) { return to_float(to_half(x)); }

/// The value of an i32 after being stored as i16, i8, u16 or u8, or of an i64 as u32.
template <class Narrow, class T>
[[gnu::always_inline]] inline T wrap(T x) {
  return static_cast<T>(static_cast<Narrow>(x));
}

/// 2/pi = 0.a2f98...: 1216 bits after the point, those of a word from its low end on, words from
/// the last to the first, and zeros on both sides.
inline constexpr std::uint64_t kTwoOverPi[] = {
    0x56033046fc7b6bab, 0x6bfb5fb11f8d5d08, 0x3d0739f78a5292ea, 0x7527bac7ebe5f17b,
    0x4f463f669e5fea2d, 0x6d367ecf27cb09b7, 0xef2f118b5a0a6d1f, 0x1ff897ffde05980f,
    0x9c845f8bbdf9283b, 0x3991d639835339f4, 0xe99c7026b45f7e41, 0xe88235f52ebb4484,
    0xfe1deb1cb129a73e, 0x06492eea09d1921c, 0xb7246e3a424dd2e0, 0xfe5163abdebbc561,
    0xdb6295993c439041, 0xfc2757d1f534ddc0, 0xa2f9836e4e441529, 0x0000000000000000,
    0x0000000000000000};
inline constexpr int kTwoOverPiWidth = 54;  ///< bits that `two_over_pi` gives
inline constexpr std::int64_t kTwoOverPiLast = 1216 - kTwoOverPiWidth, kTwoOverPiFirst = -64;

[[gnu::always_inline]] inline std::int64_t two_over_pi(std::int64_t from) {
  const std::int64_t inside = from < kTwoOverPiFirst  ? kTwoOverPiFirst
                              : from > kTwoOverPiLast ? kTwoOverPiLast
                                                      : from;
  const auto at = static_cast<std::uint64_t>(kTwoOverPiLast - inside);  // from the low end
  const std::uint64_t low = kTwoOverPi[at / 64] >> at % 64;
  const std::uint64_t high = kTwoOverPi[at / 64 + 1] << 1 << (63 - at % 64);
  return static_cast<std::int64_t>((low | high) & ((std::uint64_t{1} << kTwoOverPiWidth) - 1));
}

}  // namespace dyad::scalar::semantics
