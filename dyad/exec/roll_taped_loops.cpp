#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/taped_loop_graph.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

using Stack = RolledBackward::Stack;
using Values = std::unordered_map<Value, Value, ValueHash>;

Type with_first(const Type& type, Dim size) {
  Shape shape = type.shape();
  shape[0] = size;
  return {type.dtype(), shape};
}

/// Puts the graph in order and says in the path where what was before a place is now: `before[i]`
/// nodes stand where `i` stood.
std::vector<std::unique_ptr<Node>> arrange(Path& path, std::span<Node* const> order,
                                           const std::vector<int>& before) {
  path.replace_positions([&](int at) { return before[static_cast<std::size_t>(at)]; });
  return path.graph->rearrange(order);
}

/// Puts two loops in the place of the steps of one and of the pass that came back through it.
class TapedLoopRoller {
 public:
  TapedLoopRoller(Path& path, TapedLoop& loop)
      : path_(path), graph_(*path.graph), loop_(loop), in_(path, loop) {}

  bool roll() {
    if (!in_.find()) return false;
    const std::optional<BackwardPart> single = path_.backward;
    const std::vector<Decision> decisions = path_.decisions;
    if (path_.backward && in_.rolled) join_parts(*path_.backward);
    forget_conditions(0);
    walk();
    path_.decisions = decisions;
    if (failed_) {
      path_.backward = single;
      return false;
    }
    writes_ = true;
    if (loop_.is_while()) peel();
    walk();
    return true;
  }

  /// Puts the graph in its new order; gives what is no longer there.
  [[nodiscard]] std::vector<std::unique_ptr<Node>> finish() {
    if (loop_.length.is_symbolic() && !loop_.is_while()) {
      path_.guards.push_back(
          {DimGuard::Kind::less, std::max(1, fewest_steps() - 1), loop_.length, 1, loop_.loc});
    }
    return arrange(path_, order_, before_);
  }
  /// What others know the loops' results by from now on.
  [[nodiscard]] const Values& replaced() const noexcept { return replaced_; }

 private:
  /// Who uses a value.
  struct User {
    bool after = true;     ///< after the steps backwards that become a loop, or before them
    bool in_pass = false;  ///< a step backwards that stays as it is
    bool is_path = false;  ///< no node: what the call gives or leaves
  };

  /// How many steps there must be for the loops to stand for them.
  [[nodiscard]] int fewest_steps() const {
    const int apart = in_.rolled ? in_.steps() - 1 - in_.rolled->high + in_.rolled->low : 0;
    return std::max(apart + 1, shortest_);
  }

  /// The host reads a while_loop's conditions no more, but for the first `kept`.
  void forget_conditions(std::size_t kept) {
    for (std::size_t t = kept; t < loop_.conditions.size(); ++t) {
      // A state that is the condition may be read once more behind the loop.
      const auto read = std::ranges::find(path_.decisions, loop_.conditions[t], &Decision::value);
      if (read != path_.decisions.end()) path_.decisions.erase(read);
    }
  }

  /// Nothing but its conditions tells that a while_loop does as many steps as there must be. So the
  /// host goes on reading that many, and the steps before the last of those stay as they are: the
  /// loop begins where they end, and its stacks with what they made.
  void peel() {
    first_ = static_cast<std::size_t>(fewest_steps() - 1);
    forget_conditions(first_ + 1);
    loop_.length = graph_.fresh_symbol();
    path_.hints.bind(loop_.length, in_.steps());
    const std::vector<Node*>& body = loop_.trace.steps[first_].forward;
    for (const Node* const node : loop_.nodes) {
      if (!body.empty() && node == body.front()) break;
      in_.gone.erase(node);
    }
  }

  /// What comes from every step to leaves and arguments outside, which add it up one by one, is
  /// one part each.
  void join_parts(BackwardPart& part) {
    const auto same_leaf = [](const Tensor& a, const Tensor& b) { return a.is_same(b); };
    join_parts_of(part.leaves, part.leaf_grads, same_leaf);
    join_parts_of(part.arguments, part.argument_grads, std::equal_to<int>());
  }

