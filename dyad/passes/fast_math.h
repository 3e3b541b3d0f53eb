#pragma once

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Rewrites that change bits, for those who allow it (`fast_math`), of floating-point numbers:
/// - `x + 0` is x (-0 stays -0),
/// - `x / c` is `x * (1 / c)` for a number c other than 0,
/// - `(x * a) * b` is `x * (a * b)`, and `(x + a) + b` is `x + (a + b)`, for numbers a and b.
/// Beside these `fast_math` allows what fold_norms.h, join_norms.h, join_attention.h,
/// split_batch.h, join_epilogues.h and block_channels.h say, and nothing else.
[[nodiscard]] Ref<GraphImpl> fast_math(const GraphImpl& graph);

}  // namespace dyad::passes
