#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "dyad/base/exp_constants.h"

/// Elementary functions of float and double as straight-line code, so that a loop over them becomes
/// vector instructions. Not generic in their users: call them from functions that
/// DYAD_VECTOR_CLONES compiles. Every instruction set gives the same bits.
namespace dyad::runtime::cpu::vector_math {

/// How numbers of type T are taken apart.
template <class T>
struct Parts;
template <>
struct Parts<float> {
  using Bits = std::int32_t;
  static constexpr float kShift = 12582912.0f;  ///< 1.5 * 2^23 leaves an integer in the low bits
  static constexpr float kExpLow = -104, kExpHigh = 89;
  static constexpr int kBias = 127, kMantissa = 23;
};
template <>
struct Parts<double> {
  using Bits = std::int64_t;
  static constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double kExpLow = -746, kExpHigh = 710;
  static constexpr int kBias = 1023, kMantissa = 52;
};

/// kBytes of elements that are computed with at once, and the same where they may lie anywhere.
template <class T, int kBytes>
struct VectorOf {
  // NOLINTBEGIN(modernize-use-using): an alias drops attributes that depend on a parameter.
  typedef T type __attribute__((vector_size(kBytes)));
  typedef T unaligned __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
  typedef typename Parts<T>::Bits bits __attribute__((vector_size(kBytes)));
  // NOLINTEND(modernize-use-using)
};
template <class T, int kBytes>
using Vector = typename VectorOf<T, kBytes>::type;
template <class T, int kBytes>
using Unaligned = typename VectorOf<T, kBytes>::unaligned;
template <class T, int kBytes>
inline constexpr std::int64_t kVectorLanes = kBytes / static_cast<std::int64_t>(sizeof(T));

/// What is computed with at once of arrays, from element i on.
template <class T, int kBytes>
struct VectorAt {
  using U = Unaligned<T, kBytes>;
  std::int64_t i;
  [[gnu::always_inline]] const U& operator()(const T* x) const {
    return *reinterpret_cast<const U*>(x + i);
  }
  [[gnu::always_inline]] U& operator()(T* x) const { return *reinterpret_cast<U*>(x + i); }
};

/// a = a * b + c, rounded once; R is float, double or a vector of them. Vectors of 32 bytes and
/// more belong to CPUs that have the instruction, which GCC would not make of vectors.
template <class R>
[[gnu::always_inline]] inline void fuse(R& a, const R& b, const R& c) {
  if constexpr (std::is_floating_point_v<R>) {
    a = std::fma(a, b, c);
  } else {
    using T = std::remove_cvref_t<decltype(a[0])>;
#if defined(__x86_64__) && defined(__OPTIMIZE__)  // else vectors are in memory, not in registers
    if constexpr (sizeof(R) >= 32 && std::is_same_v<T, float>) {
      asm("vfmadd213ps %2, %1, %0" : "+v"(a) : "v"(b), "v"(c));
      return;
    } else if constexpr (sizeof(R) >= 32) {
      asm("vfmadd213pd %2, %1, %0" : "+v"(a) : "v"(b), "v"(c));
      return;
    }
#endif
    for (std::size_t i = 0; i < sizeof(R) / sizeof(T); ++i) a[i] = std::fma(a[i], b[i], c[i]);
  }
}

/// e^x = 2^n p for x that a clamp has passed; n is in the low bits of `shifted`.
template <class T, class R>
[[gnu::always_inline]] inline void exp_parts(const R& x, R& shifted, R& p) {
  using C = ExpConstants<T>;
  shifted = x;
  fuse(shifted, R{} + T(C::kLog2E), R{} + Parts<T>::kShift);
  const R n = shifted - Parts<T>::kShift;
  R near = n, r = n;
  fuse(near, R{} - T(C::kLn2High), x);
  fuse(r, R{} - T(C::kLn2Low), near);
  constexpr int kTerms = static_cast<int>(C::kTail.size());
  p = R{} + T(C::kTail.begin()[kTerms - 1]);
#pragma GCC unroll 16
  for (int k = kTerms - 2; k >= 0; --k) fuse(p, r, R{} + T(C::kTail.begin()[k]));
  fuse(p, r * r, r);
  p = p + T(1);
}

/// e^x within 2 units in the last place; 0 below the range, infinity above it, NaN for NaN.
template <class T>
[[gnu::always_inline]] inline T exp(T x) {
  using P = Parts<T>;
  using Bits = typename P::Bits;
  x = x < P::kExpLow ? P::kExpLow : x;
  x = x > P::kExpHigh ? P::kExpHigh : x;
  T shifted, p;
  exp_parts<T>(x, shifted, p);
  // 2^n in two factors, so that small results become denormal step by step.
  const Bits whole = std::bit_cast<Bits>(shifted) - std::bit_cast<Bits>(P::kShift);
  const Bits half = whole >> 1;
  const T first = std::bit_cast<T>(static_cast<Bits>((half + P::kBias) << P::kMantissa));
  const T second = std::bit_cast<T>(static_cast<Bits>((whole - half + P::kBias) << P::kMantissa));
  return p * first * second;
}

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
    v = kNumbers < static_cast<typename Parts<T>::Bits>(first) ? v : other;
  }(std::make_index_sequence<static_cast<std::size_t>(kVectorLanes<T, kBytes>)>());
}

