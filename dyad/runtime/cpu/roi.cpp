#include <algorithm>
#include <cmath>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/resample.h"
#include "dyad/runtime/cpu/cast.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

/// All elements as f64, row-major.
std::vector<double> doubles(const Tensor& t) {
  const Tensor dense = contiguous_copy(t);
  std::vector<double> made(static_cast<std::size_t>(dense.impl()->numel()));
  with_floating(t.dtype(), [&]<class T>(T) {
    const auto* from = reinterpret_cast<const T*>(dense.impl()->data);
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<double>(load(from[i]));
  });
  return made;
}

/// An element of a plane and what it weighs; a sample outside x is element -1.
struct Tap {
  std::int64_t element;
  double weight;
};

struct Regions {
  std::int64_t images, channels, height, width, count, bins;
  std::vector<std::int64_t> image;
  std::vector<double> rois;
  const ops::RoiAttrs& attrs;

  Regions(const OpCall& call, const Tensor& x, const Tensor& boxes, const Tensor& index)
      : images(sizes_of(x)[0]),
        channels(sizes_of(x)[1]),
        height(sizes_of(x)[2]),
        width(sizes_of(x)[3]),
        count(sizes_of(boxes)[0]),
        rois(doubles(boxes)),
        attrs(call.attrs_as<ops::RoiAttrs>()) {
    bins = attrs.height * attrs.width;
    const Tensor dense = contiguous_copy(index);
    with_index(index.dtype(), [&]<class I>(I) {
      const auto* from = reinterpret_cast<const I*>(dense.impl()->data);
      image.assign(from, from + count);
    });
    for (const std::int64_t n : image) {
      if (n >= 0 && n < images) continue;
      throw IndexError(std::string(call.op.name) + ": image " + std::to_string(n) +
                           " of a region is out of range for x of " + std::to_string(images) +
                           " images",
                       call.loc);
    }
    if (attrs.mode == "bins") return;
    for (std::int64_t i = 0; i < count; ++i) {
      const Grid grid = grid_of(rois.data() + i * 4);
      if (grid.rows <= kMostSamples / std::max<std::int64_t>(grid.columns, 1)) continue;
      throw ValueError(std::string(call.op.name) + ": each bin of region " + std::to_string(i) +
                           " takes " + std::to_string(grid.rows) + " x " +
                           std::to_string(grid.columns) + " samples, more than " +
                           std::to_string(kMostSamples) +
                           "; ask for fewer by sampling_ratio, or for smaller regions",
                       call.loc);
    }
  }
  [[nodiscard]] std::int64_t plane() const noexcept { return height * width; }
  /// Whether the result is the sum of the taps, not the largest.
  [[nodiscard]] bool sums() const noexcept { return attrs.mode == "avg"; }

  /// The taps of one bin, in row-major order.
  void read(std::int64_t roi, std::int64_t bin, std::vector<Tap>& taps) const {
    taps.clear();
    const double* box = rois.data() + roi * 4;
    const double row = static_cast<double>(bin / attrs.width),
                 column = static_cast<double>(bin % attrs.width);
    attrs.mode == "bins" ? read_bin(box, row, column, taps) : read_samples(box, row, column, taps);
  }

 private:
  void read_bin(const double* box, double row, double column, std::vector<Tap>& taps) const {
    const auto edge = [&](double v) { return std::round(v * attrs.spatial_scale); };
    const double x1 = edge(box[0]), y1 = edge(box[1]);
    const double bin_w = std::max(edge(box[2]) - x1 + 1, 1.0) / static_cast<double>(attrs.width);
    const double bin_h = std::max(edge(box[3]) - y1 + 1, 1.0) / static_cast<double>(attrs.height);
    const auto bound = [](double v, std::int64_t size) {
      return static_cast<std::int64_t>(std::clamp(v, 0.0, static_cast<double>(size)));
    };
    const std::int64_t top = bound(std::floor(row * bin_h) + y1, height);
    const std::int64_t bottom = bound(std::ceil((row + 1) * bin_h) + y1, height);
    const std::int64_t left = bound(std::floor(column * bin_w) + x1, width);
    const std::int64_t right = bound(std::ceil((column + 1) * bin_w) + x1, width);
    for (std::int64_t h = top; h < bottom; ++h) {
      for (std::int64_t w = left; w < right; ++w) taps.push_back({h * width + w, 1});
    }
  }

