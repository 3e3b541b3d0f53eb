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

#include "dyad/base/by_thread.h"
#include "dyad/exec/bucketed.h"
#include "dyad/exec/compiled_call.h"
#include "dyad/exec/explain.h"
#include "dyad/exec/pack.h"
#include "dyad/exec/path.h"
#include "dyad/exec/segment.h"
#include "dyad/exec/small_sizes.h"

namespace dyad {
struct CompileOptions;
}

namespace dyad::exec {

/// What must be equal for two calls to share a recording, element by element:
/// - 0: 1 where gradients are recorded, otherwise 0; under autocast more by twice the number of its
///   dtype, counted from 1,
/// - 1: how many tensors there are,
/// - from 2 on, three for each tensor: dtype, rank, and 0 where it tracks no gradient, 1 for a
///   leaf, 2 for what was computed,
/// - then everything else that is passed, as pack::Parts has it (`numbers`),
/// - then two for each tensor that is also passed before it: its position and that one's.
using CallKey = std::vector<std::int64_t>;
/// The dtype in which a call's autocast computed, `off` without one.
[[nodiscard]] std::string autocast_of(const CallKey& key);
[[nodiscard]] CallKey key_of(std::span<const Tensor> arguments,
                             std::span<const std::int64_t> numbers);

/// Why a recording does not fit a call.
struct Mismatch {
  std::string text;
  Loc loc = {};
  bool is_error = false;  ///< of an operator: what the function does then is not recorded
  int argument = -1;      ///< that differs; -1 where it is something else
};

/// The recordings made under one set of assumptions: argument types, sizes or symbols, guards.
struct Recording {
  CallKey key;
  std::vector<Shape> shapes;  ///< of the arguments, symbols where sizes vary
  SymbolMap hints;            ///< those sizes when it was recorded
  std::shared_ptr<DecisionTree> tree;
  std::unique_ptr<BucketedCalls> bucketed;  ///< null without buckets
  std::vector<std::any> skeletons;          ///< one for each leaf of the tree
  std::vector<DimGuard> guards;
  std::vector<StateGuard> states;
  std::vector<GradNote> grads;  ///< whether leaves had gradients to add to
  std::vector<std::pair<Tensor, bool>>
      captures;  ///< tensors from outside, and which track gradients
  std::vector<bool> writes_argument;
  std::vector<Tensor> written_captures;
  bool overlap = false;         ///< what is written shares memory with another tensor from outside
  bool strides_matter = false;  ///< what it does depends on them, e.g. whether a reshape is a view
  std::vector<Dim> layout_sizes;  ///< symbols of which a layout that mattered tells nothing below 2
  std::vector<ArgumentLayout> layouts;  ///< of the arguments when it was recorded
  std::vector<bool> gaps;  ///< between the elements of arguments then; none when from a file
  std::vector<std::string> types;  ///< of the arguments, to be told
  pack::Names names;               ///< of the arguments and numbers; none when it comes from a file
  std::string reason;              ///< why it was made
  Loc reason_loc;
  std::string refusal;  ///< why it runs eagerly from the start; empty when it is compiled
  /// Set by backward passes through a call's results.
  TapeNeedFlag tape_need = std::make_shared<std::atomic<TapeNeed>>(TapeNeed::none);
  std::vector<SmallSizes> small;  ///< what calls with sizes of 0 and 1 were seen to do
  bool draws = false;             ///< random numbers
  bool tells_the_host = false;    ///< by operators that print or call it
  bool writes_outside = false;    ///< tensors that other calls see, or gradients of leaves
  /// That may be checked; all threads count together.
  std::unique_ptr<OnOwnLine<std::atomic<std::int64_t>>> calls =
      std::make_unique<OnOwnLine<std::atomic<std::int64_t>>>();

