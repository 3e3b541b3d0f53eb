#include "dyad/exec/recorder.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "dyad/autograd/backward.h"
#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/exec/autocast.h"
#include "dyad/exec/eager.h"
#include "dyad/ir/attrs.h"
#include "dyad/ir/gradient.h"
#include "dyad/ir/recorded.h"
#include "dyad/ir/substitute.h"
#include "dyad/ir/view_memory.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/random.h"
#include "dyad/ops/views.h"

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

/// From here on `other` is where `tensor` is on the tape, or is not on it either.
void share_place_on_tape(const TensorImpl& tensor, TensorImpl& other) {
  other.grad_meta = tensor.grad_meta;
  other.grad_output = tensor.grad_output;
  other.requires_grad = tensor.requires_grad;
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

bool same_strides(const TensorImpl& a, const TensorImpl& b) noexcept {
  return (a.contiguous && b.contiguous) || a.strides == b.strides;
}

}  // namespace

class Recorder::Tracer final : public GraphEvaluator {
 public:
  Tracer(Recorder& recorder, Ref<GraphImpl> graph)
      : GraphEvaluator(std::move(graph)), recorder_(recorder) {}

  using GraphEvaluator::now;

  std::int64_t dim_value(Dim dim, Loc loc) override { return recorder_.dim_value(dim, loc); }
  bool dim_equal(Dim a, Dim b, Loc loc) override { return recorder_.dim_equal(a, b, loc); }
  bool dim_less(Dim a, Dim b, Loc loc) override { return recorder_.dim_less(a, b, loc); }

  void place_view(const GraphValue& input, GraphValue& view) {
    place_in({input.value, input.memory, input.content, true}, view);
  }

  /// What the target shows becomes `value`, which lies `like_target` in memory or not.
  void overwrite(const GraphValue& target, Value value, bool like_target, Loc loc) {
    whole_ = target.value == target.content;
    like_target_ = like_target;
    write_through({target.value, target.memory, target.content, true}, value, loc);
    now(target);
  }

 protected:
  void replace(Value memory, Value now, Loc loc) override {
    const BodyKind kind = now.node->op().kind;
    const bool keeps_layout = whole_ ? like_target_ : kind != BodyKind::view;
    if ((!keeps_layout || kind == BodyKind::structural) && now.type().rank() > 0)
      now = copied(memory, now, loc);
    graph()->overwrite(memory, now);
  }

  // Executing the view told whether it is one, for these strides.
  void require_view(const Node& view, const Placed&, Loc) override {
    recorder_.path_.strides_matter = recorder_.path_.strides_matter || view.op().may_copy;
  }

 private:
  /// `value` in the layout of what the memory holds.
  Value copied(Value memory, Value value, Loc loc) {
    const Scope scope(*this);
    const Tensor whole = symbolic_tensor(graph(), graph()->current(memory));
    return graph_value(slice_scatter(whole, symbolic_tensor(graph(), value), 0, 0, kEnd, 1, loc))
        ->value;
  }

  Recorder& recorder_;
  bool whole_ = false, like_target_ = false;  // of the write being done
};

// What autocast cast outside is no value of the recording, and what it cast inside is none after
// it.
Recorder::~Recorder() { begin_autocast_era(); }

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

Ref<GraphValue> Recorder::make_handle(Value value) const {
  auto handle = make_ref<GraphValue>(graph_, value);
  handle->follows_writes = true;
  return handle;
}

