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

/// Whether it is the size of one name, not computed from some.
[[nodiscard]] bool is_symbol(Dim size);

/// Adds the guards that say that `size` lies from `min` to `max`.
void add_range(Dim size, std::int64_t min, std::int64_t max, Loc loc, std::vector<DimGuard>& to);

/// `from 2 to 512`, `2 or more`.
[[nodiscard]] std::string range_text(std::int64_t min, std::int64_t max);

/// ValueError when a run with these values of the graph's placeholders `fed` (some of its graph's,
/// by their types) is not as it takes for granted.
void check_assumed(std::span<const SizeRange> ranges, const GraphImpl& fed,
                   std::span<const Tensor> values, Loc loc);

}  // namespace dyad::exec
