#include "dyad/exec/node_users.h"

#include <numeric>

namespace dyad::exec {

NodeUsers::NodeUsers(const GraphImpl& graph) : first_(graph.nodes().size() + 1) {
  const auto for_each_input = [&](const auto& visit) {
    for (const auto& node : graph.nodes()) {
      for (const Value input : node->inputs()) {
        if (input) visit(static_cast<std::size_t>(input.node->id()), node.get());
      }
    }
  };
  for_each_input([&](std::size_t of, Node*) { ++first_[of + 1]; });
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  users_.resize(first_.back());
  std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
  for_each_input([&](std::size_t of, Node* user) { users_[next[of]++] = user; });
}

std::span<Node* const> NodeUsers::of(const Node& node) const {
  const auto at = static_cast<std::size_t>(node.id());
  return std::span(users_).subspan(first_[at], first_[at + 1] - first_[at]);
}

}  // namespace dyad::exec
