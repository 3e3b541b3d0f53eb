/// Writes in place to what a recording knows, and which tensors are one.
#include <algorithm>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/core/autocast_switch.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/recorder_tracer.h"
#include "dyad/exec/update.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/recorded.h"
#include "dyad/ir/substitute.h"

namespace dyad::exec {
namespace {

bool same_strides(const TensorImpl& a, const TensorImpl& b) noexcept {
  return (a.contiguous && b.contiguous) || a.strides == b.strides;
}

/// What copy_() expands to the shape that it has already, if an operator has computed it: a view,
/// or what comes from outside, is not in memory of its own.
Value unexpanded(Value value) {
  if (!value.node->is("expand")) return value;
  const Value inner = value.node->inputs()[0];
  const BodyKind kind = inner.node->op().kind;
  const bool is_own = kind != BodyKind::view && kind != BodyKind::structural;
  return is_own && value.type().same_as(inner.type()) ? inner : value;
}

}  // namespace

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

/// Whether `written`, which is to be all of what the target's memory holds, lies as that does, at
/// every size that the recording serves.
bool Recorder::keeps_layout(const Tensor& target, Value written, const TensorImpl& value, Loc loc) {
  const BodyKind kind = written.node->op().kind;
  if (kind == BodyKind::view || kind == BodyKind::structural) return false;
  const Shape shape = shape_of(target);
  guard_small_sizes(shape, loc);
  if (std::ranges::any_of(shape, [](Dim size) { return size.is_symbolic(); })) {
    guard_sizes_behind(handle_of(target, loc)->value, loc);
    guard_sizes_behind(written, loc);
  }
  return same_strides(*target.impl(), value);
}

void Recorder::guard_sizes_behind(Value value, Loc loc) {
  std::vector<Value> open{value};
  while (!open.empty()) {
    const Node& node = *open.back().node;
    open.pop_back();
    if (!sizes_guarded_.insert(&node).second) continue;
    for (const Value operand : node.inputs()) {
      if (!operand) continue;
      guard_small_sizes(operand.type().shape(), loc);
      open.push_back(operand);
    }
  }
}

bool Recorder::is_overwritten(Value memory) const { return !(graph_->current(memory) == memory); }

Tensor Recorder::variable_of(Value memory) const {
  if (memory.node->is("variable")) return memory.node->attrs_as<VariableAttrs>().tensor;
  for (std::size_t i = 0; i < given_.size(); ++i) {
    if (graph_->placeholders()[i] == memory) return given_[i];
  }
  return {};
}

void Recorder::keep_before(Value memory, const Tensor& target) {
  if (before_ && variable_of(memory).defined()) before_->keep(target);
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
  const Value written = unexpanded(value_of(value, loc));
  const Ref<GraphValue> to = handle_of(target, loc);
  refuse_sliced(*to, loc);
  keep_before(to->memory, target);
  const bool like_target =
      to->value == to->content && keeps_layout(target, written, *value.impl(), loc);
  {
    const Evaluator::Scope eager(EagerEvaluator::instance());
    // The recording's own handles of arguments are nobody's views of them.
    const auto aliases = std::ranges::count_if(given_, [&](const Tensor& given) {
      return given.impl()->storage == target.impl()->storage;
    });
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

bool Recorder::update(const OpInfo& op, TensorRefs inputs, const void* attrs,
                      std::span<const Tensor> targets, Loc loc) {
  loc = loc.user();
  const auto is_number = [](const Tensor* input) {
    return input->impl() && input->impl()->is_number;
  };
  if (grad_enabled() || autocast_dtype() || has_symbols(*op.attrs, attrs) ||
      std::ranges::any_of(inputs, is_number))
    return false;
  {
    const Evaluator::Scope eager(EagerEvaluator::instance());
    if (!can_update_in_place(op, inputs, attrs, targets, loc)) return false;
  }
  std::vector<Value> values;  // before they change
  for (const Tensor* input : inputs) values.push_back(value_of(*input, loc));
  if (!written_.empty()) refuse_written_gaps(op, inputs, loc);
  Node* const node = graph_->append_checked(op, Attrs::copy_of(*op.attrs, attrs), values, loc);
  if (before_) {
    for (const Tensor& target : targets) keep_before(handle_of(target, loc)->memory, target);
  }
  {
    const Evaluator::Scope eager(EagerEvaluator::instance());
    update_in_place(op, inputs, attrs, targets, loc);
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const Tensor made(make_ref<TensorImpl>(*targets[i].impl()));
    share_place_on_tape(TensorImpl(), *made.impl());  // on none
    set_value(made, node->output(static_cast<int>(i)));
    write(targets[i], made, loc);
  }
  return true;
}

bool Recorder::apply_over(const OpInfo& op, TensorRefs inputs, const void* attrs, Loc loc) {
  loc = loc.user();
  const bool is_known = std::ranges::all_of(inputs, [&](const Tensor* input) {
    return input->is_concrete() && !input->impl()->is_number;
  });
  if (!is_known || !is_ours(*inputs[0]) || has_symbols(*op.attrs, attrs)) return false;
  std::vector<Value> values;  // before the first one is another
  for (const Tensor* input : inputs) values.push_back(value_of(*input, loc));
  {
    const Evaluator::Scope eager(EagerEvaluator::instance());
    if (!try_over(op, inputs, attrs, loc)) return false;
  }
  Node* const node = graph_->append_checked(op, Attrs::copy_of(*op.attrs, attrs), values, loc);
  set_value(*inputs[0], node->output());
  return true;
}

void Recorder::refuse_sliced(const GraphValue& target, Loc loc) {
  std::vector<Value> memories{target.memory};  // and its slices, and theirs, which come later
  const auto is_one = [&](Value memory) {
    return std::ranges::find(memories, memory) != memories.end();
  };
  const auto holds_slice = [&](const SlicedMemory& one) {
    if (!is_one(one.of) && !is_one(one.slices)) return false;
    memories.push_back(one.slices);
    const auto is_slice = [&](const Ref<GraphValue>& handle) {
      return handle->memory == one.slices && handle->use_count() > 1;
    };
    return one.is_open || std::ranges::any_of(taped_handles_, is_slice);
  };
  if (std::ranges::none_of(sliced_, holds_slice)) return;
  refuse(
      "an in-place write to a tensor whose slices a scan on the tape has given; write to a "
      "clone() of it",
      loc);
}

}  // namespace dyad::exec
