#pragma once

#include <cstdint>

namespace dyad::runtime::cpu {

// grid_sample on images whose channels lie side by side in lanes: element i of an image at
// [i * lanes + channel], so that one vector is a neighbour in all of them. There are 4 or 16 lanes;
// those without a channel are 0.

/// The lanes for so many channels, and the blocks of lanes that hold them.
[[nodiscard]] constexpr std::int64_t grid_lanes(std::int64_t channels) noexcept {
  return channels <= 4 ? 4 : 16;
}

/// `channels` planes of `count` elements, `plane` apart, into lanes.
void put_in_lanes(const float* from, std::int64_t plane, std::int64_t channels, std::int64_t lanes,
                  std::int64_t count, float* to);
void put_in_lanes(const double* from, std::int64_t plane, std::int64_t channels, std::int64_t lanes,
                  std::int64_t count, double* to);
/// The way back.
void take_from_lanes(const float* from, std::int64_t lanes, std::int64_t count, float* to,
                     std::int64_t plane, std::int64_t channels);
void take_from_lanes(const double* from, std::int64_t lanes, std::int64_t count, double* to,
                     std::int64_t plane, std::int64_t channels);

/// out[p] = sum over taps k of image[index[k][p]] * weight[k][p].
void sample_lanes(const float* image, std::int64_t lanes, const std::int32_t* index,
                  const float* weight, int taps, std::int64_t count, float* out);
void sample_lanes(const double* image, std::int64_t lanes, const std::int32_t* index,
                  const double* weight, int taps, std::int64_t count, double* out);

/// sums[index[k][p]] += grad[p] * weight[k][p], but for weights of 0; points in order.
void add_lanes(const float* grad, std::int64_t lanes, const std::int32_t* index,
               const float* weight, int taps, std::int64_t count, float* sums);
void add_lanes(const double* grad, std::int64_t lanes, const std::int32_t* index,
               const double* weight, int taps, std::int64_t count, double* sums);

/// sums[p] += the sum over lanes of grad[p] * (sum over taps k of image[index[k][p]] *
/// weight[k][p]).
void add_slopes(const float* grad, const float* image, std::int64_t lanes,
                const std::int32_t* index, const float* weight, int taps, std::int64_t count,
                float* sums);
void add_slopes(const double* grad, const double* image, std::int64_t lanes,
                const std::int32_t* index, const double* weight, int taps, std::int64_t count,
                double* sums);

}  // namespace dyad::runtime::cpu
