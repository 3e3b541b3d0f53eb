#include "dyad/exec/memory_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "dyad/core/allocator.h"

namespace dyad::exec {
namespace {

bool meet(const BufferRequest& a, const BufferRequest& b) {
  return a.first <= b.last && b.first <= a.last;
}

/// Bytes that come and go, and the most that are there at one step.
class Ledger {
 public:
  explicit Ledger(int steps) : change_(static_cast<std::size_t>(steps) + 1, 0) {}

  void add(std::size_t bytes, int first, int last) {
    change_[static_cast<std::size_t>(first)] += static_cast<std::ptrdiff_t>(bytes);
    change_[static_cast<std::size_t>(last) + 1] -= static_cast<std::ptrdiff_t>(bytes);
  }
  [[nodiscard]] std::vector<std::ptrdiff_t> by_step() const {
    std::vector<std::ptrdiff_t> sums(change_.size() - 1);
    std::partial_sum(change_.begin(), change_.end() - 1, sums.begin());
    return sums;
  }
  [[nodiscard]] std::size_t peak() const {
    std::ptrdiff_t now = 0, peak = 0;
    for (const std::ptrdiff_t c : change_) peak = std::max(peak, now += c);
    return static_cast<std::size_t>(peak);
  }

 private:
  std::vector<std::ptrdiff_t> change_;
};

constexpr std::size_t kAlignment = 64;
std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

int steps_of(std::span<const BufferRequest> requests) {
  int steps = 0;
  for (const BufferRequest& r : requests) steps = std::max(steps, r.last + 1);
  return steps;
}

std::size_t live_peak_of(std::span<const BufferRequest> requests) {
  Ledger live(steps_of(requests));
  for (const BufferRequest& r : requests) live.add(aligned(r.bytes), r.first, r.last);
  return live.peak();
}

}  // namespace

MemoryPlan plan_memory(std::span<const BufferRequest> requests) {
  MemoryPlan plan;
  plan.offsets.assign(requests.size(), 0);
  std::vector<std::size_t> sizes;
  for (const BufferRequest& r : requests) sizes.push_back(aligned(r.bytes));
  plan.live_peak = live_peak_of(requests);

  std::vector<std::size_t> by_size(requests.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(by_size, std::greater<>(), [&](std::size_t i) { return sizes[i]; });

  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t i : by_size) {
    std::size_t best = 0, best_gap = std::numeric_limits<std::size_t>::max(), end = 0;
    for (const std::size_t other : placed) {
      if (!meet(requests[i], requests[other])) continue;
      const std::size_t begin = plan.offsets[other];
      if (begin >= end + sizes[i] && begin - end < best_gap) {
        best_gap = begin - end;
        best = end;
      }
      end = std::max(end, begin + sizes[other]);
    }
    plan.offsets[i] = best_gap == std::numeric_limits<std::size_t>::max() ? end : best;
    plan.arena_bytes = std::max(plan.arena_bytes, plan.offsets[i] + sizes[i]);
    placed.insert(std::ranges::upper_bound(placed, plan.offsets[i], {},
                                           [&](std::size_t p) { return plan.offsets[p]; }),
                  i);
  }
  return plan;
}

namespace {

/// Which of several arenas each request lies in; an arena may be empty.
struct Grouping {
  std::vector<int> arena_of;
  int arenas = 1;
};

/// Tries several arenas, of which some make way for what comes later.
class ArenaCuts {
 public:
  ArenaCuts(std::span<const BufferRequest> requests, std::span<const LaterMemory> later)
      : requests_(requests), later_(later), steps_(steps_of(requests)) {
    for (const LaterMemory& one : later) steps_ = std::max(steps_, one.first + 1);
  }

