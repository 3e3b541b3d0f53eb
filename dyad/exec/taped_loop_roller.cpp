#include "dyad/exec/taped_loop_roller.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/control_node.h"
#include "dyad/exec/taped_loop_graph.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/rearrange.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

Type with_first(const Type& type, Dim size) {
  Shape shape = type.shape();
  shape[0] = size;
  return {type.dtype(), shape};
}

/// Puts two loops in the place of the steps of one and of the pass that came back through it.
class TapedLoopRoller {
 public:
  TapedLoopRoller(Path& path, TapedLoop& loop, std::unordered_set<const Node*> later, bool in_vain)
      : path_(path),
        graph_(*path.graph),
        loop_(loop),
        in_(path, loop, in_vain),
        later_(std::move(later)),
        shortest_(loop.fewest) {}

  bool roll() {
    if (!in_.find()) return false;
    of_loop_.resize(graph_.nodes().size());
    for (const Node* const node : in_.gone) of_loop_[static_cast<std::size_t>(node->id())] = true;
    const std::optional<BackwardPart> single = path_.backward;
    const std::vector<Decision> decisions = path_.decisions;
    if (path_.backward && in_.rolled) join_parts(*path_.backward);
    forget_conditions(0);
    forget_ways();
    walk();
    path_.decisions = decisions;
    if (!settle()) {
      path_.backward = single;
      return false;
    }
    writes_ = true;
    path_.has_ways = path_.has_ways || loop_.has_ways();
    forget_ways();
    if (loop_.is_while()) peel();
    walk();
    return true;
  }

  /// Puts the graph in its new order.
  void finish(MovingRecording& moving) {
    if (loop_.length.is_symbolic() && !loop_.is_while()) {
      moving.guard({DimGuard::Kind::less, fewest_steps() - 1, loop_.length, 1, loop_.loc});
    }
    moving.arrange(order_, before_);
    moving.replace_in_loops(replaced_);
  }

 private:
  /// Who uses a value.
  struct User {
    bool after = true;      ///< after the steps backwards that become a loop, or before them
    bool in_pass = false;   ///< a step backwards that stays as it is
    bool is_path = false;   ///< no node: what the call gives or leaves
    bool is_later = false;  ///< a step of a later pass
  };