Ref<GraphValue> Recorder::set_value(const Tensor& tensor, Value value) {
  Ref<GraphValue> handle = make_handle(value);
  tensor.impl()->recorded = handle;
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
        Type(tensor.dtype(), like_argument ? shape_of(note.in(arguments_)) : tensor.shape()), loc);
    path_.grad_captures.push_back({note, value});
    return grad_handles_.emplace_back(make_handle(value));
  }
  const Storage* storage = tensor.impl()->storage.get();
  const auto [begin, end] = captures_by_storage_.equal_range(storage);
  for (auto it = begin; it != end; ++it) {
    if (!same_layout(*it->second, *tensor.impl())) continue;
    // Another object for the same elements, such as detach() makes.
    const Ref<GraphValue> handle = captures_.at(it->second).handle;
    captures_.emplace(tensor.impl(), Capture{tensor, handle});
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
  if (autocast_dtype()) {
    const AutocastInputs cast(op, inputs, loc, version_of);
    apply(op, cast.inputs(), attrs, outputs, loc);
    return;
  }
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
  Node* node = graph_->append_checked(op, Attrs::copy_of(*op.attrs, attrs), std::move(values), loc);
  check_types(*node, outputs);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    set_value(outputs[i], node->output(static_cast<int>(i)));
  if (op.kind == BodyKind::view && !inputs[0]->impl()->is_number) {
    if (share_storage(*inputs[0], outputs[0])) {
      auto& view = static_cast<GraphValue&>(*outputs[0].impl()->recorded);
      tracer_->place_view(*handle_of(*inputs[0], loc), view);
      if (node->is("contiguous")) note_same(outputs[0], *inputs[0]);
    } else {
      reshape_copied_ = true;
    }
    if (op.may_copy) reshaped_.push_back(shape_of(*inputs[0]));
  }
  if (on_tape) autograd::record(op, inputs, attrs, outputs, loc);
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
        path_.hints.bind(symbols[0], outputs[i].shape()[at].number());
        open_sizes_.push_back(symbols[0]);
      }
      same = evaluate(type.shape()[at], path_.hints) == outputs[i].shape()[at].number();
    }
    if (!same) {
      throw InternalError("recording " + std::string(node.op().name) +
                              ": its rule for types says " + to_string(type) + " but it made " +
                              type_string(outputs[i]),
                          node.loc());
    }
  }
}

Dim Recorder::size(const Tensor& tensor, int axis) {
  return shape_of(tensor)[static_cast<std::size_t>(axis)];
}

std::int64_t Recorder::dim_value(Dim dim, Loc loc) {
  const std::int64_t value = evaluate(dim, path_.hints);
  guard({DimGuard::Kind::value, dim, Dim(), value, loc.user()});
  return value;
}

void Recorder::guard(const DimGuard& made) {
  if (is_told_by_data(made.a) || is_told_by_data(made.b)) {
    refuse("what the function does depends on a size that only data tell: " + to_string(made.a) +
               (made.kind == DimGuard::Kind::value ? "" : " compared with " + to_string(made.b)),
           made.loc);
    return;
  }
  path_.guards.push_back(made);
}

bool Recorder::is_told_by_data(Dim size) const {
  std::vector<Dim> symbols;
  collect_symbols(size, symbols);
  return std::ranges::any_of(symbols, [&](Dim symbol) {
    return std::ranges::any_of(open_sizes_, [&](Dim open) { return symbol.same_as(open); });
  });
}

bool Recorder::dim_equal(Dim a, Dim b, Loc loc) {
  const bool answer = evaluate(a, path_.hints) == evaluate(b, path_.hints);
  guard({DimGuard::Kind::equal, a, b, answer, loc.user()});
  return answer;
}

bool Recorder::dim_less(Dim a, Dim b, Loc loc) {
  const bool answer = evaluate(a, path_.hints) < evaluate(b, path_.hints);
  guard({DimGuard::Kind::less, a, b, answer, loc.user()});
  return answer;
}

void Recorder::host_access(const Tensor& tensor, Loc loc) {
  refuse("the host reads the memory of " + type_string(tensor) +
             ", which a compiled function cannot follow; compute with operators, or read one "
             "number with item()",
         loc.user());
}

void Recorder::decide(const Tensor& tensor, std::int64_t outcome, Decision::Kind kind, Loc loc) {
  loc = loc.user();
  const Value value = value_of(tensor, loc);
  if (value.node->is("constant")) return;
  if (!loc) loc = value.node->loc();  // `if (t)` cannot tell its own line
  path_.decisions.push_back({value, static_cast<int>(graph_->nodes().size()), outcome, kind, loc});
}

double Recorder::read_double(const Tensor& tensor, Loc loc) {
  const double value = EagerEvaluator::instance().read_double(tensor, loc);
  decide(tensor, std::bit_cast<std::int64_t>(value), Decision::Kind::floating, loc);
  return value;
}

std::int64_t Recorder::read_int(const Tensor& tensor, Loc loc) {
  const std::int64_t value = EagerEvaluator::instance().read_int(tensor, loc);
  decide(tensor, value, Decision::Kind::integer, loc);
  return value;
}

bool Recorder::read_bool(const Tensor& tensor, Loc loc) {
  const bool value = EagerEvaluator::instance().read_bool(tensor, loc);
  decide(tensor, value ? 1 : 0, Decision::Kind::boolean, loc);
  return value;
}

