#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dyad/base/loc.h"
#include "dyad/ir/graph.h"

namespace dyad::exec {

/// A value of the graph for each step of a loop, to be stacked.
struct Stack {
  enum class Of : std::uint8_t {
    forward,   ///< output `index` of item `number` of the loop
    state,     ///< state `number` before the step
    slice,     ///< slice `number`
    gradient,  ///< what came to its part of stacked result `number`
  } of = Of::forward;
  std::size_t number = 0;
  int index = 0;
  int shift = 0;  ///< of so many steps after this one
  [[nodiscard]] auto operator<=>(const Stack&) const noexcept = default;
};

/// What a loop did in a graph and what a backward pass did that came back through it, step by step.
struct BackwardTrace {
  /// The way that a step went through a cond, and the pass back through it.
  struct Way {
    Value pred;
    bool then = false;
    Loc loc;
    std::size_t cond = 0;                        ///< the loop's item
    std::uint64_t tape_begin = 0, tape_end = 0;  ///< numbers of the tape before and after
    std::size_t begin = 0, end = 0;              ///< `backward[begin..end - 1]` is its own
    std::size_t last = 0;                        ///< those inside of it follow it up to here
  };
  struct Step {
    std::vector<std::pair<Node*, std::size_t>> forward;  ///< and which items of the loop they are
    std::vector<std::pair<Value, Stack>> given;          ///< by conds
    std::vector<Node*> backward;
    std::vector<Way> ways;         ///< in the order of the pass
    std::vector<Value> states;     ///< before the step
    std::vector<Value> slices;     ///< of a later pass some only where a step has them
    std::vector<Value> gradients;  ///< what came to its parts of the stacked results, or none
  };
  std::vector<Step> steps;  ///< in the order of the program
};

/// Which values differ from step to step, and where they come from.
class StepValues {
 public:
  struct Place {
    Stack stack;  ///< without its shift
    int step = 0;
  };

  explicit StepValues(const BackwardTrace& trace);
  /// Where it is made; nothing of what no step makes.
  [[nodiscard]] const Place* find(Value value) const;
  /// The step's value of an unshifted stack; none where the step went another way.
  [[nodiscard]] Value value_at(const Stack& stack, int step) const;

 private:
  std::unordered_map<Value, Place, ValueHash> places_;
  std::vector<std::map<Stack, Value>> values_;
};

[[nodiscard]] inline bool is_view(Value value) { return value.node->op().kind == BodyKind::view; }
/// Whether it lies row by row for certain, as what is carried from step to step does: computed, or
/// a view of that which keeps the order.
[[nodiscard]] bool lies_in_rows(Value value);

}  // namespace dyad::exec
