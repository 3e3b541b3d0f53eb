#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "dyad/exec/bucketed.h"
#include "dyad/exec/segment.h"

namespace dyad::exec {

/// Why the calls of a recording run eagerly from now on: a backward pass asked for what only eager
/// execution has.
enum class TapeNeed : std::uint8_t {
  none,
  twice,  ///< a pass that is to be differentiated itself went through results
  spent,  ///< one went through results whose tape the call has used up
};
using TapeNeedFlag = std::shared_ptr<std::atomic<TapeNeed>>;

/// Has backward passes through the results of a call that was just recorded tell `need`.
void watch_backward(const Path& path, std::span<Tensor> results, const TapeNeedFlag& need, Loc loc);

/// Puts a replayed call on the tape as one operator, so that its results can be differentiated from
/// outside: its rule runs the recorded backward part, and sets `need` instead (GradError) where
/// the pass is to be differentiated, or the call has used up the tape of the results. Overwriting
/// what that part reads in between is a GradError, as in eager mode. `sizes` are the call's. Of a
/// call that ran padded `padded` tells how (null otherwise), and `calls` by what.
void attach_backward(const DecisionTree& tree, DecisionTree::Outcome& outcome,
                     std::span<const Tensor> arguments, const SymbolMap& sizes,
                     const TapeNeedFlag& need, Loc loc, const BucketedCalls* calls = nullptr,
                     const BucketedCalls::Call* padded = nullptr);

}  // namespace dyad::exec
