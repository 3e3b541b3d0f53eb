#include "dyad/ops/statistics.h"

#include <limits>

#include "dyad/base/error.h"
#include "dyad/core/promotion.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/cumulative.h"
#include "dyad/ops/checked.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/division.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/ranges.h"
#include "dyad/ops/rearrange.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/sort.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr ArgInfo kBincountInputs[] = {{"x", kInteger}, {"weights", kFloat, true}};

struct Bincount {
  using Attrs = BincountAttrs;
  static constexpr Schema schema{
      .name = "bincount",
      .inputs = kBincountInputs,
      .outputs = kOut,
      .doc = "How often each number from 0 on occurs, or the sum of the weights where it does.",
      .saved_inputs = kFirst,
      .checks = kFirst};
  static Types infer(const InferIn& in, const Attrs&) {
    const bool weighted = in.has(1);
    if (in[0].rank() != 1) {
      fail_shape(in, "x must be a vector; reshape(x, {-1}) makes one");
    }
    if (weighted && (in[1].rank() != 1 || !(in[1].shape()[0] == in[0].shape()[0]))) {
      fail_shape(in, "weights must be " + to_string(in[0].shape()) + ", one for each element");
    }
    return {Type(weighted ? in[1].dtype() : DType::i64, {unknown_size()})};
  }
  static void grad(Gradient& g, const Attrs&) {
    if (g.needs(1)) g.set(1, index_select(g.grad(), 0, to(g.input(0), i64)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType made = e.output_type().dtype(), dtype = is_narrow(made) ? DType::f32 : made;
    const std::string x = e.cast(e.input(0), DType::i64), one = e.scalar(1, DType::i64);
    // As many as are asked for, or as the largest number needs; there may be none.
    const std::string last = e.node("Sub", {e.shape({attrs.least}), one});
    const std::string largest =
        e.node("ReduceMax", {e.node("Concat", {x, last}, {{"axis", std::int64_t{0}}})});
    const std::string zeros = e.node("Expand", {e.scalar(0, dtype), e.node("Add", {largest, one})});
    const std::string amounts = e.input(1).empty()
                                    ? e.node("Expand", {e.scalar(1, dtype), e.node("Shape", {x})})
                                    : e.cast(e.input(1), dtype);
    e.output(0,
             e.node("ScatterElements", {zeros, x, amounts}, {{"reduction", std::string("add")}}));
  }
};

constexpr ArgInfo kCounts[] = {{"counts", kIndex}};

struct RepeatPlaces {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "repeat_places",
                                 .inputs = kCounts,
                                 .outputs = kIndexOut,
                                 .doc = "The number i counts[i] times, for each i.",
                                 .samples = {.differentiable = false},
                                 .checks = kFirst};
  static Types infer(const InferIn& in, const Attrs&) {
    if (in[0].rank() != 1) fail_shape(in, "counts must be a vector");
    return {Type(DType::i64, {unknown_size()})};
  }
};

/// The size of an axis, which is not empty (ShapeError): only elements have a middle one.
Dim size_with_middle(const Tensor& x, std::int64_t axis, std::string_view function, Loc loc) {
  const int at = normalize_axis(axis, x.rank(), function, loc);
  const Dim size = x.size(at, loc);
  if (is_below(size, 1)) {
    throw ShapeError(std::string(function) + "(" + type_string(x) + "): axis " +
                         std::to_string(at) + " has size 0, and no elements have no middle one",
                     loc.user());
  }
  return size;
}

ValuesAndIndices picked(const Tensor& x, std::int64_t axis, const Tensor& kept_indices,
                        bool keepdim, Loc loc) {
  const Tensor values = gather(x, axis, kept_indices, loc);
  if (keepdim) return {values, kept_indices};
  return {squeeze(values, axis, loc), squeeze(kept_indices, axis, loc)};
}

/// All elements as one axis.
Tensor line_of(const Tensor& x, Loc loc) { return reshape(x, {-1}, loc); }

/// The quantiles of x along the axis, which then has one place for each of q (f64, a vector).
Tensor quantiles(const Tensor& x, const Tensor& q, std::int64_t axis,
                 std::string_view interpolation, const std::string& call, Loc loc) {
  if (!is_floating(x.dtype())) {
    throw DTypeError(call + ": x must be floating; convert it with to()", loc.user());
  }
  const std::string_view known[] = {"linear", "lower", "higher", "midpoint", "nearest"};
  if (std::find(std::begin(known), std::end(known), interpolation) == std::end(known)) {
    throw ValueError(call + ": interpolation \"" + std::string(interpolation) +
                         "\" must be one of linear lower higher midpoint nearest",
                     loc.user());
  }
  const int along = normalize_axis(axis, x.rank(), "quantile", loc);
  const Dim size = x.size(along, loc);
  if (is_below(size, 1)) {
    throw ShapeError(call + ": x has no elements along axis " + std::to_string(axis) +
                         ", and none have no quantile",
                     loc.user());
  }
  const LocScope scope(loc);
  return in_f32(
      [&](const Tensor& x) {
        const Tensor sorted = sort(x, along, false, loc).values;
        // NaNs are last: if there is one, every quantile is NaN.
        const Tensor last = unsqueeze(select(sorted, along, -1), along);
        const Tensor place = to(size_tensor(size) - 1, f64) * q;
        const Tensor below = floor(place), above = ceil(place);
        const auto at = [&](const Tensor& places) {
          return index_select(sorted, along, to(places, i64));
        };
        Tensor result;
        if (interpolation == "lower") {
          result = at(below);
        } else if (interpolation == "higher") {
          result = at(above);
        } else if (interpolation == "nearest") {
          result = at(round(place));
        } else {
          const Tensor low = at(below), high = at(above);
          const Tensor part = interpolation == "midpoint"
                                  ? where(below == above, 0, full({}, 0.5, f64))
                                  : place - below;
          Shape beside(static_cast<std::size_t>(x.rank()), 1);
          beside[static_cast<std::size_t>(along)] = -1;
          result = low + (high - low) * reshape(to(part, x.dtype()), beside);
          // Between two equal infinities there is no difference.
          result = where(low == high, low, result);
        }
        return where(isnan(last), kNaN, result);
      },
      x);
}

/// The elements of x in f32 or f64 and the range that bins divide: [low, high], or, where these are
/// equal, that of the elements, which goes as far to each side of equal ones as `beside` says.
struct Range {
  Tensor line, first, last;

