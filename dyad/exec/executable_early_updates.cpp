/// Optimisers' updates between the steps that compute gradients.
#include <algorithm>
#include <utility>

#include "dyad/exec/executable.h"
#include "dyad/exec/executable_draft.h"
#include "dyad/exec/memory_ledger.h"

namespace dyad::exec {
namespace {

/// Steps, by number, in the order in which they would run.
using Order = std::vector<std::size_t>;

class EarlyUpdates {
 public:
  explicit EarlyUpdates(Draft& draft) : draft_(draft), steps_(draft.steps), first_(draft.commit) {}

  void run() {
    if (draft_.commit == steps_.size()) return;
    while (first_ > 0 && cannot_fail(steps_[first_ - 1])) --first_;
    if (first_ == draft_.commit) return;
    find_dependences();
    const Order now = ordered(), early = schedule();
    const std::size_t commit = commit_of(early), peak = peak_of(now, draft_.commit);
    constexpr std::size_t kWorthShare = 64;  // parts of the peak
    if (peak_of(early, commit) + peak / kWorthShare >= peak) return;
    std::vector<DraftStep> moved;
    moved.reserve(steps_.size());
    for (const std::size_t step : early) moved.push_back(std::move(steps_[step]));
    steps_ = std::move(moved);
    draft_.commit = commit;
  }

 private:
  [[nodiscard]] int buffer(int slot) const {
    return draft_.slots[static_cast<std::size_t>(slot)].buffer;
  }
  [[nodiscard]] Order ordered() const {
    Order order(steps_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    return order;
  }
  /// Copies to variables stay: others may lie in their memory.
  [[nodiscard]] bool is_update(std::size_t step) const {
    return step >= draft_.commit && steps_[step].kind != DraftStep::Kind::copy;
  }

  /// Of the steps that may move: which ones must come before each, by the buffers that they touch.
  void find_dependences() {
    before_.resize(steps_.size());
    updates_after_.resize(steps_.size());
    std::vector<std::vector<std::size_t>> reads(draft_.buffers.size());  // since it was written
    std::vector<std::size_t> written(draft_.buffers.size(), steps_.size());
    for (std::size_t i = first_; i < steps_.size(); ++i) {
      const auto after = [&](std::size_t other) {
        if (other == steps_.size() || other == i) return;
        before_[i].push_back(other);
        if (is_update(i)) updates_after_[other].push_back(i);
      };
      for (const int slot : steps_[i].reads) {
        if (slot < 0) continue;
        const auto number = static_cast<std::size_t>(buffer(slot));
        after(written[number]);
        reads[number].push_back(i);
      }
      for (const int slot : steps_[i].writes) {
        const auto number = static_cast<std::size_t>(buffer(slot));
        after(written[number]);
        for (const std::size_t reader : reads[number]) after(reader);
        reads[number].clear();
        written[number] = i;
      }
    }
  }

  /// Each update as soon as it can run, with the numbers that only updates need just before.
  [[nodiscard]] Order schedule() {
    Order order = ordered();
    order.resize(first_);
    done_.assign(steps_.size(), false);
    std::fill_n(done_.begin(), first_, true);
    asked_.assign(steps_.size(), 0);
    for (std::size_t i = first_; i < steps_.size(); ++i) {
      const std::size_t from = order.size();
      if (!done_[i]) add(i, order);
      // Those that `i`, or one of these, was the last to keep waiting.
      for (std::size_t at = from; at < order.size(); ++at) {
        for (const std::size_t update : updates_after_[order[at]]) {
          if (done_[update]) continue;
          ++question_;
          if (waits_for_numbers_only(update)) add(update, order);
        }
      }
    }
    return order;
  }
  void add(std::size_t step, Order& order) {
    for (const std::size_t other : before_[step]) {
      if (!done_[other]) add(other, order);
    }
    done_[step] = true;
    order.push_back(step);
  }
  /// Numbers such as Adam's corrections for the first steps are computed when they are asked for.
  [[nodiscard]] bool waits_for_numbers_only(std::size_t step) {
    asked_[step] = question_;
    return std::ranges::all_of(before_[step], [&](std::size_t other) {
      // One that was asked before, in the same question, did not end it.
      return done_[other] || asked_[other] == question_ ||
             (is_of_numbers(steps_[other]) && waits_for_numbers_only(other));
    });
  }
  [[nodiscard]] bool is_of_numbers(const DraftStep& step) const {
    return step.kind == DraftStep::Kind::kernel && std::ranges::all_of(step.writes, [&](int slot) {
             return draft_.tensor(slot).numel() == 1;
           });
  }

  [[nodiscard]] std::size_t commit_of(const Order& order) const {
    const auto first =
        std::ranges::find_if(order, [&](std::size_t step) { return step >= draft_.commit; });
    return static_cast<std::size_t>(first - order.begin());
  }

  /// The most memory of all steps in this order, of which those from number `commit` on come when
  /// no more memory is taken.
  [[nodiscard]] std::size_t peak_of(const Order& order, std::size_t commit) const {
    struct Span {
      int first = -1, last = -1;
    };
    std::vector<Span> spans(draft_.buffers.size());
    for (std::size_t at = 0; at < order.size(); ++at) {
      const auto note = [&](const std::vector<int>& slots) {
        for (const int slot : slots) {
          if (slot < 0) continue;
          Span& span = spans[static_cast<std::size_t>(buffer(slot))];
          if (span.first < 0) span.first = static_cast<int>(at);
          span.last = static_cast<int>(at);
        }
      };
      note(steps_[order[at]].reads);
      note(steps_[order[at]].writes);
    }
    const int end = static_cast<int>(order.size()) - 1,
              latest = std::max(static_cast<int>(commit) - 1, 0);
    Ledger ledger(end + 1);
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const Buffer& one = draft_.buffers[i];
      if (spans[i].first < 0) continue;
      if (one.source == Source::arena)
        ledger.add(aligned(one.bytes), spans[i].first, spans[i].last);
      if (one.source == Source::output)
        ledger.add(aligned(one.bytes), std::min(spans[i].first, latest), end);
    }
    return ledger.peak();
  }

  Draft& draft_;
  std::vector<DraftStep>& steps_;
  std::size_t first_;                                             // from here on no step can fail
  std::vector<std::vector<std::size_t>> before_, updates_after_;  // by step
  std::vector<bool> done_;
  std::vector<int> asked_;  // by step: the question in which it was last asked what it waits for
  int question_ = 0;
};

}  // namespace

bool cannot_fail(const DraftStep& step) {
  switch (step.kind) {
    case DraftStep::Kind::kernel:
    case DraftStep::Kind::copy:
      return true;
    case DraftStep::Kind::rows:
      return std::ranges::all_of(step.members, cannot_fail);
    case DraftStep::Kind::opaque:
      return never_fails(*step.node);
    case DraftStep::Kind::control:
    case DraftStep::Kind::save:
      return false;
  }
  return false;
}

void update_early(Draft& draft) { EarlyUpdates(draft).run(); }

}  // namespace dyad::exec
