#include "dyad/exec/roll_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <utility>

#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/traced_while.h"

namespace dyad::exec {
namespace {

using Role = StepRole;
using Block = StepBlock;

/// What stands somewhere in one step, one of the two.
struct Entry {
  Node* node = nullptr;
  const TracedPart* part = nullptr;
};

/// A stretch of one step.
struct Range {
  std::size_t step = 0;
  int begin = 0, end = 0;
  std::size_t first_part = 0, last_part = 0;
};

class Roller {
 public:
  Roller(const GraphImpl& graph, const LoopTrace& trace)
      : graph_(graph),
        trace_(trace),
        constant_(trace.constant_states()),
        local_(trace.steps.size()),
        given_(trace.steps.size()) {}

  std::optional<RolledLoop> roll() {
    const bool is_while = trace_.op == &kWhileOp;
    const std::size_t bodies = trace_.steps.size() - (is_while ? 1 : 0);
    if (bodies < kFewest) return std::nullopt;
    std::vector<Block> blocks;
    if (is_while) {
      std::vector<Range> ranges;
      for (std::size_t t = 0; t < trace_.steps.size(); ++t) {
        const LoopTrace::Step& step = trace_.steps[t];
        ranges.push_back({.step = t, .begin = step.condition, .end = step.body});
      }
      auto condition = match(ranges, {trace_.conditions});
      if (!condition) return std::nullopt;
      blocks.push_back(*std::move(condition));
    }
    auto body = match_body(bodies);
    if (!body) return std::nullopt;
    blocks.push_back(*std::move(body));
    RolledLoop rolled{{}, captures_, constant_, {}, std::move(item_of_), std::move(item_of_part_)};
    StepWriter writer(items_);
    for (const Block& block : blocks) rolled.regions.push_back(build(writer, block));
    rolled.items = std::move(writer.written());
    return rolled;
  }

 private:
  /// Of fewer steps nobody can tell what is the same in all of them.
  static constexpr std::size_t kFewest = 2;

  std::optional<Block> match_body(std::size_t bodies) {
    std::vector<Range> ranges;
    for (std::size_t t = 0; t < bodies; ++t) {
      const LoopTrace::Step& step = trace_.steps[t];
      ranges.push_back({t, step.body, step.end, step.first_part, step.last_part});
    }
    std::vector<std::vector<Value>> results;  // one list for each of them
    for (std::size_t i = 0; i < trace_.last_states.size(); ++i) {
      std::vector<Value>& of = results.emplace_back();
      for (std::size_t t = 0; t < bodies; ++t) {
        of.push_back(t + 1 < trace_.steps.size() ? trace_.steps[t + 1].states[i]
                                                 : trace_.last_states[i]);
      }
    }
    const std::size_t made = trace_.slices_made.empty() ? 0 : trace_.slices_made[0].size();
    for (std::size_t i = 0; i < made; ++i) {
      std::vector<Value>& of = results.emplace_back();
      for (const std::vector<Value>& step : trace_.slices_made) of.push_back(step[i]);
    }
    return match(ranges, results);
  }

  [[nodiscard]] std::vector<Entry> entries(const Range& range) const {
    std::vector<Entry> all;
    const auto add_nodes = [&](int begin, int end) {
      for (Node* const node : trace_.nodes_between(graph_, begin, end))
        all.push_back({.node = node});
    };
    int at = range.begin;
    for (std::size_t b = range.first_part; b < range.last_part;) {
      const TracedPart& part = trace_.parts[b];
      add_nodes(at, part.begin);
      all.push_back({.part = &part});
      at = part.end;
      b = part.last;
    }
    add_nodes(at, range.end);
    return all;
  }

