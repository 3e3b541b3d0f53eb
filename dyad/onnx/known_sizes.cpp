#include "dyad/onnx/known_sizes.h"

#include <algorithm>

#include "dyad/base/error.h"
#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/passes/size_sources.h"

namespace dyad::onnx {
namespace {

/// More elements than any tensor has axes, with room for lists of boxes.
constexpr std::int64_t kMostElements = 64;

/// Integers, what compares them, and what scales them.
bool may_be_sizes(DType dtype) {
  return is_integer(dtype) || dtype == DType::boolean || dtype == DType::f32 || dtype == DType::f64;
}

/// How many elements there are; nothing where that is no number, or too many.
std::optional<std::size_t> count_of(const Type& type) {
  if (!type.is_tensor() || !may_be_sizes(type.dtype())) return {};
  if (!type.shape().is_concrete()) return {};  // [0, n] has no elements, but no strides either
  const Dim count = type.shape().numel();
  if (!count.is_number() || count.number() > kMostElements) return {};
  return static_cast<std::size_t>(count.number());
}

sizes::Known elements_of(const Tensor& x) {
  if (!count_of(type_of(x))) return {};
  sizes::Ratios sizes;
  visit_dtype(x.dtype(), [&]<class T>(std::type_identity<T>) {
    for_each_offset(x.shape(), x.strides(), [&](std::int64_t offset) {
      const T element = reinterpret_cast<const T*>(x.impl()->data)[offset];
      if constexpr (std::is_floating_point_v<T>) {
        sizes.push_back(sizes::ratio_of(static_cast<double>(element)));
      } else {
        const auto value = convert_element<std::int64_t>(element);
        const bool fits = value > -(std::int64_t{1} << 62) && value < (std::int64_t{1} << 62);
        sizes.push_back(fits ? std::optional(sizes::as_ratio(value)) : std::nullopt);
      }
    });
  });
  return sizes;
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
sizes::Known seen(const sizes::Known& x, const Node& view) {
  std::vector<Dim> symbols;
  passes::collect_attr_symbols(view, symbols);
  if (!x || !symbols.empty()) return {};
  const Shape &from = view.inputs()[0].type().shape(), &to = view.types()[0].shape();
  const ViewLayout layout = view.op().view(view.attrs().data(), from, contiguous_strides(from), to);
  if (!layout.possible) return {};
  sizes::Ratios found;
  for_each_offset(to, layout.strides, [&](std::int64_t offset) {
    found.push_back((*x)[static_cast<std::size_t>(offset + layout.offset)]);
  });
  return found;
}

}  // namespace

sizes::Known KnownSizes::elements(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (tensor.is_concrete()) return elements_of(tensor);
  const GraphValue* handle = graph_value(tensor);
  if (handle == nullptr) return {};
  graphs_.try_emplace(handle->graph.get(), handle->graph);
  return of(handle->value);
}

std::optional<std::vector<std::optional<Dim>>> KnownSizes::some_of(const Tensor& tensor) {
  const sizes::Known known = elements(tensor);
  if (!known) return {};
  std::vector<std::optional<Dim>> sizes;
  for (const auto& each : *known) {
    sizes.push_back(each && sizes::is_whole(*each) ? std::optional(each->size) : std::nullopt);
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
  sizes::Ratios known;
  for (const Dim size : sizes) known.emplace_back(sizes::as_ratio(size));
  known_[graph_value(tensor)->value] = known;
}

sizes::Known KnownSizes::of(Value value) {
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

sizes::Known KnownSizes::of_known(Value value) {
  const auto count = count_of(value.type());
  if (!count) return {};
  sizes::Known made;
  try {
    made = compute(value);
  } catch (const ShapeError&) {
    // Floats may grow beyond any size.
    if (!is_floating(value.type().dtype())) throw;
  }
  if (!made || made->size() != *count) made = sizes::Ratios(*count);
  return made;
}

sizes::Known KnownSizes::compute(Value value) {
  using namespace sizes;
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
