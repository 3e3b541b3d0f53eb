#include "dyad/runtime/cpu/grid_rows.h"

#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"

namespace dyad::runtime::cpu {
namespace {

using vector_math::Unaligned;
using vector_math::Vector;
template <class T, int kBytes>
using Bits = typename vector_math::VectorOf<T, kBytes>::bits;
template <class T>
using Bit = typename vector_math::Parts<T>::Bits;
template <class T, int kBytes>
struct IndicesOf {
  // NOLINTNEXTLINE(modernize-use-using): an alias drops attributes that depend on a parameter.
  typedef std::int32_t type
      __attribute__((vector_size(4 * vector_math::kVectorLanes<T, kBytes>), aligned(4), may_alias));
};

template <class T, int kBytes>
[[gnu::always_inline]] inline void store_indices(const Bits<T, kBytes>& from, std::int32_t* to) {
  using Indices = typename IndicesOf<T, kBytes>::type;
  *reinterpret_cast<Indices*>(to) = __builtin_convertvector(from, Indices);
}

/// The neighbours of kVectorLanes coordinates, -1 outside.
template <int kBytes, class T>
[[gnu::always_inline]] inline void neighbours_of_vector(const LinearAxis<T>& axis, const T* g,
                                                        Bits<T, kBytes>* index,
                                                        Vector<T, kBytes>* weight) {
  const Vector<T, kBytes> zero{}, low = zero + (axis.clip ? T{0} : T{-1e9}),
                                  high = zero + (axis.clip ? axis.size - 1 : T{1e9});
  const Bits<T, kBytes> size = Bits<T, kBytes>{} + static_cast<Bit<T>>(axis.size);
  Vector<T, kBytes> at = *reinterpret_cast<const Unaligned<T, kBytes>*>(g);
  at = at == at ? at : zero - 1;
  const Vector<T, kBytes> x = ((at + 1) * axis.factor - axis.shift) / 2;
  const Vector<T, kBytes> above = x > low ? x : low, inside = above < high ? above : high;
  const Bits<T, kBytes> whole = __builtin_convertvector(inside, Bits<T, kBytes>);
  // One comparison at a time: what joins them is taken apart into single elements.
  const Vector<T, kBytes> cut = __builtin_convertvector(whole, Vector<T, kBytes>);
  const Vector<T, kBytes> floor = cut > inside ? cut - 1 : cut;
  const Bits<T, kBytes> left = __builtin_convertvector(floor, Bits<T, kBytes>), right = left + 1;
  const Vector<T, kBytes> t = inside - floor;
  if (axis.order == 0) {
    weight[0] = 1 - t;
    weight[1] = t;
  } else {
    // Higher derivatives are 0.
    const Vector<T, kBytes> slope = zero + (axis.order == 1 ? axis.factor / 2 : T{0});
    // Neither a comparison of above again nor two in one choice, which is taken apart too.
    const Vector<T, kBytes> kept = inside > low ? inside : high, rise = kept < high ? slope : zero;
    weight[0] = -rise;
    weight[1] = rise;
  }
  const Bits<T, kBytes> outside = Bits<T, kBytes>{} - 1;
  const Bits<T, kBytes> from = left < size ? left : outside, to = right < size ? right : outside;
  index[0] = from < outside ? outside : from;
  index[1] = to < outside ? outside : to;
}

template <int kBytes, class T>
[[gnu::always_inline]] inline void neighbours_loop(const LinearAxis<T>& axis, const T* g,
                                                   std::int64_t count, std::int32_t* index,
                                                   T* weight) {
  for (std::int64_t i = 0; i < count; i += vector_math::kVectorLanes<T, kBytes>) {
    Bits<T, kBytes> at[2];
    Vector<T, kBytes> part[2];
    neighbours_of_vector<kBytes>(axis, g + i, at, part);
    for (int side = 0; side < 2; ++side) {
      store_indices<T, kBytes>(at[side], index + side * kGridBlock + i);
      *reinterpret_cast<Unaligned<T, kBytes>*>(weight + side * kGridBlock + i) = part[side];
    }
  }
}

template <int kBytes, class T>
[[gnu::always_inline]] inline bool bilinear_loop(const LinearAxis<T>& x, const LinearAxis<T>& y,
                                                 const T* gx, const T* gy, std::int32_t width,
                                                 std::int64_t count, std::int32_t* index, T* weight,
                                                 std::int32_t* some) {
  constexpr std::int64_t kWidth = vector_math::kVectorLanes<T, kBytes>;
  const Bits<T, kBytes> none = Bits<T, kBytes>{} - 1, first{};
  const Vector<T, kBytes> zero{};
  Bits<T, kBytes> least{};
  for (std::int64_t i = 0; i < count; i += kWidth) {
    Bits<T, kBytes> column[2], row[2];
    Vector<T, kBytes> across[2], down[2];
    neighbours_of_vector<kBytes>(x, gx + i, column, across);
    neighbours_of_vector<kBytes>(y, gy + i, row, down);
    const Bits<T, kBytes> from[2] = {row[0] * width, row[1] * width};
    Bits<T, kBytes> inside = none;
    for (int k = 0; k < 4; ++k) {
      const Bits<T, kBytes> either = column[k % 2] | row[k / 2];
      inside = either < 0 ? inside : from[k / 2] + column[k % 2];
    }
    const Bits<T, kBytes> other = inside < 0 ? first : inside;
    for (int k = 0; k < 4; ++k) {
      const Bits<T, kBytes> either = column[k % 2] | row[k / 2];
      const Vector<T, kBytes> product = across[k % 2] * down[k / 2];
      store_indices<T, kBytes>(either < 0 ? other : from[k / 2] + column[k % 2],
                               index + k * kGridBlock + i);
      *reinterpret_cast<Unaligned<T, kBytes>*>(weight + k * kGridBlock + i) =
          either < 0 ? zero : product;
    }
    store_indices<T, kBytes>(inside, some + i);
    least = least < inside ? least : inside;
  }
  bool any = false;
  for (std::int64_t lane = 0; lane < kWidth; ++lane) any = any || least[lane] < 0;
  return any;
}

template <class T>
[[gnu::always_inline]] inline void take_loop(const T* from, std::int64_t step, std::int64_t count,
                                             T* to) {
  if (step == 2) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[2 * i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * step];
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
    index[i] = ((index[i] < 0) | (at[i] < 0)) ? -1 : index[i] + at[i] * step;
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

}  // namespace

DYAD_VECTOR_CLONES void put_inside(const std::int32_t* some, std::int32_t* index,
                                   std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t other = some[i] < 0 ? 0 : some[i];
    index[i] = index[i] < 0 ? other : index[i];
  }
}

DYAD_VECTOR_CLONES void take_every(const float* from, std::int64_t step, std::int64_t count,
                                   float* to) {
  take_loop(from, step, count, to);
}
DYAD_VECTOR_VERSIONS(void, linear_neighbours,
                     (const LinearAxis<float>& axis, const float* g, std::int64_t count,
                      std::int32_t* index, float* weight),
                     neighbours_loop, (axis, g, count, index, weight))
DYAD_VECTOR_VERSIONS(bool, bilinear_neighbours,
                     (const LinearAxis<float>& x, const LinearAxis<float>& y, const float* gx,
                      const float* gy, std::int32_t width, std::int64_t count, std::int32_t* index,
                      float* weight, std::int32_t* some),
                     bilinear_loop, (x, y, gx, gy, width, count, index, weight, some))
DYAD_VECTOR_CLONES void join_axis(const std::int32_t* at, const float* part, std::int32_t step,
                                  bool first, std::int32_t* index, float* weight,
                                  std::int64_t count) {
  join_loop(at, part, step, first, index, weight, count);
}
DYAD_VECTOR_CLONES void note_inside(std::int32_t* index, float* weight, std::int32_t* some,
                                    std::int64_t count) {
  note_loop(index, weight, some, count);
}

DYAD_VECTOR_CLONES void take_every(const double* from, std::int64_t step, std::int64_t count,
                                   double* to) {
  take_loop(from, step, count, to);
}
DYAD_VECTOR_VERSIONS(void, linear_neighbours,
                     (const LinearAxis<double>& axis, const double* g, std::int64_t count,
                      std::int32_t* index, double* weight),
                     neighbours_loop, (axis, g, count, index, weight))
DYAD_VECTOR_VERSIONS(bool, bilinear_neighbours,
                     (const LinearAxis<double>& x, const LinearAxis<double>& y, const double* gx,
                      const double* gy, std::int32_t width, std::int64_t count, std::int32_t* index,
                      double* weight, std::int32_t* some),
                     bilinear_loop, (x, y, gx, gy, width, count, index, weight, some))
DYAD_VECTOR_CLONES void join_axis(const std::int32_t* at, const double* part, std::int32_t step,
                                  bool first, std::int32_t* index, double* weight,
                                  std::int64_t count) {
  join_loop(at, part, step, first, index, weight, count);
}
DYAD_VECTOR_CLONES void note_inside(std::int32_t* index, double* weight, std::int32_t* some,
                                    std::int64_t count) {
  note_loop(index, weight, some, count);
}

}  // namespace dyad::runtime::cpu
