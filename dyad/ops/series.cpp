#include "dyad/ops/series.h"

#include <limits>

#include "dyad/core/promotion.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/conv.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/diagonal.h"
#include "dyad/ops/division.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/index_support.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/products.h"
#include "dyad/ops/rearrange.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/scatter.h"
#include "dyad/ops/sort.h"
#include "dyad/ops/statistics.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor without_first(const Tensor& x, std::int64_t axis) { return slice(x, axis, 1); }
Tensor without_last(const Tensor& x, std::int64_t axis) { return slice(x, axis, 0, -1); }

void require_floating(const Tensor& x, const char* function, Loc loc) {
  if (is_floating(x.dtype())) return;
  throw DTypeError(
      std::string(function) + "(" + type_string(x) + "): x must be floating; convert it with to()",
      loc.user());
}

/// A vector along the axis as a tensor that broadcasts against x; another tensor as it is.
Tensor along(const Tensor& vector, const Tensor& x, std::int64_t axis, Loc loc) {
  if (vector.rank() != 1) return vector;
  Shape shape;
  const auto at = normalize_axis(axis, x.rank(), "axis", loc);
  for (int i = 0; i < x.rank(); ++i) shape.push_back(i == at ? vector.size(0) : Dim(1));
  return reshape(vector, shape);
}

/// The distance between points of y as a tensor of its dtype (f32 for integers).
Tensor step_of(double step, const Tensor& y) {
  return full({}, step, is_floating(y.dtype()) ? y.dtype() : f32);
}

/// The areas under y between neighbouring points.
Tensor areas(const Tensor& y, const Tensor& widths, std::int64_t axis) {
  return (without_first(y, axis) + without_last(y, axis)) * widths * 0.5;
}
Tensor widths_of(const Tensor& x, const Tensor& y, std::int64_t axis, Loc loc) {
  const Tensor points = along(x, y, axis, loc);
  return without_first(points, axis) - without_last(points, axis);
}

/// The slopes at points that are `widths` apart (a number's tensor: all of them).
Tensor slopes(const Tensor& f, const Tensor& widths, std::int64_t axis, Loc loc) {
  const auto at = normalize_axis(axis, f.rank(), "axis", loc);
  const Dim count = f.size(at, loc);
  if (count < Dim(2)) {
    throw ShapeError("gradient(" + type_string(f) + "): axis " + std::to_string(at) + " has " +
                         size_text(count) + " points, but two are needed",
                     loc.user());
  }
  const Tensor between = (without_first(f, at) - without_last(f, at)) / widths;
  const Tensor left = without_last(between, at), right = without_first(between, at);
  Tensor middle = (left + right) * 0.5;
  if (widths.rank() > 0) {
    const Tensor before = without_last(widths, at), behind = without_first(widths, at);
    middle = (before * right + behind * left) / (before + behind);
  }
  return concat({slice(between, at, 0, 1), middle, slice(between, at, -1)}, at);
}

struct Counted {
  Tensor missing, count;
};
Counted counted(const Tensor& x, const Ints& axes) {
  const Tensor missing = isnan(x);
  return {missing, sum(logical_not(missing), axes, true)};
}

Tensor dropped(const Tensor& kept, const Tensor& x, const Ints& axes, bool keepdim) {
  if (keepdim) return kept;
  return reshape(kept,
                 ops::reduced_shape(ops::sizes_of(x), ops::sorted_axes(axes, x.rank()), false));
}

}  // namespace

Tensor diff(const Tensor& x, std::int64_t n, std::int64_t axis, const Tensor& before,
            const Tensor& after, Loc loc) {
  if (n < 0) {
    throw ValueError(
        "diff(" + type_string(x) + ", n = " + std::to_string(n) + "): n must be at least 0",
        loc.user());
  }
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x, const Tensor& before, const Tensor& after) {
        Tensor made = x;
        if (before.defined()) made = concat({before, made}, axis);
        if (after.defined()) made = concat({made, after}, axis);
        for (std::int64_t i = 0; i < n; ++i) {
          const Tensor next = without_first(made, axis), last = without_last(made, axis);
          made = made.dtype() == boolean ? logical_xor(next, last) : next - last;
        }
        return made;
      },
      x, before, after);
}

