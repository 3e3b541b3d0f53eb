#pragma once

#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "dyad/passes/rewriter.h"

namespace dyad::passes {

/// Moves nodes of the graph that a Rewriter copies into the region of one new node.
class RegionWriter {
 public:
  /// Inputs made by a node that `is_copied` names get a copy of it inside; others become inputs of
  /// the new node.
  RegionWriter(Rewriter& rewriter, std::function<bool(const Node&)> is_copied);

  /// Appends a copy of a node of the old graph, after those that it uses.
  void add(const Node& node);
  /// Appends copies of the nodes of `region`, a kernel that `inputs` (values of the old graph) go
  /// into; its outputs stand for `results`.
  void add(const GraphImpl& region, std::span<const Value> inputs, std::span<const Value> results);
  /// Appends the new node, whose outputs stand for `results` from now on: values of nodes added.
  void finish(const OpInfo& op, Ref<Attrs> attrs, std::span<const Value> results, Loc loc);

 private:
  [[nodiscard]] Value inside(Value v);

  Rewriter& rewriter_;
  std::function<bool(const Node&)> is_copied_;
  Ref<GraphImpl> region_;
  std::unordered_map<Value, Value, ValueHash> inner_;
  std::vector<Value> inputs_;
};

}  // namespace dyad::passes
