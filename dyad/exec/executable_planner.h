#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "dyad/exec/executable.h"
#include "dyad/exec/executable_draft.h"
#include "dyad/exec/executable_plan.h"

namespace dyad::exec {

/// The executables of the graphs inside each control node of a lowered graph.
using RegionExecutables = std::map<const Node*, std::vector<std::unique_ptr<Executable>>>;

/// A plan without kernels: steps in the order in which they run, and where memory lies.
/// `may_update_early`: whether a step that cannot fail may come after variables are written.
struct PlacedDraft {
  Draft draft;
  ArenasPlan arenas;
  std::vector<MemoryEvent> events;  ///< just before steps of the draft, by step
};
[[nodiscard]] PlacedDraft place(const GraphImpl& lowered, const SymbolMap& symbols,
                                std::span<const Tensor> placeholders, bool may_update_early = true,
                                std::span<const WrittenBack> written_back = {},
                                PlaceholderUse use = {});
/// What its runs need, but for the parts of a batch.
[[nodiscard]] MemoryUse use_of(const PlacedDraft& placed);

/// Plans the runs of a lowered graph on values like `placeholders`, under `symbols`; with
/// `check_finite` each step's results are looked at before anything is written.
[[nodiscard]] std::unique_ptr<Plan> make_plan(const GraphImpl& lowered, const SymbolMap& symbols,
                                              std::span<const Tensor> placeholders,
                                              const RegionExecutables& regions, bool check_finite,
                                              std::span<const WrittenBack> written_back,
                                              PlaceholderUse use);

/// What such a plan's runs need; makes no kernels.
[[nodiscard]] MemoryUse measure_memory(const GraphImpl& lowered, const SymbolMap& symbols,
                                       std::span<const Tensor> placeholders,
                                       const RegionExecutables& regions);

}  // namespace dyad::exec
