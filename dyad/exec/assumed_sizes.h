#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dyad/exec/graph_define.h"
#include "dyad/exec/guarded_sizes.h"

namespace dyad::exec {

/// What follows from the ranges of sizes that a static graph takes for granted, those that are
/// added meanwhile too.
class AssumedSizes final : public SizeFacts {
 public:
  explicit AssumedSizes(std::shared_ptr<const GraphState> graph) : graph_(std::move(graph)) {}

  [[nodiscard]] std::optional<bool> equal(Dim a, Dim b) const override {
    return facts().equal(a, b);
  }
  [[nodiscard]] std::optional<bool> less(Dim a, Dim b) const override { return facts().less(a, b); }
  [[nodiscard]] std::optional<std::int64_t> value(Dim dim) const override {
    return facts().value(dim);
  }

 private:
  [[nodiscard]] const GuardedSizes& facts() const;

  std::shared_ptr<const GraphState> graph_;
  mutable std::size_t ranges_ = 0;  ///< of the graph that `guards_` are
  mutable std::vector<DimGuard> guards_;
  mutable std::optional<GuardedSizes> facts_;
};

/// Adds the guards that say what the range does.
void add_range(const SizeRange& range, std::vector<DimGuard>& to);

/// GraphError when a graph takes something for granted of a size that no placeholder has: nobody
/// could tell before a run whether it is so.
void require_told(const GraphImpl& graph, Loc loc);

/// ValueError when sizes of a run are not as the graph takes for granted. Those that the run is not
/// given are not looked at.
void check_assumed(std::span<const SizeRange> ranges, const SymbolMap& sizes, Loc loc);

}  // namespace dyad::exec