  template <class Owner, class Same>
  void join_parts_of(std::vector<Owner>& owners, std::vector<BackwardPart::Part>& parts,
                     const Same& same_owner) {
    const auto step_of = [&](std::size_t i) {
      const auto made = i < parts.size() && parts[i].whole ? in_.backward.find(parts[i].whole.node)
                                                           : in_.backward.end();
      return made == in_.backward.end() ? -1 : made->second.first;
    };
    std::vector<Owner> kept_owners;
    std::vector<BackwardPart::Part> kept;
    const auto count = static_cast<std::size_t>(in_.rolled->high - in_.rolled->low) + 1;
    for (std::size_t i = 0; i < parts.size();) {
      std::size_t in_step = 0;
      while (step_of(i + in_step) == in_.rolled->high && same_owner(owners[i + in_step], owners[i]))
        ++in_step;
      if (in_step == 0 || !repeat(parts, owners, same_owner, i, in_step)) {
        kept_owners.push_back(owners[i]);
        kept.push_back(parts[i++]);
        continue;
      }
      for (std::size_t k = 0; k < in_step; ++k) {
        const Value last = parts[i + in_step * (count - 1) + k].whole;
        kept_owners.push_back(owners[i]);
        kept.push_back({.whole = last,
                        .index = {},
                        .rows = {},
                        .stacked = true,
                        .alternates = k + 1 < in_step});
        stacked_parts_.insert(last);
      }
      i += in_step * count;
    }
    owners = std::move(kept_owners);
    parts = std::move(kept);
  }

  /// Whether the parts from number `first` on, `in_step` from each step, are alike in all of them.
  template <class Owner, class Same>
  [[nodiscard]] bool repeat(const std::vector<BackwardPart::Part>& parts,
                            const std::vector<Owner>& owners, const Same& same_owner,
                            std::size_t first, std::size_t in_step) const {
    for (int step = in_.rolled->high, at = 0; step >= in_.rolled->low; --step) {
      for (std::size_t k = 0; k < in_step; ++k, ++at) {
        const std::size_t i = first + static_cast<std::size_t>(at);
        if (i >= parts.size() || !parts[i].whole || !same_owner(owners[i], owners[first]))
          return false;
        const auto made = in_.backward.find(parts[i].whole.node);
        const auto model = in_.backward.find(parts[first + k].whole.node);
        if (made == in_.backward.end() || made->second != std::pair(step, model->second.second) ||
            parts[i].whole.index != parts[first + k].whole.index)
          return false;
      }
    }
    return true;
  }

  // The same walk finds what is needed, and writes it.

  void walk() {
    const auto count = static_cast<int>(graph_.nodes().size());
    made_up_to_ = count;
    order_.clear();
    before_.assign(1, 0);
    bool after = !in_.rolled.has_value();
    for (int at = 0; at < count; ++at) {
      Node* const node = graph_.nodes()[static_cast<std::size_t>(at)].get();
      const auto assembled =
          std::ranges::find(in_.assembled, node, &TapedLoopGraph::Assembled::joined);
      if (assembled != in_.assembled.end()) {
        join(*assembled);
      } else if (!in_.gone.contains(node)) {
        const User user{after, in_.in_pass.contains(node)};
        for (std::size_t i = 0; i < node->inputs().size(); ++i) {
          const Value input = moved(node->inputs()[i], user);
          if (writes_) node->set_input(i, input);
        }
        take_new();
        order_.push_back(node);
      }
      if (node == loop_.nodes.back()) make_forward();
      if (node == in_.last) {
        make_backward();
        after = true;
      }
      before_.push_back(static_cast<int>(order_.size()));
    }
    const User outside{.is_path = true};
    if (!writes_) {
      const auto look = [&](Value value) {
        static_cast<void>(moved(value, outside));
        return value;
      };
      path_.replace_values(look);
      graph_.replace_values(look);
      return;
    }
    const auto replace = [&](Value value) { return moved(value, outside); };
    path_.replace_values(replace);
    graph_.replace_values(replace);
    for (const auto& [value, at] : in_.results) replaced_.emplace(value, replace(value));
    for (const auto& [value, at] : in_.last_state) replaced_.emplace(value, replace(value));
    for (const TapedLoopGraph::Assembled& a : in_.assembled)
      replaced_.emplace(a.length->output(), a.sum->output());
  }