Tensor gradient(const Tensor& f, double step, std::int64_t axis, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32([&](const Tensor& f) { return slopes(f, step_of(step, f), axis, loc); }, f);
}
Tensor gradient(const Tensor& f, const Tensor& points, std::int64_t axis, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& f, const Tensor& points) {
        return slopes(f, widths_of(points, f, axis, loc), axis, loc);
      },
      f, points);
}

Tensor trapezoid(const Tensor& y, double step, std::int64_t axis, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32([&](const Tensor& y) { return sum(areas(y, step_of(step, y), axis), {axis}); },
                     y);
}
Tensor trapezoid(const Tensor& y, const Tensor& x, std::int64_t axis, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& y, const Tensor& x) {
        return sum(areas(y, widths_of(x, y, axis, loc), axis), {axis});
      },
      y, x);
}
Tensor cumulative_trapezoid(const Tensor& y, double step, std::int64_t axis, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& y) { return cumsum(areas(y, step_of(step, y), axis), axis); }, y);
}
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, std::int64_t axis, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& y, const Tensor& x) {
        return cumsum(areas(y, widths_of(x, y, axis, loc), axis), axis);
      },
      y, x);
}

Tensor convolve(const Tensor& a, const Tensor& v, std::string_view mode, Loc loc) {
  const auto call = [&] {
    return "convolve(a: " + type_string(a) + ", v: " + type_string(v) + ", mode = \"" +
           std::string(mode) + "\"): ";
  };
  if (mode != "full" && mode != "same" && mode != "valid") {
    throw ValueError(call() + "the mode must be full, same or valid", loc.user());
  }
  if (a.rank() != 1 || v.rank() != 1) {
    throw ShapeError(call() + "a and v must be vectors; conv1d() takes batches", loc.user());
  }
  const LocScope scope(loc);
  const Dim n = a.size(0, loc), m = v.size(0, loc);
  if (n < m) return convolve(v, a, mode, loc);
  if (m < 1) throw ShapeError(call() + "neither may be empty", loc.user());
  const Dim rest = m - 1;
  const Tensor line = mode == "valid" ? a : pad(a, {rest}, {rest});
  Tensor made = squeeze(
      squeeze(conv1d(unsqueeze(unsqueeze(line, 0), 0), unsqueeze(unsqueeze(flip(v), 0), 0)), 0), 0);
  if (mode != "same") return made;
  const Dim begin = rest / 2;
  return slice(made, 0, begin, begin + n);
}
Tensor correlate(const Tensor& a, const Tensor& v, std::string_view mode, Loc loc) {
  return convolve(a, flip(v, {}, loc), mode, loc);
}

Tensor interp(const Tensor& x, const Tensor& points, const Tensor& values, Loc loc) {
  if (points.rank() != 1 || values.rank() != 1) {
    throw ShapeError("interp(x: " + type_string(x) + ", points: " + type_string(points) +
                         ", values: " + type_string(values) + "): points and values are vectors",
                     loc.user());
  }
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x, const Tensor& points, const Tensor& values) {
        const Tensor last = size_tensor(points.size(0, loc)) - 1;
        const Tensor left =
            maximum(minimum(searchsorted(detach(points), detach(x), true) - 1, last - 1), 0);
        const Tensor right = minimum(left + 1, last);
        const Tensor x0 = index_select(points, 0, left), y0 = index_select(values, 0, left);
        const Tensor width = index_select(points, 0, right) - x0;
        const Tensor slope = (index_select(values, 0, right) - y0) / where(width == 0, 1, width);
        const Tensor inside = y0 + slope * (x - x0);
        const Tensor from_left = where(x < select(points, 0, 0), select(values, 0, 0), inside);
        return where(x > select(points, 0, -1), select(values, 0, -1), from_left);
      },
      x, points, values);
}

