#include "dyad/onnx/size_ratios.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "dyad/core/dim_expr.h"

namespace dyad::onnx::sizes {
namespace {

/// Numbers in floats up to which products with sizes, and quotients, are exact in f32.
constexpr std::int64_t kMostScale = 256;

/// Whether a float holds it as it is. A third is rounded: of that only the whole part is sure.
bool is_exact(const Ratio& x) { return std::has_single_bit(static_cast<std::uint64_t>(x.over)); }

/// size / over in lowest terms; nothing where a float of it may be rounded.
std::optional<Ratio> ratio(Dim size, std::int64_t over) {
  if (over < 0) return ratio(-size, -over);
  for (std::int64_t factor = over; factor > 1; --factor) {
    if (over % factor != 0 || !(size % Dim(factor)).same_as(0)) continue;
    size = size / Dim(factor);
    over /= factor;
  }
  if (over > kMostScale) return {};
  return Ratio{size, over};
}

/// The i-th, or the only one.
const std::optional<Ratio>& element(const Ratios& x, std::size_t i) {
  return x[x.size() == 1 ? 0 : i];
}

/// An operation on sizes, element by element, on those that are known.
template <class F>
Known each(const Known& a, const Known& b, F f) {
  if (!a || !b) return {};
  if (a->size() != b->size() && a->size() != 1 && b->size() != 1) return {};
  Ratios result;
  const std::size_t n = a->empty() || b->empty() ? 0 : std::max(a->size(), b->size());
  for (std::size_t i = 0; i < n; ++i) {
    const auto &x = element(*a, i), &y = element(*b, i);
    result.push_back(x && y ? std::optional<Ratio>(f(*x, *y)) : std::nullopt);
  }
  return result;
}
template <class F>
Known each(const Known& x, F f) {
  return each(x, one(0), [&](const Ratio& a, const Ratio&) { return f(a); });
}
/// Whether a < b, or a == b, for every value of the symbols; nothing where these decide.
std::optional<bool> is_less(Dim a, Dim b) {
  const Dim difference = b - a;
  if (const auto low = dyad::detail::lower_bound(difference); low && *low > 0) return true;
  if (const auto high = dyad::detail::upper_bound(difference); high && *high <= 0) return false;
  return {};
}
std::optional<bool> is_equal(Dim a, Dim b) {
  const Dim difference = b - a;
  if (difference.is_number()) return difference.number() == 0;
  const auto low = dyad::detail::lower_bound(difference),
             high = dyad::detail::upper_bound(difference);
  if ((low && *low > 0) || (high && *high < 0)) return false;
  return {};
}

using Decide = std::optional<bool> (*)(Dim, Dim);

/// Truth, as 0 and 1.
Known decided(const Known& a, const Known& b, Decide decide, bool negated) {
  return each(a, b, [&](const Ratio& x, const Ratio& y) -> std::optional<Ratio> {
    const std::optional<bool> holds = decide(x.size * Dim(y.over), y.size * Dim(x.over));
    if (!holds) return {};
    return as_ratio(*holds != negated ? 1 : 0);
  });
}

}  // namespace

Ratio as_ratio(Dim size) { return {size, 1}; }
Known one(Dim size) { return Ratios{as_ratio(size)}; }
bool is_whole(const Ratio& x) { return x.over == 1; }
std::optional<Ratio> ratio_of(double value) {
  if (!(value > -0x1p53 && value < 0x1p53)) return {};
  if (value == std::floor(value)) return as_ratio(static_cast<std::int64_t>(value));
  for (std::int64_t over = 2; over <= kMostScale; over *= 2) {
    const double size = value * static_cast<double>(over);
    if (size == std::floor(size) && std::abs(size) <= static_cast<double>(kMostScale)) {
      return Ratio{static_cast<std::int64_t>(size), over};
    }
  }
  return {};
}

Known combined(const Known& a, const Known& b, const std::function<Dim(Dim, Dim)>& f) {
  return each(a, b, [&](const Ratio& x, const Ratio& y) {
    return is_whole(x) && is_whole(y) ? std::optional(as_ratio(f(x.size, y.size))) : std::nullopt;
  });
}

Known aligned(const Known& a, const Known& b, const std::function<Dim(Dim, Dim)>& f) {
  return each(a, b, [&](const Ratio& x, const Ratio& y) -> std::optional<Ratio> {
    if (!is_exact(x) || !is_exact(y)) return {};
    const std::int64_t over = std::max(x.over, y.over);
    return ratio(f(x.size * Dim(over / x.over), y.size * Dim(over / y.over)), over);
  });
}

Known times(const Known& a, const Known& b) {
  return each(a, b, [](const Ratio& x, const Ratio& y) -> std::optional<Ratio> {
    if (!is_exact(x) || !is_exact(y)) return {};
    return ratio(x.size * y.size, x.over * y.over);
  });
}

Known quotient(const Known& a, const Known& b) {
  return each(a, b, [](const Ratio& x, const Ratio& y) -> std::optional<Ratio> {
    if (!is_exact(x) || !is_exact(y) || !y.size.is_number() || y.size.same_as(0) ||
        std::abs(y.size.number()) > kMostScale)
      return {};
    return ratio(x.size * Dim(y.over), x.over * y.size.number());
  });
}

Known floors(const Known& x) {
  return each(x, [](const Ratio& a) { return std::optional(as_ratio(a.size / Dim(a.over))); });
}
Known ceilings(const Known& x) {
  return each(x, [](const Ratio& a) { return std::optional(as_ratio(ceil_div(a.size, a.over))); });
}
Known cut(const Known& x) {
  return each(x, [](const Ratio& a) -> std::optional<Ratio> {
    if (is_whole(a)) return a;
    if (a.size.is_number()) return as_ratio(a.size.number() / a.over);
    const auto low = dyad::detail::lower_bound(a.size);
    return low && *low >= 0 ? std::optional(as_ratio(a.size / Dim(a.over))) : std::nullopt;
  });
}

Known compared(std::string_view op, const Known& a, const Known& b) {
  if (op == "eq" || op == "ne") return decided(a, b, is_equal, op == "ne");
  if (op == "lt" || op == "ge") return decided(a, b, is_less, op == "ge");
  if (op == "gt" || op == "le") return decided(b, a, is_less, op == "le");
  return {};
}

Known truth(const Known& x) { return compared("ne", x, one(0)); }

Dim larger(Dim a, Dim b) { return max(a, b); }
Dim smaller(Dim a, Dim b) { return min(a, b); }
Dim sum_of(Dim a, Dim b) { return a + b; }
Dim difference_of(Dim a, Dim b) { return a - b; }

Known folded(std::string_view op, const Known& x) {
  if (!x) return {};
  Known all;
  if (op == "sum" || op == "prod") all = one(op == "prod" ? 1 : 0);
  for (const auto& each : *x) {
    const Known next = Ratios{each};
    all = !all           ? next
          : op == "sum"  ? aligned(all, next, sum_of)
          : op == "prod" ? times(all, next)
                         : aligned(all, next, op == "max" ? larger : smaller);
    if (!all) return {};
  }
  return all;
}

Known chosen(const Known& condition, const Known& a, const Known& b) {
  if (!condition || !a || !b) return {};
  const std::size_t n = std::max({condition->size(), a->size(), b->size()});
  const auto fits = [&](const Known& s) { return s->size() == 1 || s->size() == n; };
  if (!fits(condition) || !fits(a) || !fits(b)) return {};
  Ratios result;
  for (std::size_t i = 0; i < n; ++i) {
    const auto& holds = element(*condition, i);
    const bool known = holds && holds->size.is_number();
    result.push_back(known ? element(holds->size.number() != 0 ? *a : *b, i) : std::nullopt);
  }
  return result;
}

Known by_divisor(const Known& a, const Known& b, const std::function<Dim(Dim, Dim)>& f) {
  return each(a, b, [&](const Ratio& x, const Ratio& y) -> std::optional<Ratio> {
    const auto low = dyad::detail::lower_bound(y.size);
    if (!is_whole(x) || !is_whole(y) || y.size.same_as(0) || !low || *low < 0) return {};
    return as_ratio(f(x.size, y.size));
  });
}

Known picked(const Known& x, const Known& positions) {
  if (!x || !positions) return {};
  const auto n = static_cast<std::int64_t>(x->size());
  return each(positions, [&](const Ratio& each) -> std::optional<Ratio> {
    if (!each.size.is_number()) return {};
    const std::int64_t i = each.size.number() < 0 ? each.size.number() + n : each.size.number();
    if (i < 0 || i >= n) return {};
    return (*x)[static_cast<std::size_t>(i)];
  });
}

}  // namespace dyad::onnx::sizes