  /// What a node reads in the place of a value that may be gone.
  Value moved(Value value, const User& user) {
    if (!value) return value;
    if (const auto at = in_.results.find(value); at != in_.results.end())
      return forward_output(loop_.last_states.size() + at->second, value);
    if (const auto at = in_.last_state.find(value); at != in_.last_state.end())
      return forward_output(at->second, value);
    for (const TapedLoopGraph::Assembled& a : in_.assembled) {
      if (value == a.length->output()) return a.sum->output();
      if (value == a.joined->output()) return writes_ ? joined_.at(a.joined) : value;
    }
    const StepValues::Place* const place = in_.values->find(value);
    if (place && in_.gone.contains(value.node)) {
      const bool may_use = user.in_pass || (place->stack.of == Stack::Of::gradient && !user.after);
      if (!may_use) return fail(value);
      return place->stack.of == Stack::Of::forward && is_view(value)
                 ? again(value, user)
                 : part(place->stack, place->step, user, value);
    }
    if (const auto at = in_.backward.find(value.node); at != in_.backward.end())
      return user.is_path && stacked_parts_.contains(value)
                 ? made_by_steps({at->second.second, value.index}, value)
                 : last_of(at->second.first, {at->second.second, value.index}, user, value);
    return in_.gone.contains(value.node) ? fail(value) : value;
  }

  Value fail(Value value) {
    failed_ = true;
    return value;
  }

  /// A view that the last of the steps backwards made: made again behind the loop, whoever it is
  /// for.
  Value last_view(Value view, const User& user) {
    if (writes_) return last_views_.at(view);
    const Value made = again(view, user);
    const auto known = std::ranges::find(views_to_make_, view, &std::pair<Value, User>::first);
    if (known == views_to_make_.end()) views_to_make_.emplace_back(view, user);
    return made;
  }

  /// The view, of what its operands are now.
  Value again(Value view, const User& user) {
    std::vector<Value> inputs;
    for (const Value input : view.node->inputs()) inputs.push_back(moved(input, user));
    return writes_ ? graph_.append_copy(*view.node, std::move(inputs))->output(view.index) : view;
  }

  /// One step's part of a stack, for the steps before or after those that became a loop.
  Value part(const Stack& stack, int step, const User& user, Value value) {
    // As many steps from the beginning, or from the end, in every call.
    const int from_end = in_.steps() - step;
    shortest_ = std::max(shortest_, user.after ? step + 1 : from_end);
    const bool is_near = in_.rolled && (user.after ? step - in_.rolled->low
                                                   : in_.rolled->high - step) <= kMostStepsApart;
    if (!is_near) return fail(value);
    const Value from = whole(stack);
    if (!writes_) return value;
    const Dim index = user.after ? Dim(step) : loop_.length - from_end;
    return value_of(select(tensor(from), 0, index, loop_.loc));
  }

  /// What the last of the steps backwards made.
  Value last_of(int step, std::pair<std::size_t, int> made, const User& user, Value value) {
    if (!user.after || step != in_.rolled->low) return fail(value);
    if (is_view(value)) return last_view(value, user);
    for (std::size_t c = 0; c < in_.rolled->carried.size(); ++c) {
      if (in_.rolled->carried[c].node != made.first || in_.rolled->carried[c].index != made.second)
        continue;
      return writes_ ? backward_node_->output(static_cast<int>(c)) : value;
    }
    if (user.is_path) return fail(value);
    const Value all = made_by_steps(made, value);
    return writes_ ? value_of(select(tensor(all), 0, 0, loop_.loc)) : value;
  }

  /// What all steps backwards made, stacked.
  Value made_by_steps(std::pair<std::size_t, int> made, Value value) {
    const std::size_t number = number_of(made_, made);
    if (!writes_) return value;
    return backward_node_->output(static_cast<int>(in_.rolled->carried.size() + number));
  }

  Value forward_output(std::size_t number, Value value) const {
    return writes_ ? forward_node_->output(static_cast<int>(number)) : value;
  }

