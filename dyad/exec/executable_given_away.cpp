#include <algorithm>
#include <vector>

#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/executable_draft.h"

// Memory that nobody needs when a run is over, or a branch of it.

namespace dyad::exec {
namespace {

constexpr std::size_t kMost = 64;  // bits

class GivenAway {
 public:
  GivenAway(Draft& draft, const GraphImpl& lowered, PlaceholderUse use)
      : draft_(draft), use_(use), left_(use.given_away) {
    const std::size_t count = std::min(lowered.placeholders().size(), kMost);
    for (std::size_t i = 0; i < count; ++i)
      placeholders_.push_back(draft.slot_of.at(lowered.placeholders()[i]));
  }

  void use() {
    std::vector<std::size_t> reads;
    for (DraftStep& step : draft_.steps) {
      if (step.kind != DraftStep::Kind::control || &step.node->op() != &kCondOp) continue;
      if (reads.empty()) reads = count_reads();
      give_to(step, reads);
    }
    for (std::size_t i = 0; i < placeholders_.size(); ++i) {
      if (is_left(i)) offer(placeholders_[i]);
    }
  }

 private:
  [[nodiscard]] bool is_left(std::size_t placeholder) const {
    return (left_ >> placeholder & 1) != 0;
  }
  [[nodiscard]] int buffer(int slot) const {
    return slot < 0 ? -1 : draft_.slots[static_cast<std::size_t>(slot)].buffer;
  }

  /// How many operands of steps lie in each buffer; many, where it is needed when they are through.
  [[nodiscard]] std::vector<std::size_t> count_reads() const {
    std::vector<std::size_t> reads(draft_.buffers.size());
    const auto add = [&](int slot, std::size_t count) {
      if (slot >= 0) reads[static_cast<std::size_t>(buffer(slot))] += count;
    };
    for (const DraftStep& step : draft_.steps) {
      for (const int slot : step.reads) add(slot, 1);
      for (const DraftStep& member : step.members) {
        for (const int slot : member.reads) add(slot, 1);
      }
    }
    for (const int slot : draft_.outputs) add(slot, 2);
    for (const DraftWrite& write : draft_.writes) {
      add(write.variable, 2);
      add(write.value, 2);
    }
    return reads;
  }

  void give_to(DraftStep& cond, const std::vector<std::size_t>& reads) {
    // What comes behind the condition are the graphs' placeholders.
    for (std::size_t i = 1; i < std::min(cond.reads.size(), kMost + 1); ++i) {
      const Buffer& held = draft_.buffer_of(cond.reads[i]);
      const auto number = static_cast<std::size_t>(held.index);
      const bool is_given =
          held.source == Source::control || (held.source == Source::placeholder && use_.may_spoil &&
                                             number < kMost && is_left(number));
      if (!is_given || reads[static_cast<std::size_t>(buffer(cond.reads[i]))] > 1) continue;
      cond.given_away.push_back(i);
      if (held.source == Source::placeholder) left_ &= ~(std::uint64_t{1} << number);
    }
  }

  void offer(int target) {
    const auto itself = std::ranges::find(draft_.outputs, target);
    if (use_.may_spoil && itself != draft_.outputs.end()) {
      draft_.given_back[static_cast<std::size_t>(itself - draft_.outputs.begin())] = true;
      return;
    }
    for (std::size_t output = 0; output < draft_.outputs.size(); ++output) {
      const int value = draft_.outputs[output];
      const bool is_used =
          std::ranges::count(draft_.outputs, value) > 1 ||
          std::ranges::find(draft_.writes, value, &DraftWrite::value) != draft_.writes.end();
      if (draft_.given_back[output] || is_used || draft_.buffer_of(value).source != Source::arena ||
          draft_.tensor(value).dtype != draft_.tensor(target).dtype ||
          !draft_.same_layout(value, target))
        continue;
      draft_.writes.push_back(
          {target, value, draft_.output_nodes[output], static_cast<int>(output)});
      break;
    }
  }

  Draft& draft_;
  PlaceholderUse use_;
  std::uint64_t left_;
  std::vector<int> placeholders_;  // slots
};

}  // namespace

void use_given_away(Draft& draft, const GraphImpl& lowered, PlaceholderUse use) {
  GivenAway(draft, lowered, use).use();
}

}  // namespace dyad::exec