Tensor polyval(const Tensor& coefficients, const Tensor& x, Loc loc) {
  if (coefficients.rank() != 1) {
    throw ShapeError("polyval(coefficients: " + type_string(coefficients) +
                         ", x: " + type_string(x) + "): the coefficients must be a vector",
                     loc.user());
  }
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& coefficients, const Tensor& x) {
        const DType dtype = result_type({x, coefficients});
        const Tensor at = to(x, dtype), line = to(coefficients, dtype);
        Tensor made = zeros_like(at);
        const std::int64_t count = coefficients.size(0, loc).value(loc);
        for (std::int64_t i = 0; i < count; ++i) made = made * at + select(line, 0, i);
        return made;
      },
      coefficients, x);
}

Tensor unwrap(const Tensor& x, double period, std::int64_t axis, Loc loc) {
  require_floating(x, "unwrap", loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x) {
        const double half = period / 2;
        const Tensor steps = without_first(x, axis) - without_last(x, axis);
        const Tensor near = remainder(steps + half, period) - half;
        const Tensor turned = where(logical_and(near == -half, steps > 0), half, near);
        const Tensor moved = where(abs(steps) < half, 0, turned - steps);
        return concat({slice(x, axis, 0, 1), without_first(x, axis) + cumsum(moved, axis)}, axis);
      },
      x);
}

Tensor cov(const Tensor& x, std::int64_t correction, const Tensor& repeats, const Tensor& weights,
           Loc loc) {
  if (x.rank() > 2) {
    throw ShapeError(
        "cov(" + type_string(x) + "): x must be [variables, samples], a vector or a number",
        loc.user());
  }
  require_floating(x, "cov", loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x, const Tensor& repeats, const Tensor& weights) {
        const bool matrix = x.rank() == 2;
        const Tensor rows = matrix ? x : reshape(x, {1, -1});
        Tensor each = full({}, 1, x.dtype());
        if (repeats.defined()) each = each * repeats;
        if (weights.defined()) each = each * weights;
        const Tensor shares = expand(each, {rows.size(1)}), total = sum(shares);
        const Tensor mean_of = sum(rows * shares, {1}, true) / total;
        const Tensor lost =
            weights.defined() ? sum(shares * weights) / total : full({}, 1, x.dtype());
        const Tensor count = maximum(total - lost * correction, 0);
        const Tensor apart = rows - mean_of;
        const Tensor made = matmul(apart * shares, transpose(apart, 0, 1)) / count;
        return matrix ? made : reshape(made, {});
      },
      x, repeats, weights);
}
Tensor corrcoef(const Tensor& x, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x) {
        const Tensor c = cov(x, 1, {}, {}, loc);
        if (c.rank() == 0) return c / c;
        const Tensor deviation = sqrt(diagonal(c));
        return clamp(c / unsqueeze(deviation, 1) / deviation, -1, 1);
      },
      x);
}

Tensor average(const Tensor& x, const Tensor& weights, const Ints& axes, bool keepdim, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x, const Tensor& weights) {
        const Tensor w =
            axes.size() == 1 && x.rank() > 1 ? along(weights, x, axes[0], loc) : weights;
        const Tensor shares = expand(w, ops::sizes_of(x));
        return sum(x * shares, axes, keepdim) / sum(shares, axes, keepdim);
      },
      x, weights);
}
Tensor ptp(const Tensor& x, const Ints& axes, bool keepdim, Loc loc) {
  return sub(max(x, axes, keepdim, loc), min(x, axes, keepdim, loc), loc);
}

