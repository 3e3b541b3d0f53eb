#include "dyad/ir/graph.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "dyad/base/error.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/literal.h"

namespace dyad {
namespace {

Types types_of(std::span<const Value> values) {
  Types types;
  types.reserve(values.size());
  for (const Value& v : values) types.push_back(v ? v.type() : Type::none());
  return types;
}

Tensor copy_of(const Tensor& value) {
  Tensor copy = make_empty(value.dtype(), value.shape());
  const std::vector<std::byte> elements = packed_elements(value);
  if (!elements.empty()) std::memcpy(copy.impl()->data, elements.data(), elements.size());
  return copy;
}

/// Nobody but the holder of this one handle can write its elements.
bool is_sole(const Tensor& value) {
  const TensorImpl& t = *value.impl();
  return t.use_count() == 1 && t.storage && t.storage->use_count() == 1;
}

}  // namespace

const Type& Value::type() const { return node->types()[static_cast<std::size_t>(index)]; }

Node* GraphImpl::append(const OpInfo& op, Ref<Attrs> attrs, const std::vector<Value>& inputs,
                        Types types, Loc loc) {
  return adopt(std::make_unique<Node>(op, std::move(attrs), inputs, std::move(types), loc));
}

/// Gives a new node its place, behind all others.
Node* GraphImpl::adopt(std::unique_ptr<Node> node) {
  node->id_ = next_id_++;
  remember(*node);
  for (const Type& type : node->types()) note_symbols(type);
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

/// What the graph knows of a node beside its place.
void GraphImpl::remember(Node& node) {
  if (node.op_ == &kPlaceholderOp) {
    placeholders_.push_back(node.output());
  } else if (node.op_ == &kVariableOp) {
    variables_.push_back(node.output());
    variable_of_.emplace(node.attrs_as<VariableAttrs>().tensor.impl(), node.output());
  } else if (node.op_ == &kAssignOp) {
    overwrite(node.inputs_[0], node.output());
  }
}

Node* GraphImpl::append_checked(const OpInfo& op, Ref<Attrs> attrs,
                                const std::vector<Value>& inputs, Loc loc) {
  Types types = infer_types(op, types_of(inputs), attrs->data(), loc);
  bind_unknown_sizes(types);
  return append(op, std::move(attrs), inputs, std::move(types), loc);
}

void GraphImpl::bind_unknown_sizes(Types& types) {
  const Dim unknown = unknown_size();
  for (Type& type : types) {
    if (!type.is_tensor()) continue;
    Shape shape = type.shape();
    bool changed = false;
    for (Dim& size : shape) {
      if (!size.same_as(unknown)) continue;
      size = fresh_symbol();
      changed = true;
    }
    if (changed) type = Type(type.dtype(), std::move(shape));
  }
}

Node* GraphImpl::append_copy(const Node& node, std::span<const Value> inputs) {
  return adopt(std::make_unique<Node>(node, inputs));
}

Value GraphImpl::add_placeholder(std::string name, const Type& type, Loc loc) {
  if (!type.is_tensor()) {
    throw GraphError("placeholder \"" + name + "\" must be a tensor but is " + to_string(type),
                     loc.user());
  }
  if (const Value taken = find_name(name)) {
    throw GraphError("placeholder \"" + name + "\": the graph already has a " +
                         std::string(taken.node->op().name) + " of that name, of type " +
                         to_string(taken.type()) + "; choose another name",
                     loc.user(), taken.node->loc());
  }
  const PlaceholderAttrs attrs{std::move(name), type.dtype(), type.shape()};
  return append_checked(kPlaceholderOp, Attrs::copy_of(attrs_info<PlaceholderAttrs>, &attrs), {},
                        loc.user())
      ->output();
}

Value GraphImpl::find_name(const std::string& name) {
  // Passes copy graphs and ask for no name.
  for (; named_placeholders_ < placeholders_.size(); ++named_placeholders_) {
    const Value v = placeholders_[named_placeholders_];
    by_name_.emplace(v.node->attrs_as<PlaceholderAttrs>().name, v);
  }
  for (; named_variables_ < variables_.size(); ++named_variables_) {
    const Value v = variables_[named_variables_];
    by_name_.emplace(v.node->attrs_as<VariableAttrs>().name, v);
  }
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? Value() : found->second;
}

std::string GraphImpl::free_name(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 1; find_name(name); ++i) name = wanted + "_" + std::to_string(i);
  return name;
}

std::string to_string(const SizeRange& range) {
  return range.max == kAnySize
             ? std::to_string(range.min) + " or more"
             : "from " + std::to_string(range.min) + " to " + std::to_string(range.max);
}

void GraphImpl::assume(const SizeRange& range) {
  const auto fail = [&](const std::string& problem, Loc defined) {
    throw ValueError("assume(" + to_string(range.size) + "): " + problem, range.loc, defined);
  };
  constexpr std::int64_t kMost = std::int64_t{1} << 61;
  const auto is_far = [](std::int64_t bound) {
    return bound != kAnySize && std::abs(bound) > kMost;
  };
  if (range.size.is_number()) fail("a size that varies has a name, as \"time\"", {});
  if (range.min < -kMost || is_far(range.min) || is_far(range.max))
    fail("bounds of sizes are at most 2^61", {});
  if (range.max < range.min || (range.max < 0 && is_symbol(range.size)))
    fail("no size is " + to_string(range), {});
  for (const SizeRange& known : ranges_) {
    if (known.size.same_as(range.size) && (known.max < range.min || range.max < known.min))
      fail("no size is " + to_string(range) + " and " + to_string(known), known.loc);
  }
  const bool is_known = std::ranges::any_of(ranges_, [&](const SizeRange& known) {
    return known.size.same_as(range.size) && known.min == range.min && known.max == range.max;
  });
  if (!is_known) ranges_.push_back(range);
}

Value GraphImpl::add_variable(const std::string& name, const Tensor& tensor, Loc loc) {
  if (const Value known = find_variable(tensor)) return known;
  const VariableAttrs attrs{free_name(name), tensor};
  return append_checked(kVariableOp, Attrs::copy_of(attrs_info<VariableAttrs>, &attrs), {},
                        loc.user())
      ->output();
}

Value GraphImpl::add_constant(const Tensor& value, Loc loc) {
  Tensor own = value.is_concrete() ? copy_of(value) : value;
  return add_constant(std::move(own), loc);
}

Value GraphImpl::add_constant(Tensor&& value, Loc loc) {
  const bool copied = value.is_concrete() && !value.impl()->is_number && !is_sole(value);
  const ConstantAttrs attrs{copied ? copy_of(value) : std::move(value)};
  return append_checked(kConstantOp, Attrs::copy_of(attrs_info<ConstantAttrs>, &attrs), {},
                        loc.user())
      ->output();
}

Value GraphImpl::find_placeholder(std::string_view name) const noexcept {
  const auto it = std::ranges::find_if(placeholders_, [&](const Value& v) {
    return v.node->attrs_as<PlaceholderAttrs>().name == name;
  });
  return it == placeholders_.end() ? Value() : *it;
}

Value GraphImpl::find_variable(const Tensor& tensor) const noexcept {
  const auto it = variable_of_.find(tensor.impl());
  return it == variable_of_.end() ? Value() : it->second;
}

Value GraphImpl::current(Value memory) const {
  const auto written = overwritten_.find(memory);
  return written == overwritten_.end() ? memory : written->second;
}

Value GraphImpl::written(Value memory) const {
  if (!memory.node->is("variable")) return current(memory);
  const auto written = written_in_place_.find(memory);
  return written == written_in_place_.end() ? memory : written->second;
}

void GraphImpl::overwrite(Value memory, Value now) { overwritten_.insert_or_assign(memory, now); }

Dim GraphImpl::fresh_symbol() { return Dim::symbol("u" + std::to_string(next_symbol_++)); }

/// Moves the counter of fresh symbols past every `u<number>` in `type` that it could come to.
void GraphImpl::note_symbols(const Type& type) {
  if (!type.is_tensor() || type.shape().is_concrete()) return;
  std::vector<Dim> symbols;
  for (const Dim size : type.shape()) collect_symbols(size, symbols);
  for (const Dim symbol : symbols) {
    const std::string name = to_string(symbol);
    constexpr int kMost = 1 << 30;
    int number = 0;
    const char* end = name.data() + name.size();
    if (name.size() < 2 || name[0] != 'u') continue;
    const auto [stop, error] = std::from_chars(name.data() + 1, end, number);
    if (error != std::errc() || stop != end || number > kMost) continue;
    next_symbol_ = std::max(next_symbol_, number + 1);
  }
}

void GraphImpl::erase_if(const std::function<bool(const Node&)>& drop) {
  std::deque<std::unique_ptr<Node>> kept;
  placeholders_.clear();
  variables_.clear();
  variable_of_.clear();
  by_name_.clear();
  named_placeholders_ = named_variables_ = 0;
  overwritten_.clear();
  written_in_place_.clear();
  for (std::unique_ptr<Node>& node : nodes_) {
    if (drop(*node)) continue;
    remember(*node);
    kept.push_back(std::move(node));
  }
  nodes_ = std::move(kept);
}

void GraphImpl::erase_from(int begin, const std::function<bool(const Node&)>& drop) {
  const auto first = nodes_.begin() + begin;
  nodes_.erase(std::remove_if(first, nodes_.end(), [&](const auto& node) { return drop(*node); }),
               nodes_.end());
  next_id_ = begin;
  for (auto at = static_cast<std::size_t>(begin); at < nodes_.size(); ++at)
    nodes_[at]->id_ = next_id_++;
}

std::vector<std::unique_ptr<Node>> GraphImpl::rearrange(std::span<Node* const> order) {
  std::unordered_map<const Node*, std::size_t> place;
  for (std::size_t i = 0; i < order.size(); ++i) place.emplace(order[i], i);
  std::deque<std::unique_ptr<Node>> kept(order.size());
  std::vector<std::unique_ptr<Node>> removed;
  for (std::unique_ptr<Node>& node : nodes_) {
    const auto at = place.find(node.get());
    (at == place.end() ? removed.emplace_back() : kept[at->second]) = std::move(node);
  }
  nodes_ = std::move(kept);
  next_id_ = 0;
  for (const auto& node : nodes_) node->id_ = next_id_++;
  return removed;
}

void GraphImpl::replace_values(const std::function<Value(Value)>& by) {
  for (Value& output : outputs_) output = by(output);
  for (auto* const memory : {&overwritten_, &written_in_place_}) {
    std::unordered_map<Value, Value, ValueHash> renamed;
    for (const auto& [first, now] : *memory) renamed.insert_or_assign(by(first), by(now));
    *memory = std::move(renamed);
  }
}

Tensor symbolic_tensor(const Ref<GraphImpl>& graph, Value value, bool follows_writes) {
  const Type& type = value.type();
  if (!type.is_tensor()) {
    throw GraphError("a value of type " + to_string(type) + " is no tensor", value.node->loc());
  }
  Ref<TensorImpl> impl = make_ref<TensorImpl>();
  impl->kind = TensorImpl::Kind::symbolic;
  impl->dtype = type.dtype();
  impl->shape = type.shape();
  auto handle = make_ref<GraphValue>(graph, value);
  handle->follows_writes = follows_writes;
  impl->recorded = std::move(handle);
  return Tensor(std::move(impl));
}

const GraphValue* graph_value(const Tensor& tensor) noexcept {
  return tensor.is_symbolic() ? static_cast<const GraphValue*>(tensor.impl()->recorded.get())
                              : nullptr;
}

Ref<GraphImpl> clone(const GraphImpl& graph, std::unordered_map<Value, Value, ValueHash>* map) {
  auto copy = make_ref<GraphImpl>();
  for (const SizeRange& range : graph.ranges()) copy->assume(range);
  std::unordered_map<const Node*, Node*> nodes;
  nodes.reserve(graph.nodes().size());
  const auto mapped = [&](const Value& v) {
    return v ? nodes.at(v.node)->output(v.index) : Value();
  };
  for (const auto& node : graph.nodes()) {
    std::vector<Value> inputs;
    inputs.reserve(node->inputs().size());
    for (const Value& input : node->inputs()) inputs.push_back(mapped(input));
    Node* made = copy->append_copy(*node, inputs);
    nodes.emplace(node.get(), made);
    if (map == nullptr) continue;
    for (int i = 0; i < static_cast<int>(node->types().size()); ++i) {
      map->emplace(node->output(i), made->output(i));
    }
  }
  for (const Value& output : graph.outputs()) copy->outputs().push_back(mapped(output));
  return copy;
}

std::string GraphValue::name() const {
  const Node& node = *value.node;
  if (&node.op() == &kPlaceholderOp) return node.attrs_as<PlaceholderAttrs>().name;
  if (&node.op() == &kVariableOp) return node.attrs_as<VariableAttrs>().name;
  return std::string(node.op().name);
}

static bool same_types(const Node& a, const Node& b) {
  return std::ranges::equal(a.types(), b.types(),
                            [](const Type& x, const Type& y) { return x.same_as(y); });
}

bool same_regions(const Node& a, const Node& b) {
  return std::ranges::equal(a.regions(), b.regions(), [](const auto& x, const auto& y) {
    return x == y || same_graph(*x, *y);
  });
}

bool same_work(const Node& a, const Node& b) {
  return &a.op() == &b.op() && a.inputs().size() == b.inputs().size() && same_types(a, b) &&
         attrs_equal(a.attrs().info(), a.attrs().data(), b.attrs().data(), /*all_elements=*/true) &&
         same_regions(a, b);
}

bool same_graph(const GraphImpl& a, const GraphImpl& b) {
  if (a.nodes().size() != b.nodes().size() || a.outputs().size() != b.outputs().size()) {
    return false;
  }
  std::unordered_map<const Node*, const Node*> twin;
  twin.reserve(a.nodes().size());
  const auto same_value = [&](const Value& x, const Value& y) {
    if (!x || !y) return !x && !y;
    const auto it = twin.find(x.node);
    return it != twin.end() && it->second == y.node && x.index == y.index;
  };
  const auto same_node = [&](const Node& x, const Node& y) {
    if (!x.is("variable")) {
      return same_work(x, y) && std::ranges::equal(x.inputs(), y.inputs(), same_value);
    }
    return y.is("variable") && same_types(x, y) &&
           x.attrs_as<VariableAttrs>().name == y.attrs_as<VariableAttrs>().name;
  };
  auto other = b.nodes().begin();
  for (const auto& node : a.nodes()) {
    if (!same_node(*node, **other)) return false;
    twin.emplace(node.get(), other->get());
    ++other;
  }
  return std::ranges::equal(a.outputs(), b.outputs(), same_value);
}

}  // namespace dyad
