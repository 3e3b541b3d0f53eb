#include "dyad/exec/control_flow_region.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/exec/autocast.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/recorded.h"
#include "dyad/ops/random.h"

namespace dyad::exec {

std::size_t Captures::index_of(const Tensor& tensor) {
  const auto [found, is_new] = index_.emplace(tensor.impl(), tensors_.size());
  if (is_new) tensors_.push_back(tensor);
  return found->second;
}

std::size_t capture_of(const Node& placeholder) {
  return std::stoul(placeholder.attrs_as<PlaceholderAttrs>().name.substr(1));
}

void RegionEvaluator::record(const TensorFunction& fn, std::span<const Type> parameters, Loc loc) {
  std::vector<Tensor> arguments;
  for (const Type& type : parameters) {
    parameters_.push_back(
        graph()->add_placeholder(fmt::format("p{}", parameters_.size()), type, loc));
    arguments.push_back(symbolic_tensor(graph(), parameters_.back(), true));
  }
  around_ = &Evaluator::current();
  const Scope current(*this);
  for (const Tensor& result : fn(arguments)) {
    if (!result.defined()) {
      throw ValueError(fmt::format("{}: a function gave an undefined tensor", construct_), loc);
    }
    graph()->outputs().push_back(value_of(inside(result, loc), nullptr, loc));
  }
}

bool RegionEvaluator::is_of_data(Dim size) const {
  std::vector<Dim> symbols;
  collect_symbols(size, symbols);
  return std::ranges::any_of(symbols, [&](Dim symbol) {
    return std::ranges::any_of(of_data_, [&](Dim own) { return own.same_as(symbol); });
  });
}

Dim RegionEvaluator::fresh_size() {
  if (auto* region = dynamic_cast<RegionEvaluator*>(into_)) return region->fresh_size();
  return (into_ != nullptr ? into_ : this)->graph()->fresh_symbol();
}

void RegionEvaluator::bind_unknown_sizes(Types& types) {
  for (Type& type : types) {
    if (!type.is_tensor()) continue;
    Shape shape = type.shape();
    for (Dim& size : shape) {
      if (!size.same_as(unknown_size())) continue;
      size = fresh_size();
      of_data_.push_back(size);
    }
    type = Type(type.dtype(), std::move(shape));
  }
}

Evaluator* RegionEvaluator::who_knows(Dim a, Dim b) const {
  if (is_of_data(a) || is_of_data(b)) return nullptr;
  if (asks_around_) return around_;
  const auto* region = dynamic_cast<RegionEvaluator*>(into_ ? into_ : around_);
  return region ? region->who_knows(a, b) : nullptr;
}

const Shape& RegionEvaluator::shape(const Tensor& tensor) {
  return who_knows() ? shape_of(tensor) : GraphEvaluator::shape(tensor);
}

Dim RegionEvaluator::peek(Dim size) const {
  const Evaluator* const known = who_knows(size, size);
  return known ? known->peek(size) : size;
}

std::int64_t RegionEvaluator::dim_value(Dim dim, Loc loc) {
  Evaluator* const known = who_knows(dim, dim);
  return known ? known->dim_value(dim, loc) : GraphEvaluator::dim_value(dim, loc);
}

bool RegionEvaluator::dim_equal(Dim a, Dim b, Loc loc) {
  Evaluator* const known = who_knows(a, b);
  return known ? known->dim_equal(a, b, loc) : GraphEvaluator::dim_equal(a, b, loc);
}

bool RegionEvaluator::dim_less(Dim a, Dim b, Loc loc) {
  Evaluator* const known = who_knows(a, b);
  return known ? known->dim_less(a, b, loc) : GraphEvaluator::dim_less(a, b, loc);
}

bool RegionEvaluator::is_ours(const Tensor& tensor) const noexcept {
  const GraphValue* handle = graph_value(tensor);
  return handle && handle->graph == graph();
}

Type RegionEvaluator::type_inside(const Tensor& tensor) const {
  return who_knows() ? Type(tensor.dtype(), shape_of(tensor)) : type_of(tensor);
}

bool RegionEvaluator::is_one_type(const Type& a, const Type& b) const {
  return a.same_as(b) || (who_knows() && a.dtype() == b.dtype() && a.rank() == b.rank() &&
                          std::equal(a.shape().begin(), a.shape().end(), b.shape().begin()));
}

Tensor RegionEvaluator::inside(const Tensor& tensor, Loc loc) {
  if (is_ours(tensor) || tensor.impl()->is_number) return tensor;
  const std::size_t index = captures_.index_of(tensor);
  Value& placeholder = placeholder_of_[index];
  if (!placeholder) {
    placeholder = graph()->add_placeholder(fmt::format("c{}", index), type_inside(tensor), loc);
  }
  return symbolic_tensor(graph(), placeholder, true);
}

bool RegionEvaluator::is_capture(Value value) const noexcept {
  return value.node->is("placeholder") &&
         std::ranges::find(parameters_, value) == parameters_.end();
}

void RegionEvaluator::apply(const OpInfo& op, TensorRefs inputs, const void* attrs,
                            std::span<Tensor> outputs, Loc loc) {
  if (autocast_dtype()) {
    const AutocastInputs cast(op, inputs, loc);
    apply(op, cast.inputs(), attrs, outputs, loc);
    return;
  }
  std::vector<Tensor> replaced;
  std::vector<const Tensor*> refs;
  replaced.reserve(inputs.size());
  for (const Tensor* input : inputs) {
    replaced.push_back(input->defined() ? inside(*input, loc) : *input);
    refs.push_back(&replaced.back());
  }
  GraphEvaluator::apply(op, refs, attrs, outputs, loc);
}

void RegionEvaluator::write(const Tensor& target, const Tensor& value, Loc loc) {
  if (!is_ours(target)) fail_write_outside(type_string(target), loc.user());
  GraphEvaluator::write(target, value.defined() ? inside(value, loc) : value, loc);
}

void RegionEvaluator::set_random_state(const RandomKey& state, Loc loc) {
  ops::seed_generator(*this, state, loc);
}

/// A capture here, and a constant of a function that is being recorded around it.
void RegionEvaluator::note_literal(const Tensor& tensor) {
  if (around_) around_->note_literal(tensor);
}

void RegionEvaluator::replace(Value memory, Value now, Loc loc) {
  if (is_capture(memory)) fail_write_outside(to_string(memory.type()), loc);
  if (std::ranges::find(parameters_, memory) != parameters_.end()) {
    throw GraphError(
        fmt::format("{}: a function writes in place to a parameter of type {}: eagerly that is the "
                    "memory of what was passed, in a graph it cannot be; write to a clone() of it",
                    construct_, to_string(memory.type())),
        loc);
  }
  GraphEvaluator::replace(memory, now, loc);
}

void RegionEvaluator::fail_write_outside(const std::string& type, Loc loc) const {
  throw GraphError(fmt::format("{}: a function writes in place to {}, a tensor from outside; give "
                               "the new value as a result and write it after the {}",
                               construct_, type, construct_),
                   loc);
}

std::vector<Tensor> RegionEvaluator::backward(std::span<const Tensor> outputs,
                                              std::span<const Tensor> grads,
                                              std::span<const Tensor> inputs, bool retain_graph,
                                              bool create_graph, Loc loc) {
  if (inputs.empty()) {
    return GraphEvaluator::backward(outputs, grads, inputs, retain_graph, create_graph, loc);
  }
  std::vector<Tensor> by;
  for (const Tensor& input : inputs) by.push_back(input.defined() ? inside(input, loc) : input);
  return autograd::graph_gradients(outputs, grads, by, loc);
}

Ref<GraphImpl> RegionEvaluator::finish() const {
  const Ref<GraphImpl> made = make_ref<GraphImpl>();
  std::unordered_map<Value, Value, ValueHash> now;
  for (const Value parameter : parameters_) {
    now[parameter] = made->append_copy(*parameter.node, {})->output();
  }
  for (std::size_t i = 0; i < captures_.tensors().size(); ++i) {
    const Value added =
        made->add_placeholder(fmt::format("c{}", i), type_of(captures_.tensors()[i]), Loc());
    if (const auto used = placeholder_of_.find(i); used != placeholder_of_.end()) {
      now[used->second] = added;
    }
  }
  std::vector<Value> arguments;
  for (const Value old : graph()->placeholders()) arguments.push_back(now.at(old));
  made->outputs() = inline_region(*graph(), made, arguments);
  return made;
}

std::vector<Value> inline_region(const GraphImpl& region, const Ref<GraphImpl>& into,
                                 std::span<const Value> arguments) {
  std::unordered_map<Value, Value, ValueHash> now;
  std::size_t next = 0;
  for (const auto& node : region.nodes()) {
    if (&node->op() == &kPlaceholderOp) {
      now[node->output()] = arguments[next++];
      continue;
    }
    std::vector<Value> inputs;
    for (const Value v : node->inputs()) inputs.push_back(v ? now.at(v) : v);
    Node* copy = into->append_copy(*node, inputs);
    for (int i = 0; i < static_cast<int>(node->types().size()); ++i) {
      now[node->output(i)] = copy->output(i);
    }
  }
  std::vector<Value> outputs;
  for (const Value v : region.outputs()) outputs.push_back(now.at(v));
  return outputs;
}

std::vector<Tensor> append_control(GraphEvaluator& outer, const OpInfo& op, Ref<Attrs> attrs,
                                   std::span<const Tensor> inputs,
                                   std::vector<Ref<GraphImpl>> regions, Types types, Loc loc) {
  auto* around = dynamic_cast<RegionEvaluator*>(&outer);
  std::vector<Value> values;
  for (const Tensor& input : inputs) {
    values.push_back(outer.value_of(around ? around->inside(input, loc) : input, &op, loc));
  }
  Node* node = outer.graph()->append(op, std::move(attrs), values, std::move(types), loc.user());
  for (Ref<GraphImpl>& region : regions) node->add_region(std::move(region));
  std::vector<Tensor> results;
  for (int i = 0; i < static_cast<int>(node->types().size()); ++i) {
    results.push_back(symbolic_tensor(outer.graph(), node->output(i), true));
  }
  return results;
}

}  // namespace dyad::exec
