#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "dyad/exec/executable_draft.h"
#include "dyad/passes/fused_op.h"

namespace dyad::exec {
namespace {

/// Memory that steps read and write, to tell whether another one needs anything of them.
class TouchedMemory {
 public:
  explicit TouchedMemory(Draft& draft) : draft_(draft) {}

  /// Whether `step` reads what the noted ones write, or writes what they read or write.
  [[nodiscard]] bool meets(const DraftStep& step) const {
    const auto meets_any = [&](const std::vector<int>& slots, bool writes) {
      return std::ranges::any_of(slots, [&](int slot) {
        if (slot < 0) return false;
        const Range range = range_of(slot);
        const auto noted = ranges_.find(range.memory);
        return noted != ranges_.end() &&
               std::ranges::any_of(noted->second, [&](const Range& other) {
                 return (writes || other.is_written) && range.begin < other.end &&
                        other.begin < range.end;
               });
      });
    };
    return meets_any(step.reads, false) || meets_any(step.writes, true);
  }

  void note(const DraftStep& step) {
    for (const std::vector<int>* slots : {&step.reads, &step.writes}) {
      for (const int slot : *slots) {
        if (slot < 0) continue;
        Range range = range_of(slot);
        range.is_written = slots == &step.writes;
        ranges_[range.memory].push_back(range);
      }
    }
  }

  void clear() { ranges_.clear(); }

 private:
  struct Range {
    std::uintptr_t memory = 0;  ///< what it is a part of: an arena, a buffer, a variable's storage
    std::size_t begin = 0, end = 0;
    bool is_written = false;
  };

  [[nodiscard]] Range range_of(int slot) const {
    const int number = draft_.slots[static_cast<std::size_t>(slot)].buffer;
    const Buffer& buffer = draft_.buffers[static_cast<std::size_t>(number)];
    // Storages have even addresses, arenas and buffers get odd numbers.
    if (buffer.source == Source::arena) {
      return {static_cast<std::uintptr_t>(buffer.arena) * 4 + 1, buffer.offset,
              buffer.offset + buffer.bytes};
    }
    const std::uintptr_t own =
        buffer.base.defined() ? reinterpret_cast<std::uintptr_t>(buffer.base.impl()->storage.get())
                              : static_cast<std::uintptr_t>(number) * 4 + 3;
    return {own, 0, 1};
  }

  Draft& draft_;
  std::unordered_map<std::uintptr_t, std::vector<Range>> ranges_;
};

/// A kernel that computes element by element from memory whose whereabouts are known: what graphs
/// inside of a step return may lie anywhere.
bool may_join(Draft& draft, const DraftStep& step) {
  return step.kind == DraftStep::Kind::kernel && !passes::reduction_of(*step.node) &&
         std::ranges::none_of(step.reads, [&](int slot) {
           return slot >= 0 && draft.buffer_of(slot).source == Source::control;
         });
}

}  // namespace

void find_together(Draft& draft, std::span<const MemoryEvent> events) {
  TouchedMemory touched(draft);
  StepRange range;
  int members = 0;
  const auto end_range = [&] {
    if (members > 1) draft.together.push_back(range);
    touched.clear();
    members = 0;
  };
  for (std::size_t i = 0; i < draft.steps.size(); ++i) {
    const DraftStep& step = draft.steps[i];
    if (i == draft.commit || std::ranges::binary_search(events, i, {}, &MemoryEvent::step))
      end_range();
    if (draft.is_empty(step)) continue;
    if (!may_join(draft, step)) {
      end_range();
      continue;
    }
    if (touched.meets(step)) end_range();
    if (members == 0) range.first = i;
    range.last = i;
    touched.note(step);
    ++members;
  }
  end_range();
}

}  // namespace dyad::exec