void Recorder::note_same(const Tensor& made, const Tensor& given) {
  const auto is_ours_alone = [](const Tensor& t) { return t.impl()->use_count() == 1; };
  std::erase_if(same_, [&](const auto& pair) {
    return is_ours_alone(pair.first) || is_ours_alone(pair.second);
  });
  const auto known =
      std::ranges::find_if(same_, [&](const auto& pair) { return pair.first.is_same(given); });
  same_.emplace_back(made, known == same_.end() ? given : known->second);
}

std::vector<Tensor> Recorder::same_as(const Tensor& tensor) const {
  const auto made =
      std::ranges::find_if(same_, [&](const auto& pair) { return pair.first.is_same(tensor); });
  const Tensor& one = made == same_.end() ? tensor : made->second;
  std::vector<Tensor> others;
  if (made != same_.end()) others.push_back(one);
  for (const auto& [other, given] : same_) {
    if (given.is_same(one) && !other.is_same(tensor)) others.push_back(other);
  }
  return others;
}

/// Sizes below 2 hide how a tensor lies in memory: the recording is one for larger ones, or not.
void Recorder::guard_small_sizes(const Shape& shape, Loc loc) {
  for (const Dim size : shape) {
    std::vector<Dim> symbols;
    collect_symbols(size, symbols);
    const bool is_symbol = symbols.size() == 1 && symbols[0].same_as(size);  // of at least 2
    if (!symbols.empty() && !is_symbol && !is_told_by_data(size))
      static_cast<void>(dim_less(size, 2, loc));
  }
}

/// Whether `written`, which is to be all of what the target's memory holds, lies as that does, at
/// every size that the recording serves.
bool Recorder::keeps_layout(const Tensor& target, Value written, const TensorImpl& value, Loc loc) {
  const BodyKind kind = written.node->op().kind;
  if (kind == BodyKind::view || kind == BodyKind::structural) return false;
  guard_small_sizes(shape_of(target), loc);  // what an operator makes lies as its operands do
  return same_strides(*target.impl(), value);
}

void Recorder::write(const Tensor& target, const Tensor& value, Loc loc) {
  loc = loc.user();
  const Value written = value_of(value, loc);
  const Ref<GraphValue> to = handle_of(target, loc);
  const bool like_target =
      to->value == to->content && keeps_layout(target, written, *value.impl(), loc);
  {
    const Evaluator::Scope eager(EagerEvaluator::instance());
    // The recording's own handles of arguments are nobody's views of them.
    const auto aliases = std::ranges::count_if(
        given_, [&](const Tensor& argument) { return share_storage(argument, target); });
    const std::vector<Tensor> same = same_as(target);
    EagerEvaluator::write_data(target, value,
                               1 + static_cast<int>(aliases) + static_cast<int>(same.size()), loc);
    // What is written decides which place on the tape the one tensor has.
    for (const Tensor& other : same) share_place_on_tape(*target.impl(), *other.impl());
  }
  try {
    tracer_->overwrite(*to, written, like_target, loc);
  } catch (const GraphError& error) {
    refuse(error.message(), loc);  // eagerly it is done, all the same
  } catch (const ValueError& error) {
    refuse(error.message(), loc);  // one of several elements that are one in memory is
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
  if (touched.argument < 0 && (is_ours(leaf) || is_literal(leaf))) return;  // made by this call
  const auto is_same = [&](const GradNote& note) { return note.is_same(touched); };
  if (std::ranges::any_of(path_.grads, is_same)) return;
  const Tensor before = autograd::grad_of(*leaf.impl());
  path_.grads.push_back({touched, before.defined(), !overwrites, before,
                         before.defined() ? before.shape() : Shape()});
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

int Recorder::argument_index(const Tensor& tensor) const noexcept {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].is_same(tensor)) return static_cast<int>(i);
  }
  return -1;
}

