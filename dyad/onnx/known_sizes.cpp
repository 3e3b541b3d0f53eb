#include "dyad/onnx/known_sizes.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "dyad/core/dim_expr.h"
#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ops/attrs/indexing.h"

namespace dyad::onnx {
namespace {

using Sizes = std::optional<Shape>;

/// More elements than any tensor has axes, with room for lists of boxes.
constexpr std::int64_t kMostElements = 64;

/// Integers, and what compares them.
bool may_be_sizes(DType dtype) { return is_integer(dtype) || dtype == DType::boolean; }

Sizes elements_of(const Tensor& x) {
  if (!may_be_sizes(x.dtype()) || x.rank() > 1 || x.impl()->numel() > kMostElements) return {};
  Shape sizes;
  bool fits = true;
  visit_dtype(x.dtype(), [&]<class T>(std::type_identity<T>) {
    for_each_offset(x.shape(), x.strides(), [&](std::int64_t offset) {
      const auto value =
          convert_element<std::int64_t>(reinterpret_cast<const T*>(x.impl()->data)[offset]);
      fits = fits && value > -(std::int64_t{1} << 62) && value < (std::int64_t{1} << 62);
      sizes.push_back(fits ? value : 0);
    });
  });
  return fits ? Sizes(sizes) : Sizes();
}

/// An operation on sizes, element by element.
Sizes combined(const Sizes& a, const Sizes& b, const std::function<Dim(Dim, Dim)>& f) {
  if (!a || !b) return {};
  if (a->size() != b->size() && a->size() != 1 && b->size() != 1) return {};
  Shape result;
  for (std::size_t i = 0; i < std::max(a->size(), b->size()); ++i) {
    result.push_back(f((*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]));
  }
  return result;
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
Sizes decided(const Sizes& a, const Sizes& b, Decide decide, bool negated) {
  bool known = true;
  const Sizes truths = combined(a, b, [&](Dim x, Dim y) {
    const std::optional<bool> holds = decide(x, y);
    known = known && holds.has_value();
    return Dim(holds.value_or(false) != negated ? 1 : 0);
  });
  return known ? truths : Sizes();
}

Sizes compared(std::string_view op, const Sizes& a, const Sizes& b) {
  if (op == "eq" || op == "ne") return decided(a, b, is_equal, op == "ne");
  if (op == "lt" || op == "ge") return decided(a, b, is_less, op == "ge");
  if (op == "gt" || op == "le") return decided(b, a, is_less, op == "le");
  return {};
}

Sizes truth(const Sizes& x) { return compared("ne", x, Shape{0}); }

/// One number of all.
Sizes folded(std::string_view op, const Shape& x) {
  if (op == "sum" || op == "prod") {
    Dim total = op == "prod" ? 1 : 0;
    for (const Dim size : x) total = op == "prod" ? total * size : total + size;
    return Shape{total};
  }
  if (x.size() == 0) return {};
  Dim most = x[0];
  for (const Dim size : x) most = op == "max" ? max(most, size) : min(most, size);
  return Shape{most};
}

/// Of tensors of bool and of numbers.
Sizes chosen(const Sizes& condition, const Sizes& a, const Sizes& b) {
  if (!condition || !a || !b) return {};
  const std::size_t n = std::max({condition->size(), a->size(), b->size()});
  const auto fits = [&](const Sizes& s) { return s->size() == 1 || s->size() == n; };
  if (!fits(condition) || !fits(a) || !fits(b)) return {};
  Shape result;
  for (std::size_t i = 0; i < n; ++i) {
    const Dim holds = (*condition)[condition->size() == 1 ? 0 : i];
    if (!holds.is_number()) return {};
    const Sizes& from = holds.number() != 0 ? a : b;
    result.push_back((*from)[from->size() == 1 ? 0 : i]);
  }
  return result;
}

std::optional<std::int64_t> number(const Sizes& sizes) {
  if (!sizes || sizes->size() != 1 || !(*sizes)[0].is_number()) return {};
  return (*sizes)[0].number();
}

Sizes part(const Sizes& x, const ops::SliceAttrs& attrs) {
  if (!x || !attrs.begin.is_number() || !attrs.end.is_number()) return {};
  const auto n = static_cast<std::int64_t>(x->size());
  const auto clip = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + n : at, 0, n);
  };
  if (attrs.step < 1) return {};
  Shape found;
  for (std::int64_t i = clip(attrs.begin.number()); i < clip(attrs.end.number()); i += attrs.step) {
    found.push_back((*x)[static_cast<std::size_t>(i)]);
  }
  return found;
}

}  // namespace

Sizes KnownSizes::of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (tensor.is_concrete()) return elements_of(tensor);
  const GraphValue* handle = graph_value(tensor);
  if (handle == nullptr) return {};
  graphs_.try_emplace(handle->graph.get(), handle->graph);
  return of(handle->value);
}

Sizes KnownSizes::of(Value value) {
  const auto found = known_.find(value);
  if (found != known_.end()) return found->second;
  return known_[value] = compute(value);
}