  /// The samples of each bin of a region, and where they lie.
  struct Grid {
    double x1, y1, bin_w, bin_h;
    std::int64_t rows, columns;
  };
  static constexpr std::int64_t kMostSamples = std::int64_t{1} << 20;

  [[nodiscard]] Grid grid_of(const double* box) const {
    const double offset = attrs.half_pixel ? 0.5 : 0;
    const auto edge = [&](double v) { return v * attrs.spatial_scale - offset; };
    const double x1 = edge(box[0]), y1 = edge(box[1]);
    double w = edge(box[2]) - x1, h = edge(box[3]) - y1;
    if (!attrs.half_pixel) {
      w = std::max(w, 1.0);
      h = std::max(h, 1.0);
    }
    const double bin_w = w / static_cast<double>(attrs.width),
                 bin_h = h / static_cast<double>(attrs.height);
    const auto samples = [&](double bin) {
      if (attrs.sampling_ratio > 0) return attrs.sampling_ratio;
      const auto most = static_cast<double>(2 * kMostSamples);
      return bin > 0 ? static_cast<std::int64_t>(std::ceil(std::min(bin, most)))
                     : std::int64_t{0};  // also where a corner is NaN
    };
    return {x1, y1, bin_w, bin_h, samples(bin_h), samples(bin_w)};
  }

  void read_samples(const double* box, double row, double column, std::vector<Tap>& taps) const {
    const auto [x1, y1, bin_w, bin_h, rows, columns] = grid_of(box);
    const double share =
        sums() ? 1 / static_cast<double>(std::max<std::int64_t>(rows * columns, 1)) : 1;
    const double y0 = y1 + row * bin_h, x0 = x1 + column * bin_w;
    const auto [top, bottom] = inside(y0, bin_h / static_cast<double>(rows), rows, height);
    const auto [left, right] = inside(x0, bin_w / static_cast<double>(columns), columns, width);
    if ((bottom - top) * 1.0 * (right - left) < static_cast<double>(rows) * columns) {
      taps.push_back({-1, 0});
    }
    for (std::int64_t i = top; i < bottom; ++i) {
      const double y = y0 + (static_cast<double>(i) + 0.5) * bin_h / static_cast<double>(rows);
      for (std::int64_t j = left; j < right; ++j) {
        const double x = x0 + (static_cast<double>(j) + 0.5) * bin_w / static_cast<double>(columns);
        sample(y, x, share, taps);
      }
    }
  }

  /// The first of `count` samples, `step` apart, that may lie inside an axis of x, and the one
  /// behind the last. A region far larger than x has few, whatever their number.
  static std::pair<std::int64_t, std::int64_t> inside(double from, double step, std::int64_t count,
                                                      std::int64_t size) {
    const auto place = [&](double v, double wider) {
      const double i = (v - from) / step + wider;
      if (std::isnan(i)) return std::int64_t{0};
      return static_cast<std::int64_t>(std::clamp(i, 0.0, static_cast<double>(count)));
    };
    const std::int64_t first = place(-1, -2), last = place(static_cast<double>(size), 2);
    return {first, std::max(first, last)};
  }

