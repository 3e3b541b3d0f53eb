#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dyad/exec/argument_layout.h"
#include "dyad/exec/path.h"

namespace dyad::exec {

/// What is known of a recording at sizes at which a function may do something else than its guards
/// tell: calls where some of its symbols are 0 or 1 and all others at least 2.
struct SmallSizes {
  SymbolMap sizes = {};      ///< the symbols that are 0 or 1
  std::string differs = {};  ///< what the function did otherwise; empty when it did the same
  std::vector<std::size_t> ways = {};  ///< the tree's leaves that it was seen to take, by position
  std::vector<DimGuard> guards = {};   ///< what it asked of sizes
  bool strides_matter = false;         ///< those of the arguments, when it was seen
  std::vector<ArgumentLayout> layouts = {};
};

/// Whether there are symbols that are 0 or 1.
[[nodiscard]] bool has_small_sizes(const SymbolMap& symbols) noexcept;
/// The symbols that are 0 or 1.
[[nodiscard]] SymbolMap small_sizes_of(const SymbolMap& symbols);
/// `s0 = 1, s1 = 0`.
[[nodiscard]] std::string sizes_string(const SymbolMap& symbols);

/// Where `small`, a call with these sizes of 0 or 1, did not do the same as `recorded`, which took
/// the same way through the host's branches: what it computed, or left to its caller and where.
/// Nothing when a replay of the one is a replay of the other. Loops of the recording may have
/// taken one step in that call, or none.
[[nodiscard]] std::optional<PathDifference> compare_whole(const Path& recorded, const Path& small,
                                                          const SymbolMap& sizes);

}  // namespace dyad::exec