Sizes KnownSizes::compute(Value value) {
  const Node& node = *value.node;
  const Type& type = value.type();
  if (!type.is_tensor() || !may_be_sizes(type.dtype()) || type.rank() > 1) return {};
  const auto input = [&](std::size_t i) { return of(node.inputs()[i]); };
  if (node.is("constant")) return elements_of(node.attrs_as<ConstantAttrs>().value);
  if (node.is("size_tensor")) return Shape{node.attrs_as<ops::SizeAttrs>().size};
  if (node.is("cast") && type.dtype() == DType::boolean) return truth(input(0));
  if (node.is("reshape") || node.is("squeeze") || node.is("unsqueeze") || node.is("clone") ||
      node.is("cast") || node.is("permute") || node.is("stop_gradient")) {
    return input(0);
  }
  if (node.is("concat")) {
    Shape all;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Sizes next = input(i);
      if (!next || static_cast<std::int64_t>(all.size() + next->size()) > kMostElements) return {};
      for (const Dim size : *next) all.push_back(size);
    }
    return all;
  }
  if (node.is("expand") || node.is("full")) {
    if (type.rank() == 1 && !type.shape()[0].is_number()) return {};
    const std::int64_t n = type.rank() == 0 ? 1 : type.shape()[0].number();
    Sizes one = node.is("expand") ? input(0) : Sizes();
    if (node.is("full")) {
      one = Shape{static_cast<std::int64_t>(node.attrs_as<ops::FullAttrs>().value)};
    }
    if (!one || one->size() != 1 || n > kMostElements)
      return one && one->size() != 1 ? one : Sizes();
    Shape repeated;
    for (std::int64_t i = 0; i < n; ++i) repeated.push_back((*one)[0]);
    return repeated;
  }
  if (node.is("slice")) return part(input(0), node.attrs_as<ops::SliceAttrs>());
  if (node.is("select")) {
    const Sizes x = input(0);
    const Dim at = node.attrs_as<ops::SelectAttrs>().index;
    if (!x || !at.is_number()) return {};
    const auto n = static_cast<std::int64_t>(x->size());
    const std::int64_t i = at.number() < 0 ? at.number() + n : at.number();
    return i < 0 || i >= n ? Sizes() : Shape{(*x)[static_cast<std::size_t>(i)]};
  }
  if (node.is("index_select") || node.is("gather")) {
    const Sizes x = input(0), at = input(1);
    if (!x || !at) return {};
    Shape found;
    for (const Dim position : *at) {
      if (!position.is_number()) return {};
      const auto n = static_cast<std::int64_t>(x->size());
      const std::int64_t i = position.number() < 0 ? position.number() + n : position.number();
      if (i < 0 || i >= n) return {};
      found.push_back((*x)[static_cast<std::size_t>(i)]);
    }
    return found;
  }
  if (node.is("prod") || node.is("sum") || node.is("max") || node.is("min")) {
    const Sizes x = input(0);
    if (!x || (type.rank() == 1 && !type.shape()[0].same_as(1))) return {};
    return folded(node.op().name, *x);
  }
  if (node.is("where")) return chosen(input(0), input(1), input(2));
  if (node.is("logical_not")) return compared("eq", input(0), Shape{0});
  if (node.is("neg")) return combined(Shape{0}, input(0), [](Dim a, Dim b) { return a - b; });
  if (node.inputs().size() != 2) return {};
  const Sizes a = input(0), b = input(1);
  if (node.is("logical_and")) {
    return combined(truth(a), truth(b), [](Dim x, Dim y) { return x * y; });
  }
  if (node.is("logical_or")) {
    return combined(truth(a), truth(b), [](Dim x, Dim y) { return max(x, y); });
  }
  if (type.dtype() == DType::boolean) return compared(node.op().name, a, b);
  if (node.is("add")) return combined(a, b, [](Dim x, Dim y) { return x + y; });
  if (node.is("sub")) return combined(a, b, [](Dim x, Dim y) { return x - y; });
  if (node.is("mul")) return combined(a, b, [](Dim x, Dim y) { return x * y; });
  if (node.is("maximum")) return combined(a, b, [](Dim x, Dim y) { return max(x, y); });
  if (node.is("minimum")) return combined(a, b, [](Dim x, Dim y) { return min(x, y); });
  const auto divisor = number(b);
  if (node.is("floor_divide") && divisor && *divisor > 0) {
    return combined(a, b, [](Dim x, Dim y) { return x / y; });
  }
  if (node.is("remainder") && divisor && *divisor > 0) {
    return combined(a, b, [](Dim x, Dim y) { return x % y; });
  }
  // The same for what is not below 0, as sizes with symbols in them are taken to be.
  if (node.is("fmod") && divisor && *divisor > 0) {
    return combined(a, b, [](Dim x, Dim y) {
      return x.is_number() && y.is_number() ? Dim(x.number() % y.number()) : x % y;
    });
  }
  return {};
}

}  // namespace dyad::onnx
