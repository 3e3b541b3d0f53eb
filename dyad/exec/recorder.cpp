#include "dyad/exec/recorder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "dyad/autograd/backward.h"
#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/exec/argument_layout.h"
#include "dyad/exec/autocast.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/recorded_loop.h"
#include "dyad/exec/recorder_tracer.h"
#include "dyad/ir/attrs.h"
#include "dyad/ir/gradient.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/recorded.h"
#include "dyad/ir/substitute.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/random.h"

namespace dyad::exec {
namespace {

/// A second handle of the same memory, for an argument: the recording marks it without touching the
/// caller's.
Tensor alias_of(const Tensor& tensor) { return Tensor(make_ref<TensorImpl>(*tensor.impl())); }

/// Two objects for the same elements in the same order.
bool same_layout(const TensorImpl& a, const TensorImpl& b) noexcept {
  return a.data == b.data && a.dtype == b.dtype && a.shape.same_as(b.shape) &&
         a.strides == b.strides;
}

bool share_storage(const Tensor& a, const Tensor& b) noexcept {
  return a.impl()->storage == b.impl()->storage;
}

/// True when an output lies in the memory of an input.
bool gives_a_view(TensorRefs inputs, std::span<const Tensor> outputs) {
  return std::any_of(outputs.begin(), outputs.end(), [&](const Tensor& output) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const Tensor* input) {
      return input->defined() && share_storage(*input, output);
    });
  });
}

/// Where the tape of a recording begins: between an argument that was computed outside and what the
/// function does with it.
void pass_argument(Gradient& g) {
  // What is behind it belongs to this call: the next one's argument was computed otherwise.
  if (auto* const recorder = dynamic_cast<Recorder*>(&Evaluator::current()))
    recorder->refuse_pass_through_argument(Loc().user());
  g.set(0, g.grad());
}

constexpr ArgInfo kArgumentInput[] = {{.name = "x"}};
constexpr OpInfo kArgumentOp{.name = "argument",
                             .doc = "An argument of a function that is being recorded.",
                             .kind = BodyKind::opaque,
                             .inputs = kArgumentInput,
                             .outputs = kArgumentInput,
                             .grad = pass_argument};

}  // namespace

// What autocast cast outside is no value of the recording, and what it cast inside is none after
// it.
Recorder::~Recorder() { begin_autocast_era(); }

const OpInfo& Recorder::argument_op() noexcept { return kArgumentOp; }

void Recorder::share_place_on_tape(const TensorImpl& tensor, TensorImpl& other) {
  other.grad_meta = tensor.grad_meta;
  other.grad_output = tensor.grad_output;
  other.requires_grad = tensor.requires_grad;
}

Recorder::Recorder(std::span<const Shape> shapes, std::span<const Tensor> arguments,
                   SymbolMap hints, Loc loc)
    : graph_(make_ref<GraphImpl>()),
      tracer_(std::make_unique<Tracer>(*this, graph_)),
      given_(arguments.begin(), arguments.end()) {
  begin_autocast_era();
  path_.graph = graph_;
  path_.arguments = static_cast<int>(arguments.size());
  path_.hints = std::move(hints);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Value value = graph_->add_placeholder("arg" + std::to_string(i),
                                                Type(arguments[i].dtype(), shapes[i]), loc);
    if (const std::size_t first = first_same(arguments, i); first < i) {
      arguments_.push_back(arguments_[first]);
      continue;
    }
    // A leaf and its alias share the place where its gradient goes.
    if (arguments[i].tracks_grad() && arguments[i].is_leaf()) {
      autograd::make_leaf_grad(*arguments[i].impl());
    }
    arguments_.push_back(alias_of(arguments[i]));
    if (arguments[i].tracks_grad() && !arguments[i].is_leaf() && grad_enabled()) {
      const Tensor* const given = &arguments[i];
      const NoAttrs none;
      autograd::record(kArgumentOp, {&given, 1}, &none, {&arguments_.back(), 1}, loc);
    }
    set_value(arguments_.back(), value);
  }
}