  /// What the ranges have in common, and what `results`, one list a result, are. What they make is
  /// known to nobody else afterwards.
  std::optional<Block> match(std::span<const Range> ranges,
                             const std::vector<std::vector<Value>>& results) {
    std::vector<std::vector<Entry>> of;
    for (const Range& range : ranges) {
      of.push_back(entries(range));
      if (of.back().size() != of[0].size()) return std::nullopt;
    }
    std::vector<std::size_t> given_before;
    for (const Range& range : ranges) given_before.push_back(given_[range.step].size());
    Block block;
    std::vector<Entry> column(ranges.size());
    for (std::size_t k = 0; k < of[0].size(); ++k) {
      for (std::size_t t = 0; t < ranges.size(); ++t) column[t] = of[t][k];
      auto item = column[0].node              ? match_nodes(ranges, column)
                  : column[0].part->is_loop() ? match_loops(ranges, column)
                                              : match_branches(ranges, column);
      if (!item) return std::nullopt;
      const std::size_t number = items_.size();
      items_.push_back(*std::move(item));
      block.items.push_back(number);
      for (std::size_t t = 0; t < ranges.size(); ++t) {
        const std::size_t step = ranges[t].step;
        if (column[t].node) {
          local_[step].emplace(column[t].node, number);
          item_of_.emplace(column[t].node, number);
          continue;
        }
        item_of_part_.emplace(column[t].part, number);
        const std::vector<Value>& values = column[t].part->results;
        for (std::size_t i = 0; i < values.size(); ++i)
          given_[step].push_back({values[i], {Role::Kind::local, number, static_cast<int>(i)}});
      }
    }
    for (const std::vector<Value>& result : results) {
      const auto role = role_of(ranges, result);
      if (!role) return std::nullopt;
      block.outputs.push_back(*role);
    }
    for (std::size_t t = 0; t < ranges.size(); ++t) {
      for (const Entry& entry : of[t]) local_[ranges[t].step].erase(entry.node);
      given_[ranges[t].step].resize(given_before[t]);
    }
    return block;
  }

  std::optional<StepItem> match_nodes(std::span<const Range> ranges,
                                      std::span<const Entry> column) {
    const Node& first = *column[0].node;
    for (const Entry& entry : column) {
      if (!entry.node || !same_work(first, *entry.node)) return std::nullopt;
    }
    StepItem item{.node = column[0].node, .loc = {}, .inputs = {}, .ways = {}};
    std::vector<Value> operand(column.size());
    for (std::size_t i = 0; i < first.inputs().size(); ++i) {
      for (std::size_t t = 0; t < column.size(); ++t) operand[t] = column[t].node->inputs()[i];
      const auto role = role_of(ranges, operand);
      if (!role) return std::nullopt;
      item.inputs.push_back(*role);
    }
    return item;
  }

  std::optional<StepItem> match_branches(std::span<const Range> ranges,
                                         std::span<const Entry> column) {
    const std::vector<Value>& first = column[0].part->results;
    std::vector<Value> preds;
    std::array<std::vector<Range>, 2> taken;
    std::array<std::vector<std::vector<Value>>, 2> results;
    for (auto& way : results) way.resize(first.size());
    for (std::size_t t = 0; t < column.size(); ++t) {
      const TracedPart* const branch = column[t].part;
      if (!branch || branch->is_loop() || branch->results.size() != first.size())
        return std::nullopt;
      preds.push_back(branch->pred);
      const std::size_t way = branch->then ? 0 : 1;
      const auto inside = static_cast<std::size_t>(branch - trace_.parts.data()) + 1;
      taken[way].push_back({ranges[t].step, branch->begin, branch->end, inside, branch->last});
      for (std::size_t i = 0; i < first.size(); ++i) {
        if (!branch->results[i].type().same_as(first[i].type())) return std::nullopt;
        results[way][i].push_back(branch->results[i]);
      }
    }
    const auto pred = role_of(ranges, preds);
    if (!pred) return std::nullopt;
    StepItem item{.node = nullptr, .loc = column[0].part->loc, .inputs = {*pred}, .ways = {}};
    for (std::size_t way = 0; way < 2; ++way) {
      if (taken[way].size() < kFewest) return std::nullopt;
      auto block = match(taken[way], results[way]);
      if (!block) return std::nullopt;
      item.ways[way] = *std::move(block);
    }
    return item;
  }