  Range(const std::string& function, const Tensor& x, std::int64_t bins, double low, double high,
        double beside, Loc loc) {
    if (bins < 1 || !(low <= high)) {
      throw ValueError(function + "(" + type_string(x) + ", bins = " + std::to_string(bins) +
                           "): there must be 1 bin or more, and low must not be above high",
                       loc.user());
    }
    if (!is_floating(x.dtype())) {
      throw DTypeError(
          function + "(" + type_string(x) + "): x must be floating; convert it with to()",
          loc.user());
    }
    const DType exact = x.dtype() == f64 ? f64 : f32;
    line = to(detach(line_of(x, loc)), exact);
    first = full({}, low, exact);
    last = full({}, high, exact);
    const Dim count = line.numel();
    if (low == high && !is_known(count)) {
      // There may turn out to be no elements, which have no smallest one.
      const Tensor end = full({1}, std::numeric_limits<double>::infinity(), exact);
      const Tensor is_empty = size_tensor(count) == 0;
      first = where(is_empty, first, min(concat({line, end})));
      last = where(is_empty, last, max(concat({line, -end})));
    } else if (low == high && !(count == 0)) {
      first = min(line);
      last = max(line);
    }
    const Tensor none = first == last;
    first = where(none, first - beside, first);
    last = where(none, last + beside, last);
  }
};

/// The counts of places 0 to bins - 1 in the dtype of x; a place of -1 does not count.
Tensor counted(const Tensor& places, const Tensor& amounts, Dim bins) {
  const Tensor inside = places >= 0;
  const Tensor start = zeros({bins}, amounts.dtype());
  return scatter_add(start, 0, where(inside, places, 0), where(inside, amounts, 0));
}

}  // namespace

std::span<const OpInfo* const> statistics_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Bincount>, &op_info<RepeatPlaces>};
  return kRows;
}

}  // namespace ops

ValuesAndIndices max_with_indices(const Tensor& x, std::int64_t axis, bool keepdim, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(max_with_indices(ops::as_vector(x, loc), axis, keepdim, loc), loc);
  }
  const LocScope scope(loc);
  return ops::picked(x, axis, argmax(x, axis, true, false, loc), keepdim, loc);
}
ValuesAndIndices min_with_indices(const Tensor& x, std::int64_t axis, bool keepdim, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(min_with_indices(ops::as_vector(x, loc), axis, keepdim, loc), loc);
  }
  const LocScope scope(loc);
  return ops::picked(x, axis, argmin(x, axis, true, false, loc), keepdim, loc);
}
Tensor amax(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return max(x, std::move(axes), keepdim, loc);
}
Tensor amin(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return min(x, std::move(axes), keepdim, loc);
}
std::pair<Tensor, Tensor> aminmax(const Tensor& x, const Ints& axes, bool keepdim, Loc loc) {
  return {min(x, axes, keepdim, loc), max(x, axes, keepdim, loc)};
}

