#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "dyad/exec/executable.h"
#include "dyad/exec/executable_plan.h"

namespace dyad::exec {

/// The executables of the graphs inside each control node of a lowered graph.
using RegionExecutables = std::map<const Node*, std::vector<std::unique_ptr<Executable>>>;

/// Plans the runs of a lowered graph on values like `placeholders`, under `symbols`; with
/// `check_finite` each step's results are looked at before anything is written.
[[nodiscard]] std::unique_ptr<Plan> make_plan(const GraphImpl& lowered, const SymbolMap& symbols,
                                              std::span<const Tensor> placeholders,
                                              const RegionExecutables& regions, bool check_finite);

/// What such a plan's runs need; makes no kernels.
[[nodiscard]] MemoryUse measure_memory(const GraphImpl& lowered, const SymbolMap& symbols,
                                       std::span<const Tensor> placeholders,
                                       const RegionExecutables& regions);

}  // namespace dyad::exec
