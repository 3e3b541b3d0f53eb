#pragma once

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Brings the writes of variables to the end: whoever uses the result of an `assign` uses the
/// assigned value, of several assignments to a variable only the last stays, and those that stay
/// come after every other node.
[[nodiscard]] Ref<GraphImpl> sink_assigns(const GraphImpl& graph);

}  // namespace dyad::passes
