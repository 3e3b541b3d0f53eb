#pragma once

#include <span>
#include <utility>
#include <vector>

#include "dyad/exec/roll_loop.h"
#include "dyad/exec/seed_reach.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/graph_evaluator.h"

namespace dyad::exec {

/// Writes a graph again without what is computed from missing seeds alone.
class PartWriter {
 public:
  /// `zeros`: what is given, and zeros.
  explicit PartWriter(SeedReach reached, ValueSet zeros = {})
      : graph_(make_ref<GraphImpl>()),
        evaluator_(graph_),
        reached_(std::move(reached)),
        zeros_(std::move(zeros)) {}

  void append(Node& node);
  [[nodiscard]] bool is_missing(const Value& value) const {
    return reached_[value] == Reach::missing;
  }
  /// What a value is now.
  [[nodiscard]] Value now(const Value& value) const { return now_.at(value); }
  [[nodiscard]] const Ref<GraphImpl>& graph() const noexcept { return graph_; }

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
  void append_copy(Node& node, std::span<const Value> inputs);
  /// Writes the body of a scan, or a way of a cond, again; `scan` is null for the latter.
  static Ref<GraphImpl> region(const GraphImpl& of, std::span<const Reach> parameters,
                               const Node* scan);

  Ref<GraphImpl> graph_;
  GraphEvaluator evaluator_;
  SeedReach reached_;
  ValueSet zeros_;
  ValueMap now_;
};

}  // namespace dyad::exec
