#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_set>
#include <utility>

#include "dyad/autograd/backward.h"
#include "dyad/autograd/gradients.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/base/finally.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/recorder.h"
#include "dyad/exec/taped_loop.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ir/recorded.h"
#include "dyad/ir/substitute.h"
#include "dyad/ir/view_memory.h"
#include "dyad/ops/creation.h"

// The end of a recording: where results and gradients lie, how results are differentiated from
// outside, what was written.

namespace dyad::exec {
namespace {

/// Forgets the rules of which the graph tells what BackwardPart::rules are for.
void keep_telling_rules(BackwardPart& part, const GraphImpl& graph) {
  if (part.rules.empty()) return;
  std::unordered_set<const Node*> from_seeds;
  const auto is_from_seeds = [&](const Value& v) { return v && from_seeds.contains(v.node); };
  for (const Value& seed : part.seeds) from_seeds.insert(seed.node);
  for (const auto& node : graph.nodes()) {
    if (std::ranges::any_of(node->inputs(), is_from_seeds)) from_seeds.insert(node.get());
  }
  std::erase_if(part.rules, [&](const BackwardPart::Rule& rule) {
    return rule.came.size() + rule.looked_for.size() < 2 &&
           std::ranges::all_of(rule.made, is_from_seeds);
  });
}

}  // namespace

void Recorder::pass_on_hooks() {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    autograd::TapeNode* const here = autograd::node_of(*arguments_[i].impl());
    autograd::TapeNode* const there = autograd::node_of(*given_[i].impl());
    if (!here || !there || &here->op() != &argument_op() || !here->outputs()[0].hooks) continue;
    for (autograd::Hook& hook : *here->outputs()[0].hooks)
      given_[i].register_hook(std::move(hook), Loc());
    here->outputs()[0].hooks = nullptr;
  }
}

void Recorder::record_backward(std::span<const Tensor> results, Loc loc) {
  BackwardPart all;
  all.begin = static_cast<int>(graph_->nodes().size());
  std::vector<Tensor> seeds(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool again = path_.same_as[i] != static_cast<int>(i);
    if (again || !results[i].tracks_grad() || results[i].is_leaf()) continue;
    all.outputs.push_back(static_cast<int>(i));
    all.seeds.push_back(graph_->add_placeholder(
        "seed" + std::to_string(i), Type(results[i].dtype(), shape_of(results[i])), loc));
    const Evaluator::Scope eager(EagerEvaluator::instance());
    seeds[i] = ones(results[i].shape(), results[i].dtype());
    set_value(seeds[i], all.seeds.back());
  }
  if (all.outputs.empty()) return;
  outer_pass_ = all.begin;
  const Finally passed([&] { outer_pass_ = -1; });
  if (record_backward_of(all, results, seeds, loc)) return;
  // A pass inside, or a write, has used up the tape of some of them: each is tried alone.
  BackwardPart alive;
  alive.begin = all.begin;
  std::vector<int> spent;
  for (std::size_t i = 0; i < all.outputs.size(); ++i) {
    BackwardPart one;
    one.begin = all.begin;
    one.outputs = {all.outputs[i]};
    one.seeds = {all.seeds[i]};
    if (all.outputs.size() == 1 || !record_backward_of(one, results, seeds, loc)) {
      spent.push_back(all.outputs[i]);
    } else {
      alive.outputs.push_back(all.outputs[i]);
      alive.seeds.push_back(all.seeds[i]);
    }
  }
  path_.backward.reset();
  if (!alive.outputs.empty()) record_backward_of(std::move(alive), results, seeds, loc);
  note_spent(results, spent);
}

void Recorder::note_spent(std::span<const Tensor> results, const std::vector<int>& outputs) {
  path_.spent.outputs = outputs;
  std::vector<Tensor> of;
  for (const int output : outputs) of.push_back(results[static_cast<std::size_t>(output)]);
  for (const Tensor& leaf : autograd::reachable_leaves(of, &argument_op())) {
    if (const int argument = argument_index(leaf); argument >= 0) {
      path_.spent.arguments.push_back(argument);
    } else if (!is_made_here(leaf)) {
      path_.spent.leaves.push_back(leaf);
    }
  }
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].tracks_grad() && !arguments_[i].is_leaf() && is_first_of_its_kind(i))
      path_.spent.arguments.push_back(static_cast<int>(i));
  }
}

