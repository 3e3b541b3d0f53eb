#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "dyad/exec/roll_loop.h"

namespace dyad::exec {

/// What a while_loop in the step of another loop would have as inputs if it were the node `model`,
/// without a value for those that none of its steps used. Nothing where it did something else.
/// `kept`: nodes that belong to no step.
[[nodiscard]] std::optional<std::vector<Value>> inputs_of(
    const TracedPart& loop, const Node& model, const GraphImpl& graph,
    const std::unordered_set<const Node*>& kept);

}  // namespace dyad::exec
