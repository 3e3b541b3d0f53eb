#pragma once

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Drops the nodes that neither an output nor an effect needs, for its elements or its sizes. What
/// has an effect stays (random keys, so that dead code shifts no numbers; assign; print), so does
/// what may refuse its inputs' elements, so that dead code hides no error, and so do placeholders,
/// whose positions callers know. Works in place.
void dce(GraphImpl& graph);

/// True when the node must stay whether or not its outputs are used: it, or a graph inside it, does
/// something beside computing them.
[[nodiscard]] bool has_effect(const Node& node);
/// True when elements of its inputs may be refused when the node runs, or when one inside it does.
[[nodiscard]] bool may_refuse(const Node& node);

}  // namespace dyad::passes
