#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/taped_loop.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ops/attrs/indexing.h"
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
  TapedLoopRoller(Path& path, TapedLoop& loop) : path_(path), graph_(*path.graph), loop_(loop) {}

  bool roll() {
    for (const auto& node : graph_.nodes()) {
      for (const Value input : node->inputs()) {
        if (input) users_[input].push_back(node.get());
      }
    }
    gone_.insert(loop_.nodes.begin(), loop_.nodes.end());
    if (!find_lengths() || !find_backward()) return false;
    find_forward_values();
    walk();
    if (failed_) return false;
    writes_ = true;
    walk();
    return true;
  }

  /// Puts the graph in its new order; gives what is no longer there.
  [[nodiscard]] std::vector<std::unique_ptr<Node>> finish() {
    if (loop_.length.is_symbolic()) {
      const int apart = rolled_ ? steps() - 1 - rolled_->high + rolled_->low : 0;
      path_.guards.push_back(
          {DimGuard::Kind::less, std::max({1, apart, shortest_ - 1}), loop_.length, 1, loop_.loc});
    }
    return arrange(path_, order_, before_);
  }
  /// What others know the loops' results by from now on.
  [[nodiscard]] const Values& replaced() const noexcept { return replaced_; }

 private:
  /// Who uses a value: a node after the steps backwards or before them, of the pass through steps
  /// that stay as they are, or something else.
  struct User {
    bool after = true;
    bool in_pass = false;
  };
  /// The gradient of what is sliced, put together from what came from each step.
  struct Assembled {
    Node* length = nullptr;
    Node* sum = nullptr;
    Node* joined = nullptr;
  };

  [[nodiscard]] int steps() const { return static_cast<int>(loop_.trace.steps.size()); }
  [[nodiscard]] const std::vector<Node*>& users_of(Value value) { return users_[value]; }
  [[nodiscard]] Value sole_user(Value value) {
    const std::vector<Node*>& users = users_of(value);
    return users.size() == 1 ? users[0]->output() : Value();
  }

  bool find_lengths() {
    for (const auto& node : graph_.nodes()) {
      if (&node->op() != &kWithLengthOp) continue;
      const auto& attrs = node->attrs_as<LengthAttrs>();
      if (attrs.loop != loop_.number) continue;
      gone_.insert(node.get());
      const auto at = static_cast<std::size_t>(attrs.number);
      if (!attrs.gradient && attrs.of_result) {
        results_.emplace(node->output(), at);
      } else if (attrs.gradient && attrs.of_result) {
        if (!find_parts(*node)) return false;
      } else if (attrs.gradient) {
        if (!find_assembled(*node)) return false;
      }
    }
    return true;
  }

  /// What of the gradient of a stacked result comes to each step.
  bool find_parts(Node& length) {
    std::vector<Value> parts(static_cast<std::size_t>(steps()));
    for (Node* const slice : users_of(length.output())) {
      if (!slice->is("slice")) return false;
      const auto& attrs = slice->attrs_as<ops::SliceAttrs>();
      const Dim begin = attrs.begin;
      if (attrs.axis != 0 || attrs.step != 1 || !begin.is_number() || begin.number() >= steps() ||
          !attrs.end.same_as(begin + 1))
        return false;
      const Value part = sole_user(slice->output());
      if (!part || !part.node->is("squeeze")) return false;
      parts[static_cast<std::size_t>(begin.number())] = part;
      gone_.insert(slice);
      gone_.insert(part.node);
    }
    if (!std::ranges::all_of(parts, [](Value v) { return static_cast<bool>(v); })) return false;
    for (std::size_t t = 0; t < parts.size(); ++t) {
      part_of_.emplace(parts[t], std::pair(gradients_.size(), static_cast<int>(t)));
      loop_.trace.steps[t].gradients.push_back(parts[t]);
    }
    gradients_.push_back(length.inputs()[0]);
    return true;
  }

  bool find_assembled(Node& length) {
    const Value sum = length.inputs()[0];
    if (!sum.node->is("add") || users_of(sum).size() != 1) return false;
    const Value joined = sum.node->inputs()[0];
    if (!joined.node->is("concat") || users_of(joined).size() != 1 ||
        static_cast<int>(joined.node->inputs().size()) != steps())
      return false;
    assembled_.push_back({&length, sum.node, joined.node});
    gone_.insert(joined.node);
    return true;
  }

  bool find_backward() {
    std::vector<BackwardTrace::Step>& steps = loop_.trace.steps;
    const bool any =
        std::ranges::any_of(steps, [](const auto& step) { return !step.backward.empty(); });
    if (!any) return assembled_.empty();
    rolled_ = roll_backward(loop_.trace);
    if (!rolled_) return false;
    if (rolled_->stacks.empty()) rolled_->stacks.push_back({.of = Stack::Of::slice});
    for (int t = 0; t < this->steps(); ++t) {
      const bool is_rolled = t >= rolled_->low && t <= rolled_->high;
      const std::vector<Node*>& nodes = steps[static_cast<std::size_t>(t)].backward;
      for (std::size_t k = 0; k < nodes.size(); ++k) {
        if (is_rolled) {
          backward_.emplace(nodes[k], std::pair(t, k));
          gone_.insert(nodes[k]);
        } else {
          in_pass_.insert(nodes[k]);
        }
      }
    }
    last_ = steps[static_cast<std::size_t>(rolled_->low)].backward.back();
    // What a stack lacks at its ends.
    return std::ranges::all_of(rolled_->stacks, [&](const Stack& stack) {
      return rolled_->low + stack.shift >= 0 && rolled_->high + stack.shift < this->steps();
    });
  }

  void find_forward_values() {
    for (std::size_t t = 0; t < loop_.trace.steps.size(); ++t) {
      const BackwardTrace::Step& step = loop_.trace.steps[t];
      for (std::size_t k = 0; k < step.forward.size(); ++k)
        forward_.emplace(step.forward[k], std::pair(static_cast<int>(t), k));
      for (std::size_t j = 0; j < step.slices.size(); ++j)
        slice_of_.emplace(step.slices[j], std::pair(j, static_cast<int>(t)));
    }
    for (std::size_t i = 0; i < loop_.last_states.size(); ++i) {
      if (!loop_.forward.constant[i]) last_state_.emplace(loop_.last_states[i], i);
    }
  }

  // The same walk finds what is needed, and writes it.

  void walk() {
    const auto count = static_cast<int>(graph_.nodes().size());
    made_up_to_ = count;
    order_.clear();
    before_.assign(1, 0);
    bool after = !rolled_.has_value();
    for (int at = 0; at < count; ++at) {
      Node* const node = graph_.nodes()[static_cast<std::size_t>(at)].get();
      const auto assembled = std::ranges::find(assembled_, node, &Assembled::joined);
      if (assembled != assembled_.end()) {
        join(*assembled);
      } else if (!gone_.contains(node)) {
        const User user{after, in_pass_.contains(node)};
        for (std::size_t i = 0; i < node->inputs().size(); ++i) {
          const Value input = moved(node->inputs()[i], user);
          if (writes_) node->set_input(i, input);
        }
        take_new();
        order_.push_back(node);
      }
      if (node == loop_.nodes.back()) make_forward();
      if (node == last_) {
        make_backward();
        after = true;
      }
      before_.push_back(static_cast<int>(order_.size()));
    }
    if (!writes_) {
      const auto look = [&](Value value) {
        static_cast<void>(moved(value, {}));
        return value;
      };
      path_.replace_values(look);
      graph_.replace_values(look);
      return;
    }
    const auto replace = [&](Value value) { return moved(value, {}); };
    path_.replace_values(replace);
    graph_.replace_values(replace);
    for (const auto& [value, at] : results_) replaced_.emplace(value, moved(value, {}));
    for (const auto& [value, at] : last_state_) replaced_.emplace(value, moved(value, {}));
    for (const Assembled& a : assembled_) replaced_.emplace(a.length->output(), a.sum->output());
    take_new();
  }

  /// What a node reads in the place of a value that may be gone.
  Value moved(Value value, const User& user) {
    if (!value) return value;
    if (const auto at = results_.find(value); at != results_.end())
      return forward_output(loop_.last_states.size() + at->second, value);
    if (const auto at = last_state_.find(value); at != last_state_.end())
      return forward_output(at->second, value);
    for (const Assembled& a : assembled_) {
      if (value == a.length->output()) return a.sum->output();
      if (value == a.joined->output()) return writes_ ? joined_.at(a.joined) : value;
    }
    if (const auto at = forward_.find(value.node); at != forward_.end()) {
      if (!user.in_pass) return fail(value);
      return part({Stack::Of::forward, at->second.second, value.index}, at->second.first, user,
                  value);
    }
    if (const auto at = slice_of_.find(value); at != slice_of_.end()) {
      if (!user.in_pass) return fail(value);
      return part({Stack::Of::slice, at->second.first}, at->second.second, user, value);
    }
    if (const auto at = part_of_.find(value); at != part_of_.end()) {
      if (user.after && !user.in_pass) return fail(value);
      return part({Stack::Of::gradient, at->second.first}, at->second.second, user, value);
    }
    if (const auto at = backward_.find(value.node); at != backward_.end())
      return last_of(at->second.first, {at->second.second, value.index}, user, value);
    return gone_.contains(value.node) ? fail(value) : value;
  }

  Value fail(Value value) {
    failed_ = true;
    return value;
  }

  /// One step's part of a stack, for the steps before or after those that became a loop.
  Value part(const Stack& stack, int step, const User& user, Value value) {
    // As many steps from the beginning, or from the end, in every call.
    const int from_end = steps() - step;
    shortest_ = std::max(shortest_, user.after ? step + 1 : from_end);
    const bool is_near =
        rolled_ && (user.after ? step - rolled_->low : rolled_->high - step) <= kMostStepsApart;
    if (!is_near) return fail(value);
    const Value from = whole(stack);
    if (!writes_) return value;
    const Dim index = user.after ? Dim(step) : loop_.length - from_end;
    return value_of(select(tensor(from), 0, index, loop_.loc));
  }

  /// What the last of the steps backwards made.
  Value last_of(int step, std::pair<std::size_t, int> made, const User& user, Value value) {
    if (!user.after || step != rolled_->low) return fail(value);
    for (std::size_t c = 0; c < rolled_->carried.size(); ++c) {
      if (rolled_->carried[c].node != made.first || rolled_->carried[c].index != made.second)
        continue;
      return writes_ ? backward_node_->output(static_cast<int>(c)) : value;
    }
    const Value all = made_by_steps(made);
    return writes_ ? value_of(select(tensor(all), 0, 0, loop_.loc)) : value;
  }

  /// What all steps backwards made, stacked.
  Value made_by_steps(std::pair<std::size_t, int> made) {
    const std::size_t number = number_of(made_, made);
    if (!writes_) return {};
    return backward_node_->output(static_cast<int>(rolled_->carried.size() + number));
  }

  Value forward_output(std::size_t number, Value value) const {
    return writes_ ? forward_node_->output(static_cast<int>(number)) : value;
  }

  /// A stack over all steps.
  Value whole(const Stack& stack) {
    if (stack.of == Stack::Of::slice) return loop_.xs[stack.number];
    if (stack.of == Stack::Of::gradient) return gradients_[stack.number];
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
    const std::vector<BackwardTrace::Step>& traced = loop_.trace.steps;
    const Ref<GraphImpl>& region = loop_.forward.regions[0];
    const std::size_t parameters = region->placeholders().size();
    Types types;
    for (const Value state : loop_.init) types.push_back(state.type());
    for (const Value made : loop_.slices_made[0])
      types.push_back(stacked(made.type(), loop_.length));
    for (const Stack& stack : stacks_) {
      const bool is_state = stack.of == Stack::Of::state;
      const Value inside = is_state
                               ? region->placeholders()[stack.number]
                               : region->nodes()[parameters + stack.number]->output(stack.index);
      region->outputs().push_back(inside);
      types.push_back(stacked(is_state
                                  ? loop_.init[stack.number].type()
                                  : traced[0].forward[stack.number]->output(stack.index).type(),
                              loop_.length));
    }
    std::vector<Value> inputs = loop_.init;
    inputs.insert(inputs.end(), loop_.xs.begin(), loop_.xs.end());
    inputs.insert(inputs.end(), loop_.forward.captures.begin(), loop_.forward.captures.end());
    forward_node_ = append_scan(loop_.init.size(), loop_.xs.size(), false, std::move(inputs),
                                std::move(types), region);
  }

  void make_backward() {
    const User before{.after = false, .in_pass = true};
    std::vector<Value> inputs;
    Types types;
    for (const RolledBackward::Carried& c : rolled_->carried) {
      inputs.push_back(moved(c.first, before));
      types.push_back(c.first.type());
    }
    const int from_end = steps() - 1 - rolled_->high;
    const Dim count = loop_.length - (from_end + rolled_->low);
    for (const Stack& stack : rolled_->stacks) {
      const Value all = whole(stack);
      if (!writes_) continue;
      const int first = rolled_->low + stack.shift, left = from_end - stack.shift;
      inputs.push_back(all);
      if (first == 0 && left == 0) continue;
      const Value some = value_of(slice(tensor(all), 0, first, loop_.length - left, 1, loop_.loc));
      some.node->set_types({with_first(some.type(), count)});
      inputs.back() = some;
    }
    for (const Value capture : rolled_->captures) inputs.push_back(moved(capture, before));
    if (!writes_) return;
    const std::vector<Node*>& step =
        loop_.trace.steps[static_cast<std::size_t>(rolled_->high)].backward;
    for (const auto& [node, index] : made_)
      types.push_back(stacked(step[node]->output(index).type(), count));
    backward_node_ =
        append_scan(rolled_->carried.size(), rolled_->stacks.size(), true, std::move(inputs),
                    std::move(types), region_of(*rolled_, loop_.trace, made_, loop_.loc));
  }

  Node* append_scan(std::size_t states, std::size_t slices, bool reverse, std::vector<Value> inputs,
                    Types types, const Ref<GraphImpl>& region) {
    const LoopAttrs attrs{static_cast<std::int64_t>(states), static_cast<std::int64_t>(slices),
                          reverse};
    Node* const node = graph_.append(kScanOp, Attrs::copy_of(attrs_info<LoopAttrs>, &attrs),
                                     std::move(inputs), std::move(types), loop_.loc);
    node->add_region(region);
    take_new();
    return node;
  }

  /// The gradient of what is sliced, with the loop's stacked parts in the place of single ones.
  void join(const Assembled& a) {
    const User user{.after = true, .in_pass = true};
    const std::span<const Value> parts = a.joined->inputs();
    std::optional<std::pair<std::size_t, int>> made;
    std::vector<Tensor> pieces;
    for (int t = 0; t < steps(); ++t) {
      const Value one = parts[static_cast<std::size_t>(t)];
      const auto at = backward_.find(one.node);
      if (at == backward_.end()) {
        const Value piece = moved(one, user);
        if (writes_) pieces.push_back(tensor(piece));
        continue;
      }
      const std::pair made_here(at->second.second, one.index);
      if (at->second.first != t || (made && *made != made_here)) failed_ = true;
      if (made) continue;
      made = made_here;
      const Value all = made_by_steps(made_here);
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

  template <class T>
  static std::size_t number_of(std::vector<T>& list, const T& item) {
    const auto known = std::ranges::find(list, item);
    const auto number = static_cast<std::size_t>(known - list.begin());
    if (known == list.end()) list.push_back(item);
    return number;
  }

  Path& path_;
  GraphImpl& graph_;
  TapedLoop& loop_;
  std::unordered_map<Value, std::vector<Node*>, ValueHash> users_;
  std::unordered_set<const Node*> gone_;
  std::unordered_map<Value, std::size_t, ValueHash> results_, last_state_;
  std::vector<Value> gradients_;  // of stacked results
  std::unordered_map<Value, std::pair<std::size_t, int>, ValueHash> part_of_, slice_of_;
  std::vector<Assembled> assembled_;
  std::unordered_map<const Node*, std::pair<int, std::size_t>> forward_, backward_;
  std::unordered_set<const Node*> in_pass_;  // steps backwards that stay as they are
  std::optional<RolledBackward> rolled_;
  const Node* last_ = nullptr;  // of the steps backwards
  // What the loops give beside their states.
  std::vector<Stack> stacks_;
  std::vector<std::pair<std::size_t, int>> made_;

  bool failed_ = false, writes_ = false;
  int shortest_ = 0;  // length of the loop
  std::vector<Node*> order_;
  std::vector<int> before_;
  std::size_t made_up_to_ = 0;
  Node* forward_node_ = nullptr;
  Node* backward_node_ = nullptr;
  std::unordered_map<const Node*, Value> joined_;
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
  rename_all(loop.init);
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
