#include <algorithm>
#include <cmath>

#include "dyad/runtime/cpu/taps.h"

namespace dyad::runtime::cpu {
namespace {

/// Where result o lies between the `in` elements; `width` is the size that the scale gives, which
/// may be no whole number.
double position(const ops::ResampleAttrs& a, double in, double out, double scale, double o) {
  const double width = scale * in;
  // Sizes alone say the scale exactly: in / out.
  const auto times_step = [&](double x) { return a.scale == 0 ? x * in / out : x / scale; };
  if (a.coordinates == "align_corners") return width == 1 ? 0 : o * (in - 1) / (width - 1);
  if (a.coordinates == "asymmetric") return times_step(o);
  if (a.coordinates == "tf_crop_and_resize") {
    const double reach = (a.roi_end - a.roi_begin) * (in - 1);
    return a.roi_begin * (in - 1) + (width == 1 ? reach / 2 : o * reach / (width - 1));
  }
  if (a.coordinates == "pytorch_half_pixel" && width == 1) return 0;
  const double centre = times_step(o + 0.5) - 0.5;
  return a.coordinates == "half_pixel_symmetric" ? centre + in / 2 * (1 - out / width) : centre;
}

double nearest(const std::string& rounding, double x) {
  if (rounding == "floor") return std::floor(x);
  if (rounding == "ceil") return std::ceil(x);
  return rounding == "round_prefer_floor" ? std::ceil(x - 0.5) : std::floor(x + 0.5);
}

double cubic(double a, double x) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

}  // namespace

Taps Taps::transposed(std::int64_t in) const {
  Taps made;
  made.begin.assign(static_cast<std::size_t>(in) + 1, 0);
  for (const std::int64_t i : index) ++made.begin[static_cast<std::size_t>(i) + 1];
  for (std::size_t i = 1; i < made.begin.size(); ++i) made.begin[i] += made.begin[i - 1];
  made.index.resize(index.size());
  made.weight.resize(index.size());
  std::vector<std::int64_t> next(made.begin.begin(), made.begin.end() - 1);
  for (std::int64_t o = 0; o < size(); ++o) {
    for (auto k = static_cast<std::size_t>(begin[static_cast<std::size_t>(o)]);
         k < static_cast<std::size_t>(begin[static_cast<std::size_t>(o) + 1]); ++k) {
      const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(index[k])]++);
      made.index[at] = o;
      made.weight[at] = weight[k];
    }
  }
  return made;
}

Taps resample_taps(const ops::ResampleAttrs& a, std::int64_t in, std::int64_t out) {
  const auto size = static_cast<double>(in), count = static_cast<double>(out);
  const double scale = a.scale > 0 ? a.scale : count / size;
  const bool is_nearest = a.mode == "nearest", is_linear = a.mode == "linear";
  // A filter for a smaller result reaches further by 1 / squeeze.
  const double squeeze = a.antialias && !is_nearest ? std::min(scale, 1.0) : 1;
  const double reach = is_linear ? 1 : 2;
  const auto before = static_cast<std::int64_t>(std::floor(-reach / squeeze)) + 1;
  const std::int64_t after = 2 - before;
  Taps taps;
  std::vector<double> weights;
  for (std::int64_t o = 0; o < out; ++o) {
    const double x = position(a, size, count, scale, static_cast<double>(o));
    const bool outside = a.coordinates == "tf_crop_and_resize" && (x < 0 || x > size - 1);
    const auto add = [&](std::int64_t i, double w) {
      if (w == 0) return;
      i = std::clamp<std::int64_t>(i, 0, in - 1);
      const bool again = !taps.index.empty() && taps.index.back() == i &&
                         static_cast<std::int64_t>(taps.index.size()) > taps.begin.back();
      if (again) {
        taps.weight.back() += w;
      } else {
        taps.index.push_back(i);
        taps.weight.push_back(w);
      }
    };
    if (!outside && is_nearest) {
      add(static_cast<std::int64_t>(nearest(a.rounding, x)), 1.0);
    } else if (!outside) {
      // The element at or left of x; x itself is left of none, so its ratio is 1 there, not 0.
      const double left = std::ceil(x) - 1, ratio = x - left;
      weights.clear();
      double total = 0, inside = 0;
      for (std::int64_t i = before; i < after; ++i) {
        const double d = (static_cast<double>(i) - ratio) * squeeze;
        const double w = is_linear ? std::max(0.0, 1 - std::abs(d)) : cubic(a.cubic_coeff, d);
        const double at = left + static_cast<double>(i);
        weights.push_back(w);
        total += w;
        if (at >= 0 && at < size) inside += w;
      }
      const double divisor = a.exclude_outside && inside != 0 ? inside : a.antialias ? total : 1;
      for (std::int64_t i = before; i < after; ++i) {
        const double at = left + static_cast<double>(i);
        const bool counts = !a.exclude_outside || (at >= 0 && at < size);
        if (counts)
          add(static_cast<std::int64_t>(at),
              weights[static_cast<std::size_t>(i - before)] / divisor);
      }
    }
    taps.begin.push_back(static_cast<std::int64_t>(taps.index.size()));
  }
  return taps;
}

}  // namespace dyad::runtime::cpu