bool Recorder::is_ours(const Tensor& tensor) const noexcept {
  const GraphValue* value = recorded_value(tensor);
  return value && value->graph == graph_;
}

bool Recorder::is_literal(const Tensor& tensor) const noexcept {
  return std::ranges::any_of(literals_,
                             [&](const Tensor& literal) { return literal.is_same(tensor); });
}

bool Recorder::is_made_here(const Tensor& tensor) const noexcept {
  const auto is_it = [&](const Tensor& one) { return one.is_same(tensor); };
  return is_ours(tensor) || is_literal(tensor) || std::ranges::any_of(detached_, is_it);
}

void Recorder::note_detached(const Tensor& of, const Tensor& made) {
  // A literal is made anew in each call, and so is what has its memory: a value, nothing captured.
  if (is_literal(of) && !is_ours(of)) made.impl()->recorded = handle_of(of, {});
  if (!is_ours(made) && !is_literal(made)) detached_.push_back(made);
}

void Recorder::note_hook(const Tensor& of, Loc loc) {
  if (argument_index(of) < 0 && is_made_here(of)) return;
  refuse("a hook is registered on " + type_string(of) +
             ", a tensor from outside, which gets one more in every call; register it outside, or "
             "on a value of the function",
         loc.user());
}

Ref<GraphValue> Recorder::make_handle(Value value) const {
  auto handle = make_ref<GraphValue>(graph_, value);
  handle->follows_writes = true;
  return handle;
}

Ref<GraphValue> Recorder::set_value(const Tensor& tensor, Value value) {
  Ref<GraphValue> handle = make_handle(value);
  tensor.impl()->recorded = handle;
  if (open_loops_ > 0) loop_handles_.push_back(handle);
  if (!taped_loops_.empty()) taped_handles_.push_back(handle);
  return handle;
}

void Recorder::refuse(std::string reason, Loc loc) {
  if (!path_.refusal.empty()) return;
  path_.refusal = std::move(reason);
  path_.refused_at = loc;
}

Value Recorder::value_of(const Tensor& tensor, Loc loc) {
  if (!is_ours(tensor) && !tensor.is_symbolic() && tensor.impl()->is_number)
    return graph_->add_constant(tensor, loc);
  return handle_of(tensor, loc)->value;
}

Ref<GraphValue> Recorder::handle_of(const Tensor& tensor, Loc loc) {
  Ref<GraphValue> handle;
  if (is_ours(tensor)) {
    handle = Ref<GraphValue>(static_cast<GraphValue*>(tensor.impl()->recorded.get()));
  } else if (tensor.is_symbolic()) {
    throw GraphError("a value of a graph, " + type_string(tensor) +
                         ", is used in a function that runs on data: run the graph with a Session "
                         "and pass what it gives",
                     loc);
  } else {
    handle = capture(tensor, loc);
  }
  tracer_->now(*handle);
  return handle;
}

