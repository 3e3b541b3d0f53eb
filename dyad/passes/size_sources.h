#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// The symbols of sizes among a node's attributes.
void collect_attr_symbols(const Node& node, std::vector<Dim>& into);
/// The symbols of sizes of a node's results.
void collect_result_symbols(const Node& node, std::vector<Dim>& into);
/// Both, and those of the graphs inside it.
void collect_all_symbols(const Node& node, std::vector<Dim>& into);

/// Where the sizes of a graph come from: an edge that no value says. `zeros({nonzero(x).size(0)})`
/// takes no value, but needs `nonzero` to have run.
class SizeSources {
 public:
  /// Of the nodes that the graph has now; it must outlive this.
  explicit SizeSources(const GraphImpl& graph);
  /// Takes note of the nodes that it got since.
  void update();

  /// The nodes before it whose results tell a size among the node's attributes and results, and in
  /// the graphs inside it. What is later may have a name that a graph inside has for its own.
  [[nodiscard]] std::vector<const Node*> of(const Node& node) const;

 private:
  const GraphImpl* graph_;
  std::size_t nodes_ = 0;  ///< of the graph that are known
  std::unordered_map<std::int64_t, const Node*> source_of_;
};

}  // namespace dyad::passes
