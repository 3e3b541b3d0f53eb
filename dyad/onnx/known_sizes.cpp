#include "dyad/onnx/known_sizes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string_view>

#include "dyad/base/error.h"
#include "dyad/core/dim_expr.h"
#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/passes/size_sources.h"

namespace dyad::onnx {
namespace {

/// More elements than any tensor has axes, with room for lists of boxes.
constexpr std::int64_t kMostElements = 64;
/// Numbers in floats up to which products with sizes, and quotients, are exact in f32.
constexpr std::int64_t kMostScale = 256;

using Ratio = KnownSizes::Ratio;
using Ratios = KnownSizes::Ratios;
using Known = std::optional<Ratios>;

bool is_floating_size(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }
/// Integers, what compares them, and what scales them.
bool may_be_sizes(DType dtype) {
  return is_integer(dtype) || dtype == DType::boolean || is_floating_size(dtype);
}

Ratio as_ratio(Dim size) { return {size, 1}; }
Known one(Dim size) { return Ratios{as_ratio(size)}; }
bool is_whole(const Ratio& x) { return x.over == 1; }
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

/// A number in a float: nothing unless it is one with a small denominator.
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

/// How many elements there are; nothing where that is no number, or too many.
std::optional<std::size_t> count_of(const Type& type) {
  if (!type.is_tensor() || !may_be_sizes(type.dtype())) return {};
  const Dim count = type.shape().numel();
  if (!count.is_number() || count.number() > kMostElements) return {};
  return static_cast<std::size_t>(count.number());
}

Known elements_of(const Tensor& x) {
  if (!count_of(type_of(x))) return {};
  Ratios sizes;
  visit_dtype(x.dtype(), [&]<class T>(std::type_identity<T>) {
    for_each_offset(x.shape(), x.strides(), [&](std::int64_t offset) {
      const T element = reinterpret_cast<const T*>(x.impl()->data)[offset];
      if constexpr (std::is_floating_point_v<T>) {
        sizes.push_back(ratio_of(static_cast<double>(element)));
      } else {
        const auto value = convert_element<std::int64_t>(element);
        const bool fits = value > -(std::int64_t{1} << 62) && value < (std::int64_t{1} << 62);
        sizes.push_back(fits ? std::optional(as_ratio(value)) : std::nullopt);
      }
    });
  });
  return sizes;
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
/// The same of integers.
Known combined(const Known& a, const Known& b, const std::function<Dim(Dim, Dim)>& f) {
  return each(a, b, [&](const Ratio& x, const Ratio& y) {
    return is_whole(x) && is_whole(y) ? std::optional(as_ratio(f(x.size, y.size))) : std::nullopt;
  });
}

/// f of two sizes over a common denominator.
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

/// By a number that is not 0.
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
/// Toward 0.
Known cut(const Known& x) {
  return each(x, [](const Ratio& a) -> std::optional<Ratio> {
    if (is_whole(a)) return a;
    if (a.size.is_number()) return as_ratio(a.size.number() / a.over);
    const auto low = detail::lower_bound(a.size);
    return low && *low >= 0 ? std::optional(as_ratio(a.size / Dim(a.over))) : std::nullopt;
  });
}

/// Whether a < b, or a == b, for every value of the symbols; nothing where these decide.
std::optional<bool> is_less(Dim a, Dim b) {
  const Dim difference = b - a;
  if (const auto low = detail::lower_bound(difference); low && *low > 0) return true;
  if (const auto high = detail::upper_bound(difference); high && *high <= 0) return false;
  return {};
}
std::optional<bool> is_equal(Dim a, Dim b) {
  const Dim difference = b - a;
  if (difference.is_number()) return difference.number() == 0;
  const auto low = detail::lower_bound(difference), high = detail::upper_bound(difference);
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

/// One number of all.
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

/// Of tensors of bool and of numbers.
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

/// f by what integers may be divided by: positive numbers, or sizes, of which a 0 ends the run.
Known by_divisor(const Known& a, const Known& b, const std::function<Dim(Dim, Dim)>& f) {
  return each(a, b, [&](const Ratio& x, const Ratio& y) -> std::optional<Ratio> {
    const auto low = detail::lower_bound(y.size);
    if (!is_whole(x) || !is_whole(y) || y.size.same_as(0) || !low || *low < 0) return {};
    return as_ratio(f(x.size, y.size));
  });
}

/// Division of integers as ONNX has it is written as (a - fmod(a, b)) / b: the a.
Value cut_before(const Node& division) {
  const Value sub = division.inputs()[0], by = division.inputs()[1];
  if (!sub.node->is("sub")) return {};
  const Value rest = sub.node->inputs()[1];
  const bool is_rest = rest.node->is("fmod") && rest.node->inputs()[1] == by &&
                       rest.node->inputs()[0] == sub.node->inputs()[0];
  return is_rest ? sub.node->inputs()[0] : Value();
}

/// The elements that a view shows.
Known seen(const Known& x, const Node& view) {
  std::vector<Dim> symbols;
  passes::collect_attr_symbols(view, symbols);
  if (!x || !symbols.empty()) return {};
  const Shape &from = view.inputs()[0].type().shape(), &to = view.types()[0].shape();
  const ViewLayout layout = view.op().view(view.attrs().data(), from, contiguous_strides(from), to);
  if (!layout.possible) return {};
  Ratios found;
  for_each_offset(to, layout.strides, [&](std::int64_t offset) {
    found.push_back((*x)[static_cast<std::size_t>(offset + layout.offset)]);
  });
  return found;
}

/// Those at positions, which may count from the end.
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

}  // namespace

Known KnownSizes::elements(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (tensor.is_concrete()) return elements_of(tensor);
  const GraphValue* handle = graph_value(tensor);
  if (handle == nullptr) return {};
  graphs_.try_emplace(handle->graph.get(), handle->graph);
  return of(handle->value);
}

std::optional<std::vector<std::optional<Dim>>> KnownSizes::some_of(const Tensor& tensor) {
  const Known known = elements(tensor);
  if (!known) return {};
  std::vector<std::optional<Dim>> sizes;
  for (const auto& each : *known) {
    sizes.push_back(each && is_whole(*each) ? std::optional(each->size) : std::nullopt);
  }
  return sizes;
}

std::optional<Shape> KnownSizes::of(const Tensor& tensor) {
  const auto some = some_of(tensor);
  if (!some || !std::ranges::all_of(*some, [](const auto& each) { return each.has_value(); })) {
    return {};
  }
  Shape sizes;
  for (const auto& each : *some) sizes.push_back(*each);
  return sizes;
}

void KnownSizes::learn(const Tensor& tensor, const Shape& sizes) {
  Ratios known;
  for (const Dim size : sizes) known.push_back(as_ratio(size));
  known_[graph_value(tensor)->value] = known;
}

Known KnownSizes::of(Value value) {
  // One rule may make a chain of any length: no call goes into another for each of its nodes.
  std::vector<Value> path{value};
  while (!path.empty()) {
    const Value at = path.back();
    const std::size_t before = path.size();
    if (!known_.contains(at) && count_of(at.type())) {
      for (const Value input : at.node->inputs()) {
        if (input && !known_.contains(input) && count_of(input.type())) path.push_back(input);
      }
    }
    if (path.size() > before) continue;
    path.pop_back();
    if (!known_.contains(at)) known_[at] = of_known(at);
  }
  return known_.at(value);
}

Known KnownSizes::of_known(Value value) {
  const auto count = count_of(value.type());
  if (!count) return {};
  Known made;
  try {
    made = compute(value);
  } catch (const ShapeError&) {
    // Floats may grow beyond any size.
    if (!is_floating(value.type().dtype())) throw;
  }
  if (!made || made->size() != *count) made = Ratios(*count);
  return made;
}

Known KnownSizes::compute(Value value) {
  const Node& node = *value.node;
  const Type& type = value.type();
  const auto input = [&](std::size_t i) { return of(node.inputs()[i]); };
  if (node.is("constant")) return elements_of(node.attrs_as<ConstantAttrs>().value);
  if (node.is("size_tensor")) return one(node.attrs_as<ops::SizeAttrs>().size);
  if (node.is("cast")) {
    const Known x = input(0);
    if (type.dtype() == DType::boolean) return truth(x);
    return is_floating(type.dtype()) ? x : cut(x);
  }
  if (node.is("clone")) return input(0);
  if (node.op().kind == BodyKind::view) return seen(input(0), node);
  if (node.is("full")) {
    return Ratios(*count_of(type), ratio_of(node.attrs_as<ops::FullAttrs>().value));
  }
  const auto is_list = [](Value v) { return v && v.type().is_tensor() && v.type().rank() <= 1; };
  if (type.rank() > 1 || !std::ranges::all_of(node.inputs(), is_list)) return {};
  if (node.is("concat")) {
    Ratios all;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Known next = input(i);
      if (!next) return {};
      all.insert(all.end(), next->begin(), next->end());
    }
    return all;
  }
  if (node.is("index_select") || node.is("gather")) return picked(input(0), input(1));
  if (node.is("prod") || node.is("sum") || node.is("max") || node.is("min")) {
    if (type.rank() == 1 && !type.shape()[0].same_as(1)) return {};
    return folded(node.op().name, input(0));
  }
  if (node.is("where")) return chosen(input(0), input(1), input(2));
  if (node.is("logical_not")) return compared("eq", input(0), one(0));
  if (node.is("neg")) return aligned(one(0), input(0), difference_of);
  if (node.is("floor")) return floors(input(0));
  if (node.is("ceil")) return ceilings(input(0));
  if (node.is("trunc")) return cut(input(0));
  if (node.inputs().size() != 2) return {};
  const Known a = input(0), b = input(1);
  if (node.is("logical_and")) {
    return combined(truth(a), truth(b), [](Dim x, Dim y) { return x * y; });
  }
  if (node.is("logical_or")) return combined(truth(a), truth(b), larger);
  if (type.dtype() == DType::boolean) return compared(node.op().name, a, b);
  if (node.is("add")) return aligned(a, b, sum_of);
  if (node.is("sub")) return aligned(a, b, difference_of);
  if (node.is("mul")) return times(a, b);
  if (node.is("maximum")) return aligned(a, b, larger);
  if (node.is("minimum")) return aligned(a, b, smaller);
  if (is_floating(type.dtype())) return node.is("div") ? quotient(a, b) : Known();
  if (node.is("floor_divide")) {
    const Value before = cut_before(node);
    return by_divisor(before ? of(before) : a, b, [](Dim x, Dim y) { return x / y; });
  }
  if (node.is("remainder")) return by_divisor(a, b, [](Dim x, Dim y) { return x % y; });
  // The same for what is not below 0, as sizes with symbols in them are taken to be.
  if (node.is("fmod")) {
    return by_divisor(a, b, [](Dim x, Dim y) {
      return x.is_number() && y.is_number() ? Dim(x.number() % y.number()) : x % y;
    });
  }
  return {};
}

}  // namespace dyad::onnx