Tensor count_nonzero(const Tensor& x, const Ints& axes, bool keepdim, Loc loc) {
  return sum(ne(x, 0, loc), axes, keepdim, loc);
}
Tensor nansum(const Tensor& x, const Ints& axes, bool keepdim, Loc loc) {
  if (!is_floating(x.dtype())) return sum(x, axes, keepdim, loc);
  return sum(where(isnan(x, loc), 0, x, loc), axes, keepdim, loc);
}
Tensor nanmean(const Tensor& x, const Ints& axes, bool keepdim, Loc loc) {
  if (!is_floating(x.dtype())) return mean(x, axes, keepdim, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x) {
        const Tensor missing = isnan(x);
        const Tensor count = sum(logical_not(missing), axes, keepdim);
        return sum(where(missing, 0, x), axes, keepdim) / to(count, x.dtype());
      },
      x);
}
Tensor sum_square(const Tensor& x, const Ints& axes, bool keepdim, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32([&](const Tensor& x) { return sum(square(x), axes, keepdim); }, x);
}
Tensor log_sum(const Tensor& x, const Ints& axes, bool keepdim, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32([&](const Tensor& x) { return log(sum(x, axes, keepdim)); }, x);
}

ValuesAndIndices median(const Tensor& x, std::int64_t axis, bool keepdim, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(median(ops::as_vector(x, loc), axis, keepdim, loc), loc);
  }
  const LocScope scope(loc);
  const Dim size = ops::size_with_middle(x, axis, "median", loc);
  const ValuesAndIndices middle = kthvalue(x, (size + 1) / 2, axis, true, loc);
  Tensor indices = middle.indices;
  if (is_floating(x.dtype())) {
    // argmax finds the first NaN, where there is one.
    const Tensor missing = isnan(x);
    indices = where(any(missing, {axis}, true), argmax(missing, axis, true), indices);
  }
  return ops::picked(x, axis, indices, keepdim, loc);
}
Tensor median(const Tensor& x, Loc loc) {
  return median(ops::line_of(x, loc), 0, false, loc).values;
}

ValuesAndIndices nanmedian(const Tensor& x, std::int64_t axis, bool keepdim, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(nanmedian(ops::as_vector(x, loc), axis, keepdim, loc), loc);
  }
  if (!is_floating(x.dtype())) return median(x, axis, keepdim, loc);
  const LocScope scope(loc);
  (void)ops::size_with_middle(x, axis, "nanmedian", loc);
  // NaNs are last: the middle is that of the others.
  const Tensor order = sort(x, axis, false, loc).indices;
  const Tensor count = sum(logical_not(isnan(x)), {axis}, true);
  const Tensor middle = floor_divide(maximum(count, 1) - 1, 2);
  return ops::picked(x, axis, gather(order, axis, middle), keepdim, loc);
}
Tensor nanmedian(const Tensor& x, Loc loc) {
  return nanmedian(ops::line_of(x, loc), 0, false, loc).values;
}

Tensor quantile(const Tensor& x, double q, std::int64_t axis, bool keepdim,
                std::string_view interpolation, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(quantile(ops::as_vector(x, loc), q, axis, keepdim, interpolation, loc),
                          loc);
  }
  const std::string call = "quantile(" + type_string(x) + ", q = " + std::to_string(q) + ")";
  if (!(q >= 0 && q <= 1)) throw ValueError(call + ": q must be from 0 to 1", loc.user());
  const Tensor made = ops::quantiles(x, full({1}, q, f64, loc), axis, interpolation, call, loc);
  return keepdim ? made : squeeze(made, axis, loc);
}
Tensor quantile(const Tensor& x, double q, Loc loc) {
  return quantile(ops::line_of(x, loc), q, 0, false, "linear", loc);
}
Tensor quantile(const Tensor& x, const Tensor& q, std::int64_t axis, bool keepdim,
                std::string_view interpolation, Loc loc) {
  const std::string call = "quantile(" + type_string(x) + ", q: " + type_string(q) + ")";
  if (q.rank() > 1 || !is_floating(q.dtype())) {
    throw ShapeError(call + ": q must be a floating vector or number", loc.user());
  }
  const LocScope scope(loc);
  const bool scalar = ops::is_of_scalar(axis, x);
  const Tensor rows = scalar ? ops::as_vector(x, loc) : x;
  const Tensor shares =
      ops::checked(ops::line_of(q, loc), {.of = "quantile", .argument = "q", .most = 1}, loc);
  const Tensor along = ops::quantiles(rows, to(shares, f64), axis, interpolation, call, loc);
  // The quantiles come first, in front of what is left of the axes of x.
  const std::int64_t at = normalize_axis(axis, rows.rank(), "quantile", loc);
  Tensor made = movedim(along, at, 0);
  if (keepdim && !scalar) made = unsqueeze(made, at + 1);
  return q.rank() == 0 ? squeeze(made, 0) : made;
}
Tensor quantile(const Tensor& x, const Tensor& q, Loc loc) {
  return quantile(ops::line_of(x, loc), q, 0, false, "linear", loc);
}

