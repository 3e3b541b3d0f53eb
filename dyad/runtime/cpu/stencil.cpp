#include "dyad/runtime/cpu/stencil.h"

#include "dyad/runtime/cpu/vector_clones.h"

namespace dyad::runtime::cpu {
namespace {

/// 64 bytes that are added and multiplied at once, and may lie anywhere.
template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(64)));
  typedef T unaligned __attribute__((vector_size(64), aligned(sizeof(T)), may_alias));
};
template <class T>
inline constexpr std::int64_t kTapLanes = 64 / static_cast<std::int64_t>(sizeof(T));

template <class T>
[[gnu::always_inline]] inline void weigh_taps_loop(const T* const* from, const T* weight,
                                                   std::int64_t taps, T first, T* out,
                                                   std::int64_t count) {
  using Vector = typename VectorOf<T>::type;
  using Unaligned = typename VectorOf<T>::unaligned;
  for (std::int64_t i = 0; i < count; i += 4 * kTapLanes<T>) {
    Vector a = Vector{} + first, b = a, c = a, d = a;
    for (std::int64_t t = 0; t < taps; ++t) {
      const auto* x = reinterpret_cast<const Unaligned*>(from[t] + i);
      const T w = weight[t];
      a += x[0] * w;
      b += x[1] * w;
      c += x[2] * w;
      d += x[3] * w;
    }
    auto* to = reinterpret_cast<Unaligned*>(out + i);
    to[0] = a;
    to[1] = b;
    to[2] = c;
    to[3] = d;
  }
}

template <class T>
[[gnu::always_inline]] inline T sum_lanes(const typename VectorOf<T>::type& lanes) {
  T parts[kTapLanes<T>];
  for (std::int64_t i = 0; i < kTapLanes<T>; ++i) parts[i] = lanes[i];
  for (std::int64_t half = kTapLanes<T> / 2; half > 0; half /= 2) {
    for (std::int64_t i = 0; i < half; ++i) parts[i] += parts[i + half];
  }
  return parts[0];
}

template <class T>
[[gnu::always_inline]] inline void correlate_taps_loop(const T* a, const T* const* from,
                                                       std::int64_t taps, T* sums,
                                                       std::int64_t count) {
  using Vector = typename VectorOf<T>::type;
  using Unaligned = typename VectorOf<T>::unaligned;
  std::int64_t t = 0;
  for (; t + 3 <= taps; t += 3) {
    Vector p{}, q{}, r{};
    for (std::int64_t i = 0; i < count; i += kTapLanes<T>) {
      const Vector factor = *reinterpret_cast<const Unaligned*>(a + i);
      p += factor * *reinterpret_cast<const Unaligned*>(from[t] + i);
      q += factor * *reinterpret_cast<const Unaligned*>(from[t + 1] + i);
      r += factor * *reinterpret_cast<const Unaligned*>(from[t + 2] + i);
    }
    sums[t] = sum_lanes<T>(p);
    sums[t + 1] = sum_lanes<T>(q);
    sums[t + 2] = sum_lanes<T>(r);
  }
  for (; t < taps; ++t) {
    Vector p{};
    for (std::int64_t i = 0; i < count; i += kTapLanes<T>) {
      p += *reinterpret_cast<const Unaligned*>(a + i) *
           *reinterpret_cast<const Unaligned*>(from[t] + i);
    }
    sums[t] = sum_lanes<T>(p);
  }
}

}  // namespace

DYAD_VECTOR_CLONES void weigh_taps(const float* const* from, const float* weight, std::int64_t taps,
                                   float first, float* out, std::int64_t count) {
  weigh_taps_loop(from, weight, taps, first, out, count);
}
DYAD_VECTOR_CLONES void weigh_taps(const double* const* from, const double* weight,
                                   std::int64_t taps, double first, double* out,
                                   std::int64_t count) {
  weigh_taps_loop(from, weight, taps, first, out, count);
}
DYAD_VECTOR_CLONES void correlate_taps(const float* a, const float* const* from, std::int64_t taps,
                                       float* sums, std::int64_t count) {
  correlate_taps_loop(a, from, taps, sums, count);
}
DYAD_VECTOR_CLONES void correlate_taps(const double* a, const double* const* from,
                                       std::int64_t taps, double* sums, std::int64_t count) {
  correlate_taps_loop(a, from, taps, sums, count);
}

}  // namespace dyad::runtime::cpu
