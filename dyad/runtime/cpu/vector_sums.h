#pragma once

#include <algorithm>
#include <cstdint>

#include "dyad/runtime/cpu/vector_math.h"

namespace dyad::runtime::cpu::vector_math {

/// Sums are kept in groups of so many lanes, whatever the vectors of the CPU, so their bits are the
/// same on all; in several groups, so that no addition waits for the one before it.
inline constexpr std::int64_t kGroupLanes = 16, kGroups = 4;
/// So many elements are added up in their own dtype, those sums in f64.
inline constexpr std::int64_t kSumChunk = 4096;

/// Elements that are fetched while others are added up; none at null. Far: into the second cache
/// only, for rows that come from memory: in the first one those that lie a multiple of 4 KB apart
/// would push each other out.
template <class T>
struct Fetched {
  const T* at = nullptr;
  bool far = false;
};

/// Adds up kSums sums over i in [0, n). `terms(at, add)` is to call `add(k, term)` for each of
/// them, where `at(x)` stands for x[i], or for as many of them as are computed with at once; it may
/// write to these. Each i comes once.
template <int kBytes, class T, int kSums, class Terms>
[[gnu::always_inline]] inline void sum_terms(std::int64_t n, double* totals, Fetched<T> next,
                                             Terms terms) {
  constexpr std::int64_t kWidth = kVectorLanes<T, kBytes>, kParts = kGroupLanes / kWidth;
  const auto add_up = [](auto& p, const auto& q) { p += q; };
  std::fill_n(totals, kSums, 0.0);
  for (std::int64_t begin = 0; begin < n; begin += kSumChunk) {
    const std::int64_t end = std::min(n, begin + kSumChunk);
    Vector<T, kBytes> sums[kSums][kGroups][kParts] = {};
    const auto add_group = [&](std::int64_t i, std::int64_t group) __attribute__((always_inline)) {
      if (next.at) {
        if (next.far) {
          __builtin_prefetch(next.at + i, 0, 2);
        } else {
          __builtin_prefetch(next.at + i);
        }
      }
      for (std::int64_t part = 0; part < kParts; ++part, i += kWidth) {
        terms(VectorAt<T, kBytes>{i},
              [&](int k, const auto& term) { sums[k][group][part] += term; });
      }
    };
    std::int64_t i = begin;
    for (; i + kGroups * kGroupLanes <= end; i += kGroups * kGroupLanes) {
#pragma GCC unroll 4
      for (std::int64_t g = 0; g < kGroups; ++g) add_group(i + g * kGroupLanes, g);
    }
#pragma GCC unroll 4
    for (std::int64_t g = 0; g + 1 < kGroups; ++g) {
      if (i + kGroupLanes > end) break;
      add_group(i, g);
      i += kGroupLanes;
    }
    T rest[kSums] = {};
    for (; i < end; ++i) {
      terms([i](auto* x) -> auto& { return x[i]; }, [&](int k, const T& term) { rest[k] += term; });
    }
#pragma GCC unroll 4
    for (int k = 0; k < kSums; ++k) {
      for (std::int64_t half = kGroups / 2; half > 0; half /= 2) {
        for (std::int64_t g = 0; g < half; ++g) {
          for (std::int64_t part = 0; part < kParts; ++part)
            sums[k][g][part] += sums[k][g + half][part];
        }
      }
      for (std::int64_t half = kParts / 2; half > 0; half /= 2) {
        for (std::int64_t part = 0; part < half; ++part)
          sums[k][0][part] += sums[k][0][part + half];
      }
      totals[k] += static_cast<double>(over_lanes<T, kBytes>(sums[k][0][0], add_up) + rest[k]);
    }
  }
}

}  // namespace dyad::runtime::cpu::vector_math
