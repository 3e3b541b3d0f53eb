#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "dyad/base/loc.h"
#include "dyad/core/shape.h"
#include "dyad/core/tensor.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/path.h"
#include "dyad/exec/recording.h"

namespace dyad::exec {

/// Which sizes of the arguments of a compiled function vary: as its options say, and as its calls
/// have shown.
class VaryingSizes {
 public:
  /// For the function at `loc`; both outlive this.
  VaryingSizes(const CompileOptions& options, const Loc& loc) : options_(options), loc_(loc) {}

  /// ValueError when an argument has a size beyond the range that the options give it.
  void check_ranges(std::span<const Tensor> arguments) const;

  /// The shapes of the arguments for a recording of such a call, with symbols for sizes that vary,
  /// whose values come into `hints`. ValueError when the options name what the call does not have.
  [[nodiscard]] std::vector<Shape> shapes_for(
      const CallKey& key, std::span<const Tensor> arguments,
      std::span<const std::unique_ptr<Recording>> recordings, SymbolMap& hints);
  /// The ranges that the options give the symbols in shapes.
  [[nodiscard]] std::vector<DimGuard> ranges_of(std::span<const Shape> shapes) const;

  /// Whether an axis is known to vary in such calls, of which shapes_for() has seen one.
  [[nodiscard]] bool varies(const CallKey& key, std::size_t argument, std::size_t axis) const {
    return varying_.at(key)[argument][axis];
  }
  void forget();

 private:
  using Flags = std::vector<std::vector<bool>>;  // per argument and axis

  [[nodiscard]] Flags said_to_vary(std::span<const Tensor> arguments) const;
  void learn(const Recording& recording, std::span<const Tensor> arguments, Flags& flags);
  /// What the options say of an axis; null for nothing.
  [[nodiscard]] const VaryingAxis* find(std::size_t argument, std::size_t axis, int rank) const;

  const CompileOptions& options_;
  const Loc& loc_;
  std::map<CallKey, Flags> varying_;
  std::map<CallKey, bool> distinct_;  ///< sizes that were equal at first turned out not to be one
};

}  // namespace dyad::exec
