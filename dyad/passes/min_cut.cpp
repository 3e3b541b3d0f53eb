#include "dyad/passes/min_cut.h"

#include <algorithm>
#include <cstddef>

namespace dyad::passes {

int FlowNetwork::add_vertex() {
  edges_of_.emplace_back();
  return static_cast<int>(edges_of_.size()) - 1;
}

void FlowNetwork::add_edge(int from, int to, std::int64_t capacity) {
  edges_of_[static_cast<std::size_t>(from)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[static_cast<std::size_t>(to)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

/// How many edges with room each vertex is from the source (Dinic, 1970).
bool FlowNetwork::find_levels() {
  level_.assign(edges_of_.size(), -1);
  level_[0] = 0;
  std::vector<int> reached{source()};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (const int number : edges_of_[static_cast<std::size_t>(reached[i])]) {
      const Edge& edge = edges_[static_cast<std::size_t>(number)];
      if (edge.left == 0 || level_[static_cast<std::size_t>(edge.to)] >= 0) continue;
      level_[static_cast<std::size_t>(edge.to)] = level_[static_cast<std::size_t>(reached[i])] + 1;
      reached.push_back(edge.to);
    }
  }
  return level_[1] >= 0;
}

bool FlowNetwork::push() {
  std::vector<std::size_t> path;  // edges from the source to `vertex`
  int vertex = source();
  while (vertex != sink()) {
    const auto at = static_cast<std::size_t>(vertex);
    const std::vector<int>& edges = edges_of_[at];
    std::size_t& i = next_[at];
    while (i < edges.size()) {
      const Edge& edge = edges_[static_cast<std::size_t>(edges[i])];
      if (edge.left > 0 && level_[static_cast<std::size_t>(edge.to)] == level_[at] + 1) break;
      ++i;
    }
    if (i < edges.size()) {
      path.push_back(static_cast<std::size_t>(edges[i]));
      vertex = edges_[path.back()].to;
    } else if (path.empty()) {
      return false;
    } else {  // a dead end
      vertex = edges_[path.back() ^ 1].to;
      path.pop_back();
      ++next_[static_cast<std::size_t>(vertex)];
    }
  }
  std::int64_t most = kUnlimited;
  for (const std::size_t number : path) most = std::min(most, edges_[number].left);
  for (const std::size_t number : path) {
    edges_[number].left -= most;
    edges_[number ^ 1].left += most;
  }
  return true;
}

std::vector<bool> FlowNetwork::sink_side() {
  while (find_levels()) {
    next_.assign(edges_of_.size(), 0);
    while (push()) {
    }
  }
  // What still reaches the sink: backwards over edges with room.
  std::vector<bool> side(edges_of_.size(), false);
  side[1] = true;
  std::vector<int> reached{sink()};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (const int number : edges_of_[static_cast<std::size_t>(reached[i])]) {
      const int from = edges_[static_cast<std::size_t>(number)].to;
      if (edges_[static_cast<std::size_t>(number ^ 1)].left == 0 ||
          side[static_cast<std::size_t>(from)]) {
        continue;
      }
      side[static_cast<std::size_t>(from)] = true;
      reached.push_back(from);
    }
  }
  return side;
}

}  // namespace dyad::passes
