#include "dyad/exec/recorded_loop.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <unordered_set>
#include <utility>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/drawn_keys.h"
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
  trace_.entered = static_cast<int>(recorder_->graph_->nodes().size());
  begin_ = marks();
  first_handle_ = recorder_->loop_handles_.size();
  first_part_ = recorder_->loop_parts_.size();
  first_taped_ = recorder_->taped_loops_.size();
  // How many steps a while_loop does inside of another one's is not the same in all of these.
  may_be_taped_ = grad_enabled() && (recorder_->open_loops_ == 0 || &op == &kScanOp);
  around_ = recorder_->slicing_loop_;
  number_ = recorder_->loops_++;
  ++recorder_->open_loops_;
}

RecordedLoop::~RecordedLoop() {
  if (!recorder_) return;
  // An exception left it, which the program may catch: there are as many steps at least.
  const auto begun = static_cast<std::int64_t>(trace_.steps.size());
  if (!is_over_ && begun > 0 && length_.is_symbolic())
    recorder_->path_.guards.push_back({DimGuard::Kind::less, begun - 1, length_, 1, trace_.loc});
  for (auto& sliced : recorder_->sliced_) sliced.is_open = sliced.is_open && sliced.loop != number_;
  recorder_->slicing_loop_ = around_;
  if (--recorder_->open_loops_ > 0) return;
  recorder_->loop_handles_.clear();
  recorder_->loop_parts_.clear();
}

void RecordedLoop::begin_pass() {
  may_be_taped_ = false;
  if (around_ != nullptr) around_->begin_pass();
}

std::int64_t RecordedLoop::steps() const {
  return recorder_ ? evaluate(length_, recorder_->path_.hints) : length_.value(trace_.loc);
}

std::vector<Tensor> RecordedLoop::to_slice(std::span<const Tensor> xs) {
  std::vector<Tensor> rows(xs.begin(), xs.end());
  // Backwards the last one comes first, but a graph gives their gradients in this order.
  for (std::size_t i = rows.size(); i-- > 0;) {
    if (!xs[i].tracks_grad()) continue;
    if (!may_be_taped_) {
      rows[i] = apart_on_tape(xs[i], {}, trace_.loc);
      continue;
    }
    const LengthAttrs attrs{.loop = number_, .number = static_cast<std::int64_t>(i)};
    rows[i] = recorder_->with_length(xs[i], steps(), attrs, trace_.loc);
    const Ref<GraphValue> of = recorder_->handle_of(xs[i], trace_.loc);
    recorder_->sliced_.push_back(
        {of->memory, of->content, recorder_->handle_of(rows[i], trace_.loc)->memory, number_});
    recorder_->slicing_loop_ = this;
  }
  return rows;
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
  note_tracked(states);
  const auto at = static_cast<int>(recorder_->graph_->nodes().size());
  const std::size_t asked = recorder_->path_.guards.size();
  if (trace_.steps.empty()) trace_.begin = at;
  step.condition = step.body = step.end = at;
  trace_.steps.push_back(std::move(step));
  slicing_.emplace_back(asked, asked);
  tape_.push_back(autograd::latest_sequence());
}

void RecordedLoop::begin_body(LoopTrace::Step& step) const {
  step.body = step.end = static_cast<int>(recorder_->graph_->nodes().size());
  step.first_part = step.last_part = recorder_->loop_parts_.size();
}

void RecordedLoop::end_condition(const Tensor& go_on) {
  if (!recorder_) return;
  const std::vector<Value> value = values_of({&go_on, 1});
  trace_.conditions.push_back(value[0]);
  LoopTrace::Step& step = trace_.steps.back();
  begin_body(step);
}

void RecordedLoop::end_slicing(std::span<const Tensor> slices) {
  if (!recorder_) return;
  LoopTrace::Step& step = trace_.steps.back();
  step.slices = values_of(slices);
  begin_body(step);
  slicing_.back().second = recorder_->path_.guards.size();
}

void RecordedLoop::end_body(std::span<const Tensor> made) {
  if (!recorder_) return;
  trace_.slices_made.push_back(values_of(made));
  std::vector<bool>& tracked = made_tracked_.emplace_back();
  for (const Tensor& one : made) tracked.push_back(one.defined() && one.tracks_grad());
  tape_end_ = autograd::latest_sequence();
  trace_.steps.back().end = static_cast<int>(recorder_->graph_->nodes().size());
  trace_.steps.back().last_part = recorder_->loop_parts_.size();
  bodies_asked_ = recorder_->path_.guards.size();
}

