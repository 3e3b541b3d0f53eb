#pragma once

#include <cstdint>

namespace dyad::runtime::cpu {

// The loops that grid_sample spends its time in: in vectors for f32 and f64. Points come in blocks;
// tap k of point p of a block is at [k * kGridBlock + p].

inline constexpr std::int64_t kGridBlock = 256;

/// An axis of an image between whose elements a grid's numbers point: number g at position
/// ((g + 1) * factor - shift) / 2.
template <class T>
struct LinearAxis {
  T size, factor, shift;
  bool clip;           ///< positions outside are moved to the border
  std::int64_t order;  ///< of the derivative by g
};

/// to[i] = from[i * step].
void take_every(const float* from, std::int64_t step, std::int64_t count, float* to);
void take_every(const double* from, std::int64_t step, std::int64_t count, double* to);

/// The two neighbours of `count` coordinates (indices, -1 outside) and their weights: those on the
/// right kGridBlock after those on the left. A NaN points at -1. Whole vectors are read and
/// written.
void linear_neighbours(const LinearAxis<float>& axis, const float* g, std::int64_t count,
                       std::int32_t* index, float* weight);
void linear_neighbours(const LinearAxis<double>& axis, const double* g, std::int64_t count,
                       std::int32_t* index, double* weight);

/// The four neighbours of points with coordinates gx and gy, as join_axis, note_inside and
/// put_inside make them of the neighbours along both axes; `width` elements lie between rows. False
/// where every point has a neighbour inside. Whole vectors are read and written.
bool bilinear_neighbours(const LinearAxis<float>& x, const LinearAxis<float>& y, const float* gx,
                         const float* gy, std::int32_t width, std::int64_t count,
                         std::int32_t* index, float* weight, std::int32_t* some);
bool bilinear_neighbours(const LinearAxis<double>& x, const LinearAxis<double>& y, const double* gx,
                         const double* gy, std::int32_t width, std::int64_t count,
                         std::int32_t* index, double* weight, std::int32_t* some);

/// Adds one axis to the taps of points: index += at * step and weight *= part, or both set where it
/// is the first; index is negative from then on where `at` is.
void join_axis(const std::int32_t* at, const float* part, std::int32_t step, bool first,
               std::int32_t* index, float* weight, std::int64_t count);
void join_axis(const std::int32_t* at, const double* part, std::int32_t step, bool first,
               std::int32_t* index, double* weight, std::int64_t count);

/// Where the tap is inside, some = index; where not, index = -1 and weight = 0.
void note_inside(std::int32_t* index, float* weight, std::int32_t* some, std::int64_t count);
void note_inside(std::int32_t* index, double* weight, std::int32_t* some, std::int64_t count);
/// Taps outside get the index of one inside, or 0 where there is none.
void put_inside(const std::int32_t* some, std::int32_t* index, std::int64_t count);

}  // namespace dyad::runtime::cpu
