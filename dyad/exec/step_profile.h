#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dyad/exec/explain.h"
#include "dyad/ir/graph.h"

namespace dyad::exec {

/// What one step of a static graph took, over all runs.
struct StepTime {
  using Part = ExplainedKernel::Part;
  std::vector<Part> parts;
  double seconds = 0;
  std::int64_t calls = 0;
};

/// The operators that the step of a node computes.
[[nodiscard]] std::vector<StepTime::Part> parts_of(const Node& node);

/// While it lives, times each step of the static graphs that this thread runs (Session, compiled
/// functions). The steps inside a branch or loop count on their own, and what the control operator
/// itself takes is the rest. A run that is not profiled asks once whether it is.
///
/// The graphs that ran must live as long as the profile.
class StepProfile {
 public:
  StepProfile() noexcept;
  ~StepProfile();
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  /// The profile of this thread that began last, or null.
  [[nodiscard]] static StepProfile* active() noexcept;

  /// Calls `step`. A profile that is not null counts its time for `node`, but for what profiled
  /// steps inside it take.
  template <class F>
  static void time(StepProfile* profile, const Node& node, F&& step) {
    std::optional<Clock> clock;
    if (profile) clock.emplace(*profile, node);
    step();
  }

  /// What the step of a node took, or null when it never ran.
  [[nodiscard]] const StepTime* find(const Node& node) const;
  /// The slowest first.
  [[nodiscard]] std::vector<StepTime> steps() const;

 private:
  class Clock {
   public:
    Clock(StepProfile& profile, const Node& node) noexcept;
    ~Clock();
    Clock(const Clock&) = delete;
    Clock& operator=(const Clock&) = delete;

   private:
    StepProfile& profile_;
    const Node& node_;
    double inner_before_;
    double start_;
  };

  StepProfile* previous_;
  double inner_ = 0;  // seconds of the steps that ended inside the one that runs now
  std::unordered_map<const Node*, StepTime> times_;
};

}  // namespace dyad::exec
