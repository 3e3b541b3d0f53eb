#include "dyad/exec/executable_planner.h"

#include <algorithm>
#include <set>
#include <utility>

#include "dyad/exec/executable_control.h"
#include "dyad/exec/executable_draft.h"
#include "dyad/exec/executable_steps.h"
#include "dyad/passes/fused_op.h"

namespace dyad::exec {
namespace {

std::unique_ptr<Step> make_step(Plan& plan, const DraftStep& draft,
                                const RegionExecutables& regions, runtime::KernelBatch& batch) {
  switch (draft.kind) {
    case DraftStep::Kind::kernel:
      return make_kernel_step(plan, draft, batch);
    case DraftStep::Kind::opaque:
      return make_opaque_step(plan, draft);
    case DraftStep::Kind::copy:
      return make_copy_step(plan, draft);
    case DraftStep::Kind::save:
      return make_save_step(plan, draft);
    case DraftStep::Kind::rows:
      return make_rows_step(plan, draft, batch);
    case DraftStep::Kind::control:
      break;
  }
  std::vector<int> buffers;
  for (const int slot : draft.writes) {
    buffers.push_back(plan.slots[static_cast<std::size_t>(slot)].buffer);
  }
  return make_control_step(*draft.node, patched_tensors(plan, draft.reads), std::move(buffers),
                           regions.at(draft.node));
}

/// By step of the draft: the outputs whose memory is taken just before it. None is taken once
/// variables are written, because that can fail; what only those steps write has its memory before.
std::vector<std::vector<int>> births(Plan& plan, const Draft& draft) {
  std::vector<std::vector<int>> born(draft.steps.size());
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    Buffer& buffer = plan.buffers[i];
    if (buffer.source != Source::output || buffer.first_step < 0) continue;
    if (buffer.bytes == 0 || draft.commit == 0) {
      buffer.first_step = -1;
      continue;
    }
    born[std::min(static_cast<std::size_t>(buffer.first_step), draft.commit - 1)].push_back(
        static_cast<int>(i));
  }
  return born;
}

/// Makes values that are computed for that the new ones of placeholders.
void write_back(Draft& draft, const GraphImpl& lowered, std::span<const WrittenBack> written_back) {
  draft.given_back.assign(draft.outputs.size(), false);
  for (const WrittenBack& one : written_back) {
    int& output = draft.outputs[static_cast<std::size_t>(one.output)];
    const int value = output,
              target = draft.slot_of.at(
                  lowered.placeholders()[static_cast<std::size_t>(one.placeholder)]);
    const bool is_used =
        std::ranges::count(draft.outputs, value) > 1 ||
        std::ranges::find(draft.writes, value, &DraftWrite::value) != draft.writes.end();
    if (is_used || draft.buffer_of(value).source != Source::arena) continue;
    draft.writes.push_back(
        {target, value, draft.output_nodes[static_cast<std::size_t>(one.output)]});
    output = target;
    draft.given_back[static_cast<std::size_t>(one.output)] = true;
  }
}

}  // namespace

PlacedDraft place(const GraphImpl& lowered, const SymbolMap& symbols,
                  std::span<const Tensor> placeholders, std::span<const WrittenBack> written_back) {
  PlacedDraft placed{lay_out(lowered, symbols, placeholders), {}};
  write_back(placed.draft, lowered, written_back);
  order_writes(placed.draft);
  placed.arena = place_memory(placed.draft);
  return placed;
}

std::unique_ptr<Plan> make_plan(const GraphImpl& lowered, const SymbolMap& symbols,
                                std::span<const Tensor> placeholders,
                                const RegionExecutables& regions, bool check_finite,
                                std::span<const WrittenBack> written_back) {
  auto [draft, arena] = place(lowered, symbols, placeholders, written_back);
  auto plan = std::make_unique<Plan>(draft.buffers);
  plan->symbols = symbols;
  plan->slots = draft.slots;
  plan->outputs = std::move(draft.outputs);
  for (const int slot : plan->outputs) plan->keep_contents(slot);
  plan->arena_bytes = arena.bytes;
  plan->live_peak = arena.live_peak;
  plan->views = draft.views;
  plan->notes = std::move(draft.notes);
  const std::vector<std::vector<int>> born = births(*plan, draft);
  runtime::KernelBatch batch;
  std::vector<int> waiting;  // born in steps that do nothing
  for (std::size_t i = 0; i < draft.steps.size(); ++i) {
    if (i == draft.commit) plan->commit = plan->steps.size();
    waiting.insert(waiting.end(), born[i].begin(), born[i].end());
    if (draft.is_empty(draft.steps[i])) continue;
    plan->born.push_back(std::exchange(waiting, {}));
    auto step = make_step(*plan, draft.steps[i], regions, batch);
    const bool computes = draft.steps[i].kind == DraftStep::Kind::kernel ||
                          draft.steps[i].kind == DraftStep::Kind::opaque;
    if (check_finite && computes && i < draft.commit) {
      step = make_checked_step(*plan, draft.steps[i], std::move(step));
    }
    plan->steps.push_back(std::move(step));
  }
  batch.finish();
  if (draft.commit == draft.steps.size()) plan->commit = plan->steps.size();
  plan->kernels = static_cast<int>(plan->steps.size());
  for (const DraftWrite& write : draft.writes) {
    const int buffer = plan->slots[static_cast<std::size_t>(write.variable)].buffer;
    if (plan->buffers[static_cast<std::size_t>(buffer)].source == Source::variable)
      plan->written.push_back(buffer);
  }
  return plan;
}

namespace {

/// What one part of a batch needs (passes/split_batch.h).
MemoryUse use_of_part(const Executable& part) {
  return part.memory(without_memory(part.graph().placeholders())).value_or(MemoryUse{});
}

}  // namespace

MemoryUse use_of(const PlacedDraft& placed) {
  const Draft& draft = placed.draft;
  std::set<int> given;
  for (const int slot : draft.outputs)
    given.insert(draft.slots[static_cast<std::size_t>(slot)].buffer);
  MemoryUse use;
  std::size_t of_control = 0;  // results of graphs inside that nobody outside gets
  for (std::size_t i = 0; i < draft.buffers.size(); ++i) {
    const Buffer& buffer = draft.buffers[i];
    if (buffer.source == Source::arena) use.apart += buffer.bytes;
    const bool is_given = buffer.source == Source::output ||
                          (buffer.source == Source::control && given.contains(static_cast<int>(i)));
    if (is_given) use.results += buffer.bytes;
    if (buffer.source == Source::control && !is_given) of_control += buffer.bytes;
  }
  use.intermediate = placed.arena.bytes + of_control;
  use.live_peak = placed.arena.live_peak + of_control;
  use.apart += of_control;
  return use;
}

MemoryUse measure_memory(const GraphImpl& lowered, const SymbolMap& symbols,
                         std::span<const Tensor> placeholders, const RegionExecutables& regions) {
  const PlacedDraft placed = place(lowered, symbols, placeholders);
  MemoryUse use = use_of(placed);
  for (const DraftStep& step : placed.draft.steps) {
    if (&step.node->op() != &passes::kPartsOp) continue;
    const MemoryUse part = use_of_part(*regions.at(step.node).front());
    use.intermediate += part.intermediate + part.results;
    use.live_peak += part.live_peak + part.results;
    use.apart += part.apart + part.results;
  }
  return use;
}

}  // namespace dyad::exec
