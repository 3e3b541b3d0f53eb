#include "dyad/exec/backward_trace.h"

namespace dyad::exec {

StepValues::StepValues(const BackwardTrace& trace) : values_(trace.steps.size()) {
  for (std::size_t t = 0; t < trace.steps.size(); ++t) {
    const BackwardTrace::Step& step = trace.steps[t];
    const auto give = [&](const Stack& stack, Value value) { values_[t].emplace(stack, value); };
    const auto make = [&](const Stack& stack, Value value) {
      places_.emplace(value, Place{stack, static_cast<int>(t)});
      give(stack, value);
    };
    for (const auto& [node, item] : step.forward) {
      const int outputs = static_cast<int>(node->types().size());
      for (int i = 0; i < outputs; ++i) make({Stack::Of::forward, item, i}, node->output(i));
    }
    const auto make_all = [&](Stack::Of of, std::span<const Value> values) {
      for (std::size_t j = 0; j < values.size(); ++j) {
        if (values[j]) make({of, j}, values[j]);
      }
    };
    make_all(Stack::Of::slice, step.slices);
    make_all(Stack::Of::gradient, step.gradients);
    for (const auto& [value, stack] : step.given) give(stack, value);
    for (std::size_t j = 0; j < step.states.size(); ++j)
      give({Stack::Of::state, j}, step.states[j]);
  }
}

const StepValues::Place* StepValues::find(Value value) const {
  const auto found = places_.find(value);
  return found == places_.end() ? nullptr : &found->second;
}

Value StepValues::value_at(const Stack& stack, int step) const {
  if (step < 0 || static_cast<std::size_t>(step) >= values_.size()) return {};
  const auto& values = values_[static_cast<std::size_t>(step)];
  const auto found = values.find(stack);
  return found == values.end() ? Value() : found->second;
}

bool lies_in_rows(Value value) {
  if (!is_view(value)) return !value.node->is("placeholder") && !value.node->is("variable");
  const bool keeps_order =
      value.node->is("reshape") || value.node->is("unsqueeze") || value.node->is("squeeze");
  return keeps_order && lies_in_rows(value.node->inputs()[0]);
}

}  // namespace dyad::exec