  /// A stack over all steps.
  Value whole(const Stack& stack) {
    if (stack.of == Stack::Of::slice) return loop_.xs[stack.number];
    if (stack.of == Stack::Of::gradient) return in_.gradients[stack.number];
    const std::size_t states = loop_.last_states.size(), results = loop_.slices_made[0].size();
    if (stack.of == Stack::Of::forward) {
      for (std::size_t i = 0; i < results; ++i) {
        if (is_result(stack, i)) return forward_output(states + i, {});
      }
    }
    const Stack unshifted{stack.of, stack.number, stack.index};
    return forward_output(states + results + number_of(stacks_, unshifted), {});
  }

  /// Whether the loop gives that stack anyway.
  [[nodiscard]] bool is_result(const Stack& stack, std::size_t result) const {
    for (std::size_t t = 0; t < loop_.slices_made.size(); ++t) {
      Node* const node = loop_.trace.steps[t].forward[stack.number];
      if (!(loop_.slices_made[t][result] == node->output(stack.index))) return false;
    }
    return true;
  }

  void make_forward() {
    if (!writes_) return;
    const BackwardTrace::Step& first = loop_.trace.steps[first_];
    const std::vector<Value>& init = first.states;
    const Ref<GraphImpl>& region = loop_.forward.regions.back();
    const std::size_t parameters = region->placeholders().size();
    Types types;
    for (const Value state : init) types.push_back(state.type());
    for (const Value made : loop_.slices_made[0])
      types.push_back(stacked(made.type(), loop_.length));
    for (const Stack& stack : stacks_) {
      const bool is_state = stack.of == Stack::Of::state;
      const Value inside = is_state
                               ? region->placeholders()[stack.number]
                               : region->nodes()[parameters + stack.number]->output(stack.index);
      region->outputs().push_back(inside);
      types.push_back(stacked(is_state ? init[stack.number].type()
                                       : first.forward[stack.number]->output(stack.index).type(),
                              loop_.length));
    }
    std::vector<Value> inputs = init;
    const std::vector<Value> slices = loop_.is_while() ? begun_stacks() : loop_.xs;
    inputs.insert(inputs.end(), slices.begin(), slices.end());
    inputs.insert(inputs.end(), loop_.forward.captures.begin(), loop_.forward.captures.end());
    forward_node_ =
        append_loop(loop_.is_while() ? kWhileOp : kScanOp, loop_attrs(init.size(), slices.size()),
                    std::move(inputs), std::move(types), loop_.forward.regions);
  }

  /// What the steps that stay before a while_loop made, one row each.
  std::vector<Value> begun_stacks() {
    std::vector<Value> begun;
    if (first_ == 0) return begun;
    for (const Stack& made : stacks_) {
      std::vector<Tensor> rows;
      for (std::size_t t = 0; t < first_; ++t) {
        const BackwardTrace::Step& step = loop_.trace.steps[t];
        rows.push_back(tensor(made.of == Stack::Of::state
                                  ? step.states[made.number]
                                  : step.forward[made.number]->output(made.index)));
      }
      begun.push_back(value_of(stack(rows, 0, loop_.loc)));
    }
    return begun;
  }

  void make_backward() {
    const User before{.after = false, .in_pass = true};
    std::vector<Value> inputs;
    Types types;
    for (const RolledBackward::Carried& c : in_.rolled->carried) {
      inputs.push_back(moved(c.first, before));
      types.push_back(c.first.type());
    }
    const int from_end = in_.steps() - 1 - in_.rolled->high;
    const Dim count = loop_.length - (from_end + in_.rolled->low);
    for (const Stack& stack : in_.rolled->stacks) {
      const Value all = whole(stack);
      if (!writes_) continue;
      const int first = in_.rolled->low + stack.shift, left = from_end - stack.shift;
      inputs.push_back(all);
      if (first == 0 && left == 0) continue;
      const Value some = value_of(slice(tensor(all), 0, first, loop_.length - left, 1, loop_.loc));
      some.node->set_types({with_first(some.type(), count)});
      inputs.back() = some;
    }
    for (const Value capture : in_.rolled->captures) inputs.push_back(moved(capture, before));
    if (!writes_) return;
    const std::vector<Node*>& step =
        loop_.trace.steps[static_cast<std::size_t>(in_.rolled->high)].backward;
    for (const auto& [node, index] : made_)
      types.push_back(stacked(step[node]->output(index).type(), count));
    const Ref<GraphImpl> region = region_of(*in_.rolled, loop_.trace, made_, loop_.loc);
    backward_node_ = append_loop(
        kScanOp, loop_attrs(in_.rolled->carried.size(), in_.rolled->stacks.size(), true),
        std::move(inputs), std::move(types), {&region, 1});
    for (const auto& [view, user] : views_to_make_) last_views_.emplace(view, again(view, user));
    take_new();
  }

