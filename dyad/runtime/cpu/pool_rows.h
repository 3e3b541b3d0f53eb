#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "dyad/runtime/cpu/element.h"

namespace dyad::runtime::cpu {

/// One position of an image: its channels, `step` elements apart.
template <class T>
struct Row {
  T* data;
  std::int64_t step;
};

// The loops over channels that pooling spends its time in. Rows of neighbouring f32 channels go to
// vector code (pool_rows.cpp); everything else runs as written here, with the same results.

/// Whether `value` takes the place of `best`: larger, or the first NaN. No branches, for vectors.
template <class T>
[[gnu::always_inline]] inline bool beats(T value, T best) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    return (value > best) | ((value != value) & (best == best));
  } else if constexpr (is_half<T>) {
    return beats(to_float(value), to_float(best));
  } else {
    return value > best;
  }
}

template <class T>
void copy_row(Row<const T> from, Row<T> to, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) to.data[c * to.step] = from.data[c * from.step];
}

/// best[c] = the larger of best[c] and the row's.
template <class T>
[[gnu::always_inline]] inline void keep_larger_loop(const T* from, std::int64_t step, T* best,
                                                    std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) {
    const T value = from[c * step];
    best[c] = beats(value, best[c]) ? value : best[c];
  }
}
void keep_larger_dense(const float* from, float* best, std::int64_t n);
template <class T>
void keep_larger(Row<const T> from, T* best, std::int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    if (from.step == 1) return keep_larger_dense(from.data, best, n);
  }
  keep_larger_loop(from.data, from.step, best, n);
}

/// Windows along a row of an image of f32 channels side by side, as many as a multiple of eight. A
/// window has the elements first[o], first[o] + step... before end[o] of each of `lines`, at least
/// one in all.
struct DenseWindows {
  std::span<const float* const> lines;
  const std::int64_t *first, *end;
  std::int64_t step, outputs, channels;
};
/// The largest of each window, as keep_larger() has it; results are `channels` elements apart.
void max_of_windows(const DenseWindows& windows, float* to);

/// The same, with positions[c] = `at` where the row's was larger.
template <class T>
[[gnu::always_inline]] inline void keep_larger_at_loop(const T* from, std::int64_t step, T* best,
                                                       std::int32_t* positions, std::int32_t at,
                                                       std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) {
    const T value = from[c * step];
    const bool larger = beats(value, best[c]);
    best[c] = larger ? value : best[c];
    positions[c] = larger ? at : positions[c];
  }
}
void keep_larger_at_dense(const float* from, float* best, std::int32_t* positions, std::int32_t at,
                          std::int64_t n);
template <class T>
void keep_larger_at(Row<const T> from, T* best, std::int32_t* positions, std::int32_t at,
                    std::int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    if (from.step == 1) return keep_larger_at_dense(from.data, best, positions, at, n);
  }
  keep_larger_at_loop(from.data, from.step, best, positions, at, n);
}

/// to[c] = the row's where positions[c] is `at`, otherwise 0.
template <class T>
[[gnu::always_inline]] inline void put_where_loop(const T* from, std::int64_t step,
                                                  const std::int32_t* positions, std::int32_t at,
                                                  T* to, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) {
    const T value = from[c * step];
    to[c] = positions[c] == at ? value : T{};
  }
}
void put_where_dense(const float* from, const std::int32_t* positions, std::int32_t at, float* to,
                     std::int64_t n);
template <class T>
void put_where(Row<const T> from, const std::int32_t* positions, std::int32_t at, T* to,
               std::int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    if (from.step == 1) return put_where_dense(from.data, positions, at, to, n);
  }
  put_where_loop(from.data, from.step, positions, at, to, n);
}

/// sums[c] += the row's.
template <class T>
[[gnu::always_inline]] inline void add_row_loop(const T* from, std::int64_t step,
                                                Accumulator<T>* sums, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) sums[c] += load(from[c * step]);
}
void add_row_dense(const float* from, float* sums, std::int64_t n);
template <class T>
void add_row(Row<const T> from, Accumulator<T>* sums, std::int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    if (from.step == 1) return add_row_dense(from.data, sums, n);
  }
  add_row_loop(from.data, from.step, sums, n);
}

template <class A>
void divide_row(A* sums, A divisor, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) sums[c] /= divisor;
}

template <class T>
void store_row(const Accumulator<T>* sums, Row<T> to, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) to.data[c * to.step] = store<T>(sums[c]);
}

}  // namespace dyad::runtime::cpu
