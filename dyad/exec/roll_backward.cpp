#include "dyad/exec/roll_backward.h"

#include <algorithm>
#include <array>

namespace dyad::exec {
namespace {

using Kind = StepRole::Kind;

}  // namespace

RolledBackward::RolledBackward(const BackwardTrace& trace, const StepValues& values,
                               const RolledLoop& loop, int low, int high, bool all_steps)
    : trace_(trace),
      values_(values),
      loop_(loop),
      low_(low),
      high_(high),
      count_(static_cast<std::size_t>(high - low + 1)),
      all_steps_(all_steps),
      made_(count_),
      makers_(count_),
      given_(count_) {}

bool RolledBackward::match() {
  std::vector<Range> ranges;
  bool any = false;
  for (std::size_t visit = 0; visit < count_; ++visit) {
    const BackwardTrace::Step& of = trace_.steps[static_cast<std::size_t>(step(visit))];
    ranges.push_back({visit, 0, of.backward.size(), 0, of.ways.size()});
    any = any || !of.backward.empty();
    for (const Node* const node : of.backward) steps_.emplace(node, step(visit));
  }
  if (!any) return false;
  auto body = match_block(ranges);
  if (!body) return false;
  body_ = *std::move(body);
  open_ = &body_;
  return true;
}

const RolledBackward::Place* RolledBackward::find(Value value) const {
  const auto found = places_.find(value);
  return found == places_.end() ? nullptr : &found->second;
}

std::vector<RolledBackward::Entry> RolledBackward::entries(const Range& range) const {
  const BackwardTrace::Step& of = trace_.steps[static_cast<std::size_t>(step(range.visit))];
  std::vector<Entry> all;
  std::size_t at = range.begin;
  const auto add_nodes = [&](std::size_t end) {
    for (; at < end; ++at) all.push_back({.node = of.backward[at], .way = nullptr, .addend = {}});
  };
  for (std::size_t w = range.first_way; w < range.last_way; w = of.ways[w].last) {
    add_nodes(of.ways[w].begin);
    all.push_back({.node = nullptr, .way = &of.ways[w], .addend = {}});
    at = of.ways[w].end;
  }
  add_nodes(range.end);
  return all;
}

/// What the ranges have in common. The longest of them says what there is to be done.
std::optional<StepBlock> RolledBackward::match_block(std::span<const Range> ranges) {
  std::vector<std::vector<Entry>> of;
  std::size_t model = 0;
  for (const Range& range : ranges) {
    of.push_back(entries(range));
    if (of.back().size() > of[model].size()) model = of.size() - 1;
  }
  std::vector<std::size_t> next(ranges.size());
  StepBlock block;
  StepBlock* const outer = std::exchange(open_, &block);
  const auto closed = [&](std::optional<StepBlock> made) {
    open_ = outer;
    return made;
  };
  std::vector<Entry> column(ranges.size());
  for (const Entry& wanted : of[model]) {
    const std::size_t model_visit = ranges[model].visit;
    for (std::size_t t = 0; t < ranges.size(); ++t) {
      const std::size_t visit = ranges[t].visit;
      const bool lacks_some = of[t].size() < of[model].size();
      if (next[t] < of[t].size() && fits(wanted, model_visit, of[t][next[t]], visit, lacks_some)) {
        column[t] = of[t][next[t]++];
        continue;
      }
      const auto without = missing(wanted, model_visit, visit);
      if (!without) return closed(std::nullopt);
      column[t] = *without;
    }
    auto item = wanted.way ? match_ways(ranges, column) : match_nodes(ranges, column, wanted.node);
    if (!item) return closed(std::nullopt);
    const std::size_t number = add_item(*std::move(item), wanted.way ? wanted.way->cond : 0);
    for (std::size_t t = 0; t < ranges.size(); ++t) note_made(ranges[t].visit, number, column[t]);
    for (std::size_t way = 0; way < 2; ++way) {
      for (const std::size_t inside : items_[number].ways[way].items) {
        around_[inside] = {number, way};
        in_sight_[inside] = false;
      }
    }
  }
  for (std::size_t t = 0; t < ranges.size(); ++t) {
    if (next[t] < of[t].size()) return closed(std::nullopt);
  }
  return closed(block);
}

std::size_t RolledBackward::add_item(StepItem item, std::size_t cond_of_loop) {
  const std::size_t number = items_.size();
  items_.push_back(std::move(item));
  open_->items.push_back(number);
  in_sight_.push_back(true);
  around_.emplace_back(WrittenItem::kNoCond, 0);
  gone_.emplace_back();
  cond_of_loop_.push_back(cond_of_loop);
  return number;
}

/// Whether a step has here what the model has. Where it lacks some of that, what it computes from
/// tells which of it this is.
bool RolledBackward::fits(const Entry& model, std::size_t model_visit, const Entry& entry,
                          std::size_t visit, bool lacks_some) const {
  if (model.way || entry.way) return model.way && entry.way && model.way->cond == entry.way->cond;
  if (!same_work(*model.node, *entry.node)) return false;
  for (std::size_t i = 0; lacks_some && i < model.node->inputs().size(); ++i) {
    if (differ(model.node->inputs()[i], model_visit, entry.node->inputs()[i], visit)) return false;
  }
  return true;
}

/// Whether two operands are different things in their steps for certain: what a way made or was
/// given, and what is handed on, may be the same.
bool RolledBackward::differ(Value a, std::size_t visit_a, Value b, std::size_t visit_b) const {
  if (!a || !b) return static_cast<bool>(a) != static_cast<bool>(b);
  const StepRole *const made_a = in_sight_of(a, visit_a), *const made_b = in_sight_of(b, visit_b);
  if (made_a && made_b) {
    const std::vector<StepRole>& roles = makers_[visit_b].at(b);
    return std::ranges::find(roles, *made_a) == roles.end();
  }
  if ((made_a && is_from_forward(b)) || (made_b && is_from_forward(a))) return true;
  // What was there before the loop is the same in all steps.
  if (a == b) return false;
  if (is_from_before(a) || is_from_before(b)) return true;
  const std::vector<Stack> known_a = stacks_with(a, visit_a), known_b = stacks_with(b, visit_b);
  return !known_a.empty() && !known_b.empty() &&
         std::ranges::find_first_of(known_a, known_b) == known_a.end();
}

/// Whether it is of none of the steps, which are told by what they have of each other.
bool RolledBackward::is_from_before(Value value) const {
  if (value.node->is("variable") || value.node->is("placeholder")) return true;
  const BackwardTrace::Step& first = trace_.steps[0];
  return !first.forward.empty() && value.node->id() < first.forward[0].first->id() &&
         !values_.find(value) && std::ranges::find(first.states, value) == first.states.end();
}

/// Whether it was there before the pass, which does not make it in any step.
bool RolledBackward::is_from_forward(Value value) const {
  const StepValues::Place* const place = values_.find(value);
  if (place) return place->stack.of != Stack::Of::gradient;
  const std::vector<Value>& states = trace_.steps[0].states;
  return is_from_before(value) || std::ranges::find(states, value) != states.end();
}

/// All that a value of the loop is, seen from this visit.
std::vector<Stack> RolledBackward::stacks_with(Value value, std::size_t visit) const {
  std::vector<Stack> found;
  const auto add = [&](Stack stack, int at) {
    stack.shift = at - step(visit);
    found.push_back(stack);
  };
  const auto add_of = [&](int at) {
    const BackwardTrace::Step& of = trace_.steps[static_cast<std::size_t>(at)];
    for (const auto& [given, stack] : of.given) {
      if (given == value) add(stack, at);
    }
    for (std::size_t i = 0; i < of.states.size(); ++i) {
      if (of.states[i] == value) add({Stack::Of::state, i}, at);
    }
  };
  const StepValues::Place* const place = values_.find(value);
  if (place) add(place->stack, place->step);
  const int made_in = place ? place->step : 0;  // or it is what the first step began with
  add_of(step(visit));
  if (made_in != step(visit)) add_of(made_in);
  return found;
}

/// What the step has in the place of the model's node, if it may be without it.
std::optional<RolledBackward::Entry> RolledBackward::missing(const Entry& model,
                                                             std::size_t model_visit,
                                                             std::size_t visit) const {
  if (!all_steps_ || !model.node) return std::nullopt;
  for (std::size_t sum = 0; sum < 2 && model.node->is("add"); ++sum) {
    const auto addend = counterpart(model.node->inputs()[1 - sum], model_visit, visit);
    const bool is_handed_on = !in_sight_of(model.node->inputs()[sum], model_visit) &&
                              !counterpart(model.node->inputs()[sum], model_visit, visit);
    if (addend && is_handed_on && addend->type().same_as(model.node->types()[0]))
      return Entry{.node = nullptr, .way = nullptr, .addend = *addend, .sum = sum};
  }
  return Entry{};
}

/// What in the step is what `value` is in the model's; nothing where that is handed on, or where
/// the step does not make it.
std::optional<Value> RolledBackward::counterpart(Value value, std::size_t of_visit,
                                                 std::size_t visit) const {
  if (!value) return std::nullopt;
  Value found;
  if (const StepRole* const made = in_sight_of(value, of_visit)) {
    found = made_at(visit, *made);
  } else if (const StepValues::Place* const place = values_.find(value);
             place && !is_only_of_way(loop_, place->stack)) {
    found = values_.value_at(place->stack, place->step - step(of_visit) + step(visit));
  }
  return found ? std::optional(found) : std::nullopt;
}

/// What of that which is in sight makes the value in this step.
const StepRole* RolledBackward::in_sight_of(Value value, std::size_t visit) const {
  const auto made = makers_[visit].find(value);
  if (made == makers_[visit].end()) return nullptr;
  const StepRole& role = made->second[0];
  return in_sight_[role.number] ? &role : nullptr;
}

std::optional<int> RolledBackward::step_of(Value value) const {
  const auto found = steps_.find(value.node);
  return found == steps_.end() ? std::nullopt : std::optional(found->second);
}

Value RolledBackward::made_at(std::size_t visit, const StepRole& role) const {
  const auto made = made_[visit].find(role.number);
  const auto index = static_cast<std::size_t>(role.index);
  return made == made_[visit].end() || made->second.size() <= index ? Value() : made->second[index];
}

bool RolledBackward::is_made_at(std::size_t visit, Value value) const {
  return makers_[visit].contains(value);
}

void RolledBackward::note_made(std::size_t visit, std::size_t item, const Entry& entry) {
  if (entry.way) {
    gone_[item].emplace(visit, entry.way->then ? 0 : 1);
    return;
  }
  const auto add = [&](Value value, int index) {
    const StepRole role{Kind::local, item, index};
    made_[visit][item].push_back(value);
    makers_[visit][value].push_back(role);
    if (entry.node) places_.emplace(value, Place{step(visit), role});
  };
  if (entry.addend) add(entry.addend, 0);
  if (!entry.node) return;
  const int outputs = static_cast<int>(entry.node->types().size());
  for (int i = 0; i < outputs; ++i) add(entry.node->output(i), i);
}

std::optional<StepItem> RolledBackward::match_nodes(std::span<const Range> ranges,
                                                    std::span<const Entry> column, Node* model) {
  StepItem item{.node = model, .loc = {}, .inputs = {}, .ways = {}};
  for (std::size_t i = 0; i < model->inputs().size(); ++i) {
    Column operand;
    for (std::size_t t = 0; t < column.size(); ++t) {
      if (column[t].node) {
        operand.push_back({ranges[t].visit, column[t].node->inputs()[i]});
      } else if (column[t].addend) {
        const bool nothing = i == column[t].sum;
        operand.push_back({ranges[t].visit, nothing ? Value() : column[t].addend, nothing});
      }
    }
    const auto role = role_of(operand);
    if (!role) return std::nullopt;
    item.inputs.push_back(*role);
  }
  return item;
}

std::optional<StepItem> RolledBackward::match_ways(std::span<const Range> ranges,
                                                   std::span<const Entry> column) {
  Column preds;
  std::array<std::vector<Range>, 2> taken;
  for (std::size_t t = 0; t < column.size(); ++t) {
    const std::size_t visit = ranges[t].visit;
    const BackwardTrace::Way& way = *column[t].way;
    const auto inside = static_cast<std::size_t>(
        &way - trace_.steps[static_cast<std::size_t>(step(visit))].ways.data());
    preds.push_back({visit, way.pred});
    taken[way.then ? 0 : 1].push_back({visit, way.begin, way.end, inside + 1, way.last});
  }
  const auto pred = role_of(preds);
  if (!pred) return std::nullopt;
  StepItem item{.node = nullptr, .loc = column[0].way->loc, .inputs = {*pred}, .ways = {}};
  for (std::size_t way = 0; way < 2; ++way) {
    if (taken[way].size() < kFewest) return std::nullopt;
    auto block = match_block(taken[way]);
    if (!block) return std::nullopt;
    // The other way does not see what this one makes.
    for (const std::size_t inside : block->items) in_sight_[inside] = false;
    item.ways[way] = *std::move(block);
  }
  return item;
}

/// What the operand is in all these steps; nothing where that cannot be told.
std::optional<StepRole> RolledBackward::role_of(const Column& column) {
  if (column.size() < kFewest) return std::nullopt;
  const auto is_none = [](const Seen& seen) { return !seen.value && !seen.nothing; };
  if (std::ranges::all_of(column, is_none)) return StepRole{};
  if (std::ranges::any_of(column, is_none)) return std::nullopt;
  const bool is_nothing = std::ranges::all_of(column, &Seen::nothing);
  if (is_nothing && may_be_nothing_) return StepRole{Kind::nothing};
  if (const auto role = local(column)) return role;
  if (const auto role = captured(column)) return role;
  if (std::ranges::any_of(column, [&](const Seen& seen) { return is_view_of_step(seen); })) {
    // What lies as anything else that is carried from step to step is carried, too.
    const bool is_carried = std::ranges::all_of(column, [&](const Seen& seen) {
      return !is_view_of_step(seen) || (!values_.find(seen.value) && lies_in_rows(seen.value));
    });
    if (!is_carried) return viewed(column);
  }
  if (const auto stack = stack_of(column)) return StepRole{Kind::slice, number_of(stacks_, *stack)};
  if (const auto cond = cond_around(column)) return result_of(*cond, column);
  if (const auto role = state_of(column)) return role;
  return result_of_any(column);
}

std::optional<StepRole> RolledBackward::local(const Column& column) const {
  const auto is_it = [&](const StepRole& role) {
    return in_sight_[role.number] && std::ranges::all_of(column, [&](const Seen& seen) {
             return !seen.nothing && made_at(seen.visit, role) == seen.value;
           });
  };
  for (const auto* known : {&makers_, &given_}) {
    const auto& here = (*known)[column[0].visit];
    const auto roles = here.find(column[0].value);
    if (roles == here.end()) continue;
    const auto role = std::ranges::find_if(roles->second, is_it);
    if (role != roles->second.end()) return *role;
  }
  return std::nullopt;
}

std::optional<StepRole> RolledBackward::captured(const Column& column) {
  const Value first = column[0].value;
  const bool is_same = std::ranges::all_of(
      column, [&](const Seen& seen) { return !seen.nothing && seen.value == first; });
  // What a step made is no longer there.
  if (!is_same || values_.find(first) || step_of(first)) return std::nullopt;
  return StepRole{Kind::capture, number_of(captures_, first)};
}

/// Whether it is a view that a step made, forward or, before this one, backwards.
bool RolledBackward::is_view_of_step(const Seen& seen) const {
  if (seen.nothing || !is_view(seen.value)) return false;
  const StepValues::Place* const place = values_.find(seen.value);
  if (place) return place->stack.of == Stack::Of::forward;
  return step_of(seen.value).value_or(step(seen.visit)) != step(seen.visit);
}

std::optional<StepRole> RolledBackward::viewed(const Column& column) {
  const Value first = column[0].value;
  const bool alike = std::ranges::all_of(column, [&](const Seen& seen) {
    return !seen.nothing && seen.value.index == first.index &&
           same_work(*first.node, *seen.value.node);
  });
  if (!alike) return std::nullopt;
  StepView view{first, {}};
  for (std::size_t i = 0; i < first.node->inputs().size(); ++i) {
    Column of;
    for (const Seen& seen : column) of.push_back({seen.visit, seen.value.node->inputs()[i]});
    const auto role = role_of(of);
    if (!role) return std::nullopt;
    view.inputs.push_back(*role);
  }
  views_.push_back(std::move(view));
  return StepRole{Kind::view, views_.size() - 1};
}

/// What is another value of the loop in every step.
std::optional<Stack> RolledBackward::stack_of(const Column& column) const {
  const auto fits = [&](const Stack& stack) {
    const Stack unshifted{stack.of, stack.number, stack.index};
    const auto steps = static_cast<int>(trace_.steps.size());
    return std::ranges::all_of(column, [&](const Seen& seen) {
      const int at = step(seen.visit) + stack.shift;
      // There are rows of nothing before the first step, and after the last one.
      if (seen.nothing) return stack.of == Stack::Of::gradient && (at < 0 || at >= steps);
      return values_.value_at(unshifted, at) == seen.value;
    });
  };
  const auto is_there = [](const Seen& seen) { return !seen.nothing; };
  if (column[0].nothing ||
      static_cast<std::size_t>(std::ranges::count_if(column, is_there)) < kFewest)
    return std::nullopt;
  const int here = step(column[0].visit);
  if (const StepValues::Place* const place = values_.find(column[0].value)) {
    Stack stack = place->stack;
    stack.shift = place->step - here;
    // What a step has of the one before it, it has as a state: before the first one, too. Gradients
    // of results there are none of then.
    const bool may_be = !all_steps_ || stack.shift == 0 || stack.of == Stack::Of::gradient;
    if (may_be && fits(stack)) return stack;
  }
  const BackwardTrace::Step& first = trace_.steps[static_cast<std::size_t>(here)];
  for (const auto& [value, stack] : first.given) {
    if (value == column[0].value && fits(stack)) return stack;
  }
  for (std::size_t i = 0; i < first.states.size(); ++i) {
    if (const Stack stack{Stack::Of::state, i}; fits(stack)) return stack;
  }
  return std::nullopt;
}

/// The cond in sight in one of whose ways a step makes the value.
std::optional<std::size_t> RolledBackward::cond_around(const Column& column) const {
  for (const Seen& seen : column) {
    if (seen.nothing) continue;
    const auto made = makers_[seen.visit].find(seen.value);
    if (made == makers_[seen.visit].end()) continue;
    std::size_t item = made->second[0].number;
    while (around_[item].first != WrittenItem::kNoCond && !in_sight_[item])
      item = around_[item].first;
    if (in_sight_[item] && item != made->second[0].number) return item;
  }
  return std::nullopt;
}

/// What the ways of a cond give, if what the column is in the steps of each of them can be told.
std::optional<StepRole> RolledBackward::result_of(std::size_t cond, const Column& column) {
  std::array<StepRole, 2> roles;
  for (std::size_t way = 0; way < 2; ++way) {
    Column here;
    for (const Seen& seen : column) {
      const auto gone = gone_[cond].find(seen.visit);
      if (gone == gone_[cond].end()) return std::nullopt;
      if (gone->second == way) here.push_back(seen);
    }
    if (here.empty() && !settling_ && is_without(cond, way, column)) {
      roles[way] = {Kind::nothing};
      continue;
    }
    const std::vector<std::size_t>& inside = items_[cond].ways[way].items;
    for (const std::size_t item : inside) in_sight_[item] = true;
    ++ways_in_sight_;
    const auto role = role_of(here);
    --ways_in_sight_;
    for (const std::size_t item : inside) in_sight_[item] = false;
    if (!role) return std::nullopt;
    roles[way] = *role;
  }
  const auto place = chooser(cond, roles);
  if (!place) return std::nullopt;
  const StepRole result = add_result(*place, roles[0], roles[1]);
  for (const Seen& seen : column) {
    if (seen.nothing) continue;
    std::vector<Value>& values = made_[seen.visit][*place];
    if (values.size() <= static_cast<std::size_t>(result.index))
      values.resize(static_cast<std::size_t>(result.index) + 1);
    values[static_cast<std::size_t>(result.index)] = seen.value;
    given_[seen.visit][seen.value].push_back(result);
  }
  return result;
}

/// Whether steps that went this way do without what the column is for, and not because nothing was
/// there yet to be differentiated.
bool RolledBackward::is_without(std::size_t cond, std::size_t way, const Column& column) const {
  const auto counts = [&](const auto& gone) {
    return gone.second == way && gone.first < column.back().visit;
  };
  return static_cast<std::size_t>(std::ranges::count_if(gone_[cond], counts)) >= kFewest;
}

std::optional<StepRole> RolledBackward::result_of_any(const Column& column) {
  for (std::size_t item = items_.size(); item-- > 0;) {
    if (items_[item].node || !in_sight_[item]) continue;
    const bool both =
        std::ranges::all_of(std::array{std::size_t{0}, std::size_t{1}}, [&](auto way) {
          return std::ranges::any_of(column, [&](const Seen& seen) {
            const auto gone = gone_[item].find(seen.visit);
            return gone != gone_[item].end() && gone->second == way;
          });
        });
    if (!both) continue;
    if (const auto role = result_of(item, column)) return role;
  }
  return std::nullopt;
}

/// Whether the item can use what has the role.
bool RolledBackward::is_before(const StepRole& role, std::size_t item) const {
  return is_made_there(role, views_, [&](std::size_t maker) { return maker < item; });
}

bool RolledBackward::is_in_sight(const StepRole& role) const {
  return is_made_there(role, views_, [&](std::size_t maker) { return in_sight_[maker]; });
}

/// The cond itself, or where it comes before what it would have to give another one that asks the
/// same. That cannot give what is made in the ways.
std::optional<std::size_t> RolledBackward::chooser(std::size_t cond,
                                                   const std::array<StepRole, 2>& roles) {
  if (std::ranges::all_of(roles, [&](const StepRole& role) { return is_before(role, cond); }))
    return cond;
  const bool is_inside =
      std::ranges::any_of(roles, [&](const StepRole& role) { return !is_in_sight(role); });
  if (ways_in_sight_ > 0 || is_inside) return std::nullopt;
  const std::size_t made = add_item(
      {.node = nullptr, .loc = items_[cond].loc, .inputs = items_[cond].inputs, .ways = {}},
      cond_of_loop_[cond]);
  gone_[made] = gone_[cond];
  return made;
}

StepRole RolledBackward::add_result(std::size_t cond, const StepRole& then,
                                    const StepRole& otherwise) {
  auto& ways = items_[cond].ways;
  std::size_t index = 0;
  while (index < ways[0].outputs.size() &&
         !(ways[0].outputs[index] == then && ways[1].outputs[index] == otherwise))
    ++index;
  if (index == ways[0].outputs.size()) {
    ways[0].outputs.push_back(then);
    ways[1].outputs.push_back(otherwise);
  }
  return {Kind::local, cond, static_cast<int>(index)};
}

std::unique_ptr<RolledBackward> roll_backward(const BackwardTrace& trace, const StepValues& values,
                                              const RolledLoop& loop, bool in_vain) {
  const int count = static_cast<int>(trace.steps.size());
  const auto match = [&](int low, int high, bool all_steps) {
    auto rolled = std::make_unique<RolledBackward>(trace, values, loop, low, high, all_steps);
    return rolled->match() ? std::move(rolled) : nullptr;
  };
  const bool has_ways = !trace.steps[0].ways.empty();
  // Of two steps, one of which begins sums and the other lacks something, nobody can tell what is
  // the same in both.
  if (in_vain && !has_ways && count < 3) return nullptr;
  if (in_vain || has_ways) return match(0, count - 1, true);
  for (int apart = 0; apart <= std::min(2 * kMostStepsApart, count - 2); ++apart) {
    for (int low = std::max(0, apart - kMostStepsApart); low <= std::min(apart, kMostStepsApart);
         ++low) {
      if (auto rolled = match(low, count - 1 - (apart - low), false)) return rolled;
    }
  }
  return nullptr;
}

}  // namespace dyad::exec
