#include "dyad/exec/value_numbers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/substitute.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/passes/dce.h"

namespace dyad::exec {
namespace {

std::function<Dim(Dim)> size_of(const SymbolMap& sizes) {
  return [sizes](Dim symbol) {
    const std::int64_t* const size = sizes.find(symbol);
    return size ? Dim(*size) : symbol;
  };
}

bool has_no_elements(const Type& type) {
  return type.is_tensor() &&
         std::ranges::any_of(type.shape(), [](Dim size) { return size.same_as(0); });
}

/// The first of what a scan slices.
std::size_t first_slice(const Node& scan) {
  return static_cast<std::size_t>(scan.attrs_as<LoopAttrs>().states);
}

/// How many steps a scan does on slices of this type; nothing where they may be more than one.
std::optional<std::int64_t> few_steps(const Type& slices) {
  const Dim length = slices.shape()[0];
  return length.same_as(0) || length.same_as(1) ? std::optional(length.number()) : std::nullopt;
}

bool is_other_shape(const Node& node) {
  return node.is("reshape") || node.is("squeeze") || node.is("unsqueeze");
}

}  // namespace

ValueNumbers::ValueNumbers(const SymbolMap& sizes) : size_of_(size_of(sizes)) {}

std::optional<int> ValueNumbers::OfGraph::find(Value value) const {
  const auto found = numbers_.find(value);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

std::size_t ValueNumbers::OfGraph::effects_before(int position) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(effects_, position) - effects_.begin());
}

std::optional<ValueNumbers::OfGraph> ValueNumbers::add(const GraphImpl& graph) try {
  OfGraph known;
  next_effect_ = 0;
  const bool are_told = add_nodes(graph, known) && next_effect_ == effects_.size();
  is_first_ = false;
  return are_told ? std::optional(std::move(known)) : std::nullopt;
} catch (const ShapeError&) {
  return std::nullopt;  // a size that there is not, such as a quotient by 0
}

bool ValueNumbers::add_nodes(const GraphImpl& graph, OfGraph& known) {
  Numbers operands;
  for (const auto& node : graph.nodes()) {
    if (known.find(node->output())) continue;  // a parameter of steps
    operands.clear();
    for (const Value v : node->inputs()) {
      const std::optional<int> operand = v ? known.find(v) : kNone;
      if (!operand) return false;
      operands.push_back(*operand);
    }
    const std::size_t effects = next_effect_;
    const auto results = of_node(*node, operands);
    if (!results) return false;
    known.effects_.insert(known.effects_.end(), next_effect_ - effects, node->id());
    for (std::size_t i = 0; i < results->size(); ++i)
      known.numbers_.emplace(node->output(static_cast<int>(i)), (*results)[i]);
  }
  return true;
}

std::optional<ValueNumbers::Numbers> ValueNumbers::of_node(const Node& node,
                                                           std::span<const int> operands) {
  if (&node.op() == &kScanOp) {
    const auto steps = few_steps(type_of(operands[first_slice(node)]));
    if (steps) return of_steps(node, operands, *steps == 1);
  }
  Item item = item_of(node, operands);
  if (passes::has_effect(node)) return of_effect(std::move(item));
  if (item.types.size() == 1) {
    const Type& type = item.types[0];
    // Which memory a view is of matters, if it has no elements, too.
    const bool is_made = node.op().kind != BodyKind::view && &node.op() != &kPlaceholderOp &&
                         &node.op() != &kVariableOp;
    const int known = is_made && has_no_elements(type) ? without_elements(type)
                                                       : simplified(node, operands, type);
    if (known != kNone) return Numbers{known};
  }
  return of_item(std::move(item));
}

