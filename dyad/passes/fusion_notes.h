#pragma once

#include <span>
#include <string>

#include "dyad/passes/fusion_groups.h"

// What fusion tells of its decisions, with the bytes that they cost or save: nothing is computed
// twice, so that memory is all that differs. Sizes that FuseOptions does not know count as
// expected_size() has it.

namespace dyad::passes {

/// `exp, mul` for the operators of a group; of many the first, and how many more.
[[nodiscard]] std::string names_in(std::span<Node* const> members);

/// Says what a group that is one step, and gives `results`, moves, and what its operators would
/// alone. `doing`: what they do together, as `share a kernel`.
void note_together(const FuseOptions& options, std::span<Node* const> members,
                   std::span<const Value> results, const std::string& names,
                   const std::string& doing);

/// Says that two operators have kernels of their own, between which a result of `made` is written
/// and read again.
void note_apart(const FuseOptions& options, const Node& made, const Node& node,
                const std::string& why);

/// Says that two operators read the same value in kernels of their own.
void note_read_twice(const FuseOptions& options, const Node& first, const Node& second, Value value,
                     const std::string& why);

}  // namespace dyad::passes
