#include "dyad/exec/seed_reach.h"

#include <algorithm>
#include <utility>

#include "dyad/exec/control_flow_ops.h"

namespace dyad::exec {

SeedReach reached_in(const GraphImpl& region, std::span<const Reach> parameters) {
  SeedReach reached;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    reached.set(region.placeholders()[i], parameters[i]);
  for (const auto& node : region.nodes()) reached.follow(*node);
  return reached;
}

std::size_t states_of(const Node& scan) {
  return static_cast<std::size_t>(scan.attrs_as<LoopAttrs>().states);
}

std::vector<Reach> in_any_step(const Node& scan, std::vector<Reach> parameters) {
  const GraphImpl& body = *scan.regions()[0];
  for (bool settled = false; !settled;) {
    settled = true;
    const std::vector<Reach> next = reached_in(body, parameters).of(body.outputs());
    for (std::size_t state = 0; state < states_of(scan); ++state) {
      if (next[state] <= parameters[state]) continue;
      parameters[state] = next[state];
      settled = false;
    }
  }
  return parameters;
}

Reach SeedReach::in(const Node& user, const Value& value) const {
  const auto zeros = zeros_.find(&user);
  const bool is_zeros = zeros != zeros_.end() && zeros->second.contains(value);
  return is_zeros ? Reach::given : (*this)[value];
}

std::vector<Reach> SeedReach::of_inputs(const Node& user) const {
  std::vector<Reach> all;
  for (const Value& value : user.inputs()) all.push_back(in(user, value));
  return all;
}

void SeedReach::follow(Node& node) {
  if (node.inputs().empty()) return;
  const std::vector<Reach> inputs = of_inputs(node);
  const Reach most = std::ranges::max(inputs);
  if (most == Reach::none) return;
  std::vector<Reach> outputs(node.types().size(), most);
  const auto through = [&](const GraphImpl& region, std::span<const Reach> parameters) {
    return reached_in(region, parameters).of(region.outputs());
  };
  if (&node.op() == &kScanOp) {
    const std::vector<Reach> parameters = in_any_step(node, inputs);
    outputs = through(*node.regions()[0], parameters);
    // Without a step a state ends as it begins.
    for (std::size_t state = 0; state < states_of(node); ++state)
      outputs[state] = std::max(outputs[state], parameters[state]);
  } else if (&node.op() == &kWhileStatesOp) {
    outputs = through(*node.regions()[2], inputs);
  } else if (&node.op() == &kCondOp) {
    const std::span<const Reach> operands = std::span(inputs).subspan(1);
    outputs = through(*node.regions()[0], operands);
    const std::vector<Reach> otherwise = through(*node.regions()[1], operands);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      outputs[i] = std::max(outputs[i], otherwise[i]);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    set(node.output(static_cast<int>(i)), outputs[i]);
}

}  // namespace dyad::exec