std::optional<ValueNumbers::Numbers> ValueNumbers::of_steps(const Node& scan,
                                                            std::span<const int> operands,
                                                            bool one) {
  const std::size_t states = first_slice(scan);
  const auto fixed = states + static_cast<std::size_t>(scan.attrs_as<LoopAttrs>().slices);
  Numbers results(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(states));
  Types types;
  for (const Type& type : scan.types()) types.push_back(with_sizes(type, size_of_));
  if (!one) {
    for (std::size_t i = states; i < types.size(); ++i)
      results.push_back(without_elements(types[i]));
    return results;
  }
  const GraphImpl& step = *scan.regions()[0];
  OfGraph inside;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool is_slice = i >= states && i < fixed;
    inside.numbers_.emplace(
        step.placeholders()[i],
        is_slice ? reshaped(operands[i], without_first_axis(type_of(operands[i]))) : operands[i]);
  }
  if (!add_nodes(step, inside)) return std::nullopt;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::optional<int> made = inside.find(step.outputs()[i]);
    if (!made) return std::nullopt;
    if (i < states)
      results[i] = *made;
    else
      results.push_back(reshaped(*made, types[i]));
  }
  return results;
}

/// Whoever computes it: the next of what the first graph did is the same.
std::optional<ValueNumbers::Numbers> ValueNumbers::of_effect(Item item) {
  if (!is_first_) {
    if (next_effect_ == effects_.size()) return std::nullopt;
    const Item& same = items_[effects_[next_effect_++]];
    return is_same(same, item) ? std::optional(results_of(same)) : std::nullopt;
  }
  ++next_effect_;
  effects_.push_back(items_.size());
  return add_item(std::move(item));
}

ValueNumbers::Numbers ValueNumbers::of_item(Item item) {
  std::size_t hash = std::hash<const void*>()(item.op);
  const auto mix = [&](std::size_t more) { hash = (hash ^ more) * 0x9E3779B97F4A7C15u; };
  if (item.op) mix(attrs_hash(item.attrs->info(), item.attrs->data()));
  for (const int operand : item.operands) mix(static_cast<std::size_t>(operand + 1));
  const auto [begin, end] = known_.equal_range(hash);
  const auto found = std::find_if(
      begin, end, [&](const auto& entry) { return is_same(items_[entry.second], item); });
  if (found != end) return results_of(items_[found->second]);
  known_.emplace(hash, items_.size());
  return add_item(std::move(item));
}

ValueNumbers::Numbers ValueNumbers::add_item(Item item) {
  item.first = static_cast<int>(makers_.size());
  makers_.insert(makers_.end(), item.types.size(), items_.size());
  items_.push_back(std::move(item));
  return results_of(items_.back());
}

ValueNumbers::Numbers ValueNumbers::results_of(const Item& item) {
  Numbers results(item.types.size());
  std::iota(results.begin(), results.end(), item.first);
  return results;
}

ValueNumbers::Item ValueNumbers::item_of(const Node& node, std::span<const int> operands) const {
  Item item{.op = &node.op(),
            .attrs = substitute_symbols(node.attrs().info(), node.attrs().data(), size_of_),
            .operands = {operands.begin(), operands.end()},
            .regions = {},
            .types = {}};
  if (!item.attrs) item.attrs = node.shared_attrs();
  for (const Ref<GraphImpl>& region : node.regions())
    item.regions.push_back(with_sizes(*region, size_of_));
  for (const Type& type : node.types()) item.types.push_back(with_sizes(type, size_of_));
  return item;
}

bool ValueNumbers::is_same(const Item& a, const Item& b) {
  const auto same_attrs = [&] {
    if (!a.op) return true;
    if (a.op == &kVariableOp) {
      return a.attrs->as<VariableAttrs>().tensor.is_same(b.attrs->as<VariableAttrs>().tensor);
    }
    return attrs_equal(a.attrs->info(), a.attrs->data(), b.attrs->data(), /*all_elements=*/true);
  };
  return a.op == b.op && a.operands == b.operands &&
         std::ranges::equal(a.types, b.types,
                            [](const Type& x, const Type& y) { return x.same_as(y); }) &&
         same_attrs() && std::ranges::equal(a.regions, b.regions, [](const auto& x, const auto& y) {
           return same_graph(*x, *y);
         });
}