void Recorder::record_backward(std::span<const Tensor> results, Loc loc) {
  BackwardPart part;
  part.begin = static_cast<int>(graph_->nodes().size());
  std::vector<Tensor> outputs, seeds, wanted;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].tracks_grad() || results[i].is_leaf()) continue;
    part.outputs.push_back(static_cast<int>(i));
    outputs.push_back(results[i]);
    part.seeds.push_back(graph_->add_placeholder(
        "seed" + std::to_string(i), Type(results[i].dtype(), shape_of(results[i])), loc));
    const Evaluator::Scope eager(EagerEvaluator::instance());
    seeds.push_back(ones(results[i].shape(), results[i].dtype()));
    set_value(seeds.back(), part.seeds.back());
  }
  if (outputs.empty()) return;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (!arguments_[i].tracks_grad()) continue;
    part.arguments.push_back(static_cast<int>(i));
    wanted.push_back(arguments_[i]);
  }
  const std::vector<int> arguments = std::move(part.arguments);
  std::vector<Tensor> leaves;
  Tensor inner;  // a leaf that this call made
  for (const Tensor& leaf : autograd::reachable_leaves(outputs, &kArgumentOp)) {
    if (argument_index(leaf) >= 0) continue;
    if (is_ours(leaf) || is_literal(leaf)) {
      inner = leaf;
    } else {
      leaves.push_back(leaf);
    }
  }
  wanted.insert(wanted.end(), leaves.begin(), leaves.end());
  // A pass that nothing is wanted of would give leaves their gradients.
  if (wanted.empty() && inner.defined()) wanted.push_back(inner);
  std::vector<std::vector<Tensor>> grads;
  try {
    grads = autograd::run_backward_in_parts(outputs, seeds, wanted, loc);
  } catch (const GradError&) {
    return;  // the call has already used up its tape: what it returns cannot be differentiated in
             // eager mode either
  }
  // An input once for each part of its gradient, so that the tape adds them up as it would without
  // the recording; once without a gradient when there is none.
  for (std::size_t i = 0; i < arguments.size() + leaves.size(); ++i) {
    const bool is_argument = i < arguments.size();
    if (grads[i].empty()) grads[i].emplace_back();
    for (const Tensor& grad : grads[i]) {
      (is_argument ? part.argument_grads : part.leaf_grads)
          .push_back(grad.defined() ? value_of(grad, loc) : Value());
      if (is_argument) {
        part.arguments.push_back(arguments[i]);
      } else {
        part.leaves.push_back(leaves[i - arguments.size()]);
      }
    }
  }
  if (inner.defined()) {
    part.leaves.emplace_back();
    part.leaf_grads.emplace_back();
  }
  path_.backward = std::move(part);
}

void Recorder::find_writes() {
  const auto note = [&](const Tensor& tensor, int argument, Value memory) {
    const Value value = graph_->current(memory);
    if (value == memory) return;
    path_.writes.push_back({argument < 0 ? tensor : Tensor(), argument, value});
    bool on_tape = tensor.tracks_grad() && !tensor.is_leaf();
    if (argument >= 0) {
      // The caller's tensor is where the recorded one is on the tape.
      const TensorImpl& seen = *arguments_[static_cast<std::size_t>(argument)].impl();
      share_place_on_tape(seen, *tensor.impl());
      on_tape = on_tape || (tensor.tracks_grad() && !tensor.is_leaf());
    }
    if (!on_tape) return;
    refuse("an in-place write changes the gradient of " + type_string(tensor) +
               ", a tensor from outside, which a replayed call cannot; return the value instead",
           value.node->loc());
  };
  for (const TensorImpl* impl : capture_order_) {
    const Capture& capture = captures_.at(impl);
    path_.captures.emplace_back(capture.tensor, capture.tensor.tracks_grad());
    note(capture.tensor, -1, capture.handle->memory);
  }
  for (std::size_t i = 0; i < arguments_.size(); ++i)
    note(given_[i], static_cast<int>(i), graph_->placeholders()[i]);
}

void Recorder::refuse_writes_to_shared_memory() {
  std::vector<Tensor> outside(given_);
  for (const TensorImpl* impl : capture_order_) outside.push_back(captures_.at(impl).tensor);
  std::unordered_multimap<const Storage*, const Tensor*> by_storage;
  for (const Tensor& tensor : outside) by_storage.emplace(tensor.impl()->storage.get(), &tensor);
  for (const Write& write : path_.writes) {
    const Tensor& written =
        write.argument < 0 ? write.variable : given_[static_cast<std::size_t>(write.argument)];
    const auto [begin, end] = by_storage.equal_range(written.impl()->storage.get());
    for (auto it = begin; it != end; ++it) {
      const Tensor& other = *it->second;
      const bool itself = write.argument < 0
                              ? other.is_same(written)
                              : &other == &outside[static_cast<std::size_t>(write.argument)];
      if (itself || !share_memory(written, other)) continue;
      refuse("an in-place write to " + type_string(written) + ", which shares memory with " +
                 type_string(other) +
                 ": both come from outside the function; make the view inside it",
             write.value.node->loc());
    }
  }
}

