#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Something for each node of a graph, found by the node's number: the graph gets no nodes, and
/// loses none, while the table is used.
template <class T>
class NodeTable {
 public:
  explicit NodeTable(const GraphImpl& graph, T initial = {})
      : items_(graph.nodes().empty() ? 0 : index_of(*graph.nodes().back()) + 1, initial) {}

  [[nodiscard]] T& operator[](const Node& node) { return items_[index_of(node)]; }
  [[nodiscard]] const T& operator[](const Node& node) const { return items_[index_of(node)]; }

 private:
  static std::size_t index_of(const Node& node) noexcept {
    return static_cast<std::size_t>(node.id());
  }
  std::vector<T> items_;
};

/// The same for each value.
template <class T>
class ValueTable {
 public:
  explicit ValueTable(const GraphImpl& graph, T initial = {}) : first_(graph) {
    std::size_t count = 0;
    for (const auto& node : graph.nodes())
      first_[*node] = std::exchange(count, count + node->types().size());
    items_.assign(count, std::move(initial));
  }

  [[nodiscard]] T& operator[](Value v) { return items_[index_of(v)]; }
  [[nodiscard]] const T& operator[](Value v) const { return items_[index_of(v)]; }

 private:
  [[nodiscard]] std::size_t index_of(Value v) const {
    return first_[*v.node] + static_cast<std::size_t>(v.index);
  }
  NodeTable<std::size_t> first_;
  std::vector<T> items_;
};

}  // namespace dyad::passes