ValuesAndIndices mode(const Tensor& x, std::int64_t axis, bool keepdim, Loc loc) {
  if (ops::is_of_scalar(axis, x)) return {x, full({}, 0, i64, loc)};
  const LocScope scope(loc);
  const auto [sorted, order] = sort(x, axis, false, loc);
  // How long the run of equal elements is up to each place: the longest one ends where that is
  // largest.
  const Dim size = x.size(axis, loc);
  const Tensor first = full_like(slice(sorted, axis, 0, 1), 1, boolean);
  const Tensor starts =
      concat({first, without_first(sorted, axis) != without_last(sorted, axis)}, axis);
  const Tensor places = along(arange(size), x, axis, loc);
  const Tensor begin = cummax(where(starts, places, 0), axis).values;
  const Tensor at = argmax(places - begin, axis, true);
  const Tensor values = gather(sorted, axis, at), indices = gather(order, axis, at);
  if (keepdim) return {values, indices};
  return {squeeze(values, axis), squeeze(indices, axis)};
}

Tensor percentile(const Tensor& x, double p, std::int64_t axis, bool keepdim,
                  std::string_view interpolation, Loc loc) {
  return quantile(x, p / 100, axis, keepdim, interpolation, loc);
}

Tensor nanmax(const Tensor& x, const Ints& axes, bool keepdim, Loc loc) {
  if (!is_floating(x.dtype())) return max(x, axes, keepdim, loc);
  const LocScope scope(loc);
  const Tensor missing = isnan(x);
  const Tensor largest = max(where(missing, -kInf, x), axes, keepdim, loc);
  return where(all(missing, axes, keepdim), kNaN, largest);
}
Tensor nanmin(const Tensor& x, const Ints& axes, bool keepdim, Loc loc) {
  if (!is_floating(x.dtype())) return min(x, axes, keepdim, loc);
  const LocScope scope(loc);
  return neg(nanmax(neg(x), axes, keepdim, loc));
}
Tensor nanprod(const Tensor& x, const Ints& axes, bool keepdim, Loc loc) {
  if (!is_floating(x.dtype())) return prod(x, axes, keepdim, loc);
  const LocScope scope(loc);
  return prod(where(isnan(x), 1, x), axes, keepdim);
}
Tensor nanvar(const Tensor& x, const Ints& axes, std::int64_t correction, bool keepdim, Loc loc) {
  require_floating(x, "nanvar", loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x) {
        const auto [missing, there] = counted(x, axes);
        const Tensor count = to(there, x.dtype());
        const Tensor centre = sum(where(missing, 0, x), axes, true) / count;
        const Tensor apart = where(missing, 0, x - centre);
        const Tensor divisor = maximum(count - correction, 0);
        const Tensor made = sum(square(apart), axes, true) / where(divisor == 0, kNaN, divisor);
        return dropped(made, x, axes, keepdim);
      },
      x);
}
Tensor nanstd(const Tensor& x, const Ints& axes, std::int64_t correction, bool keepdim, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x) { return sqrt(nanvar(x, axes, correction, keepdim, loc)); }, x);
}
Tensor nancumsum(const Tensor& x, std::int64_t axis, Loc loc) {
  if (!is_floating(x.dtype())) return cumsum(x, axis, false, false, loc);
  const LocScope scope(loc);
  return cumsum(where(isnan(x), 0, x), axis);
}
Tensor nancumprod(const Tensor& x, std::int64_t axis, Loc loc) {
  if (!is_floating(x.dtype())) return cumprod(x, axis, false, false, loc);
  const LocScope scope(loc);
  return cumprod(where(isnan(x), 1, x), axis);
}
Tensor nanargmax(const Tensor& x, std::int64_t axis, bool keepdim, Loc loc) {
  if (!is_floating(x.dtype())) return argmax(x, axis, keepdim, false, loc);
  const LocScope scope(loc);
  // Not that of the largest with something in the place of NaN: -inf may be what is left.
  return argmax(x == nanmax(x, {axis}, true, loc), axis, keepdim, false, loc);
}
Tensor nanargmin(const Tensor& x, std::int64_t axis, bool keepdim, Loc loc) {
  if (!is_floating(x.dtype())) return argmin(x, axis, keepdim, false, loc);
  return nanargmax(neg(x, loc), axis, keepdim, loc);
}
Tensor nanargmax(const Tensor& x, Loc loc) {
  return nanargmax(reshape(x, {-1}, loc), 0, false, loc);
}
Tensor nanargmin(const Tensor& x, Loc loc) {
  return nanargmin(reshape(x, {-1}, loc), 0, false, loc);
}
Tensor nanquantile(const Tensor& x, double q, std::int64_t axis, bool keepdim, Loc loc) {
  require_floating(x, "nanquantile", loc);
  if (!(q >= 0 && q <= 1)) {
    throw ValueError(
        "nanquantile(" + type_string(x) + ", q = " + std::to_string(q) + "): q must be from 0 to 1",
        loc.user());
  }
  const Dim size = x.size(axis, loc);
  if (ops::is_below(size, 1)) {
    throw ShapeError("nanquantile(" + type_string(x) + "): x has no elements along axis " +
                         std::to_string(axis) + ", and none have no quantile",
                     loc.user());
  }
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x) {
        // What is missing goes last.
        const Tensor missing = isnan(x),
                     sorted = sort(where(missing, kInf, x), axis, false, loc).values;
        const Tensor there = sum(logical_not(missing), {axis}, true);
        const Tensor place = to(maximum(there - 1, 0), f64) * q, below = floor(place);
        const Tensor low = gather(sorted, axis, to(below, i64));
        const Tensor high = gather(sorted, axis, to(ceil(place), i64));
        const Tensor between = low + (high - low) * to(place - below, x.dtype());
        // Between two equal infinities there is no difference.
        const Tensor made = where(there == 0, kNaN, where(low == high, low, between));
        return keepdim ? made : squeeze(made, axis);
      },
      x);
}