  Node* append_loop(const OpInfo& op, Ref<Attrs> attrs, std::vector<Value> inputs, Types types,
                    std::span<const Ref<GraphImpl>> regions) {
    Node* const node =
        graph_.append(op, std::move(attrs), std::move(inputs), std::move(types), loop_.loc);
    for (const Ref<GraphImpl>& region : regions) node->add_region(region);
    take_new();
    return node;
  }

  /// The gradient of what is sliced, with the loop's stacked parts in the place of single ones.
  void join(const TapedLoopGraph::Assembled& a) {
    const User user{.after = true, .in_pass = true};
    const std::span<const Value> parts = a.joined->inputs();
    std::optional<std::pair<std::size_t, int>> made;
    std::vector<Tensor> pieces;
    for (int t = 0; t < in_.steps(); ++t) {
      const Value one = parts[static_cast<std::size_t>(t)];
      const auto at = in_.backward.find(one.node);
      if (at == in_.backward.end()) {
        const Value piece = moved(one, user);
        if (writes_) pieces.push_back(tensor(piece));
        continue;
      }
      const std::pair made_here(at->second.second, one.index);
      if (at->second.first != t || (made && *made != made_here)) failed_ = true;
      if (made) continue;
      made = made_here;
      const Value all = made_by_steps(made_here, one);
      if (!writes_) continue;
      // A stack of parts with a first axis of size 1.
      Shape shape = one.type().shape();
      shape[0] = all.type().shape()[0];
      pieces.push_back(reshape(tensor(all), shape, loop_.loc));
    }
    if (!made) failed_ = true;
    if (!writes_) return;
    const Value whole = value_of(concat(pieces, 0, loop_.loc));
    whole.node->set_types({with_first(whole.type(), loop_.length)});
    a.sum->set_types({with_first(a.sum->types()[0], loop_.length)});
    joined_.emplace(a.joined, whole);
    take_new();
  }

  [[nodiscard]] Tensor tensor(Value value) const { return symbolic_tensor(path_.graph, value); }
  [[nodiscard]] static Value value_of(const Tensor& made) { return graph_value(made)->value; }

  /// What was written since then is next in the order.
  void take_new() {
    const auto& nodes = graph_.nodes();
    for (; made_up_to_ < nodes.size(); ++made_up_to_) order_.push_back(nodes[made_up_to_].get());
  }

  Path& path_;
  GraphImpl& graph_;
  TapedLoop& loop_;
  TapedLoopGraph in_;
  std::unordered_set<Value, ValueHash> stacked_parts_;  // of gradients, for all steps
  // What the loops give beside their states.
  std::vector<Stack> stacks_;
  std::vector<std::pair<std::size_t, int>> made_;

  bool failed_ = false, writes_ = false;
  int shortest_ = 0;       // length of the loop
  std::size_t first_ = 0;  // step that the loop does
  std::vector<Node*> order_;
  std::vector<int> before_;
  std::size_t made_up_to_ = 0;
  Node* forward_node_ = nullptr;
  Node* backward_node_ = nullptr;
  std::unordered_map<const Node*, Value> joined_;
  std::vector<std::pair<Value, User>> views_to_make_;
  Values last_views_;
  Values replaced_;
};

