#include "dyad/ir/graph_evaluator.h"

#include <algorithm>
#include <string>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/size_facts.h"
#include "dyad/ir/undecided.h"
#include "dyad/ir/view_memory.h"

namespace dyad {
namespace {

/// First byte and one past the last byte that a concrete tensor's elements lie in.
std::pair<const std::byte*, const std::byte*> span_of(const TensorImpl& t) noexcept {
  if (t.numel() == 0) return {t.data, t.data};
  std::int64_t low = 0, high = 1;
  const auto sizes = t.shape.numbers();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t reach = (sizes[i] - 1) * t.strides[i];
    (reach < 0 ? low : high) += reach;
  }
  const auto width = static_cast<std::int64_t>(size_of(t.dtype));
  return {t.data + low * width, t.data + high * width};
}

/// Two objects for the same elements in the same order.
bool same_layout(const TensorImpl& a, const TensorImpl& b) noexcept {
  return a.data == b.data && a.dtype == b.dtype && a.shape.same_as(b.shape) &&
         a.strides == b.strides;
}

const Tensor& tensor_of(Value variable) { return variable.node->attrs_as<VariableAttrs>().tensor; }

std::string prefix(const OpInfo* user) {
  return user != nullptr ? std::string(user->name) + ": " : std::string();
}

}  // namespace

bool share_memory(const Tensor& a, const Tensor& b) noexcept {
  if (a.impl()->storage != b.impl()->storage) return false;
  const auto [a_begin, a_end] = span_of(*a.impl());
  const auto [b_begin, b_end] = span_of(*b.impl());
  return a_begin < b_end && b_begin < a_end;
}

Value GraphEvaluator::value_of(const Tensor& tensor, const OpInfo* user, Loc loc) {
  const GraphValue* handle = graph_value(tensor);
  return handle && handle->graph == graph_ ? now(*handle) : place_of(tensor, user, loc).value;
}

Placed GraphEvaluator::place_of(const Tensor& tensor, const OpInfo* user, Loc loc) {
  const Loc place = loc.user();
  if (const GraphValue* handle = graph_value(tensor)) {
    if (handle->graph == graph_) {
      now(*handle);
      return {handle->value, handle->memory, handle->content, handle->follows_assign};
    }
    throw GraphError(prefix(user) + "the input of type " + type_string(tensor) +
                         " is a tensor of another graph; build both in one graph, or run the other "
                         "graph and feed its result to a placeholder",
                     place, handle->value.node->loc());
  }
  if (!tensor.defined()) throw ValueError(prefix(user) + "an input is an undefined tensor", place);
  if (!tensor.is_concrete()) {
    throw GraphError(prefix(user) + "the input of type " + type_string(tensor) +
                         " is deferred and has no data yet; read it before the graph is defined",
                     place);
  }
  if (tensor.impl()->is_number) {
    const Value number = graph_->add_constant(Tensor(tensor), place);
    return {number, number, number, true};
  }
  const Value memory = capture(tensor, place), content = graph_->current(memory);
  return {content, memory, content, true};
}

Value GraphEvaluator::capture(const Tensor& tensor, Loc loc) {
  if (const Value known = graph_->find_variable(tensor)) return known;
  for (const Value variable : graph_->variables()) {
    const Tensor& other = tensor_of(variable);
    if (same_layout(*tensor.impl(), *other.impl())) return variable;
    if (share_memory(tensor, other) && !(graph_->current(variable) == variable)) {
      throw GraphError("the tensor of type " + type_string(tensor) +
                           " shares memory with the variable \"" +
                           variable.node->attrs_as<VariableAttrs>().name +
                           "\", which the graph has written; make the view inside the graph, from "
                           "the variable",
                       loc, graph_->current(variable).node->loc());
    }
  }
  if (captures_constants_) return graph_->add_constant(tensor, loc);
  return graph_->add_variable("v" + std::to_string(graph_->variables().size()), tensor, loc);
}

Value GraphEvaluator::now(const GraphValue& handle) {
  return handle.follows_writes && graph_->has_overwrites() ? renewed(handle) : handle.value;
}

Value GraphEvaluator::renewed(const GraphValue& handle) {
  const Value written =
      handle.follows_assign ? graph_->current(handle.memory) : graph_->written(handle.memory);
  if (written == handle.content) return handle.value;
  // The memory was written: the same views of what it holds now.
  const std::vector<Value> views = views_between(handle.value, handle.content);
  Value made = written;
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    std::vector<Value> inputs(view->node->inputs().begin(), view->node->inputs().end());
    inputs[0] = made;
    require_view(*view->node, {handle.value, handle.memory, handle.content, true},
                 view->node->loc());
    made = graph_->append_copy(*view->node, inputs)->output(view->index);
  }
  handle.content = written;
  handle.value = made;
  return made;
}

