#include "dyad/runtime/cpu/grid_rows.h"

#include <algorithm>

#include "dyad/runtime/cpu/resample_rows.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"

namespace dyad::runtime::cpu {
namespace {

/// The neighbours of kVectorLanes coordinates.
template <class T>
[[gnu::always_inline]] inline void neighbours_of_vector(const LinearAxis<T>& axis, const T* g,
                                                        std::int32_t* first, std::int32_t* second,
                                                        T* first_weight, T* second_weight) {
  using Vector = typename vector_math::VectorOf<T>::type;
  using Unaligned = typename vector_math::VectorOf<T>::unaligned;
  using Bits = typename vector_math::VectorOf<T>::bits;
  constexpr std::size_t kBytes = 4 * vector_math::kVectorLanes<T>;
  typedef std::int32_t Index __attribute__((vector_size(kBytes), aligned(4), may_alias));
  const Vector zero{}, low = zero + (axis.clip ? T{0} : T{-1e9}),
                       high = zero + (axis.clip ? axis.size - 1 : T{1e9});
  const Bits size = Bits{} + static_cast<typename vector_math::ExpConstants<T>::Bits>(axis.size);
  Vector at = *reinterpret_cast<const Unaligned*>(g);
  at = at == at ? at : zero - 1;
  const Vector x = ((at + 1) * axis.factor - axis.shift) / 2;
  const Vector above = x > low ? x : low, inside = above < high ? above : high;
  const Bits whole = __builtin_convertvector(inside, Bits);
  // One comparison at a time: what joins them is taken apart into single elements.
  const Vector cut = __builtin_convertvector(whole, Vector);
  const Vector floor = cut > inside ? cut - 1 : cut;
  const Bits left = __builtin_convertvector(floor, Bits), right = left + 1;
  const Vector t = inside - floor;
  if (axis.order == 0) {
    *reinterpret_cast<Unaligned*>(first_weight) = 1 - t;
    *reinterpret_cast<Unaligned*>(second_weight) = t;
  } else {
    // Higher derivatives are 0.
    const Vector slope = zero + (axis.order == 1 ? axis.factor / 2 : T{0});
    const Vector moved = x > low ? slope : zero, rise = x < high ? moved : zero;
    *reinterpret_cast<Unaligned*>(first_weight) = -rise;
    *reinterpret_cast<Unaligned*>(second_weight) = rise;
  }
  const Bits outside = Bits{} - 1;
  Bits from = left < size ? left : outside, to = right < size ? right : outside;
  from = from < outside ? outside : from;
  to = to < outside ? outside : to;
  *reinterpret_cast<Index*>(first) = __builtin_convertvector(from, Index);
  *reinterpret_cast<Index*>(second) = __builtin_convertvector(to, Index);
}

template <class T>
[[gnu::always_inline]] inline void neighbours_loop(const LinearAxis<T>& axis, const T* g,
                                                   std::int64_t count, std::int32_t* index,
                                                   T* weight) {
  constexpr std::int64_t kWidth = vector_math::kVectorLanes<T>;
  std::int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    neighbours_of_vector(axis, g + i, index + i, index + count + i, weight + i, weight + count + i);
  }
  if (i == count) return;
  T coordinates[kWidth] = {}, weights[2 * kWidth];
  std::int32_t indices[2 * kWidth];
  std::copy(g + i, g + count, coordinates);
  neighbours_of_vector(axis, coordinates, indices, indices + kWidth, weights, weights + kWidth);
  for (std::int64_t side = 0; side < 2; ++side) {
    std::copy_n(indices + side * kWidth, count - i, index + side * count + i);
    std::copy_n(weights + side * kWidth, count - i, weight + side * count + i);
  }
}

template <class T>
[[gnu::always_inline]] inline void join_loop(const std::int32_t* at, const T* part,
                                             std::int32_t step, bool first, std::int32_t* index,
                                             T* weight, std::int64_t count) {
  if (first) {
    for (std::int64_t i = 0; i < count; ++i) index[i] = at[i];
    for (std::int64_t i = 0; i < count; ++i) weight[i] = part[i];
    return;
  }
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    index[i] = (index[i] < 0) | (at[i] < 0) ? -1 : index[i] + at[i] * step;
  }
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) weight[i] *= part[i];
}