/// Says which nodes belong to which step backwards; false where several passes came through.
bool find_steps_backwards(const GraphImpl& graph, TapedLoop& loop,
                          std::span<const TapeVisit> visits) {
  std::optional<int> pass;
  for (std::size_t i = 0; i + 1 < visits.size(); ++i) {
    const std::uint64_t sequence = visits[i].sequence;
    if (sequence <= loop.tape.front() || sequence > loop.tape.back()) continue;
    if (pass.value_or(visits[i].pass) != visits[i].pass) return false;
    pass = visits[i].pass;
    const auto after = std::ranges::lower_bound(loop.tape, sequence);
    BackwardTrace::Step& step =
        loop.trace.steps[static_cast<std::size_t>(after - loop.tape.begin()) - 1];
    for (int at = visits[i].nodes; at < visits[i + 1].nodes; ++at) {
      Node* const node = graph.nodes()[static_cast<std::size_t>(at)].get();
      if (!node->is("variable") && !node->is("placeholder")) step.backward.push_back(node);
    }
  }
  return true;
}

/// Puts what it was given in the place of every with_length.
std::vector<std::unique_ptr<Node>> without_lengths(Path& path) {
  const auto itself = [](Value value) {
    while (value && &value.node->op() == &kWithLengthOp) value = value.node->inputs()[0];
    return value;
  };
  std::vector<Node*> order;
  std::vector<int> before{0};
  for (const auto& node : path.graph->nodes()) {
    if (&node->op() != &kWithLengthOp) {
      order.push_back(node.get());
      for (std::size_t i = 0; i < node->inputs().size(); ++i)
        node->set_input(i, itself(node->inputs()[i]));
    }
    before.push_back(static_cast<int>(order.size()));
  }
  path.replace_values(itself);
  path.graph->replace_values(itself);
  return arrange(path, order, before);
}

void rename(TapedLoop& loop, const Values& replaced) {
  const auto rename_all = [&](std::vector<Value>& values) {
    for (Value& value : values) {
      if (const auto now = replaced.find(value); now != replaced.end()) value = now->second;
    }
  };
  rename_all(loop.xs);
  rename_all(loop.forward.captures);
  for (BackwardTrace::Step& step : loop.trace.steps) rename_all(step.states);
}

/// The steps of the loop are as many in all calls that the recording serves.
void keep_steps(Path& path, const TapedLoop& loop) {
  if (loop.length.is_symbolic()) {
    path.guards.push_back({DimGuard::Kind::value, loop.length, Dim(),
                           static_cast<std::int64_t>(loop.trace.steps.size()), loop.loc});
  }
  const auto is_left = [](const Node* node) { return &node->op() != &kWithLengthOp; };
  const auto first = std::ranges::find_if(loop.nodes, is_left);
  const auto last = std::find_if(loop.nodes.rbegin(), loop.nodes.rend(), is_left);
  if (first != loop.nodes.end()) path.unrolled.emplace_back((*first)->id(), (*last)->id() + 1);
}

}  // namespace

std::vector<std::unique_ptr<Node>> roll_taped_loops(Path& path, std::vector<TapedLoop> loops,
                                                    std::span<const TapeVisit> visits) {
  std::vector<std::unique_ptr<Node>> removed;
  const auto remove = [&](std::vector<std::unique_ptr<Node>> nodes) {
    std::ranges::move(nodes, std::back_inserter(removed));
  };
  std::vector<bool> may_roll;
  may_roll.reserve(loops.size());
  for (TapedLoop& loop : loops) may_roll.push_back(find_steps_backwards(*path.graph, loop, visits));
  GraphEvaluator evaluator(path.graph);
  const Evaluator::Scope current(evaluator);
  std::vector<const TapedLoop*> left;
  for (std::size_t i = 0; i < loops.size(); ++i) {
    TapedLoopRoller roller(path, loops[i]);
    if (!may_roll[i] || !roller.roll()) {
      left.push_back(&loops[i]);
      continue;
    }
    remove(roller.finish());
    for (TapedLoop& other : loops) rename(other, roller.replaced());
  }
  remove(without_lengths(path));
  for (const TapedLoop* loop : left) keep_steps(path, *loop);
  return removed;
}

}  // namespace dyad::exec