  /// The four neighbours of a sample.
  void sample(double y, double x, double share, std::vector<Tap>& taps) const {
    if (!(y >= -1 && y <= static_cast<double>(height) && x >= -1 &&
          x <= static_cast<double>(width))) {
      taps.push_back({-1, 0});
      return;
    }
    const auto split = [](double v, std::int64_t size, std::int64_t& low, std::int64_t& high) {
      v = std::max(v, 0.0);
      low = static_cast<std::int64_t>(v);
      if (low >= size - 1) {
        low = high = size - 1;
        return 0.0;
      }
      high = low + 1;
      return v - static_cast<double>(low);
    };
    std::int64_t top = 0, bottom = 0, left = 0, right = 0;
    const double ly = split(y, height, top, bottom), lx = split(x, width, left, right);
    taps.push_back({top * width + left, (1 - ly) * (1 - lx) * share});
    taps.push_back({top * width + right, (1 - ly) * lx * share});
    taps.push_back({bottom * width + left, ly * (1 - lx) * share});
    taps.push_back({bottom * width + right, ly * lx * share});
  }
};

/// The tap with the largest product, the first of equals; null when there is none.
template <class T>
const Tap* largest(const std::vector<Tap>& taps, const T* plane) {
  using A = Accumulator<T>;
  const Tap* best = nullptr;
  A most{};
  for (const Tap& tap : taps) {
    const A value = tap.element < 0 ? A{} : load(plane[tap.element]) * static_cast<A>(tap.weight);
    if (best && !(value > most) && !(value != value && most == most)) continue;
    best = &tap;
    most = value;
  }
  return best;
}

void roi_take(const OpCall& call) {
  const Tensor& out = call.outputs[0];
  const Tensor values = contiguous_copy(call.inputs[0]), x = contiguous_copy(call.inputs[1]);
  const Regions s(call, x, call.inputs[2], call.inputs[3]);
  if (out.impl()->numel() == 0) return;
  with_floating(x.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto* from = reinterpret_cast<const T*>(values.impl()->data);
    const auto* chosen = reinterpret_cast<const T*>(x.impl()->data);
    auto* to = reinterpret_cast<T*>(out.impl()->data);
    const double work = 8 * static_cast<double>(s.channels) + 64;
    parallel_for(0, s.count * s.bins,
                 grain_for({.bytes = 4 * work, .flops = work}, s.count * s.bins),
                 [&](std::int64_t lo, std::int64_t hi) {
                   std::vector<Tap> taps;
                   for (std::int64_t unit = lo; unit < hi; ++unit) {
                     const std::int64_t roi = unit / s.bins, bin = unit % s.bins;
                     s.read(roi, bin, taps);
                     const std::int64_t first = s.image[static_cast<std::size_t>(roi)] * s.channels;
                     for (std::int64_t c = 0; c < s.channels; ++c) {
                       const T* plane = from + (first + c) * s.plane();
                       A result{};
                       if (s.sums()) {
                         for (const Tap& tap : taps) {
                           if (tap.element >= 0)
                             result += load(plane[tap.element]) * static_cast<A>(tap.weight);
                         }
                       } else if (const Tap* tap = largest(taps, chosen + (first + c) * s.plane());
                                  tap && tap->element >= 0) {
                         result = load(plane[tap->element]) * static_cast<A>(tap->weight);
                       }
                       to[(roi * s.channels + c) * s.bins + bin] = store<T>(result);
                     }
                   }
                 });
  });
}