bool Recorder::record_backward_of(BackwardPart part, std::span<const Tensor> results,
                                  std::span<const Tensor> seeds_of_results, Loc loc) {
  std::vector<Tensor> outputs, seeds, wanted;
  for (const int output : part.outputs) {
    outputs.push_back(results[static_cast<std::size_t>(output)]);
    seeds.push_back(seeds_of_results[static_cast<std::size_t>(output)]);
  }
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (!arguments_[i].tracks_grad() || !is_first_of_its_kind(i)) continue;
    part.arguments.push_back(static_cast<int>(i));
    wanted.push_back(arguments_[i]);
  }
  const std::vector<int> arguments = std::move(part.arguments);
  std::vector<Tensor> leaves;
  Tensor inner;  // a leaf that this call made
  for (const Tensor& leaf : autograd::reachable_leaves(outputs, &argument_op())) {
    if (argument_index(leaf) >= 0) continue;
    if (is_made_here(leaf)) {
      inner = leaf;
    } else {
      leaves.push_back(leaf);
    }
  }
  wanted.insert(wanted.end(), leaves.begin(), leaves.end());
  // A pass that nothing is wanted of would give leaves their gradients.
  if (wanted.empty() && inner.defined()) wanted.push_back(inner);
  std::vector<std::vector<autograd::GradientPart>> grads;
  rules_.clear();
  notes_rules_ = part.seeds.size() > 1;
  const Finally noted([&] { notes_rules_ = false; });
  try {
    grads = autograd::run_backward_in_parts(outputs, seeds, wanted, loc);
  } catch (const GradError&) {
    return false;
  }
  // An input once for each part of its gradient, so that the tape adds them up as it would without
  // the recording; once without a gradient when there is none.
  const auto value_if = [&](const Tensor& grad) {
    return grad.defined() ? value_of(grad, loc) : Value();
  };
  for (std::size_t i = 0; i < arguments.size() + leaves.size(); ++i) {
    const bool is_argument = i < arguments.size();
    if (grads[i].empty()) grads[i].emplace_back();
    for (const autograd::GradientPart& grad : grads[i]) {
      (is_argument ? part.argument_grads : part.leaf_grads)
          .push_back({value_if(grad.whole), value_if(grad.rows.index), value_if(grad.rows.rows)});
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
  part.rules = std::exchange(rules_, {});
  keep_telling_rules(part, *graph_);
  path_.backward = std::move(part);
  return true;
}

void Recorder::find_writes() {
  const auto is_on_tape = [](const Tensor& t) { return t.tracks_grad() && !t.is_leaf(); };
  const auto note = [&](const Tensor& tensor, int argument, Value memory) {
    const Value value = graph_->current(memory);
    if (value == memory) return;
    path_.writes.push_back({argument < 0 ? tensor : Tensor(), argument, value});
    bool on_tape = is_on_tape(tensor);
    if (argument >= 0) {
      // The caller's tensor is where the recorded one is on the tape.
      share_place_on_tape(*arguments_[static_cast<std::size_t>(argument)].impl(), *tensor.impl());
      on_tape = on_tape || is_on_tape(tensor);
    } else {
      const auto [begin, end] = captures_by_storage_.equal_range(tensor.impl()->storage.get());
      on_tape = on_tape || std::any_of(begin, end, [&](const auto& entry) {
                  const Capture& other = captures_.at(entry.second);
                  return other.handle->memory == memory && is_on_tape(other.tensor);
                });
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
  for (const auto& [impl, capture] : captures_) {
    if (variable_of(capture.handle->memory).impl() != impl && !is_made_here(capture.tensor))
      path_.aliases.emplace_back(capture.tensor, capture.tensor.tracks_grad());
  }
  for (std::size_t i = 0; i < arguments_.size(); ++i)
    note(given_[i], static_cast<int>(i), graph_->placeholders()[i]);
}

void Recorder::switch_arguments() {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const TensorImpl& recorded = *arguments_[i].impl();
    TensorImpl& given = *given_[i].impl();
    if (!arguments_[i].is_leaf() || recorded.requires_grad == given.requires_grad) continue;
    path_.switched.emplace_back(static_cast<int>(i), recorded.requires_grad);
    share_place_on_tape(recorded, given);
  }
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
      const auto position = static_cast<std::size_t>(&other - outside.data());
      const bool itself = write.argument < 0 ? position >= given_.size() && other.is_same(written)
                                             : position == static_cast<std::size_t>(write.argument);
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

bool Recorder::is_placed_by_data(const std::vector<Value>& views) const {
  bool found = false;
  for (const Value view : views) {
    const Attrs& attrs = view.node->attrs();
    static_cast<void>(substitute_symbols(attrs.info(), attrs.data(), [&](Dim symbol) {
      found = found || is_told_by_data(symbol);
      return symbol;
    }));
  }
  return found;
}

Place Recorder::place_of(const Tensor& tensor, Value value, Loc loc) {
  Place made;
  if (value.node->is("constant")) {
    made.memory = made.lies_in = value;
    return made;
  }
  const GraphValue& handle = *handle_of(tensor, loc);
  const auto is_outside = [](Value v) {
    return v.node->is("placeholder") || v.node->is("variable");
  };
  Value memory = handle.memory, content = handle.content;
  made.views = views_between(handle.value, content);
  // Slices that a scan on the tape takes lie where that does which it takes them of.
  while (&memory.node->op() == &kWithLengthOp) {
    const auto of =
        std::ranges::find(sliced_.rbegin(), sliced_.rend(), memory, &SlicedMemory::slices);
    if (of == sliced_.rend()) break;
    std::ranges::copy(views_between(memory.node->inputs()[0], of->content),
                      std::back_inserter(made.views));
    memory = of->of;
    content = of->content;
  }
  made.outside = is_outside(memory);
  // What is outside is written when the call ends.
  made.memory = made.outside ? memory : content;
  made.lies_in = memory;
  made.tracked_view = tensor.impl()->storage->has_tracked_view();
  std::ranges::reverse(made.views);
  if (!made.outside) {
    Value source = handle.value;
    while (source.node->op().kind == BodyKind::view || &source.node->op() == &kWithLengthOp)
      source = source.node->inputs()[0];
    // With other strides the reshape that copied would be a view.
    path_.strides_matter = path_.strides_matter || (is_outside(source) && reshape_copied_);
    return made;
  }
  for (const Value view : made.views)
    path_.strides_matter = path_.strides_matter || view.node->op().may_copy;
  if (is_placed_by_data(made.views)) {
    const Node& last = *made.views.back().node;
    refuse("a view of memory from outside is returned, " + to_string(value.type()) +
               ", whose place only data tell; return a clone() of it",
           last.loc() ? last.loc() : loc);
  }
  return made;
}

void Recorder::find_grad_writes(Loc loc) {
  // What was there is written first: the leaf may have another one afterwards.
  for (const GradCapture& known : path_.grad_captures) {
    const Value now = graph_->current(known.placeholder);
    if (!(now == known.placeholder))
      path_.grad_writes.push_back({static_cast<const GradLeaf&>(known), now, true, {}});
  }
  for (const GradNote& note : path_.grads) {
    const Tensor after = autograd::grad_of(*note.in(arguments_).impl());
    const bool same = after.defined() ? after.is_same(note.before) : !note.before.defined();
    if (same && (note.reads_first || grad_is_written(note))) continue;
    GradWrite write{static_cast<const GradLeaf&>(note), {}, false, {}};
    if (after.defined()) {
      write.value = value_of(after, loc);
      write.place = place_of(after, write.value, loc);
    }
    path_.grad_writes.push_back(std::move(write));
  }
}

void Recorder::join_places(Loc loc) {
  std::vector<std::pair<Place*, Value>> own;
  for (std::size_t i = 0; i < path_.places.size(); ++i) {
    if (!path_.places[i].outside) own.emplace_back(&path_.places[i], path_.outputs[i]);
  }
  for (GradWrite& write : path_.grad_writes) {
    if (write.value && !write.in_place && !write.place.outside)
      own.emplace_back(&write.place, write.value);
  }
  std::unordered_map<Value, Value, ValueHash> first;  // by memory: the first value shown of it
  std::unordered_map<Value, bool, ValueHash> shows_several;
  for (const auto& [place, value] : own) {
    const auto known = first.try_emplace(place->lies_in, value).first;
    shows_several[place->lies_in] |= !(known->second == value);
  }
  for (const auto& [place, value] : own) {
    if (place->memory.node->is("constant") && place->views.empty()) continue;
    const bool shared = shows_several.at(place->lies_in);
    if (shared && is_placed_by_data(place->views)) {
      refuse("a view is returned, " + to_string(value.type()) +
                 ", whose place only data tell, of memory that another result shows; return a "
                 "clone() of it",
             value.node->loc() ? value.node->loc() : loc);
    }
    if (shared) continue;
    place->memory = Value();
    place->views.clear();
  }
}

void Recorder::roll_taped() {
  const auto is_length = [](const auto& node) { return &node->op() == &kWithLengthOp; };
  if (!path_.refusal.empty() ||
      (taped_loops_.empty() && std::ranges::none_of(graph_->nodes(), is_length)))
    return;
  const auto removed = roll_taped_loops(path_, std::move(taped_loops_), visits_);
  // Tensors that the program keeps of the steps stand for values that the graph has no more.
  std::unordered_set<const Node*> gone;
  for (const auto& node : removed) gone.insert(node.get());
  if (path_.backward) {
    std::erase_if(path_.backward->rules, [&](BackwardPart::Rule& rule) {
      bool is_gone = false;
      rule.for_each([&](const Value& value) { is_gone = is_gone || gone.contains(value.node); });
      return is_gone;
    });
  }
  const Ref<GraphImpl> others = make_ref<GraphImpl>();
  for (const Ref<GraphValue>& handle : taped_handles_) {
    const Node& node = *handle->value.node;
    if (handle->use_count() == 1 || !gone.contains(&node)) continue;
    handle->graph = others;
    handle->value = others
                        ->append(node.op(), node.shared_attrs(), {},
                                 Types(node.types().begin(), node.types().end()), node.loc())
                        ->output(handle->value.index);
    handle->memory = handle->content = handle->value;
  }
}

void Recorder::guard_repeats() {
  const auto is_shown = [&](Value memory) {
    return std::ranges::find(path_.places, memory, &Place::lies_in) != path_.places.end();
  };
  for (const Repeated& repeated : repeated_) {
    const bool both_shown = is_shown(repeated.from) && is_shown(repeated.to);
    const bool tells = both_shown || is_overwritten(repeated.from) || is_overwritten(repeated.to);
    if (tells && !is_told_by_data(repeated.count))
      static_cast<void>(dim_equal(repeated.count, 1, repeated.loc));
  }
}

Path Recorder::finish(std::span<const Tensor> results, Loc loc) {
  for (const Tensor& result : results) {
    if (!result.defined())
      throw ValueError("a compiled function returned an undefined tensor", loc);
    const Value value = value_of(result, loc);
    const auto first =
        std::ranges::find_if(results, [&](const Tensor& other) { return other.is_same(result); });
    path_.same_as.push_back(static_cast<int>(first - results.begin()));
    path_.outputs.push_back(value);
    path_.places.push_back(place_of(result, value, loc));
    if (!is_made_here(result) && result.tracks_grad()) {
      path_.places.back().captured = result;
      const Value memory = path_.places.back().memory;
      const bool is_gradient = std::ranges::any_of(
          path_.grad_captures, [&](const GradCapture& c) { return c.placeholder == memory; });
      if (is_gradient) {
        refuse("a result, " + type_string(result) +
                   ", is a gradient from before the call, written so that it tracks gradients; "
                   "return a clone() of it",
               loc);
      }
    }
    path_.tracked.push_back(result.tracks_grad());
  }
  find_grad_writes(loc);
  join_places(loc);
  path_.end = static_cast<int>(graph_->nodes().size());
  find_writes();
  switch_arguments();
  // A pass that nothing will use might give leaves outside their gradients.
  if (path_.refusal.empty()) record_backward(results, loc);
  path_.strides_matter = path_.strides_matter || (reshape_copied_ && graph_->has_overwrites());
  for (const Reshaped& reshaped : reshaped_) {
    if (is_overwritten(reshaped.from) || is_overwritten(reshaped.to))
      guard_small_sizes(reshaped.shape, loc);
  }
  guard_repeats();
  refuse_writes_to_shared_memory();
  for (const StateGuard& guard : path_.states) {
    if (guard.state->peek() == guard.value) continue;
    refuse(
        "'" + guard.state->name() + "' is another after the call than before it; switch it outside",
        loc);
  }
  for (GradNote& note : path_.grads) {
    const Tensor after = autograd::grad_of(*note.in(arguments_).impl());
    note.before = Tensor();
    if (note.part != autograd::GradPart::whole) note.in(arguments_).impl()->recorded = nullptr;
    // A gradient that knew its value would own the graph, which owns its leaf.
    if (after.defined()) after.impl()->recorded = nullptr;
  }
  for (const std::vector<Tensor>* made : {&literals_, &detached_}) {
    for (const Tensor& leaf : *made) {
      if (const Tensor grad = autograd::grad_of(*leaf.impl()); grad.defined())
        grad.impl()->recorded = nullptr;
    }
  }
  for (const Tensor& result : results) {
    if (!is_made_here(result)) continue;
    if (argument_index(result) < 0 && result.tracks_grad() && result.is_leaf()) {
      const bool has_grad = autograd::grad_of(*result.impl()).defined();
      refuse("a result, " + type_string(result) + ", is a leaf that the function made" +
                 (has_grad ? " and gave a gradient; return the gradient"
                           : "; call requires_grad() on what the function returns"),
             loc);
    }
    result.impl()->recorded = nullptr;
  }
  pass_on_hooks();
  roll_taped();
  if (!path_.hints.entries().empty()) autograd::settle_sizes(results, &argument_op(), path_.hints);
  return std::move(path_);
}

}  // namespace dyad::exec
