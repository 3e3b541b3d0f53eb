#include "dyad/exec/roll_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "dyad/exec/control_flow_ops.h"

namespace dyad::exec {
namespace {

/// What an operand is in every step.
struct Role {
  enum class Kind : std::uint8_t { none, local, state, slice, capture } kind = Kind::none;
  std::size_t number = 0;  ///< of the node in its part, the state, the slice or the capture
  int index = 0;           ///< of the node's output
};

/// One part of a loop, its condition or its body, as all steps have it.
struct Part {
  std::vector<const Node*> nodes;  ///< of the first step
  std::vector<std::vector<Role>> inputs;
  std::vector<Role> outputs;
};

class Roller {
 public:
  Roller(const GraphImpl& graph, const LoopTrace& trace) : graph_(graph), trace_(trace) {
    const std::size_t states = trace.steps[0].states.size();
    for (std::size_t i = 0; i < states; ++i) {
      const Value first = trace.steps[0].states[i];
      constant_.push_back(trace.last_states[i] == first &&
                          std::ranges::all_of(trace.steps, [&](const LoopTrace::Step& step) {
                            return step.states[i] == first;
                          }));
    }
  }

  std::optional<RolledLoop> roll() {
    const bool is_while = trace_.op == &kWhileOp;
    const std::size_t bodies = trace_.steps.size() - (is_while ? 1 : 0);
    if (bodies < 2) return std::nullopt;
    std::vector<Part> parts;
    if (is_while) {
      std::vector<std::pair<int, int>> ranges;
      ranges.reserve(trace_.steps.size());
      for (const LoopTrace::Step& step : trace_.steps)
        ranges.emplace_back(step.condition, step.body);
      auto condition = match(ranges, {trace_.conditions});
      if (!condition) return std::nullopt;
      parts.push_back(*std::move(condition));
    }
    auto body = match_body(bodies);
    if (!body) return std::nullopt;
    parts.push_back(*std::move(body));
    RolledLoop rolled{{}, captures_, constant_};
    for (const Part& part : parts) rolled.regions.push_back(build(part));
    return rolled;
  }