template <class T>
[[gnu::always_inline]] inline void note_loop(std::int32_t* index, T* weight, std::int32_t* some,
                                             std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) some[i] = index[i] < 0 ? some[i] : index[i];
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) weight[i] = index[i] < 0 ? T{0} : weight[i];
}

/// kPlanes planes at once, so that an index is read once for all of them.
template <int kPlanes, class T>
[[gnu::always_inline]] inline void pick_of_four(const T* x, std::int64_t plane,
                                                const std::int32_t* index, const T* weight, T* out,
                                                std::int64_t step, std::int64_t count) {
  const std::int32_t *b = index + count, *c = b + count, *d = c + count;
  const T *q = weight + count, *r = q + count, *s = r + count;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at[4] = {index[i], b[i], c[i], d[i]};
    const T w[4] = {weight[i], q[i], r[i], s[i]};
    for (int k = 0; k < kPlanes; ++k) {
      const T* from = x + k * plane;
      out[k * step + i] =
          ((from[at[0]] * w[0] + from[at[1]] * w[1]) + from[at[2]] * w[2]) + from[at[3]] * w[3];
    }
  }
}

template <class T>
[[gnu::always_inline]] inline void pick_all_loop(const T* x, std::int64_t plane,
                                                 const std::int32_t* index, const T* weight,
                                                 int taps, std::int64_t planes, T* out,
                                                 std::int64_t step, std::int64_t count) {
  if (taps == 4) {
    for (; planes >= 4; planes -= 4, x += 4 * plane, out += 4 * step) {
      pick_of_four<4>(x, plane, index, weight, out, step, count);
    }
    if (planes == 3) pick_of_four<3>(x, plane, index, weight, out, step, count);
    if (planes == 2) pick_of_four<2>(x, plane, index, weight, out, step, count);
    if (planes == 1) pick_of_four<1>(x, plane, index, weight, out, step, count);
    return;
  }
  for (; planes > 0; --planes, x += plane, out += step) {
    pick_loop(x, index, weight, out, count);
    for (int k = 1; k < taps; ++k) {
      add_picked_loop(x, index + k * count, weight + k * count, out, count);
    }
  }
}

}  // namespace

DYAD_VECTOR_CLONES void put_inside(const std::int32_t* some, std::int32_t* index,
                                   std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t other = some[i] < 0 ? 0 : some[i];
    index[i] = index[i] < 0 ? other : index[i];
  }
}

DYAD_VECTOR_CLONES void linear_neighbours(const LinearAxis<float>& axis, const float* g,
                                          std::int64_t count, std::int32_t* index, float* weight) {
  neighbours_loop(axis, g, count, index, weight);
}
DYAD_VECTOR_CLONES void join_axis(const std::int32_t* at, const float* part, std::int32_t step,
                                  bool first, std::int32_t* index, float* weight,
                                  std::int64_t count) {
  join_loop(at, part, step, first, index, weight, count);
}
DYAD_VECTOR_CLONES void note_inside(std::int32_t* index, float* weight, std::int32_t* some,
                                    std::int64_t count) {
  note_loop(index, weight, some, count);
}
DYAD_VECTOR_CLONES void pick_all(const float* x, std::int64_t plane, const std::int32_t* index,
                                 const float* weight, int taps, std::int64_t planes, float* out,
                                 std::int64_t step, std::int64_t count) {
  pick_all_loop(x, plane, index, weight, taps, planes, out, step, count);
}

DYAD_VECTOR_CLONES void linear_neighbours(const LinearAxis<double>& axis, const double* g,
                                          std::int64_t count, std::int32_t* index, double* weight) {
  neighbours_loop(axis, g, count, index, weight);
}
DYAD_VECTOR_CLONES void join_axis(const std::int32_t* at, const double* part, std::int32_t step,
                                  bool first, std::int32_t* index, double* weight,
                                  std::int64_t count) {
  join_loop(at, part, step, first, index, weight, count);
}
DYAD_VECTOR_CLONES void note_inside(std::int32_t* index, double* weight, std::int32_t* some,
                                    std::int64_t count) {
  note_loop(index, weight, some, count);
}
DYAD_VECTOR_CLONES void pick_all(const double* x, std::int64_t plane, const std::int32_t* index,
                                 const double* weight, int taps, std::int64_t planes, double* out,
                                 std::int64_t step, std::int64_t count) {
  pick_all_loop(x, plane, index, weight, taps, planes, out, step, count);
}

}  // namespace dyad::runtime::cpu