Ref<GraphValue> Recorder::capture(const Tensor& tensor, Loc loc) {
  if (auto it = captures_.find(tensor.impl()); it != captures_.end()) return it->second.handle;
  if (is_literal(tensor)) return set_value(tensor, graph_->add_constant(tensor, loc));
  for (const GradNote& note : path_.grads) {
    if (!note.before.defined() || !share_storage(note.before, tensor) ||
        !same_layout(*note.before.impl(), *tensor.impl()))
      continue;
    for (std::size_t i = 0; i < path_.grad_captures.size(); ++i) {
      if (path_.grad_captures[i].is_same(note)) return grad_handles_[i];
    }
    const bool like_argument = note.argument >= 0 && note.part == autograd::GradPart::whole;
    const Value value = graph_->add_placeholder(
        "grad" + std::to_string(path_.grad_captures.size()),
        Type(tensor.dtype(), like_argument ? shape_of(note.in(arguments_)) : tensor.impl()->shape),
        loc);
    path_.grad_captures.push_back({static_cast<const GradLeaf&>(note), value});
    return grad_handles_.emplace_back(make_handle(value));
  }
  const Storage* storage = tensor.impl()->storage.get();
  const auto [begin, end] = captures_by_storage_.equal_range(storage);
  for (auto it = begin; it != end; ++it) {
    if (!same_layout(*it->second, *tensor.impl())) continue;
    // Another object for the same elements, such as detach() makes.
    const Ref<GraphValue> handle = captures_.at(it->second).handle;
    captures_.emplace(tensor.impl(), Capture{tensor, handle});
    captures_by_storage_.emplace(storage, tensor.impl());
    return handle;
  }
  const Value value =
      graph_->add_variable("capture" + std::to_string(capture_order_.size()), tensor, loc);
  capture_order_.push_back(tensor.impl());
  captures_by_storage_.emplace(storage, tensor.impl());
  return captures_.emplace(tensor.impl(), Capture{tensor, make_handle(value)}).first->second.handle;
}

void Recorder::apply(const OpInfo& op, TensorRefs inputs, const void* attrs,
                     std::span<Tensor> outputs, Loc loc) {
  try {
    if (autocast_dtype()) {
      const AutocastInputs cast(op, inputs, loc, version_of);
      apply_as_given(op, cast.inputs(), attrs, outputs, loc);
    } else {
      apply_as_given(op, inputs, attrs, outputs, loc);
    }
  } catch (const Error&) {
    // If the function goes on, no guard tells when it would do so again.
    refuse("the function caught an error of " + std::string(op.name), loc.user());
    throw;
  }
}

void Recorder::apply_as_given(const OpInfo& op, TensorRefs inputs, const void* attrs,
                              std::span<Tensor> outputs, Loc loc) {
  for (const Tensor* input : inputs) {
    if (input->impl() && input->impl()->kind == TensorImpl::Kind::symbolic) {
      EagerEvaluator::instance().apply(op, inputs, attrs, outputs, loc);
      return;
    }
  }
  loc = loc.user();
  const ConvertedNumbers converted(op, inputs);
  inputs = converted.inputs();
  const bool on_tape = autograd::should_record(op, inputs);
  if (op.name == "einsum" && inputs.size() > 2) {
    execute(op, inputs, attrs, outputs, loc);  // sizes decide which parts it has
    return;
  }
  if (op.kind == BodyKind::composite && !op.grad && grad_enabled()) {
    const bool tracked = std::any_of(inputs.begin(), inputs.end(), [](const Tensor* t) {
      return t->defined() && t->tracks_grad();
    });
    if (tracked) {
      execute(op, inputs, attrs, outputs,
              loc);  // its parts are recorded: the tape needs their values
      return;
    }
  }
  const Ref<Attrs> numbers = substitute_symbols(*op.attrs, attrs, path_.hints);
  {
    const Evaluator::Scope eager(EagerEvaluator::instance());
    const NoGrad no_tape;
    EagerEvaluator::instance().apply(op, inputs, numbers ? numbers->data() : attrs, outputs, loc);
  }
  if (op.kind == BodyKind::composite && gives_a_view(inputs, outputs)) {
    execute(op, inputs, attrs, outputs, loc);  // its parts tell what shares memory
    return;
  }
  std::vector<Value> values;
  values.reserve(inputs.size());
  for (const Tensor* input : inputs)
    values.push_back(input->defined() ? value_of(*input, loc) : Value());
  if (!written_.empty()) refuse_written_gaps(op, inputs, loc);
  Node* node = graph_->append_checked(op, Attrs::copy_of(*op.attrs, attrs), values, loc);
  check_types(*node, outputs);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    set_value(outputs[i], node->output(static_cast<int>(i)));
  const auto memory_of = [&](const Tensor& tensor) { return handle_of(tensor, loc)->memory; };
  if (node->is("sum_of_repeats")) {
    const Ints axes = op.reduced_axes(attrs, inputs[0]->rank());
    const Dim count = ops::count_of(shape_of(*inputs[0]), axes);
    repeated_.push_back({count, memory_of(*inputs[0]), memory_of(outputs[0]), loc});
  }
  if (op.kind == BodyKind::view && !inputs[0]->impl()->is_number) {
    if (share_storage(*inputs[0], outputs[0])) {
      auto& view = static_cast<GraphValue&>(*outputs[0].impl()->recorded);
      tracer_->place_view(*handle_of(*inputs[0], loc), view);
      if (node->is("contiguous")) note_same(outputs[0], *inputs[0]);
    } else {
      reshape_copied_ = true;
    }
    if (op.may_copy)
      reshaped_.push_back({shape_of(*inputs[0]), memory_of(*inputs[0]), memory_of(outputs[0])});
  }
  if (!on_tape) return;
  ++taped_;
  autograd::record(op, inputs, attrs, outputs, loc);
}