 private:
  std::optional<Part> match_body(std::size_t bodies) {
    std::vector<std::pair<int, int>> ranges;
    ranges.reserve(bodies);
    for (std::size_t t = 0; t < bodies; ++t)
      ranges.emplace_back(trace_.steps[t].body, trace_.steps[t].end);
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

  /// The nodes of each range, one list a step, and `results`, one list a result.
  std::optional<Part> match(std::span<const std::pair<int, int>> ranges,
                            const std::vector<std::vector<Value>>& results) {
    std::vector<std::vector<const Node*>> nodes;
    local_.assign(ranges.size(), {});
    for (std::size_t t = 0; t < ranges.size(); ++t) {
      std::vector<const Node*>& of = nodes.emplace_back();
      for (int at = ranges[t].first; at < ranges[t].second; ++at) {
        const Node* node = graph_.nodes()[static_cast<std::size_t>(at)].get();
        if (trace_.kept.contains(node)) continue;
        local_[t].emplace(node, of.size());
        of.push_back(node);
      }
      if (of.size() != nodes[0].size()) return std::nullopt;
    }
    Part part{.nodes = nodes[0], .inputs = {}, .outputs = {}};
    std::vector<Value> operand(ranges.size());
    for (std::size_t k = 0; k < part.nodes.size(); ++k) {
      const Node& first = *part.nodes[k];
      for (const std::vector<const Node*>& of : nodes) {
        if (!same_work(first, *of[k])) return std::nullopt;
      }
      std::vector<Role>& roles = part.inputs.emplace_back();
      for (std::size_t i = 0; i < first.inputs().size(); ++i) {
        for (std::size_t t = 0; t < nodes.size(); ++t) operand[t] = nodes[t][k]->inputs()[i];
        const auto role = role_of(operand);
        if (!role) return std::nullopt;
        roles.push_back(*role);
      }
    }
    for (const std::vector<Value>& result : results) {
      const auto role = role_of(result);
      if (!role) return std::nullopt;
      part.outputs.push_back(*role);
    }
    return part;
  }

  std::optional<Role> role_of(std::span<const Value> operand) {
    const auto everywhere = [&](const auto& is_it) {
      for (std::size_t t = 0; t < operand.size(); ++t) {
        if (!is_it(t)) return false;
      }
      return true;
    };
    const Value first = operand[0];
    if (!first) {
      return everywhere([&](std::size_t t) { return !operand[t]; }) ? std::optional(Role{})
                                                                    : std::nullopt;
    }
    if (const auto local = local_[0].find(first.node); local != local_[0].end()) {
      const bool same = everywhere([&](std::size_t t) {
        const auto here = local_[t].find(operand[t].node);
        return here != local_[t].end() && here->second == local->second &&
               operand[t].index == first.index;
      });
      if (!same) return std::nullopt;
      return Role{Role::Kind::local, local->second, first.index};
    }
    std::vector<Role> fits;
    bool all_constant = true;
    for (std::size_t i = 0; i < constant_.size(); ++i) {
      if (!everywhere([&](std::size_t t) { return trace_.steps[t].states[i] == operand[t]; }))
        continue;
      fits.push_back({Role::Kind::state, i});
      all_constant = all_constant && constant_[i];
    }
    for (std::size_t j = 0; j < trace_.xs.size(); ++j) {
      if (!everywhere([&](std::size_t t) { return trace_.steps[t].slices[j] == operand[t]; }))
        continue;
      fits.push_back({Role::Kind::slice, j});
      all_constant = false;
    }
    const bool is_outside = first.node->id() < trace_.begin || trace_.kept.contains(first.node);
    const bool is_capture =
        is_outside && everywhere([&](std::size_t t) { return operand[t] == first; });
    // What several states are in every step seen may part in the next one, unless none changes.
    if (fits.size() + (is_capture ? 1 : 0) > 1 && !all_constant) return std::nullopt;
    if (!fits.empty()) return fits[0];
    if (!is_capture) return std::nullopt;
    const auto known = std::ranges::find(captures_, first);
    const auto number = static_cast<std::size_t>(known - captures_.begin());
    if (known == captures_.end()) captures_.push_back(first);
    return Role{Role::Kind::capture, number};
  }

  [[nodiscard]] Ref<GraphImpl> build(const Part& part) const {
    const auto graph = make_ref<GraphImpl>();
    std::vector<Value> parameters, captures;
    const auto add_parameter = [&](Value like) {
      parameters.push_back(
          graph->add_placeholder(fmt::format("p{}", parameters.size()), like.type(), trace_.loc));
    };
    for (const Value state : trace_.steps[0].states) add_parameter(state);
    for (const Value slice : trace_.steps[0].slices) add_parameter(slice);
    for (const Value capture : captures_) {
      captures.push_back(
          graph->add_placeholder(fmt::format("c{}", captures.size()), capture.type(), trace_.loc));
    }
    std::vector<Node*> made;
    const auto value_of = [&](const Role& role) -> Value {
      switch (role.kind) {
        case Role::Kind::local:
          return made[role.number]->output(role.index);
        case Role::Kind::state:
          return parameters[role.number];
        case Role::Kind::slice:
          return parameters[constant_.size() + role.number];
        case Role::Kind::capture:
          return captures[role.number];
        case Role::Kind::none:
          break;
      }
      return {};
    };
    for (std::size_t k = 0; k < part.nodes.size(); ++k) {
      std::vector<Value> inputs;
      for (const Role& role : part.inputs[k]) inputs.push_back(value_of(role));
      made.push_back(graph->append_copy(*part.nodes[k], std::move(inputs)));
    }
    for (const Role& role : part.outputs) graph->outputs().push_back(value_of(role));
    return graph;
  }

  const GraphImpl& graph_;
  const LoopTrace& trace_;
  std::vector<bool> constant_;
  std::vector<Value> captures_;
  std::vector<std::unordered_map<const Node*, std::size_t>> local_;  // of the part being matched
};

}  // namespace

std::optional<RolledLoop> roll_loop(const GraphImpl& graph, const LoopTrace& trace) {
  return Roller(graph, trace).roll();
}

}  // namespace dyad::exec
