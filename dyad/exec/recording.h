#pragma once

#include <any>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dyad/exec/compiled_call.h"
#include "dyad/exec/explain.h"
#include "dyad/exec/pack.h"
#include "dyad/exec/path.h"
#include "dyad/exec/segment.h"

namespace dyad::exec {

/// What must be equal for two calls to share a recording: whether gradients are recorded (and twice
/// the number of autocast's dtype, from 1 on), number,
/// dtypes and ranks of the tensors and which track gradients, as leaves or not, and everything else
/// that is passed.
using CallKey = std::vector<std::int64_t>;
/// The dtype in which a call's autocast computed, `off` without one.
[[nodiscard]] std::string autocast_of(const CallKey& key);
[[nodiscard]] CallKey key_of(std::span<const Tensor> arguments,
                             std::span<const std::int64_t> numbers);

/// Why a recording does not fit a call.
struct Mismatch {
  std::string text;
  Loc loc;
};

/// How an argument lies in memory.
struct ArgumentLayout {
  Strides strides;
  bool contiguous = false;
};

/// The recordings made under one set of assumptions: argument types, sizes or symbols, guards.
struct Recording {
  CallKey key;
  std::vector<Shape> shapes;  ///< of the arguments, symbols where sizes vary
  std::shared_ptr<DecisionTree> tree;
  std::vector<std::any> skeletons;  ///< one for each leaf of the tree
  std::vector<DimGuard> guards;
  std::vector<StateGuard> states;
  std::vector<GradNote> grads;  ///< whether leaves had gradients to add to
  std::vector<std::pair<Tensor, bool>>
      captures;  ///< tensors from outside, and which track gradients
  std::vector<bool> writes_argument;
  std::vector<Tensor> written_captures;
  bool overlap = false;         ///< what is written shares memory with another tensor from outside
  bool strides_matter = false;  ///< they decided whether a reshape is a view
  std::vector<ArgumentLayout> layouts;  ///< of the arguments when it was recorded
  std::vector<std::string> types;       ///< of the arguments, to be told
  pack::Names names;   ///< of the arguments and numbers; none when it comes from a file
  std::string reason;  ///< why it was made
  Loc reason_loc;
  std::string refusal;  ///< why it runs eagerly from the start; empty when it is compiled
  /// Set by backward passes through a call's results.
  TapeNeedFlag tape_need = std::make_shared<std::atomic<TapeNeed>>(TapeNeed::none);
  std::atomic<std::int64_t> calls = 0;
  bool draws = false;           ///< random numbers
  bool writes_outside = false;  ///< tensors that other calls see, or gradients of leaves

  /// Takes over what a path through the function relied on.
  void learn(const Path& path);
  [[nodiscard]] bool runs_eagerly() const noexcept {
    return !refusal.empty() || *tape_need != TapeNeed::none;
  }
  /// Why its calls run eagerly; empty when they are replayed.
  [[nodiscard]] std::string why_eager() const;
  /// Why it does not serve a call; nothing when it does, and then its symbols are bound to the
  /// sizes of the call.
  [[nodiscard]] std::optional<Mismatch> mismatch(const CallKey& of_call,
                                                 std::span<const Tensor> arguments,
                                                 SymbolMap& symbols) const;
  /// True when a tensor that it writes shares memory with another one from outside.
  [[nodiscard]] bool writes_overlap(std::span<const Tensor> arguments) const;
  [[nodiscard]] ExplainedRecording explain(const StepProfile* profile) const;

 private:
  /// What the tensor at a position among the arguments is called.
  [[nodiscard]] std::string argument(std::size_t position) const;
  [[nodiscard]] std::string key_difference(const CallKey& of_call,
                                           std::span<const Tensor> arguments) const;
  [[nodiscard]] std::optional<Mismatch> sizes_differ(std::span<const Tensor> arguments,
                                                     SymbolMap& symbols) const;
  [[nodiscard]] std::optional<Mismatch> memory_differs(std::span<const Tensor> arguments) const;
  [[nodiscard]] std::optional<Mismatch> rows_differ(const GradNote& note,
                                                    std::span<const Tensor> arguments) const;
};

}  // namespace dyad::exec