void Recorder::refuse_written_gaps(const OpInfo& op, TensorRefs inputs, Loc loc) {
  if (op.kind == BodyKind::pointwise || op.kind == BodyKind::view) return;
  for (const Tensor* input : inputs) {
    if (!input->defined() || input->impl()->is_number) continue;
    const Value memory = handle_of(*input, loc)->memory;
    if (std::ranges::find(written_, memory) == written_.end()) continue;
    path_.strides_matter = path_.strides_matter || memory.node->is("placeholder");
    if (!has_gaps(*variable_of(memory).impl())) continue;
    refuse(std::string(op.name) + " reads " + type_string(*input) +
               ", memory from outside that was written and whose elements do not lie side by side, "
               "as they would in the value that a replayed call has; pass a contiguous() one",
           loc);
  }
}

void Recorder::refuse_pass_through_argument(Loc loc) {
  refuse(
      "a backward pass inside the function goes on into what an argument was computed from, "
      "outside; pass a leaf or detach()",
      loc);
}

void Recorder::check_types(const Node& node, std::span<const Tensor> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Type& type = node.types()[i];
    bool same = type.dtype() == outputs[i].dtype() && type.rank() == outputs[i].rank();
    for (int axis = 0; same && axis < type.rank(); ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      std::vector<Dim> symbols;
      collect_symbols(type.shape()[at], symbols);
      if (symbols.size() == 1 && symbols[0].same_as(type.shape()[at]) &&
          path_.hints.find(symbols[0]) == nullptr) {
        path_.hints.bind(symbols[0], outputs[i].impl()->shape[at].number());
        open_sizes_.push_back(symbols[0]);
      }
      same = evaluate(type.shape()[at], path_.hints) == outputs[i].impl()->shape[at].number();
    }
    if (!same) {
      throw InternalError("recording " + std::string(node.op().name) +
                              ": its rule for types says " + to_string(type) + " but it made " +
                              type_string(outputs[i]),
                          node.loc());
    }
  }
}

Tensor Recorder::with_length(const Tensor& x, Dim first, const LengthAttrs& attrs, Loc loc) {
  Shape shape = shape_of(x);
  shape[0] = first;
  Tensor made = apart_on_tape(x, attrs, loc);
  set_value(made, graph_
                      ->append(kWithLengthOp, Attrs::copy_of(attrs_info<LengthAttrs>, &attrs),
                               {value_of(x, loc)}, {Type(x.dtype(), std::move(shape))}, loc)
                      ->output());
  return made;
}

void Recorder::begin_pass() {
  if (slicing_loop_ != nullptr) slicing_loop_->begin_pass();
  if (open_passes_++ == 0) ++passes_;
}

void Recorder::visit(std::uint64_t sequence) {
  if (taped_loops_.empty() || open_passes_ > 1) return;
  visits_.push_back(
      {passes_, sequence, static_cast<int>(graph_->nodes().size()), autograd::latest_sequence()});
}

