#pragma once

#include <memory>
#include <span>
#include <vector>

#include "dyad/exec/path.h"
#include "dyad/exec/taped_loop.h"
#include "dyad/ir/graph.h"

namespace dyad::exec {

/// A recording whose nodes move, and everything that says where they are.
struct MovingRecording {
  Path& path;
  std::span<TapedLoop> loops;
  std::vector<TapeVisit> visits;
  std::vector<std::unique_ptr<Node>> removed;

  /// Puts the graph in this order: `before[i]` nodes stand now where `i` stood.
  void arrange(std::span<Node* const> order, const std::vector<int>& before);
  /// Puts what values are now in their place in all that loops know.
  void replace_in_loops(const ValueMap& now);
  /// The same for everything.
  void replace(const ValueMap& now);
  /// Adds the guard if there is none that asks the same.
  void guard(const DimGuard& guard);
};

}  // namespace dyad::exec