void RecordedLoop::end(std::span<Tensor> results, std::span<const Tensor> last) {
  if (!recorder_) return;
  is_over_ = true;
  const bool rolled = roll(results, last);
  if (trace_.op == &kWhileOp && recorder_->open_loops_ > 1) note_part(rolled, results);
  if (rolled || postpone(results)) return;
  if (recorder_->slicing_loop_ == this) keep_handles();
  if (trace_.op == &kScanOp && length_.is_symbolic()) {
    // The steps of a loop around it compute, and nothing else.
    if (trace_.slices_made.size() == 1 && recorder_->open_loops_ == 1)
      open_length(results.subspan(trace_.last_states.size()));
    static_cast<void>(recorder_->dim_value(length_, trace_.loc));
  }
  recorder_->path_.unrolled.emplace_back(trace_.begin,
                                         static_cast<int>(recorder_->graph_->nodes().size()));
}

void RecordedLoop::open_length(std::span<Tensor> stacks) const {
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    stacks[i] = recorder_->with_length(
        stacks[i], length_,
        {.loop = number_, .of_result = true, .number = static_cast<std::int64_t>(i)}, trace_.loc);
  }
}

void RecordedLoop::note_part(bool rolled, std::span<const Tensor> results) {
  const bool has_parts = recorder_->loop_parts_.size() > first_part_;
  if (!is_plain_ || has_parts || (!rolled && trace_.slices_made.size() > 1)) return;
  TracedPart part;
  part.begin = trace_.begin;
  part.end = static_cast<int>(recorder_->graph_->nodes().size());
  part.results = values_of(results);
  part.last = first_part_ + 1;
  part.decisions = recorder_->path_.decisions.size() - begin_.decisions;
  if (rolled) part.node = recorder_->graph_->nodes().back().get();
  part.steps = rolled ? std::vector{trace_.steps[0]} : trace_.steps;
  part.conditions = trace_.conditions;
  recorder_->loop_parts_.push_back(std::move(part));
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
  keep_invariant();
}

void RecordedLoop::keep_invariant() {
  // What is kept for later steps these have no nodes for.
  if (trace_.steps.size() < 3) return;
  const LoopTrace::Step &first = trace_.steps[0], &second = trace_.steps[1];
  if (first.end - first.condition <= second.end - second.condition) return;
  const auto& nodes = recorder_->graph_->nodes();
  std::unordered_set<const Node*> invariant;
  const int body = trace_.op == &kScanOp ? first.body : first.condition;
  for (int at = body; at < first.end; ++at) {
    const Node& node = *nodes[static_cast<std::size_t>(at)];
    const auto is_outside = [&](Value input) {
      return (!is_of_steps(input) || invariant.contains(input.node)) &&
             std::ranges::find(first.states, input) == first.states.end();
    };
    if (node.op().effect == Effect::pure && !node.inputs().empty() &&
        std::ranges::all_of(node.inputs(), is_outside))
      invariant.insert(&node);
  }
  const std::function<void(const Node*)> keep = [&](const Node* node) {
    if (!invariant.contains(node) || !trace_.kept.insert(node).second) return;
    for (const Value input : node->inputs()) keep(input.node);
  };
  // What the second step alone uses may be a state.
  for (int at = trace_.steps[2].condition; at < trace_.steps[2].end; ++at) {
    for (const Value input : nodes[static_cast<std::size_t>(at)]->inputs()) keep(input.node);
  }
}

bool RecordedLoop::only_computes(bool on_tape) const {
  Marks expected = begin_;
  expected.decisions += trace_.conditions.size();
  if (on_tape) expected.taped = marks().taped;
  for (const TracedPart& part : std::span(recorder_->loop_parts_).subspan(first_part_))
    expected.decisions += part.decisions;
  if (marks() != expected || !recorder_->path_.refusal.empty()) return false;
  const auto& nodes = recorder_->graph_->nodes();
  return std::all_of(nodes.begin() + trace_.begin, nodes.end(),
                     [&](const auto& node) {
                       if (trace_.kept.contains(node.get()) || node->is("constant")) return true;
                       if (find_drawing(*node))
                         return node->op().effect != Effect::random || node->is("random_key");
                       return node->op().effect == Effect::pure &&
                              (node->op().kind != BodyKind::structural ||
                               (on_tape && &node->op() == &kWithLengthOp));
                     }) &&
         !conditions_draw() && !conditions_have_parts();
}

