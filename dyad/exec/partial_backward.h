#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "dyad/exec/part_writer.h"
#include "dyad/exec/segment.h"

namespace dyad::exec {

/// Backward parts of one way through a function for passes that come to some of its results only,
/// each made when the first such pass comes. What such a pass does not reach has no gradient, and
/// takes no part in sums. Any thread may ask.
class PartialBackward {
 public:
  /// `whole`: the part of `path` for passes that come to all results.
  PartialBackward(std::shared_ptr<const Path> path, std::shared_ptr<const Segment> whole);

  struct Part {
    std::vector<ValueId> seeds;    ///< that are given
    std::vector<LoopSteps> loops;  ///< what calls must have of steps
    std::shared_ptr<Segment> segment;
  };
  /// For a pass that gives these seeds, which are in order, through a call of these sizes. What the
  /// whole part gives and this one does not has no gradient.
  [[nodiscard]] Part part_for(const std::vector<ValueId>& seeds, const SymbolMap& sizes);
  /// Whether it asks for sizes.
  [[nodiscard]] bool has_loops() const noexcept { return has_loops_; }
  /// Those made until now and not forgotten.
  [[nodiscard]] std::vector<Part> parts() const;

 private:
  [[nodiscard]] Part make(const std::vector<ValueId>& seeds, const SymbolMap& sizes) const;

  std::shared_ptr<const Path> path_;
  std::shared_ptr<const Segment> whole_;
  bool has_loops_;
  mutable std::mutex mutex_;  // of parts_
  std::vector<Part> parts_;   // the one last asked for comes last
};

}  // namespace dyad::exec
