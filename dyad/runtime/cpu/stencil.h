#pragma once

#include <cstdint>

namespace dyad::runtime::cpu {

// The loops that depthwise convolution spends its time in, over neighbouring elements. Both read
// and write whole blocks: counts are rounded up to kStencilBlock elements, and buffers reach as
// far.

inline constexpr std::int64_t kStencilBlock = 64;

/// `count` rounded up to whole blocks.
[[nodiscard]] constexpr std::int64_t whole_blocks(std::int64_t count) noexcept {
  return (count + kStencilBlock - 1) / kStencilBlock * kStencilBlock;
}

/// out[i] = first + sum over taps t, in order, of weight[t] * from[t][i].
void weigh_taps(const float* const* from, const float* weight, std::int64_t taps, float first,
                float* out, std::int64_t count);
void weigh_taps(const double* const* from, const double* weight, std::int64_t taps, double first,
                double* out, std::int64_t count);

/// sums[t] = sum over i of a[i] * from[t][i], in 16 lanes (8 of f64) that are then added up as a
/// tree.
void correlate_taps(const float* a, const float* const* from, std::int64_t taps, float* sums,
                    std::int64_t count);
void correlate_taps(const double* a, const double* const* from, std::int64_t taps, double* sums,
                    std::int64_t count);

}  // namespace dyad::runtime::cpu
