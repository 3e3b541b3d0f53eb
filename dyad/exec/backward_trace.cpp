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
    for (std::size_t j = 0; j < step.slices.size(); ++j)
      make({Stack::Of::slice, j}, step.slices[j]);
    for (std::size_t j = 0; j < step.gradients.size(); ++j) {
      if (step.gradients[j]) make({Stack::Of::gradient, j}, step.gradients[j]);
    }
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

}  // namespace dyad::exec
