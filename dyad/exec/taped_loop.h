#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dyad/exec/backward_trace.h"
#include "dyad/exec/path.h"
#include "dyad/exec/roll_loop.h"

namespace dyad::exec {

/// `with_length(x)`: x itself, whose first size the recording takes for a symbol from here on, or
/// for the number that it is in this call. A scan on the tape has it around its steps, which are as
/// many as there are, while what is around them holds for any number; so do its gradients. None is
/// left when the recording ends.
struct LengthAttrs {
  /// The number of the TapedLoop; -1 of slices without one, which are on the tape alone.
  std::int64_t loop = -1;
  bool of_result = false;  ///< of a stacked result, or of what is sliced
  std::int64_t number = 0;
  bool gradient = false;  ///< of the gradient of that
  std::int64_t pass = 0;  ///< that the gradient is of
};
extern const OpInfo kWithLengthOp;

/// x itself with a place of its own on the tape, if x tracks gradients: those of the slices that a
/// scan takes of it add up there and come to what x has else when all steps are through, as they do
/// in graphs, whose scan gives one gradient for all slices.
[[nodiscard]] Tensor apart_on_tape(const Tensor& x, const LengthAttrs& attrs, Loc loc);

/// A loop whose steps are on the tape: its steps and those of the pass that comes back through it
/// stay in the recording one by one until it ends. Then both become loops, if their steps are alike
/// and nothing else has to do with what they made.
struct TapedLoop {
  std::int64_t number = 0;
  Dim length;  ///< of what a scan slices; of a while_loop the data tell it
  Loc loc;
  RolledLoop forward;
  BackwardTrace trace;
  std::vector<Value> xs, last_states;
  /// What the bodies gave beside their states, one list for each step.
  std::vector<std::vector<Value>> slices_made;
  /// What a while_loop's conditions gave, the last of them behind the last step; none of a scan.
  std::vector<Value> conditions;
  /// Whether no step ended the tape of a state: what the first step does not compute backwards,
  /// since nothing before it is tracked, can then be computed in vain.
  bool stays_tracked = false;
  int fewest = 0;  ///< steps that there must be, for states and results to be tracked as they are
  std::vector<Node*> nodes;  ///< of the steps, of slicing and stacking, of conditions
  /// The tape's numbers up to each step, and after the last one.
  std::vector<std::uint64_t> tape;
  /// The same of what puts a step's result beside those of the others, and which step's that is.
  std::vector<std::pair<std::uint64_t, int>> stacking;
  int pass = 0;  ///< that came back through it first; of a loop of a pass, that
  // Of the steps of a later pass, which slice what was stacked and are no loop of the program:
  bool ascends =
      false;  ///< the pass came to the first step first: steps and rows count from the end
  /// Where in xs the row of the first step is, and how many rows there are.
  struct Rows {
    int first = 0, count = 0;
  };
  std::vector<Rows> rows;
  /// What its steps did, which have loops on the tape in them: whether they are alike can be told
  /// when these are nodes. Until then `trace`, `forward` and what else tells of the steps is empty.
  std::optional<LoopTrace> open;
  [[nodiscard]] bool is_of_later_pass() const noexcept { return forward.regions.empty(); }
  [[nodiscard]] bool is_while() const noexcept { return !conditions.empty(); }
  /// In the place of each value that comes to it from outside of its steps, or goes there.
  void replace_values(const std::function<Value(Value)>& by);
  /// Whether its steps go through a cond.
  [[nodiscard]] bool has_ways() const noexcept { return !trace.steps[0].ways.empty(); }
};

/// Says what the steps did.
void set_steps(TapedLoop& loop, const GraphImpl& graph, const LoopTrace& trace, RolledLoop forward);

/// A pass came to a node of the tape, or ended (number 0), when the graph had so many nodes.
struct TapeVisit {
  int pass = 0;
  std::uint64_t sequence = 0;
  int nodes = 0;
  std::uint64_t latest = 0;  ///< number of the tape
};

/// Puts loops in the place of their steps, backwards too, where that can be done; elsewhere the
/// recording holds for this number of steps alone. Gives the nodes that left the graph.
[[nodiscard]] std::vector<std::unique_ptr<Node>> roll_taped_loops(
    Path& path, std::vector<TapedLoop> loops, std::span<const TapeVisit> visits);

}  // namespace dyad::exec
