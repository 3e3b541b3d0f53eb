#include "dyad/runtime/cpu/grid_lanes.h"

#include "dyad/runtime/cpu/grid_rows.h"
#include "dyad/runtime/cpu/vector_clones.h"

namespace dyad::runtime::cpu {
namespace {

/// A vector of that many elements, and one that may lie anywhere.
template <class T, int kLanes>
struct LanesOf {
  static constexpr int kBytes = kLanes * static_cast<int>(sizeof(T));
  typedef T type __attribute__((vector_size(kBytes)));
  typedef T unaligned __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
};
template <class T, int kLanes>
using Lanes = typename LanesOf<T, kLanes>::type;

template <int kLanes, class T>
[[gnu::always_inline]] inline void load_lanes(const T* from, Lanes<T, kLanes>& to) {
  to = *reinterpret_cast<const typename LanesOf<T, kLanes>::unaligned*>(from);
}
template <int kLanes, class T>
[[gnu::always_inline]] inline void store_lanes(const Lanes<T, kLanes>& from, T* to) {
  *reinterpret_cast<typename LanesOf<T, kLanes>::unaligned*>(to) = from;
}

/// Rows of four become columns.
template <class T>
[[gnu::always_inline]] inline void turn(Lanes<T, 4>* rows) {
  const Lanes<T, 4> a = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
  const Lanes<T, 4> b = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
  const Lanes<T, 4> c = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
  const Lanes<T, 4> d = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
  rows[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  rows[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  rows[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  rows[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

template <int kPlanes, class T>
[[gnu::always_inline]] inline void put_planes(const T* from, std::int64_t plane, std::int64_t lanes,
                                              std::int64_t count, T* to) {
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    Lanes<T, 4> rows[4] = {};
    for (int k = 0; k < kPlanes; ++k) load_lanes<4>(from + k * plane + i, rows[k]);
    turn<T>(rows);
    for (int k = 0; k < 4; ++k) store_lanes<4>(rows[k], to + (i + k) * lanes);
  }
  for (; i < count; ++i) {
    for (int k = 0; k < 4; ++k) to[i * lanes + k] = k < kPlanes ? from[k * plane + i] : T{0};
  }
}

template <int kPlanes, class T>
[[gnu::always_inline]] inline void take_planes(const T* from, std::int64_t lanes,
                                               std::int64_t count, T* to, std::int64_t plane) {
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    Lanes<T, 4> rows[4];
    for (int k = 0; k < 4; ++k) load_lanes<4>(from + (i + k) * lanes, rows[k]);
    turn<T>(rows);
    for (int k = 0; k < kPlanes; ++k) store_lanes<4>(rows[k], to + k * plane + i);
  }
  for (; i < count; ++i) {
    for (int k = 0; k < kPlanes; ++k) to[k * plane + i] = from[i * lanes + k];
  }
}

template <class T>
[[gnu::always_inline]] inline void put_loop(const T* from, std::int64_t plane,
                                            std::int64_t channels, std::int64_t lanes,
                                            std::int64_t count, T* to) {
  for (std::int64_t c = 0; c < lanes; c += 4, from += 4 * plane, to += 4) {
    const std::int64_t left = channels - c;
    if (left >= 4) put_planes<4>(from, plane, lanes, count, to);
    if (left == 3) put_planes<3>(from, plane, lanes, count, to);
    if (left == 2) put_planes<2>(from, plane, lanes, count, to);
    if (left == 1) put_planes<1>(from, plane, lanes, count, to);
    if (left <= 0) put_planes<0>(from, plane, lanes, count, to);
  }
}

template <class T>
[[gnu::always_inline]] inline void take_loop(const T* from, std::int64_t lanes, std::int64_t count,
                                             T* to, std::int64_t plane, std::int64_t channels) {
  for (; channels > 0; channels -= 4, from += 4, to += 4 * plane) {
    if (channels >= 4) take_planes<4>(from, lanes, count, to, plane);
    if (channels == 3) take_planes<3>(from, lanes, count, to, plane);
    if (channels == 2) take_planes<2>(from, lanes, count, to, plane);
    if (channels == 1) take_planes<1>(from, lanes, count, to, plane);
  }
}

/// sum = the sum over taps of image[index] * weight for point p.
template <int kLanes, class T>
[[gnu::always_inline]] inline void sample(const T* image, const std::int32_t* index,
                                          const T* weight, int taps, std::int64_t p,
                                          Lanes<T, kLanes>& sum) {
  Lanes<T, kLanes> x;
  load_lanes<kLanes>(image + std::int64_t{index[p]} * kLanes, x);
  sum = x * weight[p];
  for (int k = 1; k < taps; ++k) {
    load_lanes<kLanes>(image + std::int64_t{index[k * kGridBlock + p]} * kLanes, x);
    sum += x * weight[k * kGridBlock + p];
  }
}

/// Calls `run(number of taps)`, a constant where there are four.
template <class Run>
[[gnu::always_inline]] inline void with_taps(int taps, Run run) {
  if (taps == 4) {
    run(4);
  } else {
    run(taps);
  }
}

template <int kLanes, class T>
[[gnu::always_inline]] inline void sample_loop(const T* image, const std::int32_t* index,
                                               const T* weight, int taps, std::int64_t count,
                                               T* out) {
  with_taps(taps, [&](int n) __attribute__((always_inline)) {
    for (std::int64_t p = 0; p < count; ++p) {
      Lanes<T, kLanes> sum;
      sample<kLanes>(image, index, weight, n, p, sum);
      store_lanes<kLanes>(sum, out + p * kLanes);
    }
  });
}

template <int kLanes, class T>
[[gnu::always_inline]] inline void add_loop(const T* grad, const std::int32_t* index,
                                            const T* weight, int taps, std::int64_t count,
                                            T* sums) {
  with_taps(taps, [&](int n) __attribute__((always_inline)) {
    for (std::int64_t p = 0; p < count; ++p) {
      Lanes<T, kLanes> g, sum;
      load_lanes<kLanes>(grad + p * kLanes, g);
      for (int k = 0; k < n; ++k) {
        const T w = weight[k * kGridBlock + p];
        if (w == 0) continue;
        T* at = sums + std::int64_t{index[k * kGridBlock + p]} * kLanes;
        load_lanes<kLanes>(at, sum);
        sum += g * w;
        store_lanes<kLanes>(sum, at);
      }
    }
  });
}

/// quarters = grad * sample for point p, its lanes i, i + 4, i + 8... added up in lane i.
template <int kLanes, class T>
[[gnu::always_inline]] inline void slope_quarters(const T* grad, const T* image,
                                                  const std::int32_t* index, const T* weight,
                                                  int taps, std::int64_t p, Lanes<T, 4>& quarters) {
  Lanes<T, kLanes> sum, g;
  sample<kLanes>(image, index, weight, taps, p, sum);
  load_lanes<kLanes>(grad + p * kLanes, g);
  sum *= g;
  T lanes[kLanes];
  store_lanes<kLanes>(sum, lanes);
  load_lanes<4>(lanes, quarters);
  for (int k = 4; k < kLanes; k += 4) {
    Lanes<T, 4> more;
    load_lanes<4>(lanes + k, more);
    quarters += more;
  }
}

template <int kLanes, class T>
[[gnu::always_inline]] inline void slope_loop(const T* grad, const T* image,
                                              const std::int32_t* index, const T* weight, int taps,
                                              std::int64_t count, T* sums) {
  with_taps(taps, [&](int n) __attribute__((always_inline)) {
    std::int64_t p = 0;
    for (; p + 4 <= count; p += 4) {
      Lanes<T, 4> rows[4], sum;
      for (int k = 0; k < 4; ++k) {
        slope_quarters<kLanes>(grad, image, index, weight, n, p + k, rows[k]);
      }
      turn<T>(rows);
      load_lanes<4>(sums + p, sum);
      sum += (rows[0] + rows[1]) + (rows[2] + rows[3]);
      store_lanes<4>(sum, sums + p);
    }
    for (; p < count; ++p) {
      Lanes<T, 4> row;
      slope_quarters<kLanes>(grad, image, index, weight, n, p, row);
      sums[p] += (row[0] + row[1]) + (row[2] + row[3]);
    }
  });
}

}  // namespace

DYAD_VECTOR_CLONES void put_in_lanes(const float* from, std::int64_t plane, std::int64_t channels,
                                     std::int64_t lanes, std::int64_t count, float* to) {
  put_loop(from, plane, channels, lanes, count, to);
}
DYAD_VECTOR_CLONES void take_from_lanes(const float* from, std::int64_t lanes, std::int64_t count,
                                        float* to, std::int64_t plane, std::int64_t channels) {
  take_loop(from, lanes, count, to, plane, channels);
}
DYAD_VECTOR_CLONES void sample_lanes(const float* image, std::int64_t lanes,
                                     const std::int32_t* index, const float* weight, int taps,
                                     std::int64_t count, float* out) {
  if (lanes == 4) return sample_loop<4>(image, index, weight, taps, count, out);
  sample_loop<16>(image, index, weight, taps, count, out);
}
DYAD_VECTOR_CLONES void add_lanes(const float* grad, std::int64_t lanes, const std::int32_t* index,
                                  const float* weight, int taps, std::int64_t count, float* sums) {
  if (lanes == 4) return add_loop<4>(grad, index, weight, taps, count, sums);
  add_loop<16>(grad, index, weight, taps, count, sums);
}
DYAD_VECTOR_CLONES void add_slopes(const float* grad, const float* image, std::int64_t lanes,
                                   const std::int32_t* index, const float* weight, int taps,
                                   std::int64_t count, float* sums) {
  if (lanes == 4) return slope_loop<4>(grad, image, index, weight, taps, count, sums);
  slope_loop<16>(grad, image, index, weight, taps, count, sums);
}

DYAD_VECTOR_CLONES void put_in_lanes(const double* from, std::int64_t plane, std::int64_t channels,
                                     std::int64_t lanes, std::int64_t count, double* to) {
  put_loop(from, plane, channels, lanes, count, to);
}
DYAD_VECTOR_CLONES void take_from_lanes(const double* from, std::int64_t lanes, std::int64_t count,
                                        double* to, std::int64_t plane, std::int64_t channels) {
  take_loop(from, lanes, count, to, plane, channels);
}
DYAD_VECTOR_CLONES void sample_lanes(const double* image, std::int64_t lanes,
                                     const std::int32_t* index, const double* weight, int taps,
                                     std::int64_t count, double* out) {
  if (lanes == 4) return sample_loop<4>(image, index, weight, taps, count, out);
  sample_loop<16>(image, index, weight, taps, count, out);
}
DYAD_VECTOR_CLONES void add_lanes(const double* grad, std::int64_t lanes, const std::int32_t* index,
                                  const double* weight, int taps, std::int64_t count,
                                  double* sums) {
  if (lanes == 4) return add_loop<4>(grad, index, weight, taps, count, sums);
  add_loop<16>(grad, index, weight, taps, count, sums);
}
DYAD_VECTOR_CLONES void add_slopes(const double* grad, const double* image, std::int64_t lanes,
                                   const std::int32_t* index, const double* weight, int taps,
                                   std::int64_t count, double* sums) {
  if (lanes == 4) return slope_loop<4>(grad, image, index, weight, taps, count, sums);
  slope_loop<16>(grad, image, index, weight, taps, count, sums);
}

}  // namespace dyad::runtime::cpu
