#pragma once

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Drops what only moves or copies elements to where they were: views that change nothing
/// (`reshape` to the same shape, `permute` to the same order, `slice` of everything...), pairs that
/// undo each other, copies, `concat` of one tensor; and makes one view of two where one does
/// (`permute`, `reshape`).
[[nodiscard]] Ref<GraphImpl> simplify_views(const GraphImpl& graph);

}  // namespace dyad::passes
