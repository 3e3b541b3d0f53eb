#pragma once

#include <functional>
#include <vector>

#include "dyad/core/storage.h"
#include "dyad/ir/graph.h"

namespace dyad {

/// Calls `visit` with the value of each constant of a graph and of the graphs inside its nodes.
void visit_constants(const GraphImpl& graph, const std::function<void(const Tensor&)>& visit);

/// Says of the large ones that whoever reads them does it under a ContentsHold, so that they may be
/// away (Storage::allow_shedding).
void let_constants_shed(const GraphImpl& graph);

/// Holds on the contents of all of them.
[[nodiscard]] std::vector<ContentsHold> hold_constants(const GraphImpl& graph);

}  // namespace dyad
