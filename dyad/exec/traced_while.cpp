#include "dyad/exec/traced_while.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <unordered_map>

#include "dyad/ir/graph.h"

namespace dyad::exec {
namespace {

/// Compares single steps with the regions of a node.
class PartComparison {
 public:
  PartComparison(const TracedPart& loop, const Node& model, const GraphImpl& graph,
                 const std::unordered_set<const Node*>& kept)
      : loop_(loop),
        graph_(graph),
        kept_(kept),
        captures_(model.inputs().size() - states().size()) {}

  /// Whether nodes `begin..end - 1` do what `region` does, given states and captures, and give what
  /// it gives. Captures are what it uses there, the same in all regions.
  bool fits(const GraphImpl& region, int begin, int end, std::span<const Value> states,
            std::span<const Value> results) {
    std::unordered_map<Value, Value, ValueHash> now;
    for (std::size_t i = 0; i < states.size(); ++i) now[region.placeholders()[i]] = states[i];
    int at = begin;
    for (const auto& node : region.nodes()) {
      if (node->is("placeholder")) continue;
      while (at < end && kept_.contains(node_at(at))) ++at;
      if (at == end || !same_work(*node, *node_at(at))) return false;
      for (std::size_t i = 0; i < node->inputs().size(); ++i) {
        if (!is(region, node->inputs()[i], node_at(at)->inputs()[i], now)) return false;
      }
      for (int i = 0; i < static_cast<int>(node->types().size()); ++i)
        now[node->output(i)] = node_at(at)->output(i);
      ++at;
    }
    while (at < end && kept_.contains(node_at(at))) ++at;
    if (at != end || results.size() != region.outputs().size()) return false;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!is(region, region.outputs()[i], results[i], now)) return false;
    }
    return true;
  }

  [[nodiscard]] const std::vector<Value>& states() const { return loop_.steps[0].states; }
  [[nodiscard]] const std::vector<Value>& captures() const noexcept { return captures_; }

 private:
  [[nodiscard]] Node* node_at(int at) const {
    return graph_.nodes()[static_cast<std::size_t>(at)].get();
  }

  /// Whether `value` is what the region's value `inside` stands for.
  bool is(const GraphImpl& region, Value inside, Value value,
          const std::unordered_map<Value, Value, ValueHash>& now) {
    if (!inside || !value) return !inside && !value;
    if (const auto known = now.find(inside); known != now.end()) return known->second == value;
    const auto& placeholders = region.placeholders();
    const auto place = std::ranges::find(placeholders, inside) - placeholders.begin();
    Value& capture = captures_[static_cast<std::size_t>(place) - states().size()];
    const bool is_outside = value.node->id() < loop_.begin || kept_.contains(value.node);
    if (!capture && is_outside && value.type().same_as(inside.type())) capture = value;
    return capture == value;
  }

  const TracedPart& loop_;
  const GraphImpl& graph_;
  const std::unordered_set<const Node*>& kept_;
  std::vector<Value> captures_;
};

}  // namespace

std::optional<std::vector<Value>> inputs_of(const TracedPart& loop, const Node& model,
                                            const GraphImpl& graph,
                                            const std::unordered_set<const Node*>& kept) {
  const std::size_t states = loop.steps[0].states.size();
  if (loop.results.size() != model.types().size() || states != loop.results.size()) return {};
  for (std::size_t i = 0; i < states; ++i) {
    if (!loop.steps[0].states[i].type().same_as(model.types()[i]) ||
        !loop.results[i].type().same_as(model.types()[i]))
      return {};
  }
  if (loop.node) {
    if (!same_work(*loop.node, model)) return {};
    return std::vector<Value>(loop.node->inputs().begin(), loop.node->inputs().end());
  }
  PartComparison comparison(loop, model, graph, kept);
  const GraphImpl &condition = *model.regions()[0], &body = *model.regions()[1];
  for (std::size_t t = 0; t < loop.steps.size(); ++t) {
    const TracedStep& step = loop.steps[t];
    if (!comparison.fits(condition, step.condition, step.body, step.states,
                         {&loop.conditions[t], 1}))
      return {};
    const bool is_last = t + 1 == loop.steps.size();
    if (is_last) break;
    if (!comparison.fits(body, step.body, step.end, step.states, loop.steps[t + 1].states))
      return {};
  }
  std::vector<Value> inputs = comparison.states();
  inputs.insert(inputs.end(), comparison.captures().begin(), comparison.captures().end());
  return inputs;
}

}  // namespace dyad::exec