bool RecordedLoop::conditions_draw() const {
  if (trace_.op != &kWhileOp) return false;
  const auto& nodes = recorder_->graph_->nodes();
  return std::ranges::any_of(trace_.steps, [&](const LoopTrace::Step& step) {
    return std::any_of(nodes.begin() + step.condition, nodes.begin() + step.body,
                       [](const auto& node) { return find_drawing(*node) != nullptr; });
  });
}

bool RecordedLoop::conditions_have_parts() const {
  std::size_t in_bodies = 0;
  for (const LoopTrace::Step& step : trace_.steps) in_bodies += step.last_part - step.first_part;
  return in_bodies != recorder_->loop_parts_.size() - first_part_;
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
      if (!is_of_branch(at) && !asked_by_first(guards[at])) return false;
    }
    if (t < slicing_.size()) at = slicing_[t].second;
  }
  return true;
}

bool RecordedLoop::is_of_branch(std::size_t guard) const {
  return std::ranges::any_of(std::span(recorder_->loop_parts_).subspan(first_part_),
                             [&](const TracedPart& part) {
                               return guard >= part.guards_begin && guard < part.guards_end;
                             });
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
  return are_ours(
      [&](const GraphValue& handle) {
        return is_of_steps(handle.value) || is_of_steps(handle.memory) ||
               is_of_steps(handle.content);
      },
      known);
}

template <class F>
bool RecordedLoop::are_ours(const F& is_one,
                            const std::unordered_set<const Recorded*>& known) const {
  const auto& handles = recorder_->loop_handles_;
  // Where there are loops on the tape, these hold each once more.
  std::unordered_set<const GraphValue*> held;
  for (const Ref<GraphValue>& handle : recorder_->taped_handles_) held.insert(handle.get());
  return std::all_of(handles.begin() + static_cast<std::ptrdiff_t>(first_handle_), handles.end(),
                     [&](const Ref<GraphValue>& handle) {
                       if (!is_one(*handle)) return true;
                       const std::int64_t users =
                           handle->use_count() - (held.contains(handle.get()) ? 1 : 0);
                       return users == 1 || (users == 2 && known.contains(handle.get()));
                     });
}

bool RecordedLoop::knows_first_states() const {
  return are_ours(
      [&](const GraphValue& handle) {
        const int at = handle.value.node->id();
        return at >= trace_.entered && at < trace_.begin && handle.value.node->is("clone");
      },
      {});
}

bool RecordedLoop::may_be_results(std::span<const Tensor> results,
                                  const std::vector<bool>& constant) {
  const std::size_t states = trace_.steps[0].states.size();
  std::unordered_set<const TensorImpl*> distinct;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i < states && constant[i]) continue;
    const Ref<GraphValue> handle = recorder_->handle_of(results[i], trace_.loc);
    // Another tensor's memory would have to be the loop's result.
    if (!is_of_steps(handle->memory) || !results[i].impl()->contiguous ||
        !distinct.insert(results[i].impl()).second)
      return false;
    if (i < states && !trace_.steps[0].states[i].type().same_as(handle->value.type())) return false;
  }
  return true;
}

std::optional<RolledLoop> RecordedLoop::rolled(std::span<const Tensor> results) {
  std::optional<RolledLoop> rolled = roll_loop(*recorder_->graph_, trace_);
  if (!rolled || !may_be_results(results, rolled->constant)) return std::nullopt;
  return rolled;
}

bool RecordedLoop::roll(std::span<const Tensor> results, std::span<const Tensor> last) {
  const std::size_t states = trace_.steps.empty() ? 0 : trace_.steps[0].states.size();
  trace_.last_states = values_of(results.first(std::min(states, results.size())));
  const bool may_be_taped_elsewhere = may_be_taped_ && !length_.is_symbolic();
  if (!is_plain_ || trace_.slices_made.size() < 2 || (may_be_taped_elsewhere && is_too_short()))
    return false;
  recorder_->forget_lone_pairs();
  keep_outside();
  trace_.parts = recorder_->loop_parts_;
  if (!knows_first_states()) trace_.entered = trace_.begin;
  if (!only_computes(false) || !asks_as_first() || !is_closed(results, last)) return false;
  const std::optional<RolledLoop> rolled = this->rolled(results);
  if (!rolled) return false;
  replace(*rolled, results, last);
  return true;
}