  /// How many steps there must be for the loops to stand for them.
  [[nodiscard]] int fewest_steps() const {
    const int apart = in_.rolled ? in_.steps() - 1 - in_.rolled->high() + in_.rolled->low()
                      : loop_.is_of_later_pass() ? 2 * kMostStepsApart
                                                 : 0;
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

  /// Nor does it read which ways steps go.
  void forget_ways() {
    for (const BackwardTrace::Step& step : loop_.trace.steps) {
      for (const BackwardTrace::Way& way : step.ways) {
        const auto read = std::ranges::find(path_.decisions, way.pred, &Decision::value);
        if (read != path_.decisions.end()) path_.decisions.erase(read);
      }
    }
  }

  /// After a walk that found what is needed: whether it can be had.
  bool settle() {
    if (failed_ || (in_.rolled && !in_.rolled->settle())) return false;
    if (in_.rolled) make_backward();
    if (failed_) return false;
    // What would stay of the first steps goes one way, and another one in other calls.
    if (loop_.is_while() && loop_.has_ways() && fewest_steps() > 1) return false;
    for (const Value value : asked_) {
      const auto ways = in_.rolled->begins(*in_.rolled->after(value));
      if (!ways) return false;
      need_one_of(*ways);
    }
    return true;
  }

  /// That a tensor has a gradient from the loop at all the data tell, if all of what comes to it
  /// is from some ways. The host reads whether one of these was gone.
  void need_one_of(std::vector<RolledBackward::WayOfCond> ways) {
    if (ways.empty()) return;
    std::ranges::sort(ways);
    number_of(needed_, ways);
  }

  /// Nothing but its conditions tells that a while_loop does as many steps as there must be. So the
  /// host goes on reading that many, and the steps before the last of those stay as they are: the
  /// loop begins where they end, and its stacks with what they made.
  void peel() {
    first_ = static_cast<std::size_t>(fewest_steps() - 1);
    forget_conditions(first_ + 1);
    loop_.length = graph_.fresh_symbol();
    path_.hints.bind(loop_.length, in_.steps());
    const auto& body = loop_.trace.steps[first_].forward;
    for (const Node* const node : loop_.nodes) {
      if (!body.empty() && node == body.front().first) break;
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
    const auto place_of = [&](std::size_t i) {
      return i < parts.size() && parts[i].whole ? in_.rolled->find(parts[i].whole) : nullptr;
    };
    std::vector<Owner> kept_owners;
    std::vector<BackwardPart::Part> kept;
    for (std::size_t i = 0; i < parts.size();) {
      std::size_t end = i;
      while (place_of(end) && same_owner(owners[end], owners[i])) ++end;
      const auto of_steps = parts_of_steps(std::span(parts).subspan(i, end - i));
      if (of_steps.empty()) {
        end = std::max(end, i + 1);
        kept_owners.insert(kept_owners.end(), owners.begin() + i, owners.begin() + end);
        kept.insert(kept.end(), parts.begin() + i, parts.begin() + end);
        i = end;
        continue;
      }
      std::vector<RolledBackward::WayOfCond> ways;
      bool always = false;
      for (std::size_t k = 0; k < of_steps.size(); ++k) {
        const auto& [role, last] = of_steps[k];
        const auto of = in_.rolled->begins(role);
        always = always || of.empty();
        ways.insert(ways.end(), of.begin(), of.end());
        kept_owners.push_back(owners[i]);
        kept.push_back(last);
        ++kept.back().loops;
        if (k + 1 < of_steps.size()) ++kept.back().loops_of_next;
        stacked_parts_.emplace(last.whole, role);
      }
      if (!always) need_one_of(std::move(ways));
      i = end;
    }
    owners = std::move(kept_owners);
    parts = std::move(kept);
  }

  /// What the steps give of these parts, in the order in which each step does, and the last of each
  /// of them; nothing where they do not all give the same, but for what only some ways have.
  [[nodiscard]] std::vector<std::pair<StepRole, BackwardPart::Part>> parts_of_steps(
      std::span<const BackwardPart::Part> parts) {
    struct Item {
      std::vector<Value> values;
      BackwardPart::Part last;
    };
    // Items are numbered in the order of the pass.
    std::map<StepRole, Item> of_items;
    std::pair<int, StepRole> before{in_.rolled->high() + 1, {}};
    for (const BackwardPart::Part& part : parts) {
      const RolledBackward::Place& place = *in_.rolled->find(part.whole);
      const bool goes_on = place.step == before.first && place.role > before.second;
      if (place.step >= before.first && !goes_on) return {};
      before = {place.step, place.role};
      auto& [values, last] = of_items[place.role];
      // Loops in the steps give theirs in the same order in each of them.
      const bool is_first = values.empty();
      if (!is_first && (last.loops != part.loops || last.loops_of_next != part.loops_of_next))
        return {};
      values.resize(in_.rolled->visits());
      values[static_cast<std::size_t>(in_.rolled->high() - place.step)] = part.whole;
      last = part;
    }
    std::vector<std::pair<StepRole, BackwardPart::Part>> all;
    for (const auto& [item, of] : of_items) {
      const auto role = in_.rolled->role_in_all(of.values);
      if (!role) return {};
      all.emplace_back(*role, of.last);
    }
    return all;
  }

  // The same walk finds what is needed, and writes it.

  void walk() {
    const auto count = static_cast<int>(graph_.nodes().size());
    made_up_to_ = count;
    order_.clear();
    kept_.clear();
    before_.assign(1, 0);
    bool after = !in_.rolled;
    for (int at = 0; at < count; ++at) {
      Node* const node = graph_.nodes()[static_cast<std::size_t>(at)].get();
      const auto assembled =
          std::ranges::find(in_.assembled, node, &TapedLoopGraph::Assembled::joined);
      if (assembled != in_.assembled.end()) {
        join(*assembled);
      } else if (!is_of_loop(*node) || !in_.gone.contains(node)) {
        const User user{after, in_.in_pass.contains(node), false, later_.contains(node)};
        for (std::size_t i = 0; i < node->inputs().size(); ++i) {
          const Value input = moved(node->inputs()[i], user);
          if (writes_) node->set_input(i, input);
        }
        take_new();
        (is_kept(*node) ? kept_ : order_).push_back(node);
      }
      if (!loop_.is_of_later_pass() && node == loop_.nodes.back()) {
        for (Node* const kept : in_order_of_use(kept_, loop_.forward.captures))
          order_.push_back(kept);
        make_forward();
      }
      if (node == in_.last) {
        if (writes_) make_backward();
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

  /// Whether steps that may have gone other ways left the node behind. What tells whether there is
  /// a first step comes before it.
  [[nodiscard]] bool is_kept(const Node& node) const {
    const int first = loop_.is_while() ? loop_.conditions[0].node->id() : -1;
    return loop_.has_ways() && node.id() > std::max(first, loop_.nodes.front()->id()) &&
           node.id() < loop_.nodes.back()->id();
  }

  /// Whether the node may be gone: most are not, and there are many.
  [[nodiscard]] bool is_of_loop(const Node& node) const {
    const auto at = static_cast<std::size_t>(node.id());
    return at < of_loop_.size() && of_loop_[at];
  }

  /// What a node reads in the place of a value that may be gone.
  Value moved(Value value, const User& user) {
    if (!value || !is_of_loop(*value.node)) return value;
    if (const auto at = in_.results.find(value); at != in_.results.end())
      return forward_output(loop_.last_states.size() + at->second, value);
    if (const auto at = in_.last_state.find(value); at != in_.last_state.end())
      return forward_output(at->second, value);
    for (const TapedLoopGraph::Assembled& a : in_.assembled) {
      if (value == a.length->output()) return a.sum->output();
      if (value == a.joined->output()) return writes_ ? joined_.at(a.joined) : value;
    }
    const StepValues::Place* const place = in_.values->find(value);
    if (user.is_later) return for_later(value, user);
    if (place && in_.gone.contains(value.node)) {
      const bool may_use = user.in_pass || (!user.after && is_before_steps(*place));
      if (!may_use) return fail(value);
      return place->stack.of == Stack::Of::forward && is_view(value)
                 ? again(value, user)
                 : part(place->stack, place->step, user, value);
    }
    if (const auto* const at = in_.rolled ? in_.rolled->find(value) : nullptr) {
      const auto stacked = stacked_parts_.find(value);
      return user.is_path && stacked != stacked_parts_.end() ? made_by_steps(stacked->second, value)
                                                             : last_of(*at, user, value);
    }
    return in_.gone.contains(value.node) ? fail(value) : value;
  }

  /// Whether it is a gradient of a result that comes to what the loop backwards begins with, since
  /// its steps have those of steps further on: there are as many of these in every call.
  [[nodiscard]] bool is_before_steps(const StepValues::Place& place) const {
    return in_.rolled && place.stack.of == Stack::Of::gradient &&
           std::ranges::any_of(in_.rolled->stacks(), [&](const Stack& stack) {
             return stack.of == place.stack.of && stack.number == place.stack.number &&
                    place.step > in_.rolled->high() + stack.shift;
           });
  }

  /// What a step of a later pass reads of a step: a row of what is stacked.
  Value for_later(Value value, const User& user) {
    const StepValues::Place* const place = in_.values->find(value);
    const auto* const at = in_.rolled ? in_.rolled->find(value) : nullptr;
    const bool is_of_steps = place && in_.gone.contains(value.node);
    if (!is_of_steps && !at) return in_.gone.contains(value.node) ? fail(value) : value;
    if (is_view(value) && (at || place->stack.of == Stack::Of::forward)) return again(value, user);
    const Value all = is_of_steps ? whole(place->stack) : in_program_order(at->role, value);
    if (!writes_) return value;
    int row = is_of_steps ? row_of(place->stack, place->step) : at->step - in_.rolled->low();
    if (at && loop_.ascends) row = static_cast<int>(in_.rolled->visits()) - 1 - row;
    return value_of(select(tensor(all), 0, row, loop_.loc));
  }

  /// What all steps backwards made, stacked, the program's first step first.
  Value in_program_order(const StepRole& made, Value value) {
    if (!loop_.ascends) return made_by_steps(made, value);
    number_of(made_in_order_, made);
    const Value all = made_by_steps(made, value);
    return writes_ ? flipped(all) : all;
  }

  /// The rows in the opposite order.
  Value flipped(Value rows) {
    Value& known = flipped_[rows];
    if (!known) known = value_of(flip(tensor(rows), {0}, loop_.loc));
    return known;
  }

  /// Where in the stack the step's row is.
  [[nodiscard]] int row_of(const Stack& stack, int step) const {
    return stack.of == Stack::Of::slice && loop_.is_of_later_pass()
               ? loop_.rows[stack.number].first + step
               : step;
  }
  /// How many rows it has.
  [[nodiscard]] int rows_in(const Stack& stack) const {
    return stack.of == Stack::Of::slice && loop_.is_of_later_pass() ? loop_.rows[stack.number].count
                                                                    : in_.steps();
  }
  [[nodiscard]] Dim length_of(const Stack& stack) const {
    return stack.of == Stack::Of::slice && loop_.is_of_later_pass()
               ? loop_.xs[stack.number].type().shape()[0]
               : loop_.length;
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
    return writes_ ? graph_.append_copy(*view.node, inputs)->output(view.index) : view;
  }

  /// One step's part of a stack, for the steps before or after those that became a loop.
  Value part(const Stack& stack, int step, const User& user, Value value) {
    // As many steps from the beginning, or from the end, in every call.
    const bool from_begin = in_.rolled ? user.after : step < in_.steps() / 2;
    shortest_ = std::max(shortest_, from_begin ? step + 1 : in_.steps() - step);
    const int low = in_.rolled ? in_.rolled->low() : 0;
    const int high = in_.rolled ? in_.rolled->high() : in_.steps() - 1;
    const bool is_near = (from_begin ? step - low : high - step) <= kMostStepsApart &&
                         (from_begin ? step <= high : step >= low);
    if (!(in_.rolled || loop_.is_of_later_pass()) || !is_near ||
        is_only_of_way(loop_.forward, stack))
      return fail(value);
    const Value from = whole(stack);
    if (!writes_) return value;
    const int row = row_of(stack, step);
    const Dim index = from_begin ? Dim(row) : length_of(stack) - (rows_in(stack) - row);
    return value_of(select(tensor(from), 0, index, loop_.loc));
  }

  /// What the last of the steps backwards made, or one before it that the last handed on.
  Value last_of(const RolledBackward::Place& made, const User& user, Value value) {
    if (!user.after) return fail(value);
    const bool is_last = made.step == in_.rolled->low();
    std::optional<std::size_t> state;
    if (lies_in_rows(value))
      state = writes_ ? in_.rolled->after(value) : in_.rolled->ask_after(value);
    if (state) {
      if (!writes_) number_of(asked_, value);
      return writes_ ? backward_node_->output(static_cast<int>(*state)) : value;
    }
    if (is_view(value) && is_last) return last_view(value, user);
    if (user.is_path || !is_last || in_.rolled->is_of_way(made.role)) return fail(value);
    const Value all = made_by_steps(made.role, value);
    return writes_ ? value_of(select(tensor(all), 0, 0, loop_.loc)) : value;
  }

  /// What all steps backwards made, stacked.
  Value made_by_steps(const StepRole& made, Value value) {
    const std::size_t number = number_of(made_, made);
    if (!writes_) return value;
    return backward_node_->output(static_cast<int>(in_.rolled->carried().size() + number));
  }

  Value forward_output(std::size_t number, Value value) const {
    return writes_ ? forward_node_->output(static_cast<int>(number)) : value;
  }

  /// A stack over all steps.
  Value whole(const Stack& stack) {
    if (stack.of == Stack::Of::slice) {
      const Value rows = loop_.xs[stack.number];
      return loop_.ascends && writes_ ? flipped(rows) : rows;
    }
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
    const WrittenItem& item = loop_.forward.items[stack.number];
    return item.cond == WrittenItem::kNoCond &&
           loop_.forward.regions.back()->outputs()[loop_.last_states.size() + result] ==
               item.node->output(stack.index);
  }

  void make_forward() {
    if (!writes_) return;
    const std::vector<Value>& init = loop_.trace.steps[first_].states;
    const Ref<GraphImpl>& region = loop_.forward.regions.back();
    const std::span<const WrittenItem> items = loop_.forward.items;
    Types types;
    const auto give = [&](Value inside) {
      region->outputs().push_back(inside);
      types.push_back(stacked(inside.type(), loop_.length));
    };
    for (const Value state : init) types.push_back(state.type());
    for (const Value made : loop_.slices_made[0])
      types.push_back(stacked(made.type(), loop_.length));
    for (const Stack& stack : stacks_) {
      give(stack.of == Stack::Of::state ? region->placeholders()[stack.number]
                                        : exposed(items, stack.number, stack.index));
    }
    const std::size_t first_reached = types.size();
    for (const auto& ways : needed_) {
      for (const auto& [cond, way] : ways) give(reached(items, cond, way));
    }
    std::vector<Value> inputs = init;
    const std::vector<Value> slices = loop_.is_while() ? begun_stacks() : loop_.xs;
    inputs.insert(inputs.end(), slices.begin(), slices.end());
    inputs.insert(inputs.end(), loop_.forward.captures.begin(), loop_.forward.captures.end());
    forward_node_ =
        append_loop(loop_.is_while() ? kWhileOp : kScanOp, loop_attrs(init.size(), slices.size()),
                    std::move(inputs), std::move(types), loop_.forward.regions);
    read_ways(first_reached);
  }

  /// The host reads whether one of the ways was gone that something needs; results `first..` say in
  /// which steps they were.
  void read_ways(std::size_t first) {
    const int position = loop_.nodes.back()->id() + 1;
    auto at = std::ranges::find_if(path_.decisions,
                                   [&](const Decision& read) { return read.position > position; });
    for (const auto& ways : needed_) {
      Tensor gone;
      for (std::size_t i = 0; i < ways.size(); ++i, ++first) {
        const Tensor steps = tensor(forward_node_->output(static_cast<int>(first)));
        const Tensor any_step = any(steps, {}, false, loop_.loc);
        gone = gone.defined() ? logical_or(gone, any_step, loop_.loc) : any_step;
      }
      at = std::next(path_.decisions.insert(at, {.value = value_of(gone),
                                                 .position = position,
                                                 .outcome = 1,
                                                 .kind = Decision::Kind::boolean,
                                                 .loc = loop_.loc}));
    }
    take_new();
  }

  /// What the steps that stay before a while_loop made, one row each.
  std::vector<Value> begun_stacks() {
    std::vector<Value> begun;
    if (first_ == 0) return begun;
    for (const Stack& made : stacks_) {
      std::vector<Tensor> rows;
      for (std::size_t t = 0; t < first_; ++t) {
        rows.push_back(tensor(in_.values->value_at(made, static_cast<int>(t))));
      }
      begun.push_back(value_of(stack(rows, 0, loop_.loc)));
    }
    return begun;
  }

  /// Without writing it finds what that will need, once it is known how the steps go on.
  void make_backward() {
    const User before{.after = false, .in_pass = true};
    std::vector<Value> inputs;
    Types types;
    for (const RolledBackward::Carried& c : in_.rolled->carried()) {
      types.push_back(c.type);
      if (*c.first) {
        inputs.push_back(moved(*c.first, before));
      } else if (writes_) {
        inputs.push_back(value_of(nothing_of(c.type, loop_.loc)));
      }
    }
    const int from_end = in_.steps() - 1 - in_.rolled->high();
    const Dim count = loop_.length - (from_end + in_.rolled->low());
    for (const Stack& stack : in_.rolled->stacks()) {
      const Value all = whole(stack);
      const int first = row_of(stack, in_.rolled->low() + stack.shift);
      const int left = rows_in(stack) - 1 - row_of(stack, in_.rolled->high() + stack.shift);
      shortest_ = std::max({shortest_, -first, -left});
      if (writes_) inputs.push_back(rows_of(all, length_of(stack), first, left, count));
    }
    for (const Value capture : in_.rolled->captures()) inputs.push_back(moved(capture, before));
    if (!writes_) return;
    const Ref<GraphImpl> region = in_.rolled->region(made_, loop_.loc);
    for (const Value made : std::span(region->outputs()).subspan(types.size()))
      types.push_back(stacked(made.type(), count));
    backward_node_ = append_loop(
        kScanOp, loop_attrs(in_.rolled->carried().size(), in_.rolled->stacks().size(), true),
        std::move(inputs), std::move(types), {&region, 1});
    for (const auto& [view, user] : views_to_make_) last_views_.emplace(view, again(view, user));
    for (const StepRole& made : made_in_order_) flipped(made_by_steps(made, {}));
    take_new();
  }

  /// The `count` rows from `first` on, without the last `left`. What there would be before the
  /// first row or after the last one is for steps that do not use it.
  Value rows_of(Value all, Dim length, int first, int left, Dim count) {
    if (first == 0 && left == 0) return all;
    const Tensor some =
        slice(tensor(all), 0, std::max(first, 0), length - std::max(left, 0), 1, loop_.loc);
    std::vector<Tensor> pieces{some};
    const auto add = [&](int rows, auto at) {
      if (rows >= 0) return;
      Shape shape = all.type().shape();
      shape[0] = -rows;
      pieces.insert(at(), nothing_of({all.type().dtype(), shape}, loop_.loc));
    };
    add(first, [&] { return pieces.begin(); });
    add(left, [&] { return pieces.end(); });
    const Value made = pieces.size() == 1 ? value_of(some) : value_of(concat(pieces, 0, loop_.loc));
    made.node->set_types({with_first(made.type(), count)});
    return made;
  }

  Node* append_loop(const OpInfo& op, Ref<Attrs> attrs, const std::vector<Value>& inputs,
                    Types types, std::span<const Ref<GraphImpl>> regions) {
    Node* const node = graph_.append(op, std::move(attrs), inputs, std::move(types), loop_.loc);
    for (const Ref<GraphImpl>& region : regions) node->add_region(region);
    take_new();
    return node;
  }

  /// The gradient of what is sliced, with the loop's stacked parts in the place of single ones.
  void join(const TapedLoopGraph::Assembled& a) {
    const User user{.after = true, .in_pass = true};
    const std::span<const Value> parts = a.parts;
    const auto low = static_cast<std::size_t>(in_.rolled->low()),
               high = static_cast<std::size_t>(in_.rolled->high());
    if (!writes_) {
      std::vector<Value> of_steps(parts.begin() + low, parts.begin() + high + 1);
      std::ranges::reverse(of_steps);
      const auto role = in_.rolled->role_in_all(of_steps);
      if (!role || role->kind == StepRole::Kind::nothing) {
        failed_ = true;
        return;
      }
      // Of a single part eagerly nothing is added up, and a 0 stays negative.
      const auto gaps = std::ranges::count_if(parts, [](Value part) { return !part; });
      if (gaps > 0) shortest_ = std::max(shortest_, static_cast<int>(gaps) + 2);
      joined_roles_.emplace(a.joined, *role);
      need_one_of(in_.rolled->begins(*role));
    }
    const auto model = std::ranges::find_if(parts, [](Value part) { return bool(part); });
    std::vector<Tensor> pieces;
    for (std::size_t t = 0; t < parts.size(); ++t) {
      if (t > low && t <= high) continue;
      const bool is_rolled = t == low;
      const Value made =
          is_rolled ? made_by_steps(joined_roles_.at(a.joined), *model) : moved(parts[t], user);
      if (!writes_) continue;
      if (is_rolled) {
        // A stack of parts with a first axis of size 1.
        const Type whole = with_first(model->type(), made.type().shape()[0]);
        pieces.push_back(reshape(tensor(made), whole.shape(), loop_.loc));
      } else {
        pieces.push_back(made ? tensor(made) : zeros_of(model->type(), loop_.loc));
      }
    }
    if (!writes_) return;
    Value whole = value_of(concat(pieces, 0, loop_.loc));
    whole.node->set_types({with_first(whole.type(), loop_.length)});
    if (loop_.ascends) whole = flipped(whole);
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
  /// Of gradients, for all steps.
  std::unordered_map<Value, StepRole, ValueHash> stacked_parts_;
  // What the loops give beside their states.
  std::vector<Stack> stacks_;
  std::vector<StepRole> made_, made_in_order_;
  std::vector<Value> asked_;  // states after the last step backwards
  std::vector<std::vector<RolledBackward::WayOfCond>> needed_;

  const std::unordered_set<const Node*> later_;  // nodes of later passes
  std::vector<bool> of_loop_;                    // by number: nodes that may be gone
  bool failed_ = false, writes_ = false;
  int shortest_;           // length of the loop
  std::size_t first_ = 0;  // step that the loop does
  std::vector<Node*> order_;
  std::vector<Node*> kept_;  // among the steps
  std::vector<int> before_;
  std::size_t made_up_to_ = 0;
  Node* forward_node_ = nullptr;
  Node* backward_node_ = nullptr;
  std::unordered_map<const Node*, StepRole> joined_roles_;
  std::unordered_map<const Node*, Value> joined_;
  std::vector<std::pair<Value, User>> views_to_make_;
  ValueMap last_views_, flipped_;
  ValueMap replaced_;  // what others know the loops' results by from now on
};

}  // namespace

bool roll_taped_loop(MovingRecording& moving, TapedLoop& loop,
                     std::unordered_set<const Node*> later, bool in_vain) {
  TapedLoopRoller roller(moving.path, loop, std::move(later), in_vain);
  if (!roller.roll()) return false;
  roller.finish(moving);
  return true;
}

}  // namespace dyad::exec
