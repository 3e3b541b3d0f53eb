#pragma once

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Merges pure nodes that apply the same operator with equal attributes to the same values; the
/// first one (and its source line) stays. Works in place.
void cse(GraphImpl& graph);

}  // namespace dyad::passes