  /// One arena, and others where they pay.
  [[nodiscard]] Grouping choose() const {
    constexpr std::size_t kWorthIt = 64 << 10, kWorthShare = 64;  // bytes, and parts of the peak
    const std::vector<int> steps = births();
    Grouping best{std::vector<int>(requests_.size(), 0)};
    if (steps.empty() || requests_.empty()) return best;
    std::size_t peak = estimate(best);
    const auto is_worth_it = [&](std::size_t bytes) {
      return bytes + std::max(kWorthIt, peak / kWorthShare) <= peak;
    };
    constexpr std::size_t kMostCuts = 3;
    std::vector<int> cuts;
    while (cuts.size() < kMostCuts) {
      std::size_t least = std::numeric_limits<std::size_t>::max();
      std::vector<int> best_cuts;
      for (const int step : steps) {
        std::vector<int> tried = cuts;
        tried.insert(std::ranges::upper_bound(tried, step), step);
        if (const std::size_t would_be = estimate(by_last_step(tried)); would_be < least) {
          least = would_be;
          best_cuts = std::move(tried);
        }
      }
      if (!is_worth_it(least)) break;
      peak = least;
      cuts = std::move(best_cuts);
      best = by_last_step(cuts);
    }
    const int fullest = fullest_step();
    for (std::size_t k = 0; k < steps.size(); ++k) {
      for (std::size_t i = 0; i < k && steps[k] > fullest; ++i) {
        Grouping tried = apart(fullest, steps[i], steps[k]);
        const std::size_t would_be = estimate(tried);
        if (!is_worth_it(would_be)) continue;
        peak = would_be;
        best = std::move(tried);
      }
    }
    return best;
  }

  [[nodiscard]] ArenasPlan pack(const Grouping& grouping) const {
    ArenasPlan plan;
    plan.offsets.resize(requests_.size());
    plan.arena_of.resize(requests_.size());
    for (int k = 0; k < grouping.arenas; ++k) {
      const std::vector<BufferRequest> members = members_of(grouping, k);
      if (members.empty()) continue;
      const MemoryPlan packed = plan_memory(members);
      for (std::size_t i = 0, member = 0; i < requests_.size(); ++i) {
        if (grouping.arena_of[i] != k) continue;
        plan.offsets[i] = packed.offsets[member++];
        plan.arena_of[i] = static_cast<int>(plan.arenas.size());
      }
      plan.arenas.push_back(span_of(members, packed.arena_bytes));
    }
    return plan;
  }
  [[nodiscard]] ArenasPlan pack_in_one() const {
    return pack({std::vector<int>(requests_.size(), 0)});
  }

  /// The most memory of all steps.
  [[nodiscard]] std::size_t peak_of(std::span<const ArenaSpan> arenas) const {
    Ledger all(steps_);
    for (const ArenaSpan& arena : arenas)
      all.add(detail::block_size(arena.bytes), arena.first, arena.last);
    for (const LaterMemory& one : later_)
      all.add(detail::block_size(one.bytes), one.first, steps_ - 1);
    return all.peak();
  }

 private:
  /// Arenas that hold what is needed last before one of these steps, each the next.
  [[nodiscard]] Grouping by_last_step(std::span<const int> cuts) const {
    Grouping grouping{{}, static_cast<int>(cuts.size()) + 1};
    for (const BufferRequest& one : requests_) {
      grouping.arena_of.push_back(
          static_cast<int>(std::ranges::upper_bound(cuts, one.last) - cuts.begin()));
    }
    return grouping;
  }
  /// An arena for what is there in a full step and needed last in steps `from` to `until`, the
  /// latter not included. What comes later never lies there: it takes the place of what goes first.
  [[nodiscard]] Grouping apart(int full, int from, int until) const {
    Grouping grouping{{}, 2};
    for (const BufferRequest& one : requests_) {
      const bool makes_way =
          one.first <= full && full <= one.last && from <= one.last && one.last < until;
      grouping.arena_of.push_back(makes_way ? 0 : 1);
    }
    return grouping;
  }

  [[nodiscard]] std::vector<BufferRequest> members_of(const Grouping& grouping, int arena) const {
    std::vector<BufferRequest> members;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (grouping.arena_of[i] == arena) members.push_back(requests_[i]);
    }
    return members;
  }
  /// The step in which the requests need most.
  [[nodiscard]] int fullest_step() const {
    Ledger live(steps_);
    for (const BufferRequest& one : requests_) live.add(aligned(one.bytes), one.first, one.last);
    const std::vector<std::ptrdiff_t> sums = live.by_step();
    return static_cast<int>(std::ranges::max_element(sums) - sums.begin());
  }
  static ArenaSpan span_of(std::span<const BufferRequest> members, std::size_t bytes) {
    ArenaSpan span{bytes, members.front().first, members.front().last};
    for (const BufferRequest& one : members) {
      span.first = std::min(span.first, one.first);
      span.last = std::max(span.last, one.last);
    }
    return span;
  }

