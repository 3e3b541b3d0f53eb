#pragma once

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Sums of tensors that are each a part of the result with zeros around it, and that together fill
/// it without meeting, become one `concat`: the gradient of what was taken apart by `select`,
/// `slice` or `split`. A 0 is added to every element as the sum does, which turns -0 to 0.
[[nodiscard]] Ref<GraphImpl> join_parts(const GraphImpl& graph);

}  // namespace dyad::passes
