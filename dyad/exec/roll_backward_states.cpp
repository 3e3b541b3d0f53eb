#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dyad/exec/roll_backward.h"

// What steps backwards hand on to the next one.

namespace dyad::exec {
namespace {

using Kind = StepRole::Kind;

Type part_type(const BackwardTrace& trace, const StepValues& values, const Stack& stack) {
  const Stack unshifted{stack.of, stack.number, stack.index};
  for (int t = 0;; ++t) {
    // Where a step went another way it has none.
    if (const Value value = values.value_at(unshifted, t)) return value.type();
    if (t == static_cast<int>(trace.steps.size())) return {};
  }
}

}  // namespace

std::optional<StepRole> RolledBackward::role_in_all(std::span<const Value> values) {
  Column column;
  for (std::size_t visit = 0; visit < values.size(); ++visit)
    column.push_back({visit, values[visit], !values[visit]});
  may_be_nothing_ = true;
  auto role = role_of(column);
  may_be_nothing_ = false;
  return role;
}

/// What earlier steps made, or what was there before the first one.
std::optional<StepRole> RolledBackward::state_of(const Column& column) {
  if (settling_) {
    const auto is_it = [&](const State& state) {
      return std::ranges::all_of(column, [&](const Seen& seen) {
        const auto& before = state.before[seen.visit];
        return before && before->is(seen);
      });
    };
    if (is_it(states_[*settling_])) return StepRole{Kind::state, *settling_};
    const auto other = std::ranges::find_if(states_, is_it);
    if (other == states_.end()) return std::nullopt;
    return StepRole{Kind::state, static_cast<std::size_t>(other - states_.begin())};
  }
  const auto typed = std::ranges::find_if(column, [](const Seen& seen) { return !seen.nothing; });
  if (typed == column.end()) return std::nullopt;
  State state{typed->value.type(), {}, {}};
  state.before.resize(count_ + 1);
  for (const Seen& seen : column) {
    if (!seen.nothing) {
      const bool is_earlier = step_of(seen.value).value_or(high_ + 1) > step(seen.visit);
      // What the first step has of another one's, it has from before.
      const bool is_given = seen.visit > 0 && values_.find(seen.value);
      if (!is_earlier || is_given || !seen.value.type().same_as(state.type)) return std::nullopt;
    }
    state.before[seen.visit] = seen;
  }
  const auto known = std::ranges::find_if(states_, [&](const State& other) {
    return std::ranges::equal(other.before, state.before, [](const auto& a, const auto& b) {
      return a.has_value() == b.has_value() && (!a || a->is(*b));
    });
  });
  const auto number = static_cast<std::size_t>(known - states_.begin());
  if (known == states_.end()) states_.push_back(std::move(state));
  return StepRole{Kind::state, number};
}

std::optional<std::size_t> RolledBackward::ask_after(Value value) {
  if (const auto known = after(value)) return known;
  const Place* const place = find(value);
  if (!place) return std::nullopt;
  // A state that the same item has made before, or one that adds to what this one made.
  const auto& makers = makers_[static_cast<std::size_t>(high_ - place->step)].at(value);
  const auto is_it = [&](const State& state) {
    return state.type.same_as(value.type()) &&
           std::ranges::any_of(state.before, [&](const std::optional<Seen>& seen) {
             if (!seen || seen->nothing) return false;
             const Place* const made = find(seen->value);
             return made && std::ranges::find(makers, made->role) != makers.end();
           });
  };
  for (std::size_t s = 0; s < states_.size(); ++s) {
    const auto& last = states_[s].before[count_];
    if (!is_it(states_[s]) || (last && !(last->value == value))) continue;
    states_[s].before[count_] = Seen{count_, value};
    after_.emplace(value, s);
    return s;
  }
  return std::nullopt;
}

std::optional<std::size_t> RolledBackward::after(Value value) const {
  const auto known = after_.find(value);
  return known == after_.end() ? std::nullopt : std::optional(known->second);
}

/// What a step does not make it has from the one before.
void RolledBackward::hand_on(State& state) const {
  for (std::size_t visit = count_; visit-- > 0;) {
    const auto& after = state.before[visit + 1];
    if (!after || state.before[visit]) continue;
    if (!after->nothing && is_made_at(visit, after->value)) continue;
    state.before[visit] = Seen{visit, after->value, after->nothing};
  }
}

bool RolledBackward::find_next(std::size_t state) {
  Column column;
  for (std::size_t visit = 0; visit < count_; ++visit) {
    if (const auto& after = states_[state].before[visit + 1])
      column.push_back({visit, after->value, after->nothing});
  }
  settling_ = state;
  const auto next = role_of(column);
  if (!next) return false;
  states_[state].next = *next;
  return true;
}

/// Whether both are the same if states `i` and `j` are.
bool RolledBackward::are_one(const StepRole& a, const StepRole& b, std::size_t i,
                             std::size_t j) const {
  if (a == b) return true;
  if (a.kind != b.kind) return false;
  if (a.kind == Kind::state)
    return (a.number == i && b.number == j) || (a.number == j && b.number == i);
  if (a.kind != Kind::local || a.number != b.number || items_[a.number].node) return false;
  return std::ranges::all_of(items_[a.number].ways, [&](const StepBlock& way) {
    return are_one(way.outputs[static_cast<std::size_t>(a.index)],
                   way.outputs[static_cast<std::size_t>(b.index)], i, j);
  });
}

/// States that begin and go on alike are one: ways that use the same see it as two.
void RolledBackward::merge_states() {
  std::vector<std::size_t> now(states_.size());
  for (std::size_t j = 0; j < states_.size(); ++j) {
    now[j] = j;
    for (std::size_t i = 0; i < j && now[j] == j; ++i) {
      State &a = states_[i], &b = states_[j];
      if (now[i] != i || !a.type.same_as(b.type) || !are_one(a.next, b.next, i, j)) continue;
      bool agree = true;
      for (std::size_t visit = 0; visit <= count_; ++visit)
        agree = agree &&
                (!a.before[visit] || !b.before[visit] || a.before[visit]->is(*b.before[visit]));
      if (!agree) continue;
      now[j] = i;
      for (std::size_t visit = 0; visit <= count_; ++visit) {
        if (!a.before[visit]) a.before[visit] = b.before[visit];
      }
    }
  }
  std::vector<std::size_t> number(states_.size());
  for (std::size_t s = 0, left = 0; s < states_.size(); ++s)
    number[s] = now[s] == s ? left++ : number[now[s]];
  const auto rename = [&](StepRole& role) {
    if (role.kind == Kind::state) role.number = number[role.number];
  };
  for (StepItem& item : items_) {
    std::ranges::for_each(item.inputs, rename);
    for (StepBlock& way : item.ways) std::ranges::for_each(way.outputs, rename);
  }
  for (StepView& view : views_) std::ranges::for_each(view.inputs, rename);
  for (auto& [value, state] : after_) state = number[state];
  for (std::size_t s = 0; s < states_.size(); ++s) {
    if (now[s] != s) continue;
    const State& state = states_[s];
    Carried& made = carried_.emplace_back(state.type, std::nullopt, state.next);
    rename(made.next);
    if (state.before[0]) made.first = state.before[0]->value;
  }
}

bool RolledBackward::settle() {
  for (State& state : states_) hand_on(state);
  for (std::size_t s = 0; s < states_.size(); ++s) {
    if (!find_next(s)) return false;
  }
  settling_.reset();
  merge_states();
  return std::ranges::all_of(carried_, [](const Carried& c) { return c.first.has_value(); }) &&
         is_in_order(body_, std::vector<bool>(items_.size()));
}

/// Whether every step makes more of the state than nothing; if not, `ways` get those that do.
bool RolledBackward::always_begins(const StepRole& role, std::size_t state,
                                   std::vector<WayOfCond>& ways, bool& is_known) const {
  if (role.kind == Kind::nothing) return false;
  if (role.kind == Kind::state) {
    is_known = is_known && role.number == state;
    return false;
  }
  if (role.kind != Kind::local) return true;
  const StepItem& item = items_[role.number];
  if (item.node) return true;
  std::array<std::vector<WayOfCond>, 2> of;
  std::array<bool, 2> always{};
  for (std::size_t way = 0; way < 2; ++way) {
    const StepBlock& block = item.ways[way];
    always[way] = always_begins(block.outputs[static_cast<std::size_t>(role.index)], state, of[way],
                                is_known);
  }
  if (always[0] && always[1]) return true;
  for (std::size_t way = 0; way < 2; ++way) {
    if (always[way]) ways.emplace_back(cond_of_loop_[role.number], way);
    ways.insert(ways.end(), of[way].begin(), of[way].end());
  }
  return false;
}

std::optional<std::vector<RolledBackward::WayOfCond>> RolledBackward::begins(
    std::size_t state) const {
  const Carried& carried = carried_[state];
  if (carried.first && *carried.first) return std::vector<WayOfCond>();
  std::vector<WayOfCond> ways;
  bool is_known = true;
  if (always_begins(carried.next, state, ways, is_known)) return std::vector<WayOfCond>();
  return is_known ? std::optional(std::move(ways)) : std::nullopt;
}

std::vector<RolledBackward::WayOfCond> RolledBackward::begins(const StepRole& of_all_steps) const {
  std::vector<WayOfCond> ways;
  bool is_known = true;
  if (always_begins(of_all_steps, states_.size(), ways, is_known)) ways.clear();
  return ways;
}

bool RolledBackward::is_of_way(const StepRole& made) const {
  return around_[made.number].first != WrittenItem::kNoCond;
}

/// Whether every operand is made before it is used, where it is used. `made`: the items of the
/// blocks around.
bool RolledBackward::is_in_order(const StepBlock& block, std::vector<bool> made) const {
  const auto are_there = [&](std::span<const StepRole> roles) {
    return std::ranges::all_of(roles, [&](const StepRole& role) {
      return is_made_there(role, views_, [&](std::size_t maker) { return made[maker]; });
    });
  };
  for (const std::size_t number : block.items) {
    const StepItem& item = items_[number];
    if (!are_there(item.inputs)) return false;
    if (!item.node && !std::ranges::all_of(
                          item.ways, [&](const StepBlock& way) { return is_in_order(way, made); }))
      return false;
    made[number] = true;
  }
  return are_there(block.outputs);
}

Ref<GraphImpl> RolledBackward::region(std::span<const StepRole> made, Loc loc) const {
  const auto graph = make_ref<GraphImpl>();
  KnownRoles known;
  const auto add = [&](Kind kind, std::size_t number, char letter, const Type& type) {
    known.emplace_back(StepRole{kind, number},
                       graph->add_placeholder(fmt::format("{}{}", letter, number), type, loc));
  };
  for (std::size_t i = 0; i < carried_.size(); ++i) add(Kind::state, i, 'p', carried_[i].type);
  for (std::size_t i = 0; i < stacks_.size(); ++i)
    add(Kind::slice, i, 'x', part_type(trace_, values_, stacks_[i]));
  for (std::size_t i = 0; i < captures_.size(); ++i)
    add(Kind::capture, i, 'c', captures_[i].type());
  StepBlock body = body_;
  for (const Carried& c : carried_) body.outputs.push_back(c.next);
  body.outputs.insert(body.outputs.end(), made.begin(), made.end());
  StepWriter(items_, views_).append(graph, body, known);
  return graph;
}

}  // namespace dyad::exec
