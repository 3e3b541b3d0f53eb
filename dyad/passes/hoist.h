#pragma once

#include <functional>

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Takes out of the bodies of `while_loop` and `scan` what is the same in every step: operators on
/// captured tensors alone, which then run once, before the loop, whose body captures the results.
/// Only operators that cannot fail, because the loop might have taken no step: those element by
/// element, reductions, views, and library operators for which `cannot_fail` is true.
[[nodiscard]] Ref<GraphImpl> hoist(const GraphImpl& graph,
                                   const std::function<bool(const Node&)>& cannot_fail = {});

}  // namespace dyad::passes
