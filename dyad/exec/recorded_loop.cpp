#include "dyad/exec/recorded_loop.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "dyad/core/tensor_impl.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/recorded.h"

namespace dyad::exec {

RecordedLoop::RecordedLoop(const OpInfo& op, std::span<const Tensor> xs, Dim length, Loc loc)
    : recorder_(dynamic_cast<Recorder*>(&Evaluator::current())), length_(length) {
  trace_.loc = loc;
  if (!recorder_) return;
  register_control_ops();
  trace_.op = &op;
  trace_.xs = values_of(xs);
  begin_ = marks();
  first_handle_ = recorder_->loop_handles_.size();
  ++recorder_->open_loops_;
}

RecordedLoop::~RecordedLoop() {
  if (!recorder_ || --recorder_->open_loops_ > 0) return;
  recorder_->loop_handles_.clear();
}

std::int64_t RecordedLoop::steps() const {
  return recorder_ ? evaluate(length_, recorder_->path_.hints) : length_.value(trace_.loc);
}

RecordedLoop::Marks RecordedLoop::marks() const {
  const Recorder& r = *recorder_;
  return {.decisions = r.path_.decisions.size(),
          .grads = r.path_.grads.size(),
          .grad_captures = r.path_.grad_captures.size(),
          .literals = r.literals_.size(),
          .detached = r.detached_.size(),
          .open_sizes = r.open_sizes_.size(),
          .taped = r.taped_,
          .writes = r.writes_};
}

std::vector<Value> RecordedLoop::values_of(std::span<const Tensor> tensors) {
  std::vector<Value> values;
  for (const Tensor& tensor : tensors) {
    is_plain_ = is_plain_ && tensor.defined() && tensor.is_concrete() && !tensor.impl()->is_number;
    values.push_back(is_plain_ ? recorder_->value_of(tensor, trace_.loc) : Value());
  }
  return values;
}

void RecordedLoop::begin_step(std::span<const Tensor> states) {
  if (!recorder_) return;
  LoopTrace::Step step;
  step.states = values_of(states);
  for (const Tensor& state : states) is_plain_ = is_plain_ && state.impl()->contiguous;
  const auto at = static_cast<int>(recorder_->graph_->nodes().size());
  const std::size_t asked = recorder_->path_.guards.size();
  if (trace_.steps.empty()) trace_.begin = at;
  step.condition = step.body = step.end = at;
  trace_.steps.push_back(std::move(step));
  slicing_.emplace_back(asked, asked);
}

void RecordedLoop::end_condition(const Tensor& go_on) {
  if (!recorder_) return;
  const std::vector<Value> value = values_of({&go_on, 1});
  trace_.conditions.push_back(value[0]);
  LoopTrace::Step& step = trace_.steps.back();
  step.body = step.end = static_cast<int>(recorder_->graph_->nodes().size());
}

void RecordedLoop::end_slicing(std::span<const Tensor> slices) {
  if (!recorder_) return;
  LoopTrace::Step& step = trace_.steps.back();
  step.slices = values_of(slices);
  step.body = step.end = static_cast<int>(recorder_->graph_->nodes().size());
  slicing_.back().second = recorder_->path_.guards.size();
}

void RecordedLoop::end_body(std::span<const Tensor> made) {
  if (!recorder_) return;
  trace_.slices_made.push_back(values_of(made));
  trace_.steps.back().end = static_cast<int>(recorder_->graph_->nodes().size());
  bodies_asked_ = recorder_->path_.guards.size();
}

void RecordedLoop::end(std::span<const Tensor> results, std::span<const Tensor> last) {
  if (!recorder_ || roll(results, last)) return;
  if (trace_.op == &kScanOp && length_.is_symbolic())
    static_cast<void>(recorder_->dim_value(length_, trace_.loc));
  recorder_->path_.unrolled.emplace_back(trace_.begin,
                                         static_cast<int>(recorder_->graph_->nodes().size()));
}

bool RecordedLoop::is_of_steps(Value value) const {
  return value && value.node->id() >= trace_.begin && !trace_.kept.contains(value.node);
}

void RecordedLoop::keep_outside() {
  const auto& nodes = recorder_->graph_->nodes();
  for (auto at = static_cast<std::size_t>(trace_.begin); at < nodes.size(); ++at) {
    if (nodes[at]->is("variable")) trace_.kept.insert(nodes[at].get());
  }
  const auto& handles = recorder_->loop_handles_;
  for (std::size_t i = first_handle_; i < handles.size(); ++i) {
    const GraphValue& handle = *handles[i];
    if (handle.use_count() > 1 && is_of_steps(handle.value) && handle.value.node->is("constant"))
      trace_.kept.insert(handle.value.node);
  }
}

bool RecordedLoop::only_computes() const {
  Marks expected = begin_;
  expected.decisions += trace_.conditions.size();
  if (marks() != expected || !recorder_->path_.refusal.empty()) return false;
  const auto& nodes = recorder_->graph_->nodes();
  return std::all_of(nodes.begin() + trace_.begin, nodes.end(), [&](const auto& node) {
    if (trace_.kept.contains(node.get()) || node->is("constant")) return true;
    return node->op().effect == Effect::pure && node->op().kind != BodyKind::structural;
  });
}

bool RecordedLoop::asks_as_first() const {
  const std::vector<DimGuard>& guards = recorder_->path_.guards;
  const auto end = trace_.op == &kScanOp ? bodies_asked_ : guards.size();
  const std::size_t first_end = slicing_[1].first;
  const auto asked_by_first = [&](const DimGuard& guard) {
    for (std::size_t i = 0; i < first_end; ++i) {
      const bool of_slices = i >= slicing_[0].first && i < slicing_[0].second;
      if (!of_slices && guards[i].asks_same(guard) && guards[i].answer == guard.answer) return true;
    }
    return false;
  };
  std::size_t at = first_end;
  for (std::size_t t = 1; t <= slicing_.size(); ++t) {
    const std::size_t stop = t < slicing_.size() ? slicing_[t].first : end;
    for (; at < stop; ++at) {
      if (!asked_by_first(guards[at])) return false;
    }
    if (t < slicing_.size()) at = slicing_[t].second;
  }
  return true;
}

bool RecordedLoop::is_closed(std::span<const Tensor> results, std::span<const Tensor> last) const {
  std::unordered_set<const Recorded*> known;
  for (const Tensor& result : results) {
    if (const auto& handle = result.impl()->recorded) known.insert(handle.get());
  }
  for (const Tensor& slice : last) {
    // One is held here, one by who called the body.
    if (slice.impl()->use_count() <= 2) known.insert(slice.impl()->recorded.get());
  }
  const auto& handles = recorder_->loop_handles_;
  return std::all_of(handles.begin() + static_cast<std::ptrdiff_t>(first_handle_), handles.end(),
                     [&](const Ref<GraphValue>& handle) {
                       const bool is_inside = is_of_steps(handle->value) ||
                                              is_of_steps(handle->memory) ||
                                              is_of_steps(handle->content);
                       return !is_inside || handle->use_count() == 1 ||
                              (handle->use_count() == 2 && known.contains(handle.get()));
                     });
}

bool RecordedLoop::roll(std::span<const Tensor> results, std::span<const Tensor> last) {
  const std::size_t states = trace_.steps.empty() ? 0 : trace_.steps[0].states.size();
  trace_.last_states = values_of(results.first(std::min(states, results.size())));
  if (!is_plain_ || trace_.slices_made.size() < 2) return false;
  recorder_->forget_lone_pairs();
  keep_outside();
  if (!only_computes() || !asks_as_first() || !is_closed(results, last)) return false;
  const std::optional<RolledLoop> rolled = roll_loop(*recorder_->graph_, trace_);
  if (!rolled) return false;
  std::unordered_set<const TensorImpl*> distinct;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i < states && rolled->constant[i]) continue;
    const Ref<GraphValue> handle = recorder_->handle_of(results[i], trace_.loc);
    // Another tensor's memory would have to be the loop's result.
    if (!is_of_steps(handle->memory) || !results[i].impl()->contiguous ||
        !distinct.insert(results[i].impl()).second)
      return false;
    if (i < states && !trace_.steps[0].states[i].type().same_as(handle->value.type())) return false;
  }
  replace(*rolled, results, last);
  return true;
}

