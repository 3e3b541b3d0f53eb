#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dyad/exec/path.h"

namespace dyad::exec {

/// A symbol of a recording, and the one for the size up to which it is padded.
struct PaddedSymbol {
  Dim exact, padded;
};

/// How the elements that count lie along an axis that is padded: it is a product of parts (a
/// [batch, time] that became one axis has two), in row-major order, of each of which the first
/// elements count. Sizes as recorded, without padding.
using AxisParts = std::vector<Dim>;

/// How a value lies that is padded: the parts of each axis, none of those that are not padded.
struct PaddedLayout {
  std::vector<AxisParts> axes;
  [[nodiscard]] bool is_padded() const noexcept { return !axes.empty(); }
};

/// A recorded call that computes on padded arguments. What would mix elements that count with
/// others along a padded axis (sums, products, softmax) has the others masked; operators of which
/// that is not known run on the elements that count.
struct PaddedPath {
  std::shared_ptr<const Path> path;
  /// Why there is none; empty when there is.
  std::string refusal;
  /// Operators that run at the exact sizes, each with its line.
  std::vector<std::string> exact;
  std::vector<PaddedLayout> arguments, results;
  /// Of the backward part: its seeds, and the gradients of its arguments.
  std::vector<PaddedLayout> seeds, argument_grads;
};

/// Arguments of the padded path behind those of the call: the exact size of each symbol, an i64
/// scalar; then, where operators run at exact sizes, a vector of each exact size, which tells them.
[[nodiscard]] PaddedPath pad_path(const Path& path, std::span<const PaddedSymbol> symbols,
                                  bool tells_exact_sizes);

/// `x` with room for the padded sizes, zeros there, or `x` itself where that is its size. Both maps
/// are of the exact symbols, to the sizes that count and to the padded ones.
[[nodiscard]] Tensor put_in_padding(const Tensor& x, const PaddedLayout& layout,
                                    const SymbolMap& exact, const SymbolMap& padded);
/// The elements of `x` that count, side by side.
[[nodiscard]] Tensor cut_from_padding(const Tensor& x, const PaddedLayout& layout,
                                      const SymbolMap& exact, const SymbolMap& padded);

}  // namespace dyad::exec
