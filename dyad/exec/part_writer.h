#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dyad/exec/roll_loop.h"
#include "dyad/exec/seed_reach.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/graph_evaluator.h"

namespace dyad::exec {

/// Steps that stand before a loop.
struct LoopSteps {
  Dim length = 0;
  std::int64_t before = 0;
  bool is_all = false;  ///< there are no more, though another one would stand there, too
  /// How many steps it has in a call; nothing where its sizes do not tell.
  [[nodiscard]] std::optional<std::int64_t> in(const SymbolMap& sizes) const;
  /// Whether a call of these sizes has them.
  [[nodiscard]] bool hold(const SymbolMap& sizes) const;
};

/// Writes a graph again without what is computed from missing seeds alone.
class PartWriter {
 public:
  /// `sizes`: those of a call.
  PartWriter(SeedReach reached, const SymbolMap& sizes)
      : graph_(make_ref<GraphImpl>()),
        evaluator_(graph_),
        reached_(std::move(reached)),
        sizes_(&sizes) {}

  void append(Node& node);
  [[nodiscard]] bool is_missing(const Value& value) const {
    return reached_[value] == Reach::missing;
  }
  /// What a value is now.
  [[nodiscard]] Value now(const Value& value) const { return now_.at(value); }
  [[nodiscard]] const Ref<GraphImpl>& graph() const noexcept { return graph_; }
  /// Of the loops whose first steps compute other gradients than later ones.
  [[nodiscard]] const std::vector<LoopSteps>& apart() const noexcept { return apart_; }

 private:
  /// Rules have zeros in the place of a gradient that does not come.
  Value now_or_zeros(const Value& value, Loc loc);
  Value written(const Tensor& tensor, Loc loc) { return evaluator_.value_of(tensor, nullptr, loc); }
  [[nodiscard]] Value left_of_sum(const Node& node) const;
  void append_scan(Node& scan);
  /// Whether the first step computes other gradients than later ones: a state is missing there, and
  /// the step does more than to add to it.
  static bool is_other_at_first(const Node& scan, std::span<const Reach> inputs);
  /// Takes it out of the loop's slices among what is `here` in the place of the loop's inputs;
  /// gives what the step gives.
  std::vector<Value> append_first_step(const Node& scan, std::span<const Reach> inputs,
                                       std::vector<Value>& here);
  Node& append_copy(Node& node, std::span<const Value> inputs);
  /// Writes the body of a scan, or a way of a cond, again; `scan` is null for the latter.
  Ref<GraphImpl> region(const GraphImpl& of, std::span<const Reach> parameters, const Node* scan);

  Ref<GraphImpl> graph_;
  GraphEvaluator evaluator_;
  SeedReach reached_;
  const SymbolMap* sizes_;
  std::vector<LoopSteps> apart_;
  ValueMap now_;
};

}  // namespace dyad::exec
