#pragma once

#include <cstddef>
#include <cstdint>

#include "dyad/passes/node_table.h"

namespace dyad::passes {

/// Whether a node is a placeholder, a variable or a constant: its value is somebody else's memory.
[[nodiscard]] bool is_source(const Node& node) noexcept;
/// The value in whose memory a value lies.
[[nodiscard]] Value root_of(Value v);

/// How long the values of a graph are in memory, run in its order, and how large they are.
class Lifetimes {
 public:
  /// Symbols that `sizes` does not have count as 64.
  Lifetimes(const GraphImpl& graph, const SymbolMap& sizes);

  /// What the products and convolutions of the graph do, those of attention and recurrent layers,
  /// too.
  [[nodiscard]] std::int64_t operations_of_products(const GraphImpl& graph);
  [[nodiscard]] std::size_t position(const Node& node) const { return position_[node]; }
  /// Where values take most memory: the position of a node.
  [[nodiscard]] std::size_t peak() const noexcept { return peak_; }
  [[nodiscard]] std::int64_t peak_bytes() const noexcept { return peak_bytes_; }
  /// Whether the value is used at the peak or after it.
  [[nodiscard]] bool crosses_peak(Value root) const;
  /// Of a value that needs memory of its own during a run.
  [[nodiscard]] std::int64_t bytes(Value v);

 private:
  /// Of the results that an element-wise node writes over inputs which nobody reads after it.
  [[nodiscard]] std::int64_t bytes_in_place(Node& node);
  void find_peak(const GraphImpl& graph);

  SymbolMap sizes_;
  NodeTable<std::size_t> position_;
  ValueTable<std::size_t> last_use_;  // by root; where nobody uses it, its own position
  std::size_t peak_ = 0;
  std::int64_t peak_bytes_ = 0;
};

}  // namespace dyad::passes
