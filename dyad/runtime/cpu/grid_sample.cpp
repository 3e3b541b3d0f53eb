#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/resample.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/grid_rows.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

enum class Mode { nearest, linear, cubic };
enum class Outside { zeros, border, reflection };

/// One spatial axis: its size, and how grid's numbers are read.
template <class A>
struct Axis {
  std::int64_t size = 1;
  Mode mode = Mode::linear;
  Outside outside = Outside::zeros;
  bool align = false;
  std::int64_t order = 0;  ///< of the derivative

  /// Neighbours along the axis.
  [[nodiscard]] int taps() const noexcept {
    return mode == Mode::nearest ? 1 : mode == Mode::linear ? 2 : 4;
  }

  /// Clips or mirrors a position into the image; `slope` is multiplied by the derivative.
  A inside(A x, A& slope) const {
    const A n = static_cast<A>(size);
    if (outside == Outside::reflection) {
      const A low = align ? A{0} : A{-0.5}, span = align ? n - 1 : n;
      if (span == 0) {
        slope = 0;
        return 0;
      }
      A from = x - low;
      if (from < 0) {
        from = -from;
        slope = -slope;
      }
      const A flips = std::floor(from / span), extra = std::fmod(from, span);
      if (std::fmod(flips, A{2}) == 0) {
        x = extra + low;
      } else {
        x = span - extra + low;
        slope = -slope;
      }
    }
    if (outside != Outside::zeros) {
      if (!(x > 0)) {
        slope = 0;
        return 0;
      }
      if (x >= n - 1) {
        slope = 0;
        return n - 1;
      }
    }
    return x;
  }

  /// The same for many coordinates: neighbour k of coordinate i at [k * count + i].
  void read_all(const A* g, std::int64_t count, std::int32_t* index, A* weight) const {
    if (mode == Mode::linear && outside != Outside::reflection) {
      const A n = static_cast<A>(size);
      // A position is (g + 1) * factor - shift.
      const LinearAxis<A> axis{.size = n,
                               .factor = align ? n - 1 : n,
                               .shift = align ? A{0} : A{1},
                               .clip = outside == Outside::border,
                               .order = order};
      linear_neighbours(axis, g, count, index, weight);
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t at[4];
      A part[4];
      read(g[i], at, part);
      for (int k = 0; k < taps(); ++k) {
        index[k * count + i] = static_cast<std::int32_t>(at[k]);
        weight[k * count + i] = part[k];
      }
    }
  }

 private:
  /// The neighbours of coordinate g and their weights: indices from 0 on, -1 for those that count
  /// as 0.
  void read(A g, std::int64_t* index, A* weight) const {
    const A n = static_cast<A>(size);
    A slope = align ? (n - 1) / 2 : n / 2;
    if (std::isnan(g)) g = -1;
    A x = align ? (g + 1) * (n - 1) / 2 : ((g + 1) * n - 1) / 2;
    // A cubic's neighbours are clipped or mirrored one by one, its position is not.
    if (mode != Mode::cubic) x = inside(x, slope);
    x = std::clamp(x, A{-1e9}, A{1e9});
    const A factor = order == 0 ? A{1} : static_cast<A>(std::pow(slope, static_cast<A>(order)));
    if (mode == Mode::nearest) {
      index[0] = within(static_cast<std::int64_t>(std::nearbyint(x)));
      weight[0] = order == 0 ? A{1} : A{0};
      return;
    }
    const A left = std::floor(x), t = x - left;
    const auto first = static_cast<std::int64_t>(left) - (mode == Mode::cubic ? 1 : 0);
    if (mode == Mode::linear) {
      weight[0] = (order == 0 ? 1 - t : order == 1 ? A{-1} : A{0}) * factor;
      weight[1] = (order == 0 ? t : order == 1 ? A{1} : A{0}) * factor;
    } else {
      const A at[4] = {t + 1, t, 1 - t, 2 - t};
      for (int k = 0; k < 4; ++k) {
        const A sign = k < 2 || order % 2 == 0 ? A{1} : A{-1};  // distances to the right shrink
        weight[k] = cubic(at[k], k == 0 || k == 3) * sign * factor;
      }
    }
    for (int k = 0; k < taps(); ++k) {
      std::int64_t i = first + k;
      if (mode == Mode::cubic && outside != Outside::zeros) {
        A unused = 1;
        i = static_cast<std::int64_t>(inside(static_cast<A>(i), unused));
      }
      index[k] = within(i);
    }
  }

