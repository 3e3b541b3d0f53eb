#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "dyad/ir/graph.h"

namespace dyad::exec {

/// What of a loop's results has a gradient: its states after the last step, its other results.
struct Reached {
  std::vector<bool> states, results;
  bool a_step_later = true;  ///< whether gradients of results that are states can be moved
};

/// The gradient of a loop's body as a function of (gradients of its states, sums of the wanted
/// captures' gradients, states before the step, slices, gradients of slices of results, captures);
/// gives the first two anew, then the gradients of the wanted slices. Contributions add up in the
/// order in which the tape adds them: the sums go in as weights of the captures themselves, and
/// where a result is a state, what comes to it from there goes in as the weight of that state
/// before the next step, whose own contributions follow.
struct BodyGradient {
  /// An output after the states that has a gradient.
  struct Result {
    std::size_t output = 0;
    /// The number, among `states`, of the one that it is; its slices come a step later then.
    std::optional<std::size_t> state;
  };
  Ref<GraphImpl> graph;
  std::vector<std::size_t> states, captures, slices;  ///< those that any gradient reaches
  std::vector<Result> results;                        ///< the last one first, as on the tape
  std::vector<bool> end_here;  ///< of the states: those that a step makes from nothing before it
};

/// `reached`: what has a gradient from after the loop; of the body's placeholders, which are
/// states, slices and captures, those `wanted` have one if a step contributes to it.
[[nodiscard]] BodyGradient body_gradient(const GraphImpl& body, std::size_t state_count,
                                         std::size_t slice_count, Reached reached,
                                         std::span<const std::size_t> wanted_slices,
                                         std::span<const std::size_t> wanted_captures, Loc loc);

}  // namespace dyad::exec