bool RecordedLoop::is_too_short() const {
  // Inside of another one it may be on the tape in some steps alone, and a pass that comes back may
  // leave out another one at either end in each.
  const std::size_t fewest = recorder_->open_loops_ > 1 ? 4 : 2;
  return trace_.slices_made.size() < fewest;
}

void RecordedLoop::note_tracked(std::span<const Tensor> states) {
  std::vector<bool>& now = tracked_.emplace_back();
  std::vector<TapePlace>& places = places_.emplace_back();
  for (const Tensor& state : states) {
    places.push_back(place_of(state));
    now.push_back(places.back() != TapePlace());
  }
}

bool RecordedLoop::stays_tracked() const {
  for (std::size_t t = 1; t < tracked_.size(); ++t) {
    for (std::size_t i = 0; i < tracked_[t].size(); ++i) {
      if (tracked_[t - 1][i] && !tracked_[t][i]) return false;
    }
  }
  return true;
}

std::optional<int> RecordedLoop::fewest_tracked() const {
  // Steps that go ways of their own are told by the data.
  if (!trace_.parts.empty()) return 0;
  const std::size_t last = trace_.slices_made.size();
  if (tracked_[last - 1] != tracked_[last]) return std::nullopt;
  std::size_t fewest = last;
  while (fewest > 0 && tracked_[fewest - 1] == tracked_[last]) --fewest;
  for (std::size_t i = 0; i < made_tracked_[0].size(); ++i) {
    const auto has_one = [&](const std::vector<bool>& made) { return made[i]; };
    const auto first = std::ranges::find_if(made_tracked_, has_one);
    if (first == made_tracked_.end()) continue;
    fewest = std::max(fewest, static_cast<std::size_t>(first - made_tracked_.begin()) + 1);
  }
  return static_cast<int>(fewest);
}

std::optional<int> RecordedLoop::settled_steps(std::span<const Tensor> results) const {
  if (!trace_.parts.empty()) return 0;
  const std::size_t last = trace_.slices_made.size() - 1, count = places_[last].size();
  const auto states = results.first(count), stacked = results.subspan(count);
  return settled_reach({.begin = tape_[last],
                        .before = places_[last],
                        .after = {states.begin(), states.end()},
                        .stacked = {stacked.begin(), stacked.end()},
                        .wanted = tracked_[0]});
}

bool RecordedLoop::has_taped_loops() const {
  const auto& nodes = recorder_->graph_->nodes();
  return recorder_->taped_loops_.size() > first_taped_ ||
         std::any_of(nodes.begin() + trace_.begin, nodes.end(),
                     [](const auto& node) { return &node->op() == &kWithLengthOp; });
}

void RecordedLoop::note_stacking(const Tensor& result, TapedLoop& loop) const {
  autograd::TapeNode* const node = autograd::node_of(*result.impl());
  if (!node || node->inputs().size() != trace_.slices_made.size()) return;
  for (std::size_t t = 0; t < node->inputs().size(); ++t) {
    if (const auto& row = node->inputs()[t].node)
      loop.stacking.emplace_back(row->sequence(), static_cast<int>(t));
  }
}

bool RecordedLoop::postpone(std::span<Tensor> results) {
  const bool is_taped = may_be_taped_ && marks().taped != begin_.taped;
  if (!is_taped || !is_plain_ || is_too_short() || recorder_->is_told_by_data(length_) ||
      !only_computes(true) || !asks_as_first())
    return false;
  const std::size_t states = trace_.last_states.size();
  trace_.entered = trace_.begin;  // the tape may hold what states begin with, and so may others
  note_tracked(results.first(states));
  const bool is_tracked = stays_tracked();
  if (!trace_.parts.empty() && !is_tracked) return false;
  const std::optional<int> fewest = fewest_tracked(), settled = settled_steps(results);
  if (!fewest || !settled) return false;
  std::optional<RolledLoop> rolled;
  if (!has_taped_loops()) {
    rolled = this->rolled(results);
    if (!rolled) return false;
  } else if (!trace_.parts.empty() || !may_be_results(results, trace_.constant_states())) {
    return false;
  }
  forget_guards();
  TapedLoop loop;
  for (const Tensor& stack : results.subspan(states)) note_stacking(stack, loop);
  open_length(results.subspan(states));
  trace_.end = static_cast<int>(recorder_->graph_->nodes().size());
  loop.number = number_;
  loop.length = length_;
  loop.loc = trace_.loc;
  loop.stays_tracked = is_tracked;
  loop.fewest = std::max(*fewest, *settled);
  loop.tape = tape_;
  if (loop.tape.size() == trace_.slices_made.size()) loop.tape.push_back(tape_end_);
  if (rolled)
    set_steps(loop, *recorder_->graph_, trace_, *std::move(rolled));
  else
    loop.open = trace_;
  recorder_->taped_loops_.push_back(std::move(loop));
  keep_handles();
  return true;
}

