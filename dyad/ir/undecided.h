#pragma once

#include <string>

#include "dyad/base/error.h"
#include "dyad/core/dim.h"
#include "dyad/ir/graph_evaluator.h"

namespace dyad {

/// What depends on how two sizes compare, in a graph where they have no values.
class UndecidedError : public GraphError {
 public:
  UndecidedError(SizeQuestion asked, Dim a, Dim b, bool for_types, const std::string& message,
                 Loc where)
      : GraphError(message, where), asked_(asked), a_(a), b_(b), for_types_(for_types) {}
  [[nodiscard]] SizeQuestion asked() const noexcept { return asked_; }
  /// Whether a row asked, to know the types of a call, which are inferred again on numbers at run.
  [[nodiscard]] bool is_for_types() const noexcept { return for_types_; }
  /// The sizes; of a question for a value the one, twice.
  [[nodiscard]] Dim a() const noexcept { return a_; }
  [[nodiscard]] Dim b() const noexcept { return b_; }

 private:
  SizeQuestion asked_;
  Dim a_, b_;
  bool for_types_;
};

/// Thrown where types depend on how two sizes compare, which only the program that recorded the
/// graph knew.
struct Undecided {};

/// Current while the types of a finished graph are inferred again: nothing else may be asked of it
/// than to compare sizes, and that is Undecided.
class FinishedGraphEvaluator final : public GraphEvaluator {
 public:
  using GraphEvaluator::GraphEvaluator;
  std::int64_t dim_value(Dim, Loc) override { throw Undecided(); }
  bool dim_equal(Dim, Dim, Loc) override { throw Undecided(); }
  bool dim_less(Dim, Dim, Loc) override { throw Undecided(); }
};

/// True when `written` is what the operator gives: equal, but for the sizes that only a run can
/// tell, which may be any symbols, and those that are the larger or smaller of two, of which the
/// one may be written (a plan looks whether it is).
[[nodiscard]] bool is_instance_of(const Type& written, const Type& inferred);

}  // namespace dyad
