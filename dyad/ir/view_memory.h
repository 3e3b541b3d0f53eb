#pragma once

#include <vector>

#include "dyad/ir/graph.h"

namespace dyad {

/// The values from `view` up to, but without, `content`: each a view of the next.
[[nodiscard]] std::vector<Value> views_between(Value view, Value content);

/// True when the node's result surely lies in the memory of its input, which is `place.content` or
/// a view of it; false when it may be a copy. Memory keeps the strides of what it held first.
[[nodiscard]] bool is_surely_view(const Node& node, const Placed& place);

/// True when a tensor of a graph lies row-major without gaps eagerly, where the graph's inputs do.
[[nodiscard]] bool is_taken_for_contiguous(const Tensor& tensor);

/// Throws ValueError: several elements of `target` are one in memory.
[[noreturn]] void fail_write_to_broadcast(const Tensor& target, Loc loc);

}  // namespace dyad