void RecordedLoop::keep_handles() {
  const auto& handles = recorder_->loop_handles_;
  std::unordered_set<const GraphValue*> kept;
  for (const Ref<GraphValue>& handle : recorder_->taped_handles_) kept.insert(handle.get());
  std::copy_if(handles.begin() + static_cast<std::ptrdiff_t>(first_handle_), handles.end(),
               std::back_inserter(recorder_->taped_handles_), [&](const Ref<GraphValue>& handle) {
                 return handle->use_count() > 1 && !kept.contains(handle.get());
               });
}

void RecordedLoop::forget_guards() {
  std::vector<DimGuard>& guards = recorder_->path_.guards;
  std::size_t left = slicing_[0].first;
  for (std::size_t i = slicing_[0].second; i < guards.size(); ++i) {
    if (i < slicing_[1].first || is_of_branch(i)) guards[left++] = guards[i];
  }
  guards.resize(left);
}

void RecordedLoop::replace(const RolledLoop& rolled, std::span<const Tensor> results,
                           std::span<const Tensor> last) {
  const LoopTrace::Step& first = trace_.steps[0];
  Types types;
  for (const Value state : first.states) types.push_back(state.type());
  for (const Value made : trace_.slices_made[0]) types.push_back(stacked(made.type(), length_));
  std::vector<Value> inputs = first.states;
  inputs.insert(inputs.end(), trace_.xs.begin(), trace_.xs.end());
  inputs.insert(inputs.end(), rolled.captures.begin(), rolled.captures.end());

  // Nobody sees what the steps made, so nobody needs to be told that it is gone.
  std::erase_if(recorder_->taped_handles_,
                [&](const Ref<GraphValue>& handle) { return is_of_steps(handle->value); });
  // What a step gave may be there without it: a state that stays, or what is from outside.
  for (const Tensor& slice : last) {
    if (is_of_steps(recorder_->handle_of(slice, trace_.loc)->value))
      slice.impl()->recorded = nullptr;
  }
  forget_guards();
  // The host goes on reading whether there is a first step: without one the results are the very
  // tensors that went in.
  const bool is_while = trace_.op == &kWhileOp;
  recorder_->path_.decisions.resize(begin_.decisions + (is_while ? 1 : 0));
  const int begin = is_while ? first.body : trace_.begin;
  recorder_->graph_->erase_from(begin,
                                [&](const Node& node) { return !trace_.kept.contains(&node); });
  if (!trace_.parts.empty()) put_in_order(begin, rolled.captures);

  Node* const node =
      recorder_->graph_->append(*trace_.op, loop_attrs(first.states.size(), trace_.xs.size()),
                                inputs, std::move(types), trace_.loc);
  for (const Ref<GraphImpl>& region : rolled.regions) node->add_region(region);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i < rolled.constant.size() && rolled.constant[i]) continue;
    recorder_->set_value(results[i], node->output(static_cast<int>(i)));
  }
  recorder_->loop_parts_.resize(first_part_);
  std::erase_if(recorder_->path_.unrolled,
                [&](const auto& range) { return range.first >= trace_.begin; });
  auto& handles = recorder_->loop_handles_;
  const auto own = handles.begin() + static_cast<std::ptrdiff_t>(first_handle_);
  handles.erase(
      std::remove_if(own, handles.end(),
                     [](const Ref<GraphValue>& handle) { return handle->use_count() == 1; }),
      handles.end());
}

void RecordedLoop::put_in_order(int begin, std::span<const Value> captures) const {
  std::vector<Node*> order;
  for (const auto& node : recorder_->graph_->nodes()) order.push_back(node.get());
  const auto kept = std::span(order).subspan(static_cast<std::size_t>(begin));
  std::ranges::copy(in_order_of_use(kept, captures), kept.begin());
  static_cast<void>(recorder_->graph_->rearrange(order));
}

}  // namespace dyad::exec
