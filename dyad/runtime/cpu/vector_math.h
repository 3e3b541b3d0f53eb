#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

/// Elementary functions of float and double as straight-line code, so that a loop over them becomes
/// vector instructions. Not generic in their users: call them from functions that
/// DYAD_VECTOR_CLONES compiles. Every instruction set gives the same bits.
namespace dyad::runtime::cpu::vector_math {

template <class T>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  using Bits = std::int32_t;
  static constexpr float kLow = -104, kHigh = 89, kShift = 12582912.0f;  // 1.5 * 2^23
  static constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  static constexpr int kBias = 127, kMantissa = 23;
};
template <>
struct ExpConstants<double> {
  using Bits = std::int64_t;
  static constexpr double kLow = -746, kHigh = 710, kShift = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double kLn2High = 6.93145751953125e-1, kLn2Low = 1.42860682030941723212e-6;
  static constexpr int kBias = 1023, kMantissa = 52;
};

/// p = (e^r - 1 - r) / r^2 for |r| up to ln(2) / 2 by Taylor's series; R is T, or a vector of T.
template <class T, class R>
[[gnu::always_inline]] inline void exp_series(const R& r, R& p) {
  p = R{};
  if constexpr (std::is_same_v<T, float>) {
    p = p + T(1.0 / 5040);
  } else {
    p = p + T(1.0 / 6227020800);
    p = p * r + T(1.0 / 479001600);
    p = p * r + T(1.0 / 39916800);
    p = p * r + T(1.0 / 3628800);
    p = p * r + T(1.0 / 362880);
    p = p * r + T(1.0 / 40320);
    p = p * r + T(1.0 / 5040);
  }
  p = p * r + T(1.0 / 720);
  p = p * r + T(1.0 / 120);
  p = p * r + T(1.0 / 24);
  p = p * r + T(1.0 / 6);
  p = p * r + T(0.5);
}

/// e^x within 2 units in the last place; 0 below the range, infinity above it, NaN for NaN.
template <class T>
[[gnu::always_inline]] inline T exp(T x) {
  using C = ExpConstants<T>;
  using Bits = typename C::Bits;
  x = x < C::kLow ? C::kLow : x;
  x = x > C::kHigh ? C::kHigh : x;
  const T shifted = x * T(1.44269504088896340736) + C::kShift;
  const T n = shifted - C::kShift;
  const T r = (x - n * C::kLn2High) - n * C::kLn2Low;
  T p;
  exp_series<T>(r, p);
  p = p * (r * r) + r + T(1);
  // 2^n in two factors, so that small results become denormal step by step.
  const Bits whole = std::bit_cast<Bits>(shifted) - std::bit_cast<Bits>(C::kShift);
  const Bits half = whole >> 1;
  const T first = std::bit_cast<T>(static_cast<Bits>((half + C::kBias) << C::kMantissa));
  const T second = std::bit_cast<T>(static_cast<Bits>((whole - half + C::kBias) << C::kMantissa));
  return p * first * second;
}

/// kBytes of elements that are computed with at once, and the same where they may lie anywhere.
template <class T, int kBytes>
struct VectorOf {
  // NOLINTBEGIN(modernize-use-using): an alias drops attributes that depend on a parameter.
  typedef T type __attribute__((vector_size(kBytes)));
  typedef T unaligned __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
  typedef typename ExpConstants<T>::Bits bits __attribute__((vector_size(kBytes)));
  // NOLINTEND(modernize-use-using)
};
template <class T, int kBytes>
using Vector = typename VectorOf<T, kBytes>::type;
template <class T, int kBytes>
using Unaligned = typename VectorOf<T, kBytes>::unaligned;
template <class T, int kBytes>
inline constexpr std::int64_t kVectorLanes = kBytes / static_cast<std::int64_t>(sizeof(T));

/// v[i] = combine(v[i], v[i ^ half]).
template <class T, int kBytes, std::size_t kHalf, class Combine, std::size_t... I>
[[gnu::always_inline]] inline void fold_lanes(Vector<T, kBytes>& v, Combine combine,
                                              std::index_sequence<I...>) {
  const Vector<T, kBytes> other = __builtin_shufflevector(v, v, (I ^ kHalf)...);
  combine(v, other);
}

