#pragma once

#include <vector>

#include "dyad/passes/node_table.h"

namespace dyad::passes {

/// Copies a graph node by node into a new one, while a pass leaves out, replaces or adds nodes on
/// the way.
class Rewriter {
 public:
  explicit Rewriter(const GraphImpl& from);

  [[nodiscard]] const GraphImpl& from() const noexcept { return from_; }
  [[nodiscard]] const Ref<GraphImpl>& to() const noexcept { return to_; }

  /// What stands for a value of the old graph in the new one (an absent value for an absent one);
  /// InternalError when nothing does yet.
  [[nodiscard]] Value at(Value old) const;
  [[nodiscard]] std::vector<Value> at(std::span<const Value> old) const;
  /// From now on `now` stands for `old`.
  void set(Value old, Value now) { now_[old] = now; }

  /// Appends a copy of a node of the old graph, its inputs replaced; it stands for the old one.
  Node* copy(const Node& node);
  /// The new graph, its outputs those of the old.
  [[nodiscard]] Ref<GraphImpl> finish();

 private:
  const GraphImpl& from_;
  Ref<GraphImpl> to_;
  ValueTable<Value> now_;
};

/// How often nodes (outside of regions) and outputs of a graph read each value.
[[nodiscard]] ValueTable<int> count_uses(const GraphImpl& graph);

}  // namespace dyad::passes
