#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dyad/exec/padding.h"
#include "dyad/exec/segment.h"

namespace dyad::exec {

/// A symbol of a recording, and the sizes up to which it is padded, the smallest first.
struct BucketedSymbol {
  Dim symbol;
  std::vector<std::int64_t> sizes;
};

/// Whether sizes may be buckets: 2 or more, the smallest first, each once.
[[nodiscard]] bool are_buckets(std::span<const std::int64_t> sizes);

/// The ways of a recording on padded arguments: one plan for each bucket, whatever sizes come.
class BucketedCalls {
 public:
  BucketedCalls(std::vector<BucketedSymbol> symbols, ExecutableOptions options);

  /// Adds a way of the recording. From one on that cannot run so, none does.
  void add(const std::shared_ptr<const Path>& path);

  /// One call's arguments, padded, and its sizes.
  struct Call {
    std::vector<Tensor> arguments;
    SymbolMap exact, padded;  ///< of the same symbols
  };
  /// Nothing where a size is beyond the last bucket, or the padded sizes do not pass the guards.
  [[nodiscard]] std::optional<Call> padded(std::span<const Tensor> arguments,
                                           const SymbolMap& sizes) const;
  /// Cuts what the way at `leaf` gave to the sizes of the call.
  void cut_results(const Call& call, DecisionTree::Outcome& outcome) const;
  [[nodiscard]] const PaddedPath& way(int leaf) const {
    return ways_[static_cast<std::size_t>(leaf)];
  }

  /// Null when the ways cannot run so.
  [[nodiscard]] DecisionTree* tree() const noexcept { return tree_.get(); }
  /// Why not; empty when they can.
  [[nodiscard]] const std::string& refusal() const noexcept { return refusal_; }
  /// `s0 = 64, 128, 256`
  [[nodiscard]] std::vector<std::string> texts() const;
  /// Operators that run at exact sizes, for which each new size costs a plan.
  [[nodiscard]] std::vector<std::string> exact() const;

 private:
  void rebuild();
  std::vector<BucketedSymbol> symbols_;
  std::vector<PaddedSymbol> padded_;
  ExecutableOptions options_;
  bool tells_exact_sizes_ = false;
  std::vector<std::shared_ptr<const Path>> recorded_;
  std::vector<PaddedPath> ways_;  // by leaf
  std::vector<DimGuard> guards_;  // of the padded sizes: calls have passed those of the exact ones
  std::unique_ptr<DecisionTree> tree_;
  std::string refusal_;
};

}  // namespace dyad::exec