void RecordedLoop::replace(const RolledLoop& rolled, std::span<const Tensor> results,
                           std::span<const Tensor> last) {
  const LoopTrace::Step& first = trace_.steps[0];
  Types types;
  for (const Value state : first.states) types.push_back(state.type());
  for (const Value made : trace_.slices_made[0]) {
    Shape shape{length_};
    for (const Dim size : made.type().shape()) shape.push_back(size);
    types.emplace_back(made.type().dtype(), std::move(shape));
  }
  std::vector<Value> inputs = first.states;
  inputs.insert(inputs.end(), trace_.xs.begin(), trace_.xs.end());
  inputs.insert(inputs.end(), rolled.captures.begin(), rolled.captures.end());

  std::vector<DimGuard>& guards = recorder_->path_.guards;
  guards.erase(guards.begin() + static_cast<std::ptrdiff_t>(slicing_[1].first), guards.end());
  guards.erase(guards.begin() + static_cast<std::ptrdiff_t>(slicing_[0].first),
               guards.begin() + static_cast<std::ptrdiff_t>(slicing_[0].second));
  // The host goes on reading whether there is a first step: without one the results are the very
  // tensors that went in.
  const bool is_while = trace_.op == &kWhileOp;
  recorder_->path_.decisions.resize(begin_.decisions + (is_while ? 1 : 0));
  recorder_->graph_->erase_from(is_while ? first.body : trace_.begin,
                                [&](const Node& node) { return !trace_.kept.contains(&node); });

  const LoopAttrs attrs{static_cast<std::int64_t>(first.states.size()),
                        static_cast<std::int64_t>(trace_.xs.size()), false};
  Node* const node =
      recorder_->graph_->append(*trace_.op, Attrs::copy_of(attrs_info<LoopAttrs>, &attrs),
                                std::move(inputs), std::move(types), trace_.loc);
  for (const Ref<GraphImpl>& region : rolled.regions) node->add_region(region);
  for (const Tensor& slice : last) slice.impl()->recorded = nullptr;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i < rolled.constant.size() && rolled.constant[i]) continue;
    recorder_->set_value(results[i], node->output(static_cast<int>(i)));
  }
  std::erase_if(recorder_->loop_handles_,
                [](const Ref<GraphValue>& handle) { return handle->use_count() == 1; });
  if (length_.is_symbolic()) static_cast<void>(recorder_->dim_less(1, length_, trace_.loc));
}

}  // namespace dyad::exec