/// x = e^x for vectors of x that are at most 0, within 2 units in the last place: two thirds of the
/// instructions of exp(). NaN for NaN.
template <class T, int kBytes>
[[gnu::always_inline]] inline void exp_of_negative(Vector<T, kBytes>& x) {
  using P = Parts<T>;
  using Bits = typename P::Bits;
  using V = Vector<T, kBytes>;
  using BitVector = typename VectorOf<T, kBytes>::bits;
  // 2^n in two factors, so that small results become denormal: n is at most 0. The first factor of
  // the least x is 0, because a product that underflows takes a hundred cycles.
  constexpr int kLift = std::is_same_v<T, float> ? 64 : 512;
  const V low = V{} - T(0.69314718055994530942 * (kLift + P::kBias));
  x = x < low ? low : x;
  V shifted, p;
  exp_parts<T>(x, shifted, p);
  const BitVector whole = (BitVector)shifted - std::bit_cast<Bits>(P::kShift);
  const V first = (V)((whole + (kLift + P::kBias)) << P::kMantissa);
  x = p * first * std::bit_cast<T>(static_cast<Bits>(P::kBias - kLift) << P::kMantissa);
}

/// log(x) for x from 1 to 3, within 2 units in the last place of 1.
template <class T>
[[gnu::always_inline]] inline T log_1_to_3(T x) {
  // log(x / 1.75) = 2 artanh(z).
  const T z = (x - T(1.75)) / (x + T(1.75)), w = z * z;
  T p = 0;
  constexpr int kTerms = std::is_same_v<T, float> ? 7 : 14;
#pragma GCC unroll 16
  for (int k = kTerms - 1; k >= 0; --k) p = std::fma(p, w, T(1) / static_cast<T>(2 * k + 1));
  return std::fma(2 * z, p, T(0.55961578793542268627));
}

template <class T>
[[gnu::always_inline]] inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

/// tanh(x): a rational function near 0 (Moshier's Cephes), by exp elsewhere.
template <class T>
[[gnu::always_inline]] inline T tanh(T x) {
  const T z = x * x;
  const T p = std::fma(std::fma(T(-9.64399179425052238628e-1), z, T(-9.92877231001918586564e1)), z,
                       T(-1.61468768441708447952e3));
  const T q = std::fma(std::fma(z + T(1.12811678491632931402e2), z, T(2.23548839060100448583e3)), z,
                       T(4.84406305325125486048e3));
  const T near = std::fma(x * z, p / q, x);
  const T size = x < 0 ? -x : x;
  const T far = T(1) - T(2) / (exp(size + size) + T(1));
  return size < T(0.625) ? near : (x < 0 ? -far : (x != x ? x : far));
}

}  // namespace dyad::runtime::cpu::vector_math
