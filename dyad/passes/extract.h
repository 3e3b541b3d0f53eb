#pragma once

#include <functional>

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// The part of a graph that the given values need, as a graph of its own whose outputs they are.
/// Random keys are taken along, so that the numbers do not depend on what else is computed (but not
/// those that `without` names), and so are host effects such as print, with what only they use,
/// when the rest that they are made from is computed.
[[nodiscard]] Ref<GraphImpl> extract(const GraphImpl& graph, std::span<const Value> values,
                                     const std::function<bool(const Node&)>& without = {});

}  // namespace dyad::passes
