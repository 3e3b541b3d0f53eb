#include "dyad/exec/recorder.h"

#include <algorithm>
#include <bit>
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
#include "dyad/ir/attrs.h"
#include "dyad/ir/gradient.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/recorded.h"
#include "dyad/ir/substitute.h"
#include "dyad/ir/view_memory.h"
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

void Recorder::note_detached(const Tensor& made) {
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
    if (op.may_copy) {
      const auto memory_of = [&](const Tensor& tensor) { return handle_of(tensor, loc)->memory; };
      reshaped_.push_back({shape_of(*inputs[0]), memory_of(*inputs[0]), memory_of(outputs[0])});
    }
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

std::optional<bool> Recorder::is_one(Dim size, Loc loc) {
  if (is_told_by_data(size)) return std::nullopt;
  return dim_equal(size, 1, loc);
}

Tensor Recorder::with_length(const Tensor& x, Dim first, const LengthAttrs& attrs, Loc loc) {
  Shape shape = shape_of(x);
  shape[0] = first;
  const Tensor made = alias_of(x);
  made.impl()->grad_meta = nullptr;
  made.impl()->requires_grad = false;
  set_value(made, graph_
                      ->append(kWithLengthOp, Attrs::copy_of(attrs_info<LengthAttrs>, &attrs),
                               {value_of(x, loc)}, {Type(x.dtype(), std::move(shape))}, loc)
                      ->output());
  const Tensor* const inputs[] = {&x};
  if (autograd::should_record(kWithLengthOp, inputs)) {
    Tensor outputs[] = {made};
    autograd::record(kWithLengthOp, inputs, &attrs, outputs, loc);
  }
  return made;
}

void Recorder::begin_pass() {
  if (slicing_loop_ != nullptr) slicing_loop_->begin_pass();
  if (open_passes_++ == 0) ++passes_;
}

void Recorder::visit(std::uint64_t sequence) {
  if (taped_loops_.empty() || open_passes_ > 1) return;
  visits_.push_back({passes_, sequence, static_cast<int>(graph_->nodes().size())});
}

void Recorder::end_pass() {
  if (open_passes_ == 1) visit(0);
  --open_passes_;
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

void Recorder::forget_lone_pairs() {
  const auto is_ours_alone = [](const Tensor& t) { return t.impl()->use_count() == 1; };
  std::erase_if(same_, [&](const auto& pair) {
    return is_ours_alone(pair.first) || is_ours_alone(pair.second);
  });
}

void Recorder::note_same(const Tensor& made, const Tensor& given) {
  forget_lone_pairs();
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

void Recorder::guard_small_sizes(const Shape& shape, Loc loc) {
  for (const Dim size : shape) {
    std::vector<Dim> symbols;
    collect_symbols(size, symbols);
    if (symbols.empty() || is_told_by_data(size)) continue;
    if (!symbols[0].same_as(size)) {
      static_cast<void>(dim_less(size, 2, loc));
    } else if (std::ranges::none_of(path_.layout_sizes, [&](Dim s) { return s.same_as(size); })) {
      path_.layout_sizes.push_back(size);
    }
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

bool Recorder::is_overwritten(Value memory) const { return !(graph_->current(memory) == memory); }

Tensor Recorder::variable_of(Value memory) const {
  if (memory.node->is("variable")) return memory.node->attrs_as<VariableAttrs>().tensor;
  for (std::size_t i = 0; i < given_.size(); ++i) {
    if (graph_->placeholders()[i] == memory) return given_[i];
  }
  return {};
}

int Recorder::handles_of(const Storage* storage) const {
  int count = 0;
  const auto [begin, end] = captures_by_storage_.equal_range(storage);
  for (auto it = begin; it != end; ++it) {
    const Capture& known = captures_.at(it->second);
    const bool is_variable = variable_of(known.handle->memory).is_same(known.tensor);
    const auto is_it = [&](const Tensor& one) { return one.is_same(known.tensor); };
    const auto held = 1 + (is_variable ? 1 : 0) + std::ranges::count_if(detached_, is_it);
    if (known.tensor.impl()->use_count() <= held) ++count;
  }
  return count + static_cast<int>(std::ranges::count_if(detached_, [&](const Tensor& one) {
           return one.impl()->storage.get() == storage && one.impl()->use_count() == 1;
         }));
}

void Recorder::write(const Tensor& target, const Tensor& value, Loc loc) {
  loc = loc.user();
  ++writes_;
  const Value written = value_of(value, loc);
  const Ref<GraphValue> to = handle_of(target, loc);
  refuse_sliced(*to, loc);
  const bool like_target =
      to->value == to->content && keeps_layout(target, written, *value.impl(), loc);
  {
    const Evaluator::Scope eager(EagerEvaluator::instance());
    // The recording's own handles of arguments are nobody's views of them.
    const auto aliases = std::ranges::count_if(
        given_, [&](const Tensor& argument) { return share_storage(argument, target); });
    const std::vector<Tensor> same = same_as(target);
    const bool counts = grad_enabled() && value.tracks_grad();
    const int held = counts ? handles_of(target.impl()->storage.get()) : 0;
    EagerEvaluator::write_data(
        target, value, 1 + static_cast<int>(aliases) + static_cast<int>(same.size()) + held, loc);
    // What is written decides which place on the tape the one tensor has.
    for (const Tensor& other : same) share_place_on_tape(*target.impl(), *other.impl());
  }
  if (variable_of(to->memory).defined()) written_.push_back(to->memory);
  try {
    tracer_->overwrite(*to, written, like_target, loc);
  } catch (const GraphError& error) {
    refuse(error.message(), loc);  // eagerly it is done, all the same
  } catch (const ValueError& error) {
    refuse(error.message(), loc);  // one of several elements that are one in memory is
  }
}

void Recorder::refuse_sliced(const GraphValue& target, Loc loc) {
  const auto holds_slice = [&](const SlicedMemory& one) {
    const auto is_slice = [&](const Ref<GraphValue>& handle) {
      return handle->memory == one.slices && handle->use_count() > 1;
    };
    return (target.memory == one.of || target.memory == one.slices) &&
           (open_loops_ > 0 || std::ranges::any_of(taped_handles_, is_slice));
  };
  if (std::ranges::none_of(sliced_, holds_slice)) return;
  refuse(
      "an in-place write to a tensor whose slices a scan on the tape has given; write to a "
      "clone() of it",
      loc);
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