Tensor dist(const Tensor& a, const Tensor& b, double p, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32([&](const Tensor& a, const Tensor& b) { return norm(a - b, p); }, a, b);
}
Tensor pdist(const Tensor& x, double p, Loc loc) {
  if (x.rank() != 2) {
    throw ShapeError("pdist(" + type_string(x) + "): x must be a matrix", loc.user());
  }
  const LocScope scope(loc);
  // The pairs of row i begin at place i (2n - i - 1) / 2. The last row has none.
  const Dim rows = x.size(0, loc), count = rows * (rows - 1) / 2;
  const Tensor n = size_tensor(rows), row = arange(rows);
  const Tensor begins = floor_divide(row * (n * 2 - row - 1), 2);
  const Tensor later = slice(begins, 0, 1, rows - 1);
  const Tensor first = cumsum(ops::scatter_added({count}, 0, later, ones_like(later)), 0);
  const Tensor second = arange(count) - take(begins, first) + first + 1;
  return take(cdist(x, x, p, loc), first * n + second);
}
Tensor renorm(const Tensor& x, double p, std::int64_t axis, double most, Loc loc) {
  if (!(p > 0 && most > 0)) {
    throw ValueError("renorm(" + type_string(x) + ", p = " + std::to_string(p) +
                         ", most = " + std::to_string(most) + "): p and most must be above 0",
                     loc.user());
  }
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x) {
        Ints others;
        const auto at = normalize_axis(axis, x.rank(), "renorm", loc);
        for (int i = 0; i < x.rank(); ++i) {
          if (i != at) others.push_back(i);
        }
        const Tensor length = others.empty() ? abs(x) : norm(x, p, others, true);
        const Tensor above = length > most;
        return x * where(above, most / (where(above, length, 1) + 1e-7), 1);
      },
      x);
}

}  // namespace dyad
