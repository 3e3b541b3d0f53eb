#include "dyad/runtime/cpu/pool_rows.h"

#include <limits>

#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"

namespace dyad::runtime::cpu {

DYAD_VECTOR_CLONES void keep_larger_dense(const float* from, float* best, std::int64_t n) {
  keep_larger_loop(from, 1, best, n);
}

namespace {

template <int kBytes>
[[gnu::always_inline]] inline void max_of_eight_loop(const EightWindows& windows, float* to,
                                                     std::int64_t distance) {
  constexpr std::int64_t kChannels = 8;
  constexpr int kWidth = kBytes < 32 ? kBytes : 32;
  constexpr int kParts = 32 / kWidth;
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  using V = vector_math::Vector<float, kWidth>;
  using U = vector_math::Unaligned<float, kWidth>;
  for (std::int64_t o = 0; o < windows.outputs; ++o) {
    const std::int64_t first = windows.first[o], end = windows.end[o];
    V best[kParts];
    for (int part = 0; part < kParts; ++part) {
      best[part] = reinterpret_cast<const U*>(windows.lines[0] + first * kChannels)[part];
    }
    for (const float* const line : windows.lines) {
      for (std::int64_t p = first; p < end; p += windows.step) {
        for (int part = 0; part < kParts; ++part) {
          const V value = reinterpret_cast<const U*>(line + p * kChannels)[part], b = best[part];
          // What is NaN is not at least -inf.
          best[part] = (value <= b) | ~(b >= kLeast) ? b : value;
        }
      }
    }
    for (int part = 0; part < kParts; ++part) {
      reinterpret_cast<U*>(to + o * distance)[part] = best[part];
    }
  }
}

}  // namespace

DYAD_VECTOR_VERSIONS(void, max_of_eight,
                     (const EightWindows& windows, float* to, std::int64_t distance),
                     max_of_eight_loop, (windows, to, distance))

DYAD_VECTOR_CLONES void keep_larger_at_dense(const float* from, float* best,
                                             std::int32_t* positions, std::int32_t at,
                                             std::int64_t n) {
  keep_larger_at_loop(from, 1, best, positions, at, n);
}

DYAD_VECTOR_CLONES void put_where_dense(const float* from, const std::int32_t* positions,
                                        std::int32_t at, float* to, std::int64_t n) {
  put_where_loop(from, 1, positions, at, to, n);
}

DYAD_VECTOR_CLONES void add_row_dense(const float* from, float* sums, std::int64_t n) {
  add_row_loop(from, 1, sums, n);
}

}  // namespace dyad::runtime::cpu
