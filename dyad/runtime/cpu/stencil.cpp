#include "dyad/runtime/cpu/stencil.h"

#include <algorithm>

#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"

namespace dyad::runtime::cpu {
namespace {

using vector_math::Unaligned;
using vector_math::Vector;

template <int kBytes, class T>
[[gnu::always_inline]] inline void weigh_taps_loop(const T* const* from, const T* weight,
                                                   std::int64_t taps, T first, T* out,
                                                   std::int64_t count) {
  constexpr std::int64_t kWidth = vector_math::kVectorLanes<T, kBytes>,
                         kVectors = std::min<std::int64_t>(8, kStencilBlock / kWidth);
  using V = Vector<T, kBytes>;
  for (std::int64_t i = 0; i < count; i += kVectors * kWidth) {
    V sums[kVectors];
    for (V& sum : sums) sum = V{} + first;
    for (std::int64_t t = 0; t < taps; ++t) {
      const auto* x = reinterpret_cast<const Unaligned<T, kBytes>*>(from[t] + i);
      const T w = weight[t];
      for (std::int64_t k = 0; k < kVectors; ++k) sums[k] += x[k] * w;
    }
    auto* to = reinterpret_cast<Unaligned<T, kBytes>*>(out + i);
    for (std::int64_t k = 0; k < kVectors; ++k) to[k] = sums[k];
  }
}

/// 64 bytes of lanes, in vectors: sums have the same bits whatever the size of those.
template <class T, int kBytes>
struct Sums {
  static constexpr std::int64_t kParts = 64 / kBytes;
  Vector<T, kBytes> part[kParts] = {};

  [[gnu::always_inline]] void add_products(const T* a, const T* b) {
    const auto* x = reinterpret_cast<const Unaligned<T, kBytes>*>(a);
    const auto* y = reinterpret_cast<const Unaligned<T, kBytes>*>(b);
    for (std::int64_t k = 0; k < kParts; ++k) part[k] += x[k] * y[k];
  }
  [[gnu::always_inline]] T total() const {
    constexpr std::int64_t kWidth = vector_math::kVectorLanes<T, kBytes>;
    T lanes[kParts * kWidth];
    for (std::int64_t i = 0; i < kParts * kWidth; ++i) lanes[i] = part[i / kWidth][i % kWidth];
    for (std::int64_t half = kParts * kWidth / 2; half > 0; half /= 2) {
      for (std::int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    return lanes[0];
  }
};

template <int kBytes, class T>
[[gnu::always_inline]] inline void correlate_taps_loop(const T* a, const T* const* from,
                                                       std::int64_t taps, T* sums,
                                                       std::int64_t count) {
  constexpr std::int64_t kLanes = 64 / static_cast<std::int64_t>(sizeof(T));
  std::int64_t t = 0;
  for (; t + 3 <= taps; t += 3) {
    Sums<T, kBytes> p, q, r;
    for (std::int64_t i = 0; i < count; i += kLanes) {
      p.add_products(a + i, from[t] + i);
      q.add_products(a + i, from[t + 1] + i);
      r.add_products(a + i, from[t + 2] + i);
    }
    sums[t] = p.total();
    sums[t + 1] = q.total();
    sums[t + 2] = r.total();
  }
  for (; t < taps; ++t) {
    Sums<T, kBytes> p;
    for (std::int64_t i = 0; i < count; i += kLanes) p.add_products(a + i, from[t] + i);
    sums[t] = p.total();
  }
}

}  // namespace

DYAD_VECTOR_VERSIONS(void, weigh_taps,
                     (const float* const* from, const float* weight, std::int64_t taps, float first,
                      float* out, std::int64_t count),
                     weigh_taps_loop, (from, weight, taps, first, out, count))
DYAD_VECTOR_VERSIONS(void, weigh_taps,
                     (const double* const* from, const double* weight, std::int64_t taps,
                      double first, double* out, std::int64_t count),
                     weigh_taps_loop, (from, weight, taps, first, out, count))
DYAD_VECTOR_VERSIONS(void, correlate_taps,
                     (const float* a, const float* const* from, std::int64_t taps, float* sums,
                      std::int64_t count),
                     correlate_taps_loop, (a, from, taps, sums, count))
DYAD_VECTOR_VERSIONS(void, correlate_taps,
                     (const double* a, const double* const* from, std::int64_t taps, double* sums,
                      std::int64_t count),
                     correlate_taps_loop, (a, from, taps, sums, count))

}  // namespace dyad::runtime::cpu