  /// Steps before which memory is taken that others could make way for; a few where they are many.
  [[nodiscard]] std::vector<int> births() const {
    constexpr std::size_t kMost = 24;
    std::vector<int> steps;
    for (const LaterMemory& one : later_) {
      if (one.bytes > 0 && one.first > 0) steps.push_back(one.first);
    }
    std::ranges::sort(steps);
    steps.erase(std::ranges::unique(steps).begin(), steps.end());
    if (steps.size() <= kMost) return steps;
    std::vector<int> some(kMost);
    for (std::size_t i = 0; i < kMost; ++i) some[i] = steps[i * steps.size() / kMost];
    return some;
  }

  /// The most memory of all steps if every arena is as small as can be.
  [[nodiscard]] std::size_t estimate(const Grouping& grouping) const {
    std::vector<ArenaSpan> arenas;
    for (int k = 0; k < grouping.arenas; ++k) {
      const std::vector<BufferRequest> members = members_of(grouping, k);
      if (!members.empty()) arenas.push_back(span_of(members, live_peak_of(members)));
    }
    return peak_of(arenas);
  }

  std::span<const BufferRequest> requests_;
  std::span<const LaterMemory> later_;
  int steps_;
};

}  // namespace

std::vector<int> lend(std::span<const BufferRequest> requests, std::span<LaterMemory> later) {
  std::vector<int> lies_in(requests.size(), -1);
  const bool any =
      std::ranges::any_of(later, [](const LaterMemory& one) { return one.first < one.written; });
  if (!any) return lies_in;
  int steps = steps_of(requests);
  for (const LaterMemory& one : later) steps = std::max(steps, one.written + 1);
  Ledger ledger(steps);
  for (const BufferRequest& r : requests) ledger.add(r.bytes, r.first, r.last);
  for (const LaterMemory& one : later) ledger.add(one.bytes, one.first, steps - 1);
  std::vector<std::ptrdiff_t> there = ledger.by_step();
  const std::ptrdiff_t peak = *std::ranges::max_element(there);

  std::vector<std::size_t> by_size(requests.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(by_size, std::greater<>(),
                           [&](std::size_t i) { return requests[i].bytes; });
  std::vector<bool> is_lent(later.size(), false);
  for (const std::size_t i : by_size) {
    const BufferRequest& block = requests[i];
    const auto suits = [&](const LaterMemory& one) {
      if (one.bytes < block.bytes || block.last < one.first || block.last >= one.written)
        return false;
      const auto more = static_cast<std::ptrdiff_t>(one.bytes - block.bytes);
      return std::all_of(there.begin() + std::min(block.first, one.first),
                         there.begin() + one.first,
                         [&](std::ptrdiff_t bytes) { return bytes + more <= peak; });
    };
    int best = -1;
    for (std::size_t k = 0; k < later.size(); ++k) {
      if (is_lent[k] || !suits(later[k])) continue;
      if (best < 0 || later[k].bytes < later[static_cast<std::size_t>(best)].bytes)
        best = static_cast<int>(k);
    }
    if (best < 0) continue;
    LaterMemory& host = later[static_cast<std::size_t>(best)];
    for (int step = block.first; step <= block.last; ++step) {
      auto& bytes = there[static_cast<std::size_t>(step)];
      bytes -= static_cast<std::ptrdiff_t>(block.bytes);
      if (step < host.first) bytes += static_cast<std::ptrdiff_t>(host.bytes);
    }
    host.first = std::min(host.first, block.first);
    is_lent[static_cast<std::size_t>(best)] = true;
    lies_in[i] = best;
  }
  return lies_in;
}

std::size_t ArenasPlan::bytes() const noexcept {
  std::size_t sum = 0;
  for (const ArenaSpan& arena : arenas) sum += arena.bytes;
  return sum;
}

std::size_t ArenasPlan::most_at_once() const noexcept {
  std::size_t most = 0;
  for (const ArenaSpan& at : arenas) {  // where one begins
    std::size_t there = 0;
    for (const ArenaSpan& arena : arenas) {
      if (arena.first <= at.first && at.first <= arena.last) there += arena.bytes;
    }
    most = std::max(most, there);
  }
  return most;
}

ArenasPlan plan_arenas(std::span<const BufferRequest> requests,
                       std::span<const LaterMemory> later) {
  const ArenaCuts arenas(requests, later);
  ArenasPlan plan = arenas.pack(arenas.choose());
  if (plan.arenas.size() > 1) {
    ArenasPlan one = arenas.pack_in_one();
    if (arenas.peak_of(one.arenas) <= arenas.peak_of(plan.arenas)) plan = std::move(one);
  }
  plan.live_peak = live_peak_of(requests);
  return plan;
}

}  // namespace dyad::exec
