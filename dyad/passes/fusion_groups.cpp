#include "dyad/passes/fusion_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <unordered_set>

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/dce.h"

namespace dyad::passes {

FusionGroups::FusionGroups(const GraphImpl& graph, const FuseOptions& options)
    : options_(options), position_(graph) {
  const Node* last_effect = nullptr;
  for (const auto& node : graph.nodes()) {
    const std::size_t at = nodes_.size();
    nodes_.push_back(node.get());
    position_[*node] = at;
    group_of_.push_back(at);
    groups_.push_back({.nodes = {node.get()}, .max_position = static_cast<int>(at)});
    users_.emplace_back();
    reach_.push_back(at);
    const bool effect = has_effect(*node);
    before_.push_back(effect ? last_effect : nullptr);
    if (effect) last_effect = node.get();
    for (const Value v : node->inputs()) {
      if (!v) continue;
      std::vector<Node*>& users = users_[position(*v.node)];
      if (users.empty() || users.back() != node.get()) users.push_back(node.get());
    }
  }
  visited_.assign(groups_.size(), 0);
}

std::span<Node* const> FusionGroups::members(const Node& node) const {
  return groups_[group_of(node)].nodes;
}

bool FusionGroups::together(const Node& a, const Node& b) const {
  return group_of(a) == group_of(b);
}

std::span<Node* const> FusionGroups::users(const Node& node) const {
  return users_[position(node)];
}

bool FusionGroups::is_read_outside(Value value) const {
  return std::ranges::any_of(users(*value.node), [&](const Node* user) {
    return !together(*user, *value.node) &&
           std::ranges::find(user->inputs(), value) != user->inputs().end();
  });
}

bool FusionGroups::merge(const Node& a, const Node& b) {
  std::size_t into = group_of(a), from = group_of(b);
  if (into == from) return true;
  if (!within_limits(into, from)) return false;
  if (would_cycle(into, from)) {
    refusal_ = "what stands between them needs the one and feeds the other";
    return false;
  }
  if (groups_[into].nodes.size() < groups_[from].nodes.size()) std::swap(into, from);

  Group& grown = groups_[into];
  Group& gone = groups_[from];
  for (Node* node : gone.nodes) group_of_[position(*node)] = into;
  std::vector<Node*> all;
  std::ranges::merge(
      grown.nodes, gone.nodes, std::back_inserter(all), {},
      [this](const Node* n) { return position(*n); },
      [this](const Node* n) { return position(*n); });
  grown.nodes = std::move(all);
  grown.max_position = std::max(grown.max_position, gone.max_position);
  gone.nodes.clear();
  const auto last = static_cast<std::size_t>(grown.max_position);
  for (std::size_t i = position(*grown.nodes.front()); reach_[i] < last; ++i) reach_[i] = last;
  return true;
}

bool FusionGroups::would_cycle(std::size_t a, std::size_t b) {
  ++search_;
  // No group lies on both sides of the cut, so what is before it leads to nothing behind it.
  std::size_t cut =
      std::min(position(*groups_[a].nodes.front()), position(*groups_[b].nodes.front()));
  while (cut > 0 && reach_[cut - 1] >= cut) --cut;
  std::vector<std::size_t> pending;
  // True when the way leads back from outside.
  const auto enter = [&](const Node* needed, bool outermost) {
    if (!needed || position(*needed) < cut) return false;
    const std::size_t used = group_of(*needed);
    if (used == a || used == b) return !outermost;
    if (std::exchange(visited_[used], search_) != search_) pending.push_back(used);
    return false;
  };
  const auto enter_inputs_of = [&](std::size_t group, bool outermost) {
    for (const Node* node : groups_[group].nodes) {
      if (enter(before_[position(*node)], outermost)) return true;
      for (const Value v : node->inputs()) {
        if (enter(v.node, outermost)) return true;
      }
    }
    return false;
  };
  enter_inputs_of(a, true);
  enter_inputs_of(b, true);
  while (!pending.empty()) {
    const std::size_t group = pending.back();
    pending.pop_back();
    if (enter_inputs_of(group, false)) return true;
  }
  return false;
}

bool FusionGroups::within_limits(std::size_t a, std::size_t b) {
  const std::size_t count = groups_[a].nodes.size() + groups_[b].nodes.size();
  if (count > static_cast<std::size_t>(options_.max_nodes)) {
    refusal_ = fmt::format("{} operators together, {} are allowed", count, options_.max_nodes);
    return false;
  }
  std::unordered_set<Value, ValueHash> read;
  int written = 0;
  for (const std::size_t group : {a, b}) {
    for (Node* node : groups_[group].nodes) {
      for (const Value v : node->inputs()) {
        if (!v) continue;
        const std::size_t used = group_of(*v.node);
        if (used != a && used != b) read.insert(v);
      }
      const bool leaves = std::ranges::any_of(users(*node), [&](const Node* user) {
        return group_of(*user) != a && group_of(*user) != b;
      });
      written += leaves ? static_cast<int>(node->types().size()) : 0;
    }
  }
  const int operands = static_cast<int>(read.size()) + written;
  if (operands <= options_.max_operands) return true;
  refusal_ = fmt::format("{} tensors read and written together, {} are allowed", operands,
                         options_.max_operands);
  return false;
}

std::vector<std::span<Node* const>> FusionGroups::schedule() const {
  // Groups become ready when what they use has run; the earliest in program order goes first.
  std::vector<std::vector<std::size_t>> followers(groups_.size());
  std::vector<int> waits_for(groups_.size(), 0);
  const auto add_edge = [&](std::size_t first, std::size_t then) {
    if (first == then) return;
    followers[first].push_back(then);
    ++waits_for[then];
  };
  for (const Node* node : nodes_) {
    for (const Value v : node->inputs()) {
      if (v) add_edge(group_of(*v.node), group_of(*node));
    }
    if (const Node* before = before_[position(*node)]) add_edge(group_of(*before), group_of(*node));
  }

  using Entry = std::pair<int, std::size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g].nodes.empty() && waits_for[g] == 0) ready.emplace(groups_[g].max_position, g);
  }
  std::vector<std::span<Node* const>> order;
  while (!ready.empty()) {
    const std::size_t group = ready.top().second;
    ready.pop();
    order.emplace_back(groups_[group].nodes);
    for (const std::size_t next : followers[group]) {
      if (--waits_for[next] == 0) ready.emplace(groups_[next].max_position, next);
    }
  }
  return order;
}

bool is_output(const GraphImpl& graph, const Node& node) {
  return std::ranges::any_of(graph.outputs(), [&](Value output) { return output.node == &node; });
}

}  // namespace dyad::passes