Tensor bincount(const Tensor& x, Dim least, Loc loc) { return bincount(x, Tensor(), least, loc); }
Tensor bincount(const Tensor& x, const Tensor& weights, Dim least, Loc loc) {
  return apply<ops::Bincount>({.least = least}, loc, x, weights);
}

Tensor histc(const Tensor& x, std::int64_t bins, double low, double high, Loc loc) {
  const LocScope scope(loc);
  const auto [line, begin, end] = ops::Range("histc", x, bins, low, high, 1, loc);
  const Tensor inside = logical_and(line >= begin, line <= end);
  const Tensor part = floor((line - begin) * static_cast<double>(bins) / (end - begin));
  const Tensor place = to(clamp(where(inside, part, 0), 0, static_cast<double>(bins - 1)), i64);
  return ops::counted(where(inside, place, -1), full_like(line, 1), bins).to(x.dtype());
}

Tensor histogram(const Tensor& x, const Tensor& edges, const Tensor& weights, bool density,
                 Loc loc) {
  if (edges.rank() != 1) {
    throw ShapeError("histogram(" + type_string(x) + ", edges: " + type_string(edges) +
                         "): the edges must be a vector",
                     loc.user());
  }
  const LocScope scope(loc);
  const Dim bins = edges.size(0, loc) - 1;
  if (ops::is_below(bins, 1)) {
    throw ShapeError("histogram(" + type_string(x) + ", edges: " + type_string(edges) +
                         "): two edges or more are needed, one part lies between two",
                     loc.user());
  }
  const DType dtype = result_type({x, edges});
  const Tensor line = to(ops::line_of(x, loc), dtype), bounds = to(edges, dtype);
  const Tensor first = select(bounds, 0, 0), last = select(bounds, 0, -1);
  // The last part has its upper bound too.
  const Tensor place = minimum(searchsorted(bounds, line, true) - 1, size_tensor(bins) - 1);
  const Tensor part = where(logical_and(line >= first, line <= last), place, -1);
  const auto made = [&](const Tensor& amounts) {
    return ops::counted(part, expand(amounts, ops::sizes_of(line)), bins);
  };
  const Tensor each = weights.defined() ? ops::line_of(weights, loc) : full({}, 1, x.dtype());
  if (!density) return made(each);
  return ops::in_f32(
      [&](const Tensor& amounts, const Tensor& at) {
        const Tensor counts = made(amounts), widths = slice(at, 0, 1) - slice(at, 0, 0, -1);
        return counts / (sum(counts) * widths);
      },
      each, bounds);
}

Histogram histogram(const Tensor& x, std::int64_t bins, double low, double high,
                    const Tensor& weights, bool density, Loc loc) {
  const LocScope scope(loc, "histogram");
  const ops::Range range("histogram", x, bins, low, high, 0.5, loc);
  const double count = static_cast<double>(bins);
  const Tensor place = arange(bins + 1, i64, loc);
  const Tensor step = to(place, range.first.dtype()) * ((range.last - range.first) / count);
  // The last edge is the upper bound itself.
  const Tensor edges = to(where(place == bins, range.last, range.first + step), x.dtype());
  return {histogram(x, edges, weights, density, loc), edges};
}

Tensor repeat_interleave(const Tensor& x, const Tensor& counts, std::int64_t axis, Loc loc) {
  const LocScope scope(loc);
  Tensor each = counts;
  const Dim size = x.size(axis, loc);
  if (each.rank() == 0) each = expand(unsqueeze(each, 0), {size});
  if (each.rank() == 1 && !(ops::sizes_of(each)[0] == size)) {
    throw ShapeError("repeat_interleave(" + type_string(x) + ", counts: " + type_string(counts) +
                         "): a count for each of the " + size_text(size) + " slices along axis " +
                         std::to_string(axis) + " is needed",
                     loc.user());
  }
  return ops::index_select_from_front(x, axis, apply<ops::RepeatPlaces>({}, loc, each));
}
Tensor repeat_interleave(const Tensor& x, const Tensor& counts, Loc loc) {
  return repeat_interleave(ops::line_of(x, loc), counts, 0, loc);
}
Tensor repeat_interleave(const Tensor& x, std::int64_t count, Loc loc) {
  return repeat_interleave(ops::line_of(x, loc), count, 0, loc);
}

}  // namespace dyad
