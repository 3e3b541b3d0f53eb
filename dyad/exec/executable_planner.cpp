#include "dyad/exec/executable_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "dyad/exec/executable_control.h"
#include "dyad/exec/executable_draft.h"
#include "dyad/exec/executable_steps.h"
#include "dyad/ir/graph_ops.h"
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
  buffers.reserve(draft.writes.size());
  for (const int slot : draft.writes) {
    buffers.push_back(plan.slots[static_cast<std::size_t>(slot)].buffer);
  }
  std::vector<GivenInput> given;
  for (const std::size_t read : draft.given_away) {
    const int buffer = plan.slots[static_cast<std::size_t>(draft.reads[read])].buffer;
    given.push_back({static_cast<int>(read) - 1, buffer});
  }
  return make_control_step(*draft.node, patched_tensors(plan, draft.reads), std::move(buffers),
                           std::move(given), regions.at(draft.node));
}

/// Whether an output gets its memory just before the step that writes it first, not with all
/// others.
bool comes_late(const Buffer& buffer, const Draft& draft) {
  return buffer.source == Source::output && buffer.first_step >= 0 && buffer.bytes > 0 &&
         draft.commit > 0;
}

/// Memory that comes and goes just before steps of the draft, by step.
std::vector<MemoryEvent> memory_events(const Draft& draft, const ArenasPlan& placed) {
  using Kind = MemoryEvent::Kind;
  std::vector<MemoryEvent> events;
  const auto add = [&](int step, Kind kind, std::size_t index) {
    events.push_back({static_cast<std::size_t>(step), kind, static_cast<int>(index)});
  };
  for (std::size_t i = 0; i < placed.arenas.size(); ++i) {
    add(draft.taken_before(placed.arenas[i].first), Kind::take_arena, i);
    add(placed.arenas[i].last + 1, Kind::drop_arena, i);
  }
  for (std::size_t i = 0; i < draft.buffers.size(); ++i) {
    if (comes_late(draft.buffers[i], draft))
      add(draft.taken_before(draft.buffers[i].first_step), Kind::take_output, i);
  }
  std::ranges::stable_sort(events, {}, [](const MemoryEvent& event) {
    return std::pair(event.step, event.kind);  // what goes makes way for what comes
  });
  return events;
}

std::vector<Arena> arenas_of(const ArenasPlan& placed, std::span<const Buffer> buffers) {
  std::vector<Arena> arenas(placed.arenas.size());
  for (std::size_t i = 0; i < arenas.size(); ++i) arenas[i].bytes = placed.arenas[i].bytes;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    if (buffer.source != Source::arena || buffer.first_step < 0 || buffer.bytes == 0) continue;
    arenas[static_cast<std::size_t>(buffer.arena)].buffers.push_back(static_cast<int>(i));
  }
  return arenas;
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
                  std::span<const Tensor> placeholders, bool may_update_early,
                  std::span<const WrittenBack> written_back, PlaceholderUse use) {
  PlacedDraft placed{lay_out(lowered, symbols, placeholders), {}, {}};
  write_back(placed.draft, lowered, written_back);
  use_given_away(placed.draft, lowered, use);
  order_writes(placed.draft);
  if (may_update_early) update_early(placed.draft);
  placed.arenas = place_memory(placed.draft);
  placed.events = memory_events(placed.draft, placed.arenas);
  find_together(placed.draft, placed.events);
  return placed;
}

std::unique_ptr<Plan> make_plan(const GraphImpl& lowered, const SymbolMap& symbols,
                                std::span<const Tensor> placeholders,
                                const RegionExecutables& regions, bool check_finite,
                                std::span<const WrittenBack> written_back, PlaceholderUse use) {
  auto [draft, arenas, events] =
      place(lowered, symbols, placeholders, !check_finite, written_back, use);
  auto plan = std::make_unique<Plan>(draft.buffers);
  plan->symbols = symbols;
  plan->slots = draft.slots;
  plan->outputs = std::move(draft.outputs);
  for (const int slot : plan->outputs) plan->keep_contents(slot);
  plan->arenas = arenas_of(arenas, plan->buffers);
  plan->arena_bytes = arenas.bytes();
  plan->live_peak = arenas.live_peak;
  plan->views = draft.views;
  plan->notes = std::move(draft.notes);
  for (Buffer& buffer : plan->buffers) {
    if (buffer.source == Source::output && !comes_late(buffer, draft)) buffer.first_step = -1;
  }
  auto event = events.cbegin();
  runtime::KernelBatch batch;
  auto together = draft.together.cbegin();
  std::vector<std::unique_ptr<Step>> joined;
  for (std::size_t i = 0; i < draft.steps.size(); ++i) {
    if (i == draft.commit) plan->commit = plan->steps.size();
    if (draft.is_empty(draft.steps[i])) continue;
    for (; event != events.cend() && event->step <= i; ++event) {
      plan->events.push_back(*event);  // also of steps before that do nothing
      plan->events.back().step = plan->steps.size();
    }
    auto step = make_step(*plan, draft.steps[i], regions, batch);
    const bool computes = draft.steps[i].kind == DraftStep::Kind::kernel ||
                          draft.steps[i].kind == DraftStep::Kind::opaque;
    if (check_finite && computes && i < draft.commit) {
      step = make_checked_step(*plan, draft.steps[i], std::move(step));
    }
    if (check_finite || together == draft.together.cend() || i < together->first) {
      plan->steps.push_back(std::move(step));
      continue;
    }
    joined.push_back(std::move(step));
    if (i < together->last) continue;
    plan->steps.push_back(make_together_step(std::exchange(joined, {})));
    ++together;
  }
  batch.finish();
  if (draft.commit == draft.steps.size()) plan->commit = plan->steps.size();
  plan->kernels = static_cast<int>(plan->steps.size());
  for (const DraftWrite& write : draft.writes) {
    const int buffer = plan->slots[static_cast<std::size_t>(write.variable)].buffer;
    const Buffer& target = plan->buffers[static_cast<std::size_t>(buffer)];
    if (target.source == Source::variable) plan->written.push_back(buffer);
    if (write.output < 0) continue;
    plan->taken.push_back(target.index);
    plan->notes.push_back(
        fmt::format("output {} is computed in the memory of {}, which is given away", write.output,
                    lowered.placeholders()[static_cast<std::size_t>(target.index)]
                        .node->attrs_as<PlaceholderAttrs>()
                        .name));
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
  use.intermediate = placed.arenas.most_at_once() + of_control;
  use.live_peak = placed.arenas.live_peak + of_control;
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