  [[nodiscard]] std::int64_t within(std::int64_t i) const noexcept {
    return i >= 0 && i < size ? i : -1;
  }
  /// The weight, or its derivative, of an element at that distance: the outer ones from 1 to 2.
  [[nodiscard]] A cubic(A d, bool outer) const {
    constexpr A a = -0.75;
    // Coefficients of d^3, d^2, d, 1.
    const A c[4] = {outer ? a : a + 2, outer ? -5 * a : -(a + 3), outer ? 8 * a : A{0},
                    outer ? -4 * a : A{1}};
    switch (order) {
      case 0:
        return ((c[0] * d + c[1]) * d + c[2]) * d + c[3];
      case 1:
        return (3 * c[0] * d + 2 * c[1]) * d + c[2];
      case 2:
        return 6 * c[0] * d + 2 * c[1];
      case 3:
        return 6 * c[0];
      default:
        return 0;
    }
  }
};

/// What a call samples: an image [n][c][plane], its axes (the last first, as in grid).
template <class A>
struct Problem {
  std::int64_t n = 0, c = 0, plane = 1, points = 1;
  std::vector<Axis<A>> axes;
  int taps = 1;

  struct Scratch {
    std::vector<A> coordinates, part;    ///< along one axis; weights along all axes
    std::vector<std::int32_t> at, some;  ///< neighbours along all axes; a neighbour inside
    std::vector<std::int64_t> none;      ///< points that have none
  };
  /// The neighbours of points [begin, begin + count) of sample s: tap k of point p at
  /// [k * count + p]. One that counts as 0 has weight 0 and the index of another; points that have
  /// no other (index 0 then) are listed in `scratch.none`.
  template <class T>
  void read(const T* grid, std::int64_t s, std::int64_t begin, std::int64_t count, Scratch& scratch,
            std::int32_t* index, A* weight) const {
    const auto d = static_cast<std::int64_t>(axes.size());
    const auto n = static_cast<std::size_t>(count);
    auto& [coordinates, part, at, some, none] = scratch;
    coordinates.resize(n);
    part.resize(4 * axes.size() * n);
    at.resize(part.size());
    some.assign(n, -1);
    for (std::int64_t a = 0; a < d; ++a) {
      const T* g = grid + (s * points + begin) * d + a;
      for (std::size_t p = 0; p < n; ++p) {
        coordinates[p] = load(g[static_cast<std::int64_t>(p) * d]);
      }
      axes[static_cast<std::size_t>(a)].read_all(
          coordinates.data(), count, at.data() + 4 * a * count, part.data() + 4 * a * count);
    }
    for (int k = 0; k < taps; ++k) {
      std::int64_t step = 1;
      int rest = k;
      for (std::int64_t a = 0; a < d; ++a) {
        const Axis<A>& axis = axes[static_cast<std::size_t>(a)];
        const std::int64_t from = (4 * a + rest % axis.taps()) * count;
        join_axis(at.data() + from, part.data() + from, static_cast<std::int32_t>(step), a == 0,
                  index + k * count, weight + k * count, count);
        rest /= axis.taps();
        step *= axis.size;
      }
      note_inside(index + k * count, weight + k * count, some.data(), count);
    }
    for (int k = 0; k < taps; ++k) put_inside(some.data(), index + k * count, count);
    none.clear();
    for (std::size_t p = 0; p < n; ++p) {
      if (some[p] < 0) none.push_back(static_cast<std::int64_t>(p));
    }
  }
};

template <class A, class Attrs>
Problem<A> problem_of(const Attrs& a, const Tensor& image, const Tensor& grid) {
  const auto sizes = image.impl()->shape.numbers(), g = grid.impl()->shape.numbers();
  Problem<A> made{.n = sizes[0], .c = sizes[1], .axes = {}};
  const std::size_t d = sizes.size() - 2;
  for (std::size_t i = 0; i < d; ++i) {
    const std::int64_t size = sizes[sizes.size() - 1 - i];
    made.axes.push_back({.size = size,
                         .mode = a.mode == "nearest"   ? Mode::nearest
                                 : a.mode == "bicubic" ? Mode::cubic
                                                       : Mode::linear,
                         .outside = a.padding == "border"       ? Outside::border
                                    : a.padding == "reflection" ? Outside::reflection
                                                                : Outside::zeros,
                         .align = a.align_corners,
                         .order = a.derivative.empty() ? 0 : a.derivative[i]});
    made.plane *= size;
    made.taps *= made.axes.back().taps();
  }
  made.points = product(g.subspan(1, d));
  return made;
}

/// Elements as numbers to compute with.
template <class T>
std::vector<Accumulator<T>> widened_elements(const T* from, std::int64_t n) {
  std::vector<Accumulator<T>> made(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) made[static_cast<std::size_t>(i)] = load(from[i]);
  return made;
}