void Recorder::end_pass() {
  if (open_passes_ == 1) visit(0);
  --open_passes_;
}

void Recorder::open_rule(std::span<const Tensor> came) {
  if (!notes_rules_ || open_passes_ > 1) return;
  rules_.emplace_back();
  for (const Tensor& gradient : came)
    rules_.back().came.push_back(gradient.defined() ? value_of(gradient, Loc()) : Value());
  rule_begin_ = static_cast<int>(graph_->nodes().size());
}

void Recorder::close_rule(std::span<const Tensor> made, std::span<const int> looked_for) {
  if (!notes_rules_ || open_passes_ > 1) return;
  BackwardPart::Rule& rule = rules_.back();
  for (const int at : looked_for)
    rule.looked_for.push_back(std::exchange(rule.came[static_cast<std::size_t>(at)], {}));
  for (auto* const values : {&rule.came, &rule.looked_for})
    std::erase_if(*values, [](const Value& value) { return !value; });
  for (const Tensor& gradient : made) {
    if (!gradient.defined()) continue;
    const Value value = value_of(gradient, Loc());
    if (value.node->id() >= outer_pass_) rule.made.push_back(value);
  }
  const auto& nodes = graph_->nodes();
  for (auto at = static_cast<std::size_t>(rule_begin_); at < nodes.size(); ++at) {
    if (!nodes[at]->types().empty()) rule.inside.push_back(nodes[at]->output());
  }
}

std::vector<Tensor> Recorder::backward(std::span<const Tensor> outputs,
                                       std::span<const Tensor> grads,
                                       std::span<const Tensor> inputs, bool retain_graph,
                                       bool create_graph, Loc loc) {
  if (outputs[0].is_symbolic()) {
    return EagerEvaluator::instance().backward(outputs, grads, inputs, retain_graph, create_graph,
                                               loc);
  }
  return autograd::run_backward(outputs, grads, inputs, {retain_graph, create_graph}, loc.user());
}

void Recorder::note_literal(const Tensor& tensor) { literals_.push_back(tensor); }

void Recorder::note_grad(const Tensor& leaf, bool overwrites) {
  const GradLeaf touched = grad_leaf(leaf);
  if (touched.argument < 0 && is_made_here(leaf)) return;
  const auto is_same = [&](const GradNote& note) { return note.is_same(touched); };
  if (std::ranges::any_of(path_.grads, is_same)) return;
  const Tensor before = autograd::grad_of(*leaf.impl());
  if (before_) before_->keep_grad(touched, before);
  path_.grads.push_back({touched, before.defined(), !overwrites, before,
                         before.defined() ? before.impl()->shape : Shape(), hooks_on(leaf)});
}

GradLeaf Recorder::grad_leaf(const Tensor& leaf) const {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (arguments_[i].is_same(leaf)) return {Tensor(), index};
    const autograd::LeafGrad* kept = autograd::leaf_grad_of(*arguments_[i].impl());
    if (!kept || !kept->index.defined()) continue;
    if (kept->index.is_same(leaf)) return {Tensor(), index, autograd::GradPart::index};
    if (kept->rows.is_same(leaf)) return {Tensor(), index, autograd::GradPart::rows};
  }
  return {leaf};
}

void Recorder::note_host_state(const Ref<HostState>& state) {
  const auto known = std::any_of(path_.states.begin(), path_.states.end(),
                                 [&](const StateGuard& guard) { return guard.state == state; });
  if (!known) path_.states.push_back({state, state->peek()});
}

void Recorder::set_random_state(const RandomKey& state, Loc loc) {
  ops::seed_generator(*this, state, loc);
}

bool Recorder::is_first_of_its_kind(std::size_t argument) const noexcept {
  return argument_index(arguments_[argument]) == static_cast<int>(argument);
}

int Recorder::argument_index(const Tensor& tensor) const noexcept {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].is_same(tensor)) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace dyad::exec