  /// while_loops, of which one at least is a node: all do what that does.
  std::optional<StepItem> match_loops(std::span<const Range> ranges,
                                      std::span<const Entry> column) {
    const auto is_node = [](const Entry& entry) { return entry.part && entry.part->node; };
    const auto model = std::ranges::find_if(column, is_node);
    if (model == column.end()) return std::nullopt;
    Node& node = *model->part->node;
    StepItem item{.node = &node, .loc = {}, .inputs = {}, .ways = {}};
    // By column the values of each input, and the steps that tell them.
    std::vector<std::vector<Value>> inputs(node.inputs().size());
    std::vector<std::vector<Range>> telling(node.inputs().size());
    for (std::size_t t = 0; t < column.size(); ++t) {
      const TracedPart* const part = column[t].part;
      if (!part || !part->is_loop()) return std::nullopt;
      const auto values = inputs_of(*part, node, graph_, trace_.kept);
      if (!values) return std::nullopt;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!(*values)[i]) continue;  // no step was there to use it
        inputs[i].push_back((*values)[i]);
        telling[i].push_back(ranges[t]);
      }
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].size() < kFewest) return std::nullopt;
      const auto role = role_of(telling[i], inputs[i]);
      if (!role) return std::nullopt;
      item.inputs.push_back(*role);
    }
    return item;
  }

  /// What the operand is in all these steps; nothing where that cannot be told.
  std::optional<Role> role_of(std::span<const Range> ranges, std::span<const Value> operand) {
    std::optional<Role> found = role_without_results(ranges, operand);
    // A cond may give what went in: in these steps, or in all.
    for (const auto& [value, role] : given_[ranges[0].step]) {
      bool fits = true;
      for (std::size_t t = 0; fits && t < operand.size(); ++t)
        fits = value_in(ranges[t].step, role) == operand[t];
      if (!fits) continue;
      if (found && !are_one(*found, role)) return std::nullopt;
      found = role;
    }
    return found;
  }

  /// Whether both are the same value wherever both are there.
  [[nodiscard]] bool are_one(const Role& a, const Role& b) const {
    for (std::size_t step = 0; step < trace_.steps.size(); ++step) {
      const Value in_a = value_in(step, a), in_b = value_in(step, b);
      if (in_a && in_b && !(in_a == in_b)) return false;
    }
    return true;
  }

  /// What has the role in the step; no value where nothing has.
  [[nodiscard]] Value value_in(std::size_t step, const Role& role) const {
    switch (role.kind) {
      case Role::Kind::none:
      case Role::Kind::nothing:
      case Role::Kind::view:
        return {};
      case Role::Kind::state:
        return trace_.steps[step].states[role.number];
      case Role::Kind::slice:
        return trace_.steps[step].slices[role.number];
      case Role::Kind::capture:
        return captures_[role.number];
      case Role::Kind::local:
        break;
    }
    const auto& given = given_[step];
    const auto result = std::ranges::find(given, role, &std::pair<Value, Role>::second);
    if (result != given.end()) return result->first;
    for (const auto& [node, item] : local_[step]) {
      if (item == role.number) return {node, role.index};
    }
    return {};
  }

  /// The same but for results of conds and loops.
  std::optional<Role> role_without_results(std::span<const Range> ranges,
                                           std::span<const Value> operand) {
    const auto everywhere = [&](const auto& is_it) {
      for (std::size_t t = 0; t < operand.size(); ++t) {
        if (!is_it(t, ranges[t].step)) return false;
      }
      return true;
    };
    const Value first = operand[0];
    if (!first) {
      return everywhere([&](std::size_t t, std::size_t) { return !operand[t]; })
                 ? std::optional(Role{})
                 : std::nullopt;
    }
    if (const auto local = local_[ranges[0].step].find(first.node);
        local != local_[ranges[0].step].end()) {
      const bool same = everywhere([&](std::size_t t, std::size_t step) {
        const auto here = local_[step].find(operand[t].node);
        return here != local_[step].end() && here->second == local->second &&
               operand[t].index == first.index;
      });
      if (!same) return std::nullopt;
      return Role{Role::Kind::local, local->second, first.index};
    }
    std::vector<Role> fits;
    bool all_constant = true;
    for (std::size_t i = 0; i < constant_.size(); ++i) {
      if (!everywhere([&](std::size_t t, std::size_t step) {
            return trace_.steps[step].states[i] == operand[t];
          }))
        continue;
      fits.push_back({Role::Kind::state, i});
      all_constant = all_constant && constant_[i];
    }
    for (std::size_t j = 0; j < trace_.xs.size(); ++j) {
      if (!everywhere([&](std::size_t t, std::size_t step) {
            return trace_.steps[step].slices[j] == operand[t];
          }))
        continue;
      fits.push_back({Role::Kind::slice, j});
      all_constant = false;
    }
    const int at = first.node->id();
    const bool is_outside = at < trace_.begin || trace_.kept.contains(first.node);
    const bool is_first_state =
        at >= trace_.entered && at < trace_.begin && first.node->is("clone");
    const bool is_capture =
        is_outside && !is_first_state &&
        everywhere([&](std::size_t t, std::size_t) { return operand[t] == first; });
    // What several states are in every step seen may part in the next one, unless none changes.
    if (fits.size() + (is_capture ? 1 : 0) > 1 && !all_constant) return std::nullopt;
    if (!fits.empty()) return fits[0];
    if (!is_capture) return std::nullopt;
    const auto known = std::ranges::find(captures_, first);
    const auto number = static_cast<std::size_t>(known - captures_.begin());
    if (known == captures_.end()) captures_.push_back(first);
    return Role{Role::Kind::capture, number};
  }

  Ref<GraphImpl> build(StepWriter& writer, const Block& block) const {
    const auto graph = make_ref<GraphImpl>();
    KnownRoles known;
    std::size_t parameters = 0;
    const auto add = [&](Role::Kind kind, std::span<const Value> values, char letter,
                         std::size_t& count) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::string name = fmt::format("{}{}", letter, count++);
        known.emplace_back(Role{kind, i},
                           graph->add_placeholder(name, values[i].type(), trace_.loc));
      }
    };
    add(Role::Kind::state, trace_.steps[0].states, 'p', parameters);
    add(Role::Kind::slice, trace_.steps[0].slices, 'p', parameters);
    std::size_t captures = 0;
    add(Role::Kind::capture, captures_, 'c', captures);
    writer.append(graph, block, known);
    return graph;
  }

  const GraphImpl& graph_;
  const LoopTrace& trace_;
  std::vector<bool> constant_;
  std::vector<StepItem> items_;
  std::unordered_map<const Node*, std::size_t> item_of_;
  std::unordered_map<const TracedPart*, std::size_t> item_of_part_;
  std::vector<Value> captures_;
  /// Of each step what makes the nodes of the blocks being matched, and what conds gave there.
  std::vector<std::unordered_map<Node*, std::size_t>> local_;
  std::vector<std::vector<std::pair<Value, Role>>> given_;
};

}  // namespace

