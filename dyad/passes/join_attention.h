#pragma once

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Writes attention that is spelled out, `softmax(scale q k^T + mask) v`, as one call of
/// attention_forward, whose scores are never whole in memory; for those who allow other bits
/// (`fast_math`).
///
/// q, k and v have two axes, or one, before length and width, and agree in them. The scale may
/// stand at q, at k or behind the product. The mask is added, or chooses between scores and -inf;
/// what then makes 0 of rows in which nothing takes part may follow the softmax. Nothing else may
/// read what becomes part of the call.
[[nodiscard]] Ref<GraphImpl> join_attention(const GraphImpl& graph);

}  // namespace dyad::passes