/// Combines the lanes of a vector as a tree: l with l + half, then with l + half / 2, ...
template <class T, int kBytes, class Combine>
[[gnu::always_inline]] inline T over_lanes(const Vector<T, kBytes>& lanes, Combine combine) {
  constexpr std::size_t kWidth = kVectorLanes<T, kBytes>;
  constexpr std::make_index_sequence<kWidth> kAll;
  Vector<T, kBytes> v = lanes;
  if constexpr (kWidth >= 16) fold_lanes<T, kBytes, 8>(v, combine, kAll);
  if constexpr (kWidth >= 8) fold_lanes<T, kBytes, 4>(v, combine, kAll);
  if constexpr (kWidth >= 4) fold_lanes<T, kBytes, 2>(v, combine, kAll);
  fold_lanes<T, kBytes, 1>(v, combine, kAll);
  return v[0];
}

/// Sets the lanes of v from number `first` on to those of `other`.
template <class T, int kBytes>
[[gnu::always_inline]] inline void set_from(std::int64_t first, Vector<T, kBytes>& v,
                                            const Vector<T, kBytes>& other) {
  [&]<std::size_t... I>(std::index_sequence<I...>) __attribute__((always_inline)) {
    using Bits = typename VectorOf<T, kBytes>::bits;
    constexpr Bits kNumbers{I...};
    v = kNumbers < static_cast<typename ExpConstants<T>::Bits>(first) ? v : other;
  }(std::make_index_sequence<static_cast<std::size_t>(kVectorLanes<T, kBytes>)>());
}

/// x = e^x for vectors of x that are at most 0, within 2 units in the last place: two thirds of the
/// instructions of exp(). NaN for NaN.
template <class T, int kBytes>
[[gnu::always_inline]] inline void exp_of_negative(Vector<T, kBytes>& x) {
  using C = ExpConstants<T>;
  using Bits = typename C::Bits;
  using V = Vector<T, kBytes>;
  using BitVector = typename VectorOf<T, kBytes>::bits;
  // 2^n in two factors, so that small results become denormal: n is at most 0. The first factor of
  // the least x is 0, because a product that underflows takes a hundred cycles.
  constexpr int kLift = std::is_same_v<T, float> ? 64 : 512;
  const V low = V{} - T(0.69314718055994530942 * (kLift + C::kBias));
  x = x < low ? low : x;
  const V shifted = x * T(1.44269504088896340736) + C::kShift;
  const V n = shifted - C::kShift;
  const V r = (x - n * C::kLn2High) - n * C::kLn2Low;
  V p;
  exp_series<T>(r, p);
  p = p * (r * r) + r + T(1);
  const BitVector whole = (BitVector)shifted - std::bit_cast<Bits>(C::kShift);
  const V first = (V)((whole + (kLift + C::kBias)) << C::kMantissa);
  x = p * first * std::bit_cast<T>(static_cast<Bits>(C::kBias - kLift) << C::kMantissa);
}

/// log(x) for x from 1 to 3, within 2 units in the last place of 1.
template <class T>
[[gnu::always_inline]] inline T log_1_to_3(T x) {
  // log(x / 1.75) = 2 artanh(z).
  const T z = (x - T(1.75)) / (x + T(1.75)), w = z * z;
  T p = 0;
  constexpr int kTerms = std::is_same_v<T, float> ? 7 : 14;
  for (int k = kTerms; k-- > 0;) p = p * w + T(1) / static_cast<T>(2 * k + 1);
  return T(0.55961578793542268627) + 2 * z * p;
}

template <class T>
[[gnu::always_inline]] inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

/// tanh(x): a rational function near 0 (Moshier's Cephes), by exp elsewhere.
template <class T>
[[gnu::always_inline]] inline T tanh(T x) {
  const T z = x * x;
  const T p = (T(-9.64399179425052238628e-1) * z + T(-9.92877231001918586564e1)) * z +
              T(-1.61468768441708447952e3);
  const T q = ((z + T(1.12811678491632931402e2)) * z + T(2.23548839060100448583e3)) * z +
              T(4.84406305325125486048e3);
  const T near = x + x * z * (p / q);
  const T size = x < 0 ? -x : x;
  const T far = T(1) - T(2) / (exp(size + size) + T(1));
  return size < T(0.625) ? near : (x < 0 ? -far : (x != x ? x : far));
}

}  // namespace dyad::runtime::cpu::vector_math
