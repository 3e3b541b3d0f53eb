#pragma once

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Replaces each composite operator (softmax, layer_norm...) by the operators that its row's
/// `expand` writes, down to operators that have a kernel. Their nodes carry the composite's source
/// line.
[[nodiscard]] Ref<GraphImpl> expand_composites(const GraphImpl& graph);

}  // namespace dyad::passes