  /// Takes over what a path through the function relied on.
  void learn(const Path& path);
  /// Compares a call at sizes of 0 or 1, recorded with the symbols of this recording: what did the
  /// same as one of its ways proves that way for such sizes, otherwise they are excluded.
  void compare_small(const SymbolMap& symbols, const Path& path, std::span<const Tensor> arguments);
  /// Takes over that `path`, at these sizes of 0 or 1, did the same as the leaf at `way`.
  void prove(const SymbolMap& sizes, const Path& path, std::size_t way,
             std::span<const Tensor> arguments);
  /// From now on calls at these sizes need another recording.
  void exclude(const SymbolMap& sizes, std::string why);
  /// Whether a call that fits has sizes of 0 or 1 that no call was compared at.
  [[nodiscard]] bool is_unproved(const SymbolMap& symbols) const;
  /// A call did something else: from now on the strides of its arguments tell such calls apart.
  /// False where the elements of each lie row by row as they did, or did not.
  [[nodiscard]] bool learn_strides(std::span<const Tensor> arguments);
  /// A symbol that is 0 or 1, and of which layouts that matter tell nothing then; 0 for none.
  [[nodiscard]] Dim layout_hiding(const SymbolMap& symbols) const;
  /// The leaves that calls with these sizes may take; null for all.
  [[nodiscard]] const std::vector<std::size_t>* ways_at(const SymbolMap& symbols) const;
  /// Why a call that fits is not served by a recording without its function, which cannot be
  /// compared.
  [[nodiscard]] std::optional<Mismatch> hidden_layout(std::span<const Tensor> arguments,
                                                      const SymbolMap& symbols) const;
  /// Its ways on padded arguments; null where there are none.
  [[nodiscard]] DecisionTree* padded_tree() const noexcept {
    return bucketed ? bucketed->tree() : nullptr;
  }
  /// Whether nothing is being compiled in the background.
  [[nodiscard]] bool is_ready() const {
    const DecisionTree* const padded = padded_tree();
    return tree->ready() && (!padded || padded->ready());
  }
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
  /// Lets a way of the recording run on padded arguments, too, if the options want that.
  void add_buckets(const std::shared_ptr<const Path>& path, const CompileOptions& options);
  /// True when a tensor that it writes shares memory with another one from outside.
  [[nodiscard]] bool writes_overlap(std::span<const Tensor> arguments) const;
  /// What the tensor at a position among the arguments is called.
  [[nodiscard]] std::string argument(std::size_t position) const;
  /// The first line that uses the argument that differs; none where it is something else.
  [[nodiscard]] Loc line_of(const Mismatch& differs) const;
  [[nodiscard]] ExplainedRecording explain(const StepProfile* profile) const;
  /// What the passes do to its segments, and to the backward parts that have run; none where it
  /// runs eagerly. `name`: what it is called.
  [[nodiscard]] std::vector<ExplainedPasses> explain_passes(const std::string& name) const;

 private:
  /// `s0, axis 1 of argument 2, was 5, is 3` for each symbol of the guard.
  [[nodiscard]] std::string sizes_of(const DimGuard& guard, const SymbolMap& now) const;
  [[nodiscard]] std::optional<Mismatch> guards_fail(std::span<const DimGuard> of_calls,
                                                    const SymbolMap& symbols) const;
  [[nodiscard]] Mismatch key_difference(const CallKey& of_call,
                                        std::span<const Tensor> arguments) const;
  [[nodiscard]] std::optional<Mismatch> sizes_differ(std::span<const Tensor> arguments,
                                                     SymbolMap& symbols) const;
  /// What is known of calls with these sizes of 0 and 1.
  [[nodiscard]] const SmallSizes* known_at(const SymbolMap& sizes) const;
  [[nodiscard]] std::optional<Mismatch> small_sizes_differ(const SymbolMap& symbols) const;
  [[nodiscard]] std::optional<Mismatch> memory_differs(std::span<const Tensor> arguments,
                                                       const SymbolMap& symbols) const;
  [[nodiscard]] std::optional<Mismatch> strides_differ(std::span<const ArgumentLayout> layouts_then,
                                                       std::span<const Tensor> arguments) const;
  /// Takes over which tensors from outside track gradients.
  void learn_captures(const Path& path);
  [[nodiscard]] std::optional<Mismatch> rows_differ(const GradNote& note,
                                                    std::span<const Tensor> arguments) const;
};

/// What tells a call of another kind from the recorded ones: of those that have most in common with
/// it, from the newest.
[[nodiscard]] Mismatch difference_of_kind(std::span<const std::unique_ptr<Recording>> recordings,
                                          const CallKey& of_call,
                                          std::span<const Tensor> arguments);

}  // namespace dyad::exec