/// Regions overlap, so a channel belongs to one thread, its regions in order.
void roi_take_backward(const OpCall& call) {
  const Tensor& out = call.outputs[0];
  const Tensor grad = contiguous_copy(call.inputs[0]), x = contiguous_copy(call.inputs[1]);
  const Regions s(call, x, call.inputs[2], call.inputs[3]);
  if (out.impl()->numel() == 0) return;
  with_floating(x.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto* from = reinterpret_cast<const T*>(grad.impl()->data);
    const auto* chosen = reinterpret_cast<const T*>(x.impl()->data);
    auto* to = reinterpret_cast<T*>(out.impl()->data);
    const double work = static_cast<double>(s.images * s.plane() + 16 * s.count * s.bins);
    parallel_for(0, s.channels, grain_for({.bytes = 4 * work, .flops = work}, s.channels),
                 [&](std::int64_t lo, std::int64_t hi) {
                   std::vector<Tap> taps;
                   std::vector<A> sums(static_cast<std::size_t>(s.images * s.plane()));
                   for (std::int64_t c = lo; c < hi; ++c) {
                     std::fill(sums.begin(), sums.end(), A{});
                     for (std::int64_t unit = 0; unit < s.count * s.bins; ++unit) {
                       const std::int64_t roi = unit / s.bins, bin = unit % s.bins;
                       const std::int64_t n = s.image[static_cast<std::size_t>(roi)];
                       s.read(roi, bin, taps);
                       const A g = load(from[(roi * s.channels + c) * s.bins + bin]);
                       A* sum = sums.data() + n * s.plane();
                       const auto add = [&](const Tap& tap) {
                         if (tap.element >= 0) sum[tap.element] += g * static_cast<A>(tap.weight);
                       };
                       if (s.sums()) {
                         for (const Tap& tap : taps) add(tap);
                       } else if (const Tap* tap =
                                      largest(taps, chosen + (n * s.channels + c) * s.plane())) {
                         add(*tap);
                       }
                     }
                     for (std::int64_t n = 0; n < s.images; ++n) {
                       const A* sum = sums.data() + n * s.plane();
                       std::transform(sum, sum + s.plane(), to + (n * s.channels + c) * s.plane(),
                                      store<T>);
                     }
                   }
                 });
  });
}

struct Box {
  double x1, y1, x2, y2;
  [[nodiscard]] double area() const noexcept { return (x2 - x1) * (y2 - y1); }
};

Box box_of(const double* b, bool center_point) {
  if (center_point) return {b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2};
  return {std::min(b[1], b[3]), std::min(b[0], b[2]), std::max(b[1], b[3]), std::max(b[0], b[2])};
}

/// Intersection over union; 0 for boxes without an area.
double overlap(const Box& a, const Box& b) {
  const double w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const double h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (!(w > 0 && h > 0) || !(a.area() > 0 && b.area() > 0)) return 0;
  return w * h / (a.area() + b.area() - w * h);
}

void non_max_suppression(const OpCall& call) {
  const auto& a = call.attrs_as<ops::NmsAttrs>();
  const auto sizes = sizes_of(call.inputs[1]);
  const std::int64_t images = sizes[0], classes = sizes[1], count = sizes[2];
  const std::vector<double> boxes = doubles(call.inputs[0]), scores = doubles(call.inputs[1]);
  std::vector<std::int64_t> found, order, taken;
  for (std::int64_t n = 0; n < images; ++n) {
    std::vector<Box> image;
    for (std::int64_t i = 0; i < count; ++i) {
      image.push_back(box_of(boxes.data() + (n * count + i) * 4, a.center_point));
    }
    for (std::int64_t c = 0; c < classes; ++c) {
      const double* score = scores.data() + (n * classes + c) * count;
      order.clear();
      taken.clear();
      for (std::int64_t i = 0; i < count; ++i) {
        if (score[i] > a.score_threshold) order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(),
                       [&](std::int64_t i, std::int64_t j) { return score[i] > score[j]; });
      for (const std::int64_t i : order) {
        if (static_cast<std::int64_t>(taken.size()) >= a.max_per_class) break;
        const bool stays = std::none_of(taken.begin(), taken.end(), [&](std::int64_t t) {
          return overlap(image[static_cast<std::size_t>(i)], image[static_cast<std::size_t>(t)]) >
                 a.iou_threshold;
        });
        if (!stays) continue;
        taken.push_back(i);
        found.insert(found.end(), {n, c, i});
      }
    }
  }
  const Tensor out = make_empty(DType::i64, {static_cast<std::int64_t>(found.size()) / 3, 3});
  std::copy(found.begin(), found.end(), reinterpret_cast<std::int64_t*>(out.impl()->data));
  call.outputs[0] = out;
}

}  // namespace

std::span<const NamedKernel> roi_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"roi_take", {roi_take}},
      {"roi_take_backward", {roi_take_backward}},
      {"non_max_suppression", {non_max_suppression}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
