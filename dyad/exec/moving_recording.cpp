#include "dyad/exec/moving_recording.h"

#include <algorithm>
#include <iterator>

namespace dyad::exec {

void MovingRecording::arrange(std::span<Node* const> order, const std::vector<int>& before) {
  const auto now = [&](int at) { return before[static_cast<std::size_t>(at)]; };
  path.replace_positions(now);
  for (TapeVisit& visit : visits) visit.nodes = now(visit.nodes);
  for (TapedLoop& loop : loops) {
    if (loop.open) loop.open->replace_positions(now);
  }
  std::ranges::move(path.graph->rearrange(order), std::back_inserter(removed));
}

void MovingRecording::replace_in_loops(const ValueMap& now) {
  for (TapedLoop& loop : loops)
    loop.replace_values([&](Value value) { return now_of(now, value); });
}

void MovingRecording::replace(const ValueMap& now) {
  if (now.empty()) return;
  for (const auto& node : path.graph->nodes()) {
    for (std::size_t i = 0; i < node->inputs().size(); ++i)
      node->set_input(i, now_of(now, node->inputs()[i]));
  }
  const auto by = [&](Value value) { return now_of(now, value); };
  path.replace_values(by);
  path.graph->replace_values(by);
  replace_in_loops(now);
}

void MovingRecording::guard(const DimGuard& guard) {
  const auto asks_same = [&](const DimGuard& other) { return other.asks_same(guard); };
  if (std::ranges::none_of(path.guards, asks_same)) path.guards.push_back(guard);
}

}  // namespace dyad::exec