void grid_sample(const OpCall& call) {
  constexpr std::int64_t kBlock = 256;
  const Tensor& out = call.outputs[0];
  if (out.impl()->numel() == 0) return;
  const Tensor image = contiguous_copy(call.inputs[0]), grid = contiguous_copy(call.inputs[1]);
  with_floating(out.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto s = problem_of<A>(call.attrs_as<ops::GridSampleAttrs>(), image, grid);
    const T* elements = reinterpret_cast<const T*>(image.impl()->data);
    std::vector<A> wide;
    const A* x = nullptr;
    if constexpr (is_half<T>) {
      wide = widened_elements(elements, s.n * s.c * s.plane);
      x = wide.data();
    } else {
      x = elements;
    }
    const T* positions = reinterpret_cast<const T*>(grid.impl()->data);
    T* to = reinterpret_cast<T*>(out.impl()->data);
    const std::int64_t blocks = (s.points + kBlock - 1) / kBlock;
    const double work = static_cast<double>(kBlock * s.taps * (s.c + 4));
    parallel_for(0, s.n * blocks,
                 grain_for({.bytes = work * sizeof(A), .flops = work}, s.n * blocks),
                 [&](std::int64_t lo, std::int64_t hi) {
                   std::vector<std::int32_t> index(static_cast<std::size_t>(s.taps * kBlock));
                   std::vector<A> weight(index.size());
                   typename Problem<A>::Scratch scratch;
                   [[maybe_unused]] A sums[kBlock];
                   for (std::int64_t unit = lo; unit < hi; ++unit) {
                     const std::int64_t n = unit / blocks, begin = unit % blocks * kBlock;
                     const std::int64_t count = std::min(kBlock, s.points - begin);
                     s.read(positions, n, begin, count, scratch, index.data(), weight.data());
                     const A* image = x + n * s.c * s.plane;
                     T* target = to + n * s.c * s.points + begin;
                     if constexpr (is_half<T>) {
                       for (std::int64_t c = 0; c < s.c; ++c) {
                         pick_all(image + c * s.plane, s.plane, index.data(), weight.data(), s.taps,
                                  1, sums, kBlock, count);
                         for (std::int64_t p = 0; p < count; ++p)
                           target[c * s.points + p] = store<T>(sums[p]);
                       }
                     } else {
                       pick_all(image, s.plane, index.data(), weight.data(), s.taps, s.c, target,
                                s.points, count);
                     }
                     for (const std::int64_t p : scratch.none) {
                       for (std::int64_t c = 0; c < s.c; ++c) target[c * s.points + p] = T{};
                     }
                   }
                 });
  });
}

/// Points that share a neighbour add into one place, so a plane belongs to one thread, its points
/// in order.
void grid_sample_transpose(const OpCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.impl()->numel() == 0) return;
  const Tensor grad = contiguous_copy(call.inputs[0]), grid = contiguous_copy(call.inputs[1]);
  with_floating(out.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto s = problem_of<A>(call.attrs_as<ops::GridSampleTransposeAttrs>(), out, grid);
    const T* positions = reinterpret_cast<const T*>(grid.impl()->data);
    const T* from = reinterpret_cast<const T*>(grad.impl()->data);
    T* to = reinterpret_cast<T*>(out.impl()->data);
    std::vector<std::int32_t> index(static_cast<std::size_t>(s.taps * s.points));
    std::vector<A> weight(index.size());
    typename Problem<A>::Scratch scratch;
    const double work = static_cast<double>(s.taps * s.points + s.plane);
    for (std::int64_t n = 0; n < s.n; ++n) {
      s.read(positions, n, 0, s.points, scratch, index.data(), weight.data());
      parallel_for(0, s.c, grain_for({.bytes = 2 * work * sizeof(A), .flops = work}, s.c),
                   [&](std::int64_t lo, std::int64_t hi) {
                     std::vector<A> sums(static_cast<std::size_t>(s.plane));
                     for (std::int64_t c = lo; c < hi; ++c) {
                       std::fill(sums.begin(), sums.end(), A{});
                       const T* g = from + (n * s.c + c) * s.points;
                       for (int k = 0; k < s.taps; ++k) {
                         const std::int32_t* at = index.data() + k * s.points;
                         const A* w = weight.data() + k * s.points;
                         for (std::int64_t p = 0; p < s.points; ++p) {
                           if (w[p] != 0)
                             sums[static_cast<std::size_t>(at[p])] += w[p] * load(g[p]);
                         }
                       }
                       T* target = to + (n * s.c + c) * s.plane;
                       for (std::int64_t i = 0; i < s.plane; ++i) {
                         target[i] = store<T>(sums[static_cast<std::size_t>(i)]);
                       }
                     }
                   });
    }
  });
}

}  // namespace

std::span<const NamedKernel> grid_sample_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"grid_sample", {grid_sample}},
      {"grid_sample_transpose", {grid_sample_transpose}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
