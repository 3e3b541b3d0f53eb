#include "dyad/exec/roll_backward.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>

namespace dyad::exec {
namespace {

using StepRole = RolledBackward::Role;
using Stack = RolledBackward::Stack;

/// Tries to see the steps from `high` down to `low` as one.
class Matcher {
 public:
  Matcher(const BackwardTrace& trace, const StepValues& values, int low, int high)
      : trace_(trace), values_(values), count_(static_cast<std::size_t>(high - low + 1)) {
    rolled_.low = low;
    rolled_.high = high;
  }

  std::optional<RolledBackward> match() {
    const std::vector<Node*>& first = nodes(0);
    if (first.empty()) return std::nullopt;
    local_.resize(count_);
    for (std::size_t r = 0; r < count_; ++r) {
      const std::vector<Node*>& here = nodes(r);
      if (here.size() != first.size()) return std::nullopt;
      for (std::size_t k = 0; k < here.size(); ++k) {
        if (!same_work(*first[k], *here[k])) return std::nullopt;
        local_[r].emplace(here[k], k);
      }
    }
    std::vector<Value> operand(count_);
    for (std::size_t k = 0; k < first.size(); ++k) {
      std::vector<StepRole>& roles = rolled_.inputs.emplace_back();
      for (std::size_t i = 0; i < first[k]->inputs().size(); ++i) {
        for (std::size_t r = 0; r < count_; ++r) operand[r] = nodes(r)[k]->inputs()[i];
        const auto role = role_of(operand);
        if (!role) return std::nullopt;
        roles.push_back(*role);
      }
    }
    return std::move(rolled_);
  }

 private:
  /// The step that is visited as number `r`.
  [[nodiscard]] int step(std::size_t r) const noexcept {
    return rolled_.high - static_cast<int>(r);
  }
  [[nodiscard]] const std::vector<Node*>& nodes(std::size_t r) const {
    return trace_.steps[static_cast<std::size_t>(step(r))].backward;
  }
  /// The number of the node among those of the step visited as number `r`, or -1.
  [[nodiscard]] std::ptrdiff_t local(std::size_t r, Value value) const {
    const auto found = local_[r].find(value.node);
    return found == local_[r].end() ? -1 : static_cast<std::ptrdiff_t>(found->second);
  }
  [[nodiscard]] bool everywhere(const std::function<bool(std::size_t)>& is_it,
                                std::size_t from = 0) const {
    for (std::size_t r = from; r < count_; ++r) {
      if (!is_it(r)) return false;
    }
    return true;
  }

  std::optional<StepRole> role_of(std::span<const Value> operand) {
    const Value first = operand[0];
    if (!first) {
      if (!everywhere([&](std::size_t r) { return !operand[r]; })) return std::nullopt;
      return StepRole{};
    }
    if (const std::ptrdiff_t number = local(0, first); number >= 0) {
      const bool same = everywhere([&](std::size_t r) {
        return operand[r] && local(r, operand[r]) == number && operand[r].index == first.index;
      });
      if (!same) return std::nullopt;
      return StepRole{StepRole::Kind::local, static_cast<std::size_t>(number), first.index};
    }
    if (everywhere([&](std::size_t r) { return operand[r] == first; })) return captured(first);
    if (is_view_of_steps(operand)) return viewed(operand);
    if (const auto stack = stack_of(operand))
      return StepRole{StepRole::Kind::stacked, number_of(rolled_.stacks, *stack)};
    return carried(operand);
  }

  /// Whether they are views that steps made, forward or, after the first, backwards.
  [[nodiscard]] bool is_view_of_steps(std::span<const Value> operand) const {
    const StepValues::Place* const place = values_.find(operand[0]);
    if (place) return place->stack.of == Stack::Of::forward && is_view(operand[0]);
    return operand[1] && is_view(operand[1]) && local(0, operand[1]) >= 0;
  }

  std::optional<StepRole> viewed(std::span<const Value> operand) {
    const Value first = operand[0];
    const bool alike = everywhere([&](std::size_t r) {
      return operand[r] && operand[r].index == first.index &&
             same_work(*first.node, *operand[r].node);
    });
    if (!alike) return std::nullopt;
    RolledBackward::View view{first, {}};
    std::vector<Value> of(operand.size());
    for (std::size_t i = 0; i < first.node->inputs().size(); ++i) {
      for (std::size_t r = 0; r < count_; ++r) of[r] = operand[r].node->inputs()[i];
      const auto role = role_of(of);
      if (!role) return std::nullopt;
      view.inputs.push_back(*role);
    }
    rolled_.views.push_back(std::move(view));
    return StepRole{StepRole::Kind::viewed, rolled_.views.size() - 1};
  }

  std::optional<StepRole> captured(Value value) {
    // What a step made is no longer there.
    if (values_.find(value)) return std::nullopt;
    return StepRole{StepRole::Kind::captured, number_of(rolled_.captures, value)};
  }

  /// What is another value of the loop in every step.
  [[nodiscard]] std::optional<Stack> stack_of(std::span<const Value> operand) const {
    if (const StepValues::Place* const place = values_.find(operand[0])) {
      Stack stack = place->stack;
      stack.shift = place->step - step(0);
      const bool fits = everywhere([&](std::size_t r) {
        const StepValues::Place* const here = operand[r] ? values_.find(operand[r]) : nullptr;
        return here && here->stack == place->stack && here->step == step(r) + stack.shift;
      });
      if (fits) return stack;
    }
    const std::size_t states = trace_.steps[0].states.size();
    for (std::size_t i = 0; i < states; ++i) {
      const bool fits = everywhere([&](std::size_t r) {
        return trace_.steps[static_cast<std::size_t>(step(r))].states[i] == operand[r];
      });
      if (fits) return Stack{Stack::Of::state, i};
    }
    return std::nullopt;
  }

