#include "dyad/runtime/cpu/grid_lanes.h"

#include <algorithm>

#include "dyad/runtime/cpu/grid_rows.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"

namespace dyad::runtime::cpu {
namespace {

/// kLanes elements, in vectors of at most kBytes.
template <class T, int kLanes, int kBytes>
struct Lanes {
  static constexpr int kSize = std::min(kBytes, kLanes* static_cast<int>(sizeof(T))),
                       kWidth = kSize / static_cast<int>(sizeof(T)), kParts = kLanes / kWidth;
  using Unaligned = vector_math::Unaligned<T, kSize>;
  vector_math::Vector<T, kSize> part[kParts];

  [[gnu::always_inline]] void load(const T* from) {
    for (int k = 0; k < kParts; ++k) part[k] = reinterpret_cast<const Unaligned*>(from)[k];
  }
  [[gnu::always_inline]] void store(T* to) const {
    for (int k = 0; k < kParts; ++k) reinterpret_cast<Unaligned*>(to)[k] = part[k];
  }
  /// this += x * weight.
  [[gnu::always_inline]] void add(const Lanes& x, T weight) {
    for (int k = 0; k < kParts; ++k) part[k] += x.part[k] * weight;
  }
  [[gnu::always_inline]] void scale(const Lanes& x, T weight) {
    for (int k = 0; k < kParts; ++k) part[k] = x.part[k] * weight;
  }
  [[gnu::always_inline]] void multiply(const Lanes& x) {
    for (int k = 0; k < kParts; ++k) part[k] *= x.part[k];
  }
};

/// Four elements, one behind the other.
template <class T>
using Four = vector_math::Vector<T, 4 * sizeof(T)>;

template <class T>
[[gnu::always_inline]] inline void load_four(const T* from, Four<T>& to) {
  to = *reinterpret_cast<const vector_math::Unaligned<T, 4 * sizeof(T)>*>(from);
}
template <class T>
[[gnu::always_inline]] inline void store_four(const Four<T>& from, T* to) {
  *reinterpret_cast<vector_math::Unaligned<T, 4 * sizeof(T)>*>(to) = from;
}

/// Rows of four become columns.
template <class T>
[[gnu::always_inline]] inline void turn(Four<T>* rows) {
  const Four<T> a = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
  const Four<T> b = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
  const Four<T> c = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
  const Four<T> d = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
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
    Four<T> rows[4] = {};
    for (int k = 0; k < kPlanes; ++k) load_four(from + k * plane + i, rows[k]);
    turn<T>(rows);
    for (int k = 0; k < 4; ++k) store_four(rows[k], to + (i + k) * lanes);
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
    Four<T> rows[4];
    for (int k = 0; k < 4; ++k) load_four(from + (i + k) * lanes, rows[k]);
    turn<T>(rows);
    for (int k = 0; k < kPlanes; ++k) store_four(rows[k], to + k * plane + i);
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
template <int kBytes, int kLanes, class T>
[[gnu::always_inline]] inline void sample(const T* image, const std::int32_t* index,
                                          const T* weight, int taps, std::int64_t p,
                                          Lanes<T, kLanes, kBytes>& sum) {
  Lanes<T, kLanes, kBytes> x;
  x.load(image + std::int64_t{index[p]} * kLanes);
  sum.scale(x, weight[p]);
  for (int k = 1; k < taps; ++k) {
    x.load(image + std::int64_t{index[k * kGridBlock + p]} * kLanes);
    sum.add(x, weight[k * kGridBlock + p]);
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

template <int kBytes, int kLanes, class T>
[[gnu::always_inline]] inline void sample_points(const T* image, const std::int32_t* index,
                                                 const T* weight, int taps, std::int64_t count,
                                                 T* out) {
  with_taps(taps, [&](int n) __attribute__((always_inline)) {
    for (std::int64_t p = 0; p < count; ++p) {
      Lanes<T, kLanes, kBytes> sum;
      sample<kBytes, kLanes>(image, index, weight, n, p, sum);
      sum.store(out + p * kLanes);
    }
  });
}

template <int kBytes, class T>
[[gnu::always_inline]] inline void sample_loop(const T* image, std::int64_t lanes,
                                               const std::int32_t* index, const T* weight, int taps,
                                               std::int64_t count, T* out) {
  if (lanes == 4) return sample_points<kBytes, 4>(image, index, weight, taps, count, out);
  sample_points<kBytes, 16>(image, index, weight, taps, count, out);
}

template <int kBytes, int kLanes, class T>
[[gnu::always_inline]] inline void add_points(const T* grad, const std::int32_t* index,
                                              const T* weight, int taps, std::int64_t count,
                                              T* sums) {
  with_taps(taps, [&](int n) __attribute__((always_inline)) {
    for (std::int64_t p = 0; p < count; ++p) {
      Lanes<T, kLanes, kBytes> g, sum;
      g.load(grad + p * kLanes);
      for (int k = 0; k < n; ++k) {
        const T w = weight[k * kGridBlock + p];
        if (w == 0) continue;
        T* at = sums + std::int64_t{index[k * kGridBlock + p]} * kLanes;
        sum.load(at);
        sum.add(g, w);
        sum.store(at);
      }
    }
  });
}

template <int kBytes, class T>
[[gnu::always_inline]] inline void add_loop(const T* grad, std::int64_t lanes,
                                            const std::int32_t* index, const T* weight, int taps,
                                            std::int64_t count, T* sums) {
  if (lanes == 4) return add_points<kBytes, 4>(grad, index, weight, taps, count, sums);
  add_points<kBytes, 16>(grad, index, weight, taps, count, sums);
}

/// quarters = grad * sample for point p, its lanes i, i + 4, i + 8... added up in lane i.
template <int kBytes, int kLanes, class T>
[[gnu::always_inline]] inline void slope_quarters(const T* grad, const T* image,
                                                  const std::int32_t* index, const T* weight,
                                                  int taps, std::int64_t p, Four<T>& quarters) {
  Lanes<T, kLanes, kBytes> sum, g;
  sample<kBytes, kLanes>(image, index, weight, taps, p, sum);
  g.load(grad + p * kLanes);
  sum.multiply(g);
  T lanes[kLanes];
  sum.store(lanes);
  load_four(lanes, quarters);
  for (int k = 4; k < kLanes; k += 4) {
    Four<T> more;
    load_four(lanes + k, more);
    quarters += more;
  }
}

template <int kBytes, int kLanes, class T>
[[gnu::always_inline]] inline void slope_points(const T* grad, const T* image,
                                                const std::int32_t* index, const T* weight,
                                                int taps, std::int64_t count, T* sums) {
  with_taps(taps, [&](int n) __attribute__((always_inline)) {
    std::int64_t p = 0;
    for (; p + 4 <= count; p += 4) {
      Four<T> rows[4], sum;
      for (int k = 0; k < 4; ++k) {
        slope_quarters<kBytes, kLanes>(grad, image, index, weight, n, p + k, rows[k]);
      }
      turn<T>(rows);
      load_four(sums + p, sum);
      sum += (rows[0] + rows[1]) + (rows[2] + rows[3]);
      store_four(sum, sums + p);
    }
    for (; p < count; ++p) {
      Four<T> row;
      slope_quarters<kBytes, kLanes>(grad, image, index, weight, n, p, row);
      sums[p] += (row[0] + row[1]) + (row[2] + row[3]);
    }
  });
}

template <int kBytes, class T>
[[gnu::always_inline]] inline void slope_loop(const T* grad, const T* image, std::int64_t lanes,
                                              const std::int32_t* index, const T* weight, int taps,
                                              std::int64_t count, T* sums) {
  if (lanes == 4) return slope_points<kBytes, 4>(grad, image, index, weight, taps, count, sums);
  slope_points<kBytes, 16>(grad, image, index, weight, taps, count, sums);
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
DYAD_VECTOR_VERSIONS(void, sample_lanes,
                     (const float* image, std::int64_t lanes, const std::int32_t* index,
                      const float* weight, int taps, std::int64_t count, float* out),
                     sample_loop, (image, lanes, index, weight, taps, count, out))
DYAD_VECTOR_VERSIONS(void, add_lanes,
                     (const float* grad, std::int64_t lanes, const std::int32_t* index,
                      const float* weight, int taps, std::int64_t count, float* sums),
                     add_loop, (grad, lanes, index, weight, taps, count, sums))
DYAD_VECTOR_VERSIONS(void, add_slopes,
                     (const float* grad, const float* image, std::int64_t lanes,
                      const std::int32_t* index, const float* weight, int taps, std::int64_t count,
                      float* sums),
                     slope_loop, (grad, image, lanes, index, weight, taps, count, sums))

DYAD_VECTOR_CLONES void put_in_lanes(const double* from, std::int64_t plane, std::int64_t channels,
                                     std::int64_t lanes, std::int64_t count, double* to) {
  put_loop(from, plane, channels, lanes, count, to);
}
DYAD_VECTOR_CLONES void take_from_lanes(const double* from, std::int64_t lanes, std::int64_t count,
                                        double* to, std::int64_t plane, std::int64_t channels) {
  take_loop(from, lanes, count, to, plane, channels);
}
DYAD_VECTOR_VERSIONS(void, sample_lanes,
                     (const double* image, std::int64_t lanes, const std::int32_t* index,
                      const double* weight, int taps, std::int64_t count, double* out),
                     sample_loop, (image, lanes, index, weight, taps, count, out))
DYAD_VECTOR_VERSIONS(void, add_lanes,
                     (const double* grad, std::int64_t lanes, const std::int32_t* index,
                      const double* weight, int taps, std::int64_t count, double* sums),
                     add_loop, (grad, lanes, index, weight, taps, count, sums))
DYAD_VECTOR_VERSIONS(void, add_slopes,
                     (const double* grad, const double* image, std::int64_t lanes,
                      const std::int32_t* index, const double* weight, int taps, std::int64_t count,
                      double* sums),
                     slope_loop, (grad, image, lanes, index, weight, taps, count, sums))

}  // namespace dyad::runtime::cpu