bool Recorder::grad_is_written(const GradNote& note) const {
  for (const GradCapture& known : path_.grad_captures) {
    if (known.is_same(note)) return !(graph_->current(known.placeholder) == known.placeholder);
  }
  return false;
}

ResultView Recorder::result_view(const GraphValue& result, Loc loc) {
  const auto is_outside = [](Value v) {
    return v.node->is("placeholder") || v.node->is("variable");
  };
  if (!is_outside(result.memory)) {
    Value source = result.value;
    while (source.node->op().kind == BodyKind::view) source = source.node->inputs()[0];
    // With other strides the reshape that copied would be a view.
    path_.strides_matter = path_.strides_matter || (is_outside(source) && reshape_copied_);
    return {};
  }
  ResultView made{result.memory, views_between(result.value, result.content), Tensor(),
                  result.memory};
  std::ranges::reverse(made.views);
  for (const Value view : made.views) {
    const Node& node = *view.node;
    path_.strides_matter = path_.strides_matter || node.op().may_copy;
    static_cast<void>(substitute_symbols(node.attrs().info(), node.attrs().data(), [&](Dim symbol) {
      if (is_told_by_data(symbol)) {
        refuse("a view of memory from outside is returned, " + to_string(view.type()) +
                   ", whose place only data tell; return a clone() of it",
               node.loc() ? node.loc() : loc);
      }
      return symbol;
    }));
  }
  return made;
}

Path Recorder::finish(std::span<const Tensor> results, Loc loc) {
  for (const Tensor& result : results) {
    if (!result.defined())
      throw ValueError("a compiled function returned an undefined tensor", loc);
    path_.outputs.push_back(value_of(result, loc));
    const bool is_constant = path_.outputs.back().node->is("constant");
    path_.result_views.push_back(is_constant ? ResultView()
                                             : result_view(*handle_of(result, loc), loc));
    if (!is_ours(result) && !is_literal(result) && result.tracks_grad())
      path_.result_views.back().captured = result;
    path_.result_views.back().lies_in =
        is_constant ? path_.outputs.back() : handle_of(result, loc)->memory;
    path_.tracked.push_back(result.tracks_grad());
  }
  path_.end = static_cast<int>(graph_->nodes().size());
  record_backward(results, loc);
  find_writes();
  path_.strides_matter = path_.strides_matter || (reshape_copied_ && graph_->has_overwrites());
  if (graph_->has_overwrites()) {
    for (const Shape& shape : reshaped_) guard_small_sizes(shape, loc);
  }
  refuse_writes_to_shared_memory();
  for (GradNote& note : path_.grads) {
    const Tensor after = autograd::grad_of(*note.in(arguments_).impl());
    const bool same = after.defined() ? after.is_same(note.before) : !note.before.defined();
    const bool in_place = same && after.defined() && grad_is_written(note);
    if (!same || !note.reads_first || in_place) {
      path_.grad_writes.push_back(
          {note, after.defined() ? value_of(after, loc) : Value(), in_place});
    }
    note.before = Tensor();
    if (note.part != autograd::GradPart::whole) note.in(arguments_).impl()->recorded = nullptr;
    // A gradient that knew its value would own the graph, which owns its leaf.
    if (after.defined()) after.impl()->recorded = nullptr;
  }
  for (const Tensor& result : results) {
    if (!is_ours(result)) continue;
    if (argument_index(result) < 0 && result.tracks_grad() && result.is_leaf()) {
      const bool has_grad = autograd::grad_of(*result.impl()).defined();
      refuse("a result, " + type_string(result) + ", is a leaf that the function made" +
                 (has_grad ? " and gave a gradient; return the gradient"
                           : "; call requires_grad() on what the function returns"),
             loc);
    }
    result.impl()->recorded = nullptr;
  }
  if (!path_.hints.entries().empty()) autograd::settle_sizes(results, &kArgumentOp, path_.hints);
  return std::move(path_);
}

}  // namespace dyad::exec
