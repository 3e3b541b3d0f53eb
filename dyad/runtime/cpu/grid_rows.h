#pragma once

#include <cstdint>

namespace dyad::runtime::cpu {

// The loops that grid_sample spends its time in, over points: in vectors for f32 and f64.

/// An axis of an image between whose elements a grid's numbers point: number g at position
/// ((g + 1) * factor - shift) / 2.
template <class T>
struct LinearAxis {
  T size, factor, shift;
  bool clip;           ///< positions outside are moved to the border
  std::int64_t order;  ///< of the derivative by g
};

/// The two neighbours of `count` coordinates (indices, -1 outside) and their weights: those on the
/// right `count` after those on the left. A NaN points at -1.
void linear_neighbours(const LinearAxis<float>& axis, const float* g, std::int64_t count,
                       std::int32_t* index, float* weight);
void linear_neighbours(const LinearAxis<double>& axis, const double* g, std::int64_t count,
                       std::int32_t* index, double* weight);

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

/// For each of some planes of x, `plane` elements apart: out = sum over taps k of
/// x[index[k]] * weight[k], tap k of point p at [k * count + p]; results `step` apart.
void pick_all(const float* x, std::int64_t plane, const std::int32_t* index, const float* weight,
              int taps, std::int64_t planes, float* out, std::int64_t step, std::int64_t count);
void pick_all(const double* x, std::int64_t plane, const std::int32_t* index, const double* weight,
              int taps, std::int64_t planes, double* out, std::int64_t step, std::int64_t count);

}  // namespace dyad::runtime::cpu