void GraphEvaluator::require_view(const Node& view, const Placed& place, Loc loc) {
  if (is_surely_view(view, place)) return;
  throw GraphError("a tensor is written in place that shares memory with " +
                       to_string(view.types()[0]) + ", made by " + std::string(view.op().name) +
                       " of " + to_string(view.inputs()[0].type()) +
                       ", or does not: that depends on strides, which are not known while a graph "
                       "is defined; use clone() where a copy is meant",
                   loc, view.loc());
}

void GraphEvaluator::place_in(const Placed& input, GraphValue& view) {
  view.memory = input.memory;
  view.content = input.content;
  view.follows_assign = input.follows_assign;
}

void GraphEvaluator::apply(const OpInfo& op, TensorRefs inputs, const void* attrs,
                           std::span<Tensor> outputs, Loc loc) {
  const Loc place = loc.user();
  const bool numbers = std::ranges::any_of(
      inputs, [](const Tensor* t) { return t->defined() && t->impl()->is_number; });
  const DType promoted = numbers ? promote_inputs(op, inputs) : DType::f32;

  std::vector<Tensor> converted(inputs.size());
  Types types;
  types.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    converted[i] = *inputs[i];
    const ArgInfo* info = input_info(op, i);
    if (converted[i].defined() && converted[i].impl()->is_number && info &&
        takes_part_in_promotion(*info)) {
      converted[i] = convert_number(converted[i], promoted);
    }
    types.push_back(type_of(converted[i]));
  }

  // Types first: a call that is refused leaves nothing in the graph.
  const InferIn call{.op = op, .inputs = types, .attrs = attrs, .loc = place};
  const InferIn* const outer = std::exchange(inferring_, &call);
  Types results;
  try {
    results = infer_types(op, types, attrs, place);
  } catch (...) {
    inferring_ = outer;
    throw;
  }
  inferring_ = outer;
  if (outputs.size() > results.size()) {
    throw InternalError(call_string(op, types, attrs) + ": " + std::to_string(outputs.size()) +
                            " outputs were asked for, but the operator has " +
                            std::to_string(results.size()),
                        place);
  }

  std::vector<Value> values;
  values.reserve(inputs.size());
  for (const Tensor& t : converted) {
    values.push_back(t.defined() ? value_of(t, &op, place) : Value());
  }
  bind_unknown_sizes(results);
  Node* node =
      graph_->append(op, Attrs::copy_of(*op.attrs, attrs), values, std::move(results), place);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = symbolic_tensor(graph_, node->output(static_cast<int>(i)), true);
  }
  if (op.kind == BodyKind::view && !outputs.empty()) {
    auto& made = static_cast<GraphValue&>(*outputs[0].impl()->recorded);
    if (!converted[0].impl()->is_number) place_in(place_of(converted[0], &op, place), made);
  }
}

const Shape& GraphEvaluator::shape(const Tensor& tensor) { return tensor.impl()->shape; }

void GraphEvaluator::fail_undecided(SizeQuestion asked, Dim a, Dim b, Loc loc) const {
  std::string message;
  if (inferring_) {
    message = call_string(inferring_->op, inferring_->inputs, inferring_->attrs) + ": ";
  }
  const std::string first = to_string(a), second = to_string(b);
  message += asked == SizeQuestion::value ? "the value of the size " + first
             : asked == SizeQuestion::equal
                 ? "whether the sizes " + first + " and " + second + " are equal"
                 : "whether the size " + first + " is less than " + second;
  message +=
      " is not known in this graph, where sizes have no values; give sizes that "
      "are equal the same name, or use a number, or write the function for compile(), which "
      "runs it on data";
  throw UndecidedError(asked, a, b, inferring_ != nullptr, message,
                       loc          ? loc.user()
                       : inferring_ ? inferring_->loc
                                    : Loc());
}

std::int64_t GraphEvaluator::dim_value(Dim dim, Loc loc) {
  if (const SizeFacts* facts = SizeFacts::current()) {
    if (const auto known = facts->value(dim)) return *known;
  }
  fail_undecided(SizeQuestion::value, dim, dim, loc);
}

bool GraphEvaluator::dim_equal(Dim a, Dim b, Loc loc) {
  if (const SizeFacts* facts = SizeFacts::current()) {
    if (const auto known = facts->equal(a, b)) return *known;
  }
  fail_undecided(SizeQuestion::equal, a, b, loc);
}

bool GraphEvaluator::dim_less(Dim a, Dim b, Loc loc) {
  if (const SizeFacts* facts = SizeFacts::current()) {
    if (const auto known = facts->less(a, b)) return *known;
  }
  fail_undecided(SizeQuestion::less, a, b, loc);
}

void GraphEvaluator::fail_read(const Tensor& tensor, std::string_view read, Loc loc) const {
  if (tensor.is_concrete()) {
    throw GraphError(std::string(read) + " of a tensor of type " + type_string(tensor) +
                         " while a graph is defined: its data would become a constant of the "
                         "graph; read it before, or compute with the tensor itself",
                     loc.user());
  }
  const GraphValue* handle = graph_value(tensor);
  throw GraphError(std::string(read) + " of " + type_string(tensor) +
                       ", a value of a graph, which has no data while the graph is defined; "
                       "branch with cond(), fetch the value from a session, or write the function "
                       "for compile(), which runs it on data",
                   loc.user(), handle ? handle->value.node->loc() : Loc());
}

