#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dyad/ir/graph.h"

namespace dyad::exec {

/// What a scan did in a graph and what a backward pass did that came back through it, step by step.
struct BackwardTrace {
  struct Step {
    std::vector<Node*> forward, backward;
    std::vector<Value> states, slices;  ///< before the step
    std::vector<Value> gradients;       ///< what came to its parts of the stacked results
  };
  std::vector<Step> steps;  ///< in the order of the program
};

/// How many steps at either end may be different from all others, and how far away from a step the
/// values may come from that it reads.
inline constexpr int kMostStepsApart = 4;

/// Steps backwards as one: those from number `high` down to `low`. Others are not like them: the
/// last ones begin sums, and to what was before the first one no gradient may go.
struct RolledBackward {
  /// What an operand is in every one of these steps.
  struct Role {
    enum class Kind : std::uint8_t {
      none,
      local,     ///< made in this step: output `index` of node `number`
      carried,   ///< made in the step visited before: `number` of `carried`
      stacked,   ///< of step `shift` after this one: `number` of `stacks`
      captured,  ///< the same in all steps: `number` of `captures`
      viewed,    ///< a view of such values, made again: `number` of `views`
    } kind = Kind::none;
    std::size_t number = 0;
    int index = 0;
  };
  /// A value of the graph for each step of the loop, to be stacked.
  struct Stack {
    enum class Of : std::uint8_t {
      forward,   ///< output `index` of node `number` of the step
      state,     ///< state `number` before it
      slice,     ///< slice `number`
      gradient,  ///< what came to its part of stacked result `number`
    } of = Of::forward;
    std::size_t number = 0;
    int index = 0;
    int shift = 0;
    [[nodiscard]] bool operator==(const Stack&) const noexcept = default;
  };
  struct Carried {
    Value first;  ///< before the loop
    std::size_t node = 0;
    int index = 0;
  };
  /// Stacked or carried it would lie row by row, and how an operand lies decides how a library
  /// computes.
  struct View {
    Value model;  ///< one of them
    std::vector<Role> inputs;
  };

  int low = 0, high = 0;
  std::vector<std::vector<Role>> inputs;  ///< of the nodes of step `high`
  std::vector<Carried> carried;
  std::vector<Stack> stacks;
  std::vector<Value> captures;
  std::vector<View> views;  ///< each behind those that it is a view of
};

[[nodiscard]] inline bool is_view(Value value) { return value.node->op().kind == BodyKind::view; }

/// Which values differ from step to step, and where they come from.
class StepValues {
 public:
  struct Place {
    RolledBackward::Stack stack;  ///< without its shift
    int step = 0;
  };

  explicit StepValues(const BackwardTrace& trace);
  [[nodiscard]] const Place* find(Value value) const;

 private:
  std::unordered_map<Value, Place, ValueHash> places_;
};

/// The place of `item` in `list`, to which it is added if it is not there yet.
template <class T>
std::size_t number_of(std::vector<T>& list, const T& item) {
  const auto known = std::ranges::find(list, item);
  const auto number = static_cast<std::size_t>(known - list.begin());
  if (known == list.end()) list.push_back(item);
  return number;
}

/// Nothing where fewer than two steps are alike.
[[nodiscard]] std::optional<RolledBackward> roll_backward(const BackwardTrace& trace,
                                                          const StepValues& values);

/// The graph of one step: of what is carried, the stacks' parts, the captures; it gives what is
/// carried and then `made`, outputs of nodes by number.
[[nodiscard]] Ref<GraphImpl> region_of(const RolledBackward& rolled, const BackwardTrace& trace,
                                       std::span<const std::pair<std::size_t, int>> made, Loc loc);

}  // namespace dyad::exec
