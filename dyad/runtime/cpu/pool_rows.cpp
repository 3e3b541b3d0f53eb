#include "dyad/runtime/cpu/pool_rows.h"

#include <limits>

#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"

namespace dyad::runtime::cpu {

DYAD_VECTOR_CLONES void keep_larger_dense(const float* from, float* best, std::int64_t n) {
  keep_larger_loop(from, 1, best, n);
}

namespace {

template <int kBytes, std::int64_t kChannels>
[[gnu::always_inline]] inline void max_of_channels(const DenseWindows& windows, float* to) {
  constexpr std::int64_t kParts = kChannels * static_cast<std::int64_t>(sizeof(float)) / kBytes;
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  using V = vector_math::Vector<float, kBytes>;
  using U = vector_math::Unaligned<float, kBytes>;
  const std::int64_t channels = windows.channels;
  for (std::int64_t o = 0; o < windows.outputs; ++o) {
    const std::int64_t first = windows.first[o] * channels, end = windows.end[o] * channels,
                       step = windows.step * channels;
    for (std::int64_t c = 0; c < channels; c += kChannels, to += kChannels) {
      V best[kParts];
      for (std::int64_t part = 0; part < kParts; ++part) {
        best[part] = reinterpret_cast<const U*>(windows.lines[0] + first + c)[part];
      }
      for (const float* const line : windows.lines) {
        for (std::int64_t p = first; p < end; p += step) {
          for (std::int64_t part = 0; part < kParts; ++part) {
            const V value = reinterpret_cast<const U*>(line + p + c)[part], b = best[part];
            // A NaN takes the place of what is none. What is NaN is not at least -inf.
            const V larger = value <= b ? b : value;
            best[part] = b >= kLeast ? larger : b;
          }
        }
      }
      for (std::int64_t part = 0; part < kParts; ++part)
        reinterpret_cast<U*>(to)[part] = best[part];
    }
  }
}

template <int kBytes>
[[gnu::always_inline]] inline void max_of_windows_loop(const DenseWindows& windows, float* to) {
  // GCC 12 takes choices in wider vectors apart.
  constexpr int kWidth = kBytes < 32 ? kBytes : 32;
  if (windows.channels % 32 == 0) return max_of_channels<kWidth, 32>(windows, to);
  max_of_channels<kWidth, 8>(windows, to);
}

}  // namespace

DYAD_VECTOR_VERSIONS(void, max_of_windows, (const DenseWindows& windows, float* to),
                     max_of_windows_loop, (windows, to))

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
