#include "dyad/runtime/cpu/grid_rows.h"

#include "dyad/runtime/cpu/resample_rows.h"
#include "dyad/runtime/cpu/vector_clones.h"

namespace dyad::runtime::cpu {
namespace {

template <class T>
[[gnu::always_inline]] inline void neighbours_loop(const LinearAxis<T>& axis, const T* g,
                                                   std::int64_t count, std::int32_t* index,
                                                   T* weight) {
  const T factor = axis.factor, shift = axis.shift, last = axis.size - 1;
  const T low = axis.clip ? T{0} : T{-1e9}, high = axis.clip ? last : T{1e9};
  const auto size = static_cast<std::int32_t>(axis.size);
  const bool value = axis.order == 0;
  // Higher derivatives are 0.
  const T slope = axis.order == 1 ? factor / 2 : T{0};
  std::int32_t* const next = index + count;
  T* const next_weight = weight + count;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const T at = g[i] == g[i] ? g[i] : T{-1};
    const T x = ((at + 1) * factor - shift) / 2;
    const T above = x > low ? x : low, inside = above < high ? above : high;
    const auto whole = static_cast<std::int32_t>(inside);
    const std::int32_t left = static_cast<T>(whole) > inside ? whole - 1 : whole;
    const T t = inside - static_cast<T>(left);
    const T moved = x > low ? slope : T{0}, rise = x < high ? moved : T{0};
    weight[i] = value ? 1 - t : -rise;
    next_weight[i] = value ? t : rise;
    const std::int32_t right = left + 1;
    const std::int32_t first = left < size ? left : -1, second = right < size ? right : -1;
    index[i] = first < 0 ? -1 : first;
    next[i] = second < 0 ? -1 : second;
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

template <class T>
[[gnu::always_inline]] inline void pick_all_loop(const T* x, const std::int32_t* index,
                                                 const T* weight, int taps, T* out,
                                                 std::int64_t count) {
  if (taps == 4) {
    const std::int32_t *b = index + count, *c = b + count, *d = c + count;
    const T *q = weight + count, *r = q + count, *s = r + count;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = ((x[index[i]] * weight[i] + x[b[i]] * q[i]) + x[c[i]] * r[i]) + x[d[i]] * s[i];
    }
    return;
  }
  pick_loop(x, index, weight, out, count);
  for (int k = 1; k < taps; ++k) {
    add_picked_loop(x, index + k * count, weight + k * count, out, count);
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
DYAD_VECTOR_CLONES void pick_all(const float* x, const std::int32_t* index, const float* weight,
                                 int taps, float* out, std::int64_t count) {
  pick_all_loop(x, index, weight, taps, out, count);
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
DYAD_VECTOR_CLONES void pick_all(const double* x, const std::int32_t* index, const double* weight,
                                 int taps, double* out, std::int64_t count) {
  pick_all_loop(x, index, weight, taps, out, count);
}

}  // namespace dyad::runtime::cpu
