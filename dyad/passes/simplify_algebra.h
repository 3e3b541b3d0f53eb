#pragma once

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Drops arithmetic that changes no bit: `x * 1`, `x / 1`, `x - 0`, `x + -0` (of integers `x + 0`),
/// `neg` of `neg` and what else undoes itself, `where` with one outcome, casts that lose nothing
/// before another cast or back.
[[nodiscard]] Ref<GraphImpl> simplify_algebra(const GraphImpl& graph);

}  // namespace dyad::passes