int ValueNumbers::simplified(const Node& node, std::span<const int> operands, const Type& type) {
  if (operands.empty() || operands[0] == kNone) return kNone;
  const Type& first = type_of(operands[0]);
  if (is_other_shape(node)) return reshaped(operands[0], type);
  if (node.is("select")) {
    const auto axis = node.attrs_as<ops::SelectAttrs>().axis;
    const Dim size = first.shape()[static_cast<std::size_t>(from_front(axis, first.rank()))];
    return size.same_as(1) ? reshaped(operands[0], type) : kNone;
  }
  if (node.is("slice")) {
    const bool is_whole = type.same_as(first) && node.attrs_as<ops::SliceAttrs>().step == 1;
    return is_whole ? operands[0] : kNone;
  }
  if (node.is("pad")) {
    const Shape& low = node.attrs_as<ops::PadAttrs>().low;
    const bool adds_none = std::ranges::all_of(low, [](Dim count) { return count.same_as(0); });
    return adds_none && type.same_as(first) ? operands[0] : kNone;
  }
  if (node.is("expand")) return type.same_as(first) ? operands[0] : kNone;
  if (node.is("concat")) {
    int only = kNone;
    for (const int operand : operands) {
      if (has_no_elements(type_of(operand))) continue;
      if (only != kNone) return kNone;
      only = operand;
    }
    return only != kNone && type_of(only).same_as(type) ? only : kNone;
  }
  if (node.is("add")) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (is_nothing(operands[i]) && type_of(operands[1 - i]).same_as(type)) return operands[1 - i];
    }
  }
  return kNone;
}

int ValueNumbers::reshaped(int number, const Type& type) {
  while (!maker(number).op && !maker(number).operands.empty()) number = maker(number).operands[0];
  if (type_of(number).same_as(type)) return number;
  return of_item(
      {.op = nullptr, .attrs = {}, .operands = {number}, .regions = {}, .types = {type}})[0];
}

int ValueNumbers::without_elements(const Type& type) {
  const auto known =
      std::ranges::find_if(empty_, [&](int number) { return type_of(number).same_as(type); });
  if (known != empty_.end()) return *known;
  const int made =
      of_item({.op = nullptr, .attrs = {}, .operands = {}, .regions = {}, .types = {type}})[0];
  return empty_.emplace_back(made);
}

bool ValueNumbers::is_nothing(int number) const {
  const Item* made = &maker(number);
  while (!made->operands.empty() && (!made->op || made->op->name == "expand"))
    made = &maker(made->operands[0]);
  if (!made->op || !is_differentiable(made->types[0])) return false;
  const bool is_negated = made->op->name == "neg";
  if (is_negated) made = &maker(made->operands[0]);
  if (!made->op || made->op->name != "full") return false;
  const double value = made->attrs->as<ops::FullAttrs>().value;
  // What fills complex numbers has no imaginary part, which is 0.
  return value == 0 && std::signbit(value) != is_negated &&
         is_complex(made->types[0].dtype()) == is_negated;
}

const Type& ValueNumbers::type_of(int number) const {
  const Item& made = maker(number);
  return made.types[static_cast<std::size_t>(number - made.first)];
}

int ValueNumbers::without_ones(int number, int axes) {
  Type type = type_of(number);
  Shape shape = type.shape();
  for (int axis = axes; axis-- > 0;) {
    if (shape[static_cast<std::size_t>(axis)].same_as(1))
      shape.erase(static_cast<std::size_t>(axis));
  }
  return reshaped(number, {type.dtype(), shape});
}

int ValueNumbers::axes_left(int number, int axes) const {
  const auto first = type_of(number).shape().begin();
  return axes - static_cast<int>(
                    std::count_if(first, first + axes, [](Dim size) { return size.same_as(1); }));
}

bool ValueNumbers::same_operator(const Node& a, const Node& b) const {
  const Item x = item_of(a, {}), y = item_of(b, {});
  return x.op == y.op && attrs_equal(x.attrs->info(), x.attrs->data(), y.attrs->data(), true);
}

bool has_few_steps(const GraphImpl& graph, const SymbolMap& sizes) {
  const auto size = size_of(sizes);
  return std::ranges::any_of(graph.nodes(), [&](const auto& node) {
    if (&node->op() != &kScanOp) return false;
    const Value slices = node->inputs()[first_slice(*node)];
    return few_steps(with_sizes(slices.type(), size)).has_value();
  });
}

}  // namespace dyad::exec