void LoopTrace::replace_positions(const std::function<int(int)>& by) {
  for (int* const at : {&entered, &begin, &end}) *at = by(*at);
  for (Step& step : steps) {
    for (int* const at : {&step.condition, &step.body, &step.end}) *at = by(*at);
  }
}

void LoopTrace::replace_values(const std::function<Value(Value)>& by) {
  replace_all(xs, by);
  replace_all(last_states, by);
  replace_all(conditions, by);
  for (std::vector<Value>& made : slices_made) replace_all(made, by);
  for (Step& step : steps) {
    replace_all(step.states, by);
    replace_all(step.slices, by);
  }
}

std::vector<bool> LoopTrace::constant_states() const {
  std::vector<bool> constant;
  for (std::size_t i = 0; i < last_states.size(); ++i) {
    const Value first = steps[0].states[i];
    constant.push_back(last_states[i] == first && std::ranges::all_of(steps, [&](const Step& step) {
                         return step.states[i] == first;
                       }));
  }
  return constant;
}

std::vector<Node*> LoopTrace::nodes_between(const GraphImpl& graph, int first, int last) const {
  std::vector<Node*> nodes;
  for (int at = first; at < last; ++at) {
    Node* const node = graph.nodes()[static_cast<std::size_t>(at)].get();
    if (!kept.contains(node)) nodes.push_back(node);
  }
  return nodes;
}

std::vector<Node*> in_order_of_use(std::span<Node* const> nodes, std::span<const Value> captures) {
  std::unordered_set<Node*> left(nodes.begin(), nodes.end());
  std::vector<Node*> order;
  const auto take = [&](const auto& self, Node* node) -> void {
    if (left.erase(node) == 0) return;
    for (const Value input : node->inputs()) {
      if (input) self(self, input.node);
    }
    order.push_back(node);
  };
  for (const Value capture : captures) take(take, capture.node);
  for (Node* const node : nodes) take(take, node);
  return order;
}

std::optional<RolledLoop> roll_loop(const GraphImpl& graph, const LoopTrace& trace) {
  return Roller(graph, trace).roll();
}

}  // namespace dyad::exec
