#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/resample.h"
#include "dyad/runtime/cpu/cast.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/grid_lanes.h"
#include "dyad/runtime/cpu/grid_rows.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

enum class GridMode { nearest, linear, cubic };
enum class Outside { zeros, border, reflection };

/// One spatial axis: its size, and how grid's numbers are read.
template <class A>
struct GridAxis {
  std::int64_t size = 1;
  GridMode mode = GridMode::linear;
  Outside outside = Outside::zeros;
  bool align = false;
  std::int64_t order = 0;  ///< of the derivative

  /// Neighbours along the axis.
  [[nodiscard]] int taps() const noexcept {
    return mode == GridMode::nearest ? 1 : mode == GridMode::linear ? 2 : 4;
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

  /// An axis whose neighbours are found in vectors.
  [[nodiscard]] bool plain_linear() const noexcept {
    return mode == GridMode::linear && outside != Outside::reflection;
  }
  [[nodiscard]] LinearAxis<A> linear() const noexcept {
    const A n = static_cast<A>(size);
    // A position is (g + 1) * factor - shift.
    return {.size = n,
            .factor = align ? n - 1 : n,
            .shift = align ? A{0} : A{1},
            .clip = outside == Outside::border,
            .order = order};
  }

  /// The neighbours of many coordinates, and their weights.
  void read_all(const A* g, std::int64_t count, std::int32_t* index, A* weight) const {
    if (plain_linear()) return linear_neighbours(linear(), g, count, index, weight);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t at[4];
      A part[4];
      read(g[i], at, part);
      for (int k = 0; k < taps(); ++k) {
        index[k * kGridBlock + i] = static_cast<std::int32_t>(at[k]);
        weight[k * kGridBlock + i] = part[k];
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
    if (mode != GridMode::cubic) x = inside(x, slope);
    x = std::clamp(x, A{-1e9}, A{1e9});
    const A factor = order == 0 ? A{1} : static_cast<A>(std::pow(slope, static_cast<A>(order)));
    if (mode == GridMode::nearest) {
      index[0] = within(static_cast<std::int64_t>(std::nearbyint(x)));
      weight[0] = order == 0 ? A{1} : A{0};
      return;
    }
    const A left = std::floor(x), t = x - left;
    const auto first = static_cast<std::int64_t>(left) - (mode == GridMode::cubic ? 1 : 0);
    if (mode == GridMode::linear) {
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
      if (mode == GridMode::cubic && outside != Outside::zeros) {
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
  std::vector<GridAxis<A>> axes;
  int taps = 1;

  [[nodiscard]] std::int64_t lanes() const noexcept { return grid_lanes(c); }
  /// Blocks of lanes that hold all channels.
  [[nodiscard]] std::int64_t groups() const noexcept { return (c + lanes() - 1) / lanes(); }
  [[nodiscard]] std::int64_t channels_of(std::int64_t group) const noexcept {
    return std::min(lanes(), c - group * lanes());
  }
};

/// The neighbours of a block of points along all axes, and their weights: tap k of point p at
/// [k * kGridBlock + p]. One that counts as 0 has weight 0 and the index of another; points that
/// have no other (index 0 then) are `none`.
template <class A>
class GridTaps {
 public:
  explicit GridTaps(const Problem<A>& problem)
      : problem_(problem),
        index_(static_cast<std::size_t>(problem.taps * kGridBlock)),
        weight_(index_.size()),
        at_(static_cast<std::size_t>(4 * kGridBlock)),
        some_(static_cast<std::size_t>(kGridBlock)),
        coordinates_(2 * some_.size()),
        part_(at_.size()) {}

  /// Of points [begin, begin + count) of sample s.
  void read(const A* grid, std::int64_t s, std::int64_t begin, std::int64_t count) {
    const auto d = static_cast<std::int64_t>(problem_.axes.size());
    const A* g = grid + (s * problem_.points + begin) * d;
    none_.clear();
    if (d == 2 && problem_.axes[0].plain_linear() && problem_.axes[1].plain_linear()) {
      A *x = coordinates_.data(), *y = x + kGridBlock;
      take_every(g, 2, count, x);
      take_every(g + 1, 2, count, y);
      if (bilinear_neighbours(problem_.axes[0].linear(), problem_.axes[1].linear(), x, y,
                              static_cast<std::int32_t>(problem_.axes[0].size), count,
                              index_.data(), weight_.data(), some_.data())) {
        list_none(count);
      }
      return;
    }
    std::fill(some_.begin(), some_.end(), -1);
    std::int64_t step = 1;
    int before = 1;
    for (std::int64_t a = 0; a < d; ++a) {
      const GridAxis<A>& axis = problem_.axes[static_cast<std::size_t>(a)];
      take_every(g + a, d, count, coordinates_.data());
      axis.read_all(coordinates_.data(), count, at_.data(), part_.data());
      for (int k = 0; k < problem_.taps; ++k) {
        const std::int64_t from = k / before % axis.taps() * kGridBlock;
        join_axis(at_.data() + from, part_.data() + from, static_cast<std::int32_t>(step), a == 0,
                  index_.data() + k * kGridBlock, weight_.data() + k * kGridBlock, count);
      }
      before *= axis.taps();
      step *= axis.size;
    }
    for (int k = 0; k < problem_.taps; ++k) {
      note_inside(index_.data() + k * kGridBlock, weight_.data() + k * kGridBlock, some_.data(),
                  count);
    }
    for (int k = 0; k < problem_.taps; ++k) {
      put_inside(some_.data(), index_.data() + k * kGridBlock, count);
    }
    list_none(count);
  }

  [[nodiscard]] const std::int32_t* index() const noexcept { return index_.data(); }
  [[nodiscard]] const A* weight() const noexcept { return weight_.data(); }
  [[nodiscard]] const std::vector<std::int64_t>& none() const noexcept { return none_; }

 private:
  void list_none(std::int64_t count) {
    for (std::int64_t p = 0; p < count; ++p) {
      if (some_[static_cast<std::size_t>(p)] < 0) none_.push_back(p);
    }
  }

  const Problem<A>& problem_;
  std::vector<std::int32_t> index_;
  std::vector<A> weight_;
  std::vector<std::int32_t> at_, some_;  ///< neighbours along one axis; a neighbour inside
  std::vector<A> coordinates_, part_;    ///< along one axis
  std::vector<std::int64_t> none_;
};

template <class A, class Attrs>
Problem<A> problem_of(const Attrs& a, const Tensor& image, const Tensor& grid) {
  const auto sizes = image.impl()->shape.numbers(), g = grid.impl()->shape.numbers();
  Problem<A> made{.n = sizes[0], .c = sizes[1], .axes = {}};
  const std::size_t d = sizes.size() - 2;
  for (std::size_t i = 0; i < d; ++i) {
    const std::int64_t size = sizes[sizes.size() - 1 - i];
    made.axes.push_back({.size = size,
                         .mode = a.mode == "nearest"   ? GridMode::nearest
                                 : a.mode == "bicubic" ? GridMode::cubic
                                                       : GridMode::linear,
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

template <class A>
[[nodiscard]] std::vector<A> room(std::int64_t count) {
  return std::vector<A>(static_cast<std::size_t>(count));
}

/// Units of `points` points and `lanes` channels each.
template <class A>
Cost cost_of(const Problem<A>& s, std::int64_t points) {
  const double work = static_cast<double>(points * (s.taps + 2) * s.lanes());
  return {.bytes = work * sizeof(A), .flops = 2 * work};
}

/// Parts of the points of a sample, so that a few samples keep a team busy.
template <class A>
std::int64_t points_apart(const Problem<A>& s, std::int64_t units) {
  constexpr std::int64_t kUnits = 8, kLeast = 16 * kGridBlock;
  if (units >= kUnits) return s.points;
  const std::int64_t blocks = (s.points + kGridBlock - 1) / kGridBlock;
  return std::max(kLeast, (blocks + kUnits - 1) / kUnits * kGridBlock);
}

void grid_sample(const OpCall& call) {
  if (call.outputs[0].impl()->numel() == 0) return;
  const Tensor image = dense_computed(call.inputs[0]), grid = dense_computed(call.inputs[1]);
  const ComputedOutput out(call.outputs[0]);
  with_computed(image.dtype(), [&]<class A>(A) {
    const auto s = problem_of<A>(call.attrs_as<ops::GridSampleAttrs>(), image, grid);
    const std::int64_t lanes = s.lanes(), groups = s.groups();
    const std::int64_t step = points_apart(s, s.n * groups), parts = (s.points + step - 1) / step;
    const std::int64_t units = s.n * groups * parts;
    parallel_for(
        0, units, grain_for(cost_of(s, step), units), [&](std::int64_t lo, std::int64_t hi) {
          GridTaps<A> taps(s);
          auto turned = room<A>(s.plane * lanes), sums = room<A>(kGridBlock * lanes);
          for (std::int64_t unit = lo; unit < hi; ++unit) {
            const std::int64_t n = unit / parts / groups, group = unit / parts % groups;
            const std::int64_t channel = n * s.c + group * lanes, channels = s.channels_of(group);
            put_in_lanes(elements_of<A>(image) + channel * s.plane, s.plane, channels, lanes,
                         s.plane, turned.data());
            const std::int64_t first = unit % parts * step, end = std::min(s.points, first + step);
            for (std::int64_t begin = first; begin < end; begin += kGridBlock) {
              const std::int64_t count = std::min(kGridBlock, end - begin);
              taps.read(elements_of<A>(grid), n, begin, count);
              sample_lanes(turned.data(), lanes, taps.index(), taps.weight(), s.taps, count,
                           sums.data());
              for (const std::int64_t p : taps.none()) std::fill_n(&sums[p * lanes], lanes, A{0});
              take_from_lanes(sums.data(), lanes, count,
                              elements_of<A>(out.tensor()) + channel * s.points + begin, s.points,
                              channels);
            }
          }
        });
  });
  out.finish();
}

/// Points that share a neighbour add into one place, so channels belong to one thread, their points
/// in order.
void grid_sample_transpose(const OpCall& call) {
  if (call.outputs[0].impl()->numel() == 0) return;
  const Tensor grad = dense_computed(call.inputs[0]), grid = dense_computed(call.inputs[1]);
  const ComputedOutput out(call.outputs[0]);
  with_computed(grad.dtype(), [&]<class A>(A) {
    const auto s =
        problem_of<A>(call.attrs_as<ops::GridSampleTransposeAttrs>(), out.tensor(), grid);
    const std::int64_t lanes = s.lanes(), groups = s.groups(), units = s.n * groups;
    parallel_for(
        0, units, grain_for(cost_of(s, s.points), units), [&](std::int64_t lo, std::int64_t hi) {
          GridTaps<A> taps(s);
          auto turned = room<A>(kGridBlock * lanes), sums = room<A>(s.plane * lanes);
          for (std::int64_t unit = lo; unit < hi; ++unit) {
            const std::int64_t n = unit / groups, group = unit % groups;
            const std::int64_t channel = n * s.c + group * lanes, channels = s.channels_of(group);
            std::fill(sums.begin(), sums.end(), A{0});
            for (std::int64_t begin = 0; begin < s.points; begin += kGridBlock) {
              const std::int64_t count = std::min(kGridBlock, s.points - begin);
              taps.read(elements_of<A>(grid), n, begin, count);
              put_in_lanes(elements_of<A>(grad) + channel * s.points + begin, s.points, channels,
                           lanes, count, turned.data());
              add_lanes(turned.data(), lanes, taps.index(), taps.weight(), s.taps, count,
                        sums.data());
            }
            take_from_lanes(sums.data(), lanes, s.plane,
                            elements_of<A>(out.tensor()) + channel * s.plane, s.plane, channels);
          }
        });
  });
  out.finish();
}

/// Blocks of lanes are added up in order.
void grid_sample_grid_backward(const OpCall& call) {
  if (call.outputs[0].impl()->numel() == 0) return;
  const Tensor grad = dense_computed(call.inputs[0]), image = dense_computed(call.inputs[1]);
  const Tensor grid = dense_computed(call.inputs[2]);
  const ComputedOutput out(call.outputs[0]);
  with_computed(image.dtype(), [&]<class A>(A) {
    ops::GridSampleAttrs attrs = call.attrs_as<ops::GridSampleAttrs>();
    const auto axes = static_cast<std::size_t>(grid.impl()->shape.back().number());
    attrs.derivative.resize(axes, 0);
    std::vector<Problem<A>> along;
    for (std::int64_t& order : attrs.derivative) {
      ++order;
      along.push_back(problem_of<A>(attrs, image, grid));
      --order;
    }
    const Problem<A>& s = along[0];
    const std::int64_t lanes = s.lanes(), d = static_cast<std::int64_t>(axes);
    const std::int64_t step = points_apart(s, s.n), parts = (s.points + step - 1) / step;
    const std::int64_t units = s.n * parts;
    parallel_for(0, units, grain_for(cost_of(s, d * s.groups() * step), units),
                 [&](std::int64_t lo, std::int64_t hi) {
                   std::vector<GridTaps<A>> taps(along.begin(), along.end());
                   auto turned = room<A>(s.plane * lanes), grads = room<A>(kGridBlock * lanes);
                   auto sums = room<A>(d * step);
                   for (std::int64_t unit = lo; unit < hi; ++unit) {
                     const std::int64_t n = unit / parts, first = unit % parts * step;
                     const std::int64_t end = std::min(s.points, first + step);
                     std::fill(sums.begin(), sums.end(), A{0});
                     for (std::int64_t group = 0; group < s.groups(); ++group) {
                       const std::int64_t channel = n * s.c + group * lanes,
                                          channels = s.channels_of(group);
                       put_in_lanes(elements_of<A>(image) + channel * s.plane, s.plane, channels,
                                    lanes, s.plane, turned.data());
                       for (std::int64_t begin = first; begin < end; begin += kGridBlock) {
                         const std::int64_t count = std::min(kGridBlock, end - begin);
                         put_in_lanes(elements_of<A>(grad) + channel * s.points + begin, s.points,
                                      channels, lanes, count, grads.data());
                         for (std::int64_t a = 0; a < d; ++a) {
                           GridTaps<A>& t = taps[static_cast<std::size_t>(a)];
                           A* sum = &sums[a * step + begin - first];
                           t.read(elements_of<A>(grid), n, begin, count);
                           add_slopes(grads.data(), turned.data(), lanes, t.index(), t.weight(),
                                      s.taps, count, sum);
                           for (const std::int64_t p : t.none()) sum[p] = 0;
                         }
                       }
                     }
                     A* to = elements_of<A>(out.tensor()) + (n * s.points + first) * d;
                     for (std::int64_t p = 0; p < end - first; ++p) {
                       for (std::int64_t a = 0; a < d; ++a) to[p * d + a] = sums[a * step + p];
                     }
                   }
                 });
  });
  out.finish();
}

}  // namespace

std::span<const NamedKernel> grid_sample_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"grid_sample", {grid_sample}},
      {"grid_sample_transpose", {grid_sample_transpose}},
      {"grid_sample_grid_backward", {grid_sample_grid_backward}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