double GraphEvaluator::read_double(const Tensor& tensor, Loc loc) {
  fail_read(tensor, "item()", loc);
}

std::int64_t GraphEvaluator::read_int(const Tensor& tensor, Loc loc) {
  fail_read(tensor, "item()", loc);
}

bool GraphEvaluator::read_bool(const Tensor& tensor, Loc loc) {
  fail_read(tensor, "the truth", loc);
}

// A concrete tensor's memory is the program's own business (filling a buffer before it is
// captured); what the graph knows of it, it reads when it runs.
void GraphEvaluator::host_access(const Tensor& tensor, Loc loc) {
  if (!tensor.is_concrete()) fail_read(tensor, "the elements", loc);
}

void GraphEvaluator::check_no_overlap(Value written, Loc loc) const {
  const Tensor& target = tensor_of(written);
  for (const Value variable : graph_->variables()) {
    if (variable == written || !share_memory(target, tensor_of(variable))) continue;
    throw GraphError(
        "the variable \"" + written.node->attrs_as<VariableAttrs>().name + "\" of type " +
            to_string(written.type()) + " is written, but shares memory with the variable \"" +
            variable.node->attrs_as<VariableAttrs>().name + "\" of type " +
            to_string(variable.type()) + "; make the view inside the graph, from the variable",
        loc, variable.node->loc());
  }
}

void GraphEvaluator::write(const Tensor& target, const Tensor& value, Loc loc) {
  const Loc place = loc.user();
  const Tensor given =
      value.defined() && value.impl()->is_number ? convert_number(value, target.dtype()) : value;
  const Placed to = place_of(target, &kAssignOp, place);
  const Value replacement = value_of(given, &kAssignOp, place);
  const Type types[] = {to.value.type(), replacement.type()};
  static_cast<void>(infer_types(kAssignOp, types, nullptr, place));
  write_through(to, replacement, place);
  if (const GraphValue* own = graph_value(target)) renewed(*own);
}

void GraphEvaluator::write_through(const Placed& target, Value value, Loc loc) {
  const std::vector<Value> views = views_between(target.value, target.content);
  // Of no elements, all views are as good, but for contiguous(), which is the tensor itself.
  const auto is_itself = [](Value view) { return view.node->is("contiguous"); };
  if (!std::ranges::all_of(views, is_itself) &&
      std::ranges::any_of(target.value.type().shape(), [](Dim size) { return size.same_as(0); }))
    return;
  const LocScope place(loc);
  Value made = value;
  for (const Value view : views) {
    const Node& node = *view.node;
    if (node.op().write == nullptr) {
      throw GraphError("a write in place to " + to_string(target.value.type()) +
                           ", a view made by " + std::string(node.op().name) +
                           ", which cannot be written through; compute the new value of the whole "
                           "tensor (with where or concat) and write that",
                       loc, node.loc());
    }
    require_view(node, target, loc);
    const Evaluator::Scope scope(*this);
    const Tensor whole =
        node.op().write(node.attrs().data(), symbolic_tensor(graph_, node.inputs()[0]),
                        symbolic_tensor(graph_, made), loc);
    made = graph_value(whole)->value;
  }
  replace(target.memory, made, loc);
}

void GraphEvaluator::replace(Value memory, Value now, Loc loc) {
  if (memory.node->is("variable")) {
    check_no_overlap(memory, loc);
    Node* assigned = graph_->append_checked(kAssignOp, no_attrs(), {memory, now}, loc);
    graph_->note_write_in_place(memory, assigned->output());
  } else {
    // An intermediate value: nothing outside the graph sees it, so it is replaced, not assigned.
    graph_->overwrite(memory, now);
  }
}

std::vector<Value> GraphEvaluator::writes() const {
  std::vector<Value> written;
  for (const Value variable : graph_->variables()) {
    const Value now = graph_->written(variable);
    if (!(now == variable)) written.push_back(now);
  }
  return written;
}

Tensor GraphEvaluator::after_writes(const Tensor& value, Loc loc) {
  const Loc place = loc.user();
  std::vector<Value> inputs = writes();
  inputs.insert(inputs.begin(), value_of(value, &kAfterOp, place));
  Node* node = graph_->append_checked(kAfterOp, no_attrs(), inputs, place);
  return symbolic_tensor(graph_, node->output());
}

std::vector<Tensor> GraphEvaluator::backward(std::span<const Tensor> outputs,
                                             std::span<const Tensor>, std::span<const Tensor>, bool,
                                             bool, Loc loc) {
  const GraphValue* handle = outputs.empty() ? nullptr : graph_value(outputs[0]);
  throw GraphError(
      "backward() of a value of a graph; ask for gradients as values of the graph with "
      "gradients(loss, {w}), or write the function for compile()",
      loc.user(), handle ? handle->value.node->loc() : Loc());
}

}  // namespace dyad