  /// What the step visited before made; `operand[0]` in the first one.
  std::optional<StepRole> carried(std::span<const Value> operand) {
    if (!operand[1]) return std::nullopt;
    const std::ptrdiff_t number = local(0, operand[1]);
    const int index = operand[1].index;
    const auto is_it = [&](std::size_t r) {
      return operand[r] && local(r - 1, operand[r]) == number && operand[r].index == index;
    };
    const bool fits = number >= 0 && everywhere(is_it, 1);
    if (!fits || !operand[0].type().same_as(operand[1].type())) return std::nullopt;
    const auto node = static_cast<std::size_t>(number);
    const auto known = std::ranges::find_if(rolled_.carried, [&](const auto& c) {
      return c.first == operand[0] && c.node == node && c.index == index;
    });
    const auto at = static_cast<std::size_t>(known - rolled_.carried.begin());
    if (known == rolled_.carried.end()) rolled_.carried.push_back({operand[0], node, index});
    return StepRole{StepRole::Kind::carried, at};
  }

  const BackwardTrace& trace_;
  const StepValues& values_;
  std::size_t count_;
  RolledBackward rolled_;
  std::vector<std::unordered_map<const Node*, std::size_t>> local_;
};

Type part_type(const BackwardTrace& trace, const Stack& stack) {
  const BackwardTrace::Step& step = trace.steps[0];
  switch (stack.of) {
    case Stack::Of::forward:
      return step.forward[stack.number]->output(stack.index).type();
    case Stack::Of::state:
      return step.states[stack.number].type();
    case Stack::Of::slice:
      return step.slices[stack.number].type();
    case Stack::Of::gradient:
      break;
  }
  return step.gradients[stack.number].type();
}

}  // namespace

StepValues::StepValues(const BackwardTrace& trace) {
  for (std::size_t t = 0; t < trace.steps.size(); ++t) {
    const BackwardTrace::Step& step = trace.steps[t];
    const int at = static_cast<int>(t);
    for (std::size_t k = 0; k < step.forward.size(); ++k) {
      const int outputs = static_cast<int>(step.forward[k]->types().size());
      for (int i = 0; i < outputs; ++i)
        places_.emplace(step.forward[k]->output(i), Place{{Stack::Of::forward, k, i}, at});
    }
    for (std::size_t j = 0; j < step.slices.size(); ++j)
      places_.emplace(step.slices[j], Place{{Stack::Of::slice, j}, at});
    for (std::size_t j = 0; j < step.gradients.size(); ++j)
      places_.emplace(step.gradients[j], Place{{Stack::Of::gradient, j}, at});
  }
}

const StepValues::Place* StepValues::find(Value value) const {
  const auto found = places_.find(value);
  return found == places_.end() ? nullptr : &found->second;
}

std::optional<RolledBackward> roll_backward(const BackwardTrace& trace, const StepValues& values) {
  const int count = static_cast<int>(trace.steps.size());
  for (int apart = 0; apart <= std::min(2 * kMostStepsApart, count - 2); ++apart) {
    for (int low = std::max(0, apart - kMostStepsApart); low <= std::min(apart, kMostStepsApart);
         ++low) {
      const int high = count - 1 - (apart - low);
      if (auto rolled = Matcher(trace, values, low, high).match()) return rolled;
    }
  }
  return std::nullopt;
}

Ref<GraphImpl> region_of(const RolledBackward& rolled, const BackwardTrace& trace,
                         std::span<const std::pair<std::size_t, int>> made, Loc loc) {
  const auto graph = make_ref<GraphImpl>();
  std::vector<Value> carried, parts, captures;
  const auto add = [&](std::vector<Value>& to, std::string_view name, const Type& type) {
    to.push_back(graph->add_placeholder(fmt::format("{}{}", name, to.size()), type, loc));
  };
  for (const RolledBackward::Carried& c : rolled.carried) add(carried, "p", c.first.type());
  for (const Stack& stack : rolled.stacks) add(parts, "x", part_type(trace, stack));
  for (const Value capture : rolled.captures) add(captures, "c", capture.type());
  std::vector<Node*> nodes, views;
  const auto value_of = [&](const StepRole& role) -> Value {
    switch (role.kind) {
      case StepRole::Kind::local:
        return nodes[role.number]->output(role.index);
      case StepRole::Kind::carried:
        return carried[role.number];
      case StepRole::Kind::stacked:
        return parts[role.number];
      case StepRole::Kind::captured:
        return captures[role.number];
      case StepRole::Kind::viewed:
        return views[role.number]->output(rolled.views[role.number].model.index);
      case StepRole::Kind::none:
        break;
    }
    return {};
  };
  const auto append = [&](const Node& model, std::span<const StepRole> roles) {
    std::vector<Value> inputs;
    for (const StepRole& role : roles) inputs.push_back(value_of(role));
    return graph->append_copy(model, std::move(inputs));
  };
  for (const RolledBackward::View& view : rolled.views)
    views.push_back(append(*view.model.node, view.inputs));
  const std::vector<Node*>& step = trace.steps[static_cast<std::size_t>(rolled.high)].backward;
  for (std::size_t k = 0; k < step.size(); ++k) nodes.push_back(append(*step[k], rolled.inputs[k]));
  for (const RolledBackward::Carried& c : rolled.carried)
    graph->outputs().push_back(nodes[c.node]->output(c.index));
  for (const auto& [node, index] : made) graph->outputs().push_back(nodes[node]->output(index));
  return graph;
}

}  // namespace dyad::exec
