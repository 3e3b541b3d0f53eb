#include <algorithm>

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
    for (DraftStep& step : draft_.steps) {
      if (step.kind == DraftStep::Kind::control && &step.node->op() == &kCondOp) give_to(step);
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

  /// Whether one step reads the buffer, as one operand, and nothing else does.
  [[nodiscard]] bool is_read_once(int which) const {
    const auto is_it = [&](int slot) { return buffer(slot) == which; };
    const auto is_written = [&](const DraftWrite& write) {
      return is_it(write.variable) || is_it(write.value);
    };
    std::ptrdiff_t reads = 0;
    for (const DraftStep& step : draft_.steps) reads += std::ranges::count_if(step.reads, is_it);
    return reads == 1 && std::ranges::none_of(draft_.outputs, is_it) &&
           std::ranges::none_of(draft_.writes, is_written);
  }

  void give_to(DraftStep& cond) {
    for (std::size_t i = 1; i < std::min(cond.reads.size(), kMost + 1); ++i) {
      const Buffer& held = draft_.buffer_of(cond.reads[i]);
      const auto number = static_cast<std::size_t>(held.index);
      const bool is_given =
          held.source == Source::control || (held.source == Source::placeholder && use_.may_spoil &&
                                             number < kMost && is_left(number));
      if (!is_given || !is_read_once(buffer(cond.reads[i]))) continue;
      cond.given_away |= std::uint64_t{1} << (i - 1);
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
