#pragma once

#include <functional>
#include <string>

#include "dyad/core/dim.h"
#include "dyad/ir/graph.h"

namespace dyad::exec {

/// What the text of a plan is made from beside the graph.
struct PlanTextOptions {
  bool lines = true;  ///< the user's source lines of each step, `@train.cpp:41`
  /// Makes the graphs of branches and loops what runs; without it they are planned as they are.
  std::function<Ref<GraphImpl>(const Ref<GraphImpl>& region)> lower = {};
};

/// How a lowered graph runs on row-major values of its placeholders, `sizes` being its symbols
/// (docs/compile.md): a line for each step in its order, then one for each buffer with its place,
/// bytes and steps, then the arena. Makes no kernels and runs nothing. ValueError when the graph
/// has no plan: a symbol without a number, sizes that data decide on, an operator that a pass has
/// yet to replace. ShapeError: operators that do not take these sizes. A graph inside a branch or
/// loop has its own plan below the step that runs it, or the reason why it has none.
[[nodiscard]] std::string plan_text(const GraphImpl& lowered, const SymbolMap& sizes,
                                    const PlanTextOptions& options = {});

}  // namespace dyad::exec
