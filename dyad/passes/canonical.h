#pragma once

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Writes equal calls equally, so that other passes find them: axes count from the front, those of
/// a reduction are all named and sorted, `reshape` and `expand` name the sizes that -1 stands for
/// where they are known, and where integers and bools commute the value that was made first comes
/// first.
[[nodiscard]] Ref<GraphImpl> canonical(const GraphImpl& graph);

}  // namespace dyad::passes
