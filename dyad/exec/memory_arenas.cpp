/// Arenas that make way for what comes later.
#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "dyad/core/allocator.h"
#include "dyad/exec/memory_ledger.h"
#include "dyad/exec/memory_plan.h"

namespace dyad::exec {
namespace {

/// Whether what is saved is worth more arenas: one of so many parts of the peak.
bool is_worth(std::size_t peak, std::size_t lower, std::size_t parts = 64) {
  constexpr std::size_t kWorthIt = 64 << 10;  // bytes
  return lower < peak && peak - lower >= std::max(kWorthIt, peak / parts);
}

/// What so many bytes take at least: a block without loss, and one for the rest.
std::size_t memory_of(std::size_t bytes) {
  if (detail::block_size(bytes) == bytes) return bytes;
  const std::size_t full = detail::full_block_below(bytes);
  return full + detail::block_size(bytes - full);
}

/// Which of several arenas each request lies in; an arena may be empty.
struct Grouping {
  std::vector<int> arena_of;
  int arenas = 1;
};

/// Arenas for what is there in the fullest step and needed last in some span of later steps: a
/// layer's values, say. What comes later never lies there; it takes the place of what goes first.
class Windows {
 public:
  Windows(std::span<const BufferRequest> requests, std::span<const LaterMemory> later, int steps,
          int latest)
      : requests_(requests),
        grouping_{std::vector<int>(requests.size(), 0)},
        latest_(latest),
        first_(latest) {
    Ledger all(steps), beside(steps);
    for (const BufferRequest& one : requests) {
      all.add(aligned(one.bytes), one.first, one.last);
      first_ = std::min(first_, one.first);
      last_ = std::max(last_, one.last);
    }
    for (const LaterMemory& one : later)
      beside.add(detail::block_size(one.bytes), one.first, steps - 1);
    rest_ = all.by_step();
    beside_ = beside.by_step();
    fullest_ = static_cast<int>(std::ranges::max_element(rest_) - rest_.begin());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].first <= fullest_ && fullest_ <= requests[i].last) kept_.push_back(i);
    }
  }

  /// Adds the one with which least is needed, that ends before one of the steps; returns how much
  /// that is.
  std::size_t add_best(std::span<const int> steps) {
    Window best;
    for (const int until : steps) {
      if (until <= fullest_) continue;
      try_window(fullest_, until, best);
      for (const int from : steps) {
        if (from > fullest_ && from < until) try_window(from, until, best);
      }
    }
    peak_ = best.peak;
    if (best.bytes == 0) return peak_;
    ++count_;
    grouping_.arenas = count_ + 1;
    for (const std::size_t i : kept_) {
      const BufferRequest& one = requests_[i];
      if (!best.holds(one)) continue;
      grouping_.arena_of[i] = count_;
      for (int step = one.first; step <= one.last; ++step)
        rest_[static_cast<std::size_t>(step)] -= static_cast<std::ptrdiff_t>(aligned(one.bytes));
    }
    std::erase_if(kept_, [&](std::size_t i) { return grouping_.arena_of[i] == count_; });
    for (int step = best.first; step <= best.last; ++step)
      beside_[static_cast<std::size_t>(step)] += best.bytes;
    return peak_;
  }
  [[nodiscard]] int count() const noexcept { return count_; }
  [[nodiscard]] std::size_t peak() const noexcept { return peak_; }
  /// Arena 0 is the one for everything else.
  [[nodiscard]] const Grouping& grouping() const noexcept { return grouping_; }

 private:
  struct Window {
    int from = 0, until = 0;  ///< steps in which its values are needed last, `until` not included
    int first = 0, last = 0;  ///< when it is there
    std::ptrdiff_t bytes = 0;
    std::size_t peak = std::numeric_limits<std::size_t>::max();
    [[nodiscard]] bool holds(const BufferRequest& kept) const noexcept {
      return from <= kept.last && kept.last < until;
    }
  };

  void try_window(int from, int until, Window& best) {
    Window tried{.from = from, .until = until, .first = std::min(fullest_, latest_)};
    change_.assign(rest_.size() + 1, 0);
    std::size_t bytes = 0;
    for (const std::size_t i : kept_) {
      const BufferRequest& one = requests_[i];
      if (!tried.holds(one)) continue;
      change_[static_cast<std::size_t>(one.first)] +=
          static_cast<std::ptrdiff_t>(aligned(one.bytes));
      change_[static_cast<std::size_t>(one.last) + 1] -=
          static_cast<std::ptrdiff_t>(aligned(one.bytes));
      bytes += aligned(one.bytes);
      tried.first = std::min(tried.first, one.first);
      tried.last = std::max(tried.last, one.last);
    }
    if (bytes == 0) return;
    tried.bytes = static_cast<std::ptrdiff_t>(memory_of(bytes));
    std::ptrdiff_t most = 0, here = 0;  // of the rest
    for (std::size_t step = 0; step < rest_.size(); ++step)
      most = std::max(most, rest_[step] - (here += change_[step]));
    const auto main = static_cast<std::ptrdiff_t>(memory_of(static_cast<std::size_t>(most)));
    std::ptrdiff_t peak = 0;
    for (int step = 0; step < static_cast<int>(rest_.size()); ++step) {
      const bool is_there = tried.first <= step && step <= tried.last;
      peak = std::max(peak, beside_[static_cast<std::size_t>(step)] +
                                (first_ <= step && step <= last_ ? main : 0) +
                                (is_there ? tried.bytes : 0));
    }
    tried.peak = static_cast<std::size_t>(peak);
    if (tried.peak < best.peak) best = tried;
  }

  std::span<const BufferRequest> requests_;
  Grouping grouping_;
  int count_ = 0, fullest_ = 0, latest_;
  int first_, last_ = 0;                       // when the one for everything else is there
  std::vector<std::ptrdiff_t> rest_, beside_;  // by step: what is in no window; all other memory
  std::vector<std::size_t> kept_;              // there in the fullest step, and in no window yet
  std::vector<std::ptrdiff_t> change_;         // of try_window
  std::size_t peak_ = 0;
};

/// Tries several arenas, of which some make way for what comes later.
class ArenaCuts {
 public:
  ArenaCuts(std::span<const BufferRequest> requests, std::span<const LaterMemory> later, int latest)
      : requests_(requests), later_(later), latest_(latest), steps_(steps_of(requests)) {
    for (const LaterMemory& one : later) steps_ = std::max(steps_, one.first + 1);
  }

  /// One arena, and others where they pay.
  [[nodiscard]] Grouping choose() const {
    const std::vector<int> steps = births();
    Grouping best{std::vector<int>(requests_.size(), 0)};
    if (steps.empty() || requests_.empty()) return best;
    std::size_t peak = estimate(best);
    const auto is_worth_it = [&](std::size_t bytes) { return is_worth(peak, bytes); };
    constexpr int kMostCuts = 3;
    std::vector<int> cuts;
    while (std::ssize(cuts) < kMostCuts) {
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
    // Or with some that hold what is there in the fullest step.
    Windows windows(requests_, later_, steps_, latest_);
    while (windows.count() < kMostCuts && is_worth_it(windows.add_best(steps))) {
      peak = windows.peak();
      best = windows.grouping();
    }
    return best;
  }

  [[nodiscard]] ArenasPlan pack(const Grouping& grouping) const {
    ArenasPlan plan;
    plan.offsets.resize(requests_.size());
    plan.arena_of.resize(requests_.size());
    std::vector<std::vector<std::size_t>> groups(static_cast<std::size_t>(grouping.arenas));
    for (std::size_t i = 0; i < requests_.size(); ++i)
      groups[static_cast<std::size_t>(grouping.arena_of[i])].push_back(i);
    for (const std::vector<std::size_t>& members : groups) {
      if (members.empty()) continue;
      for (const Packed& arena : tightly(members)) add(plan, arena);
    }
    return plan;
  }
  [[nodiscard]] ArenasPlan pack_in_one() const {
    return pack({std::vector<int>(requests_.size(), 0)});
  }

  /// The most memory of all steps.
  [[nodiscard]] std::size_t peak_of(std::span<const ArenaSpan> arenas,
                                    std::size_t (*block)(std::size_t) = detail::block_size) const {
    Ledger all(steps_);
    for (const ArenaSpan& arena : arenas) all.add(block(arena.bytes), arena.first, arena.last);
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
  /// Some requests, and where they lie in an arena.
  struct Packed {
    std::vector<std::size_t> members;
    MemoryPlan plan;
  };
  static std::size_t memory_of_all(std::span<const Packed> arenas) {
    std::size_t bytes = 0;
    for (const Packed& arena : arenas) bytes += detail::block_size(arena.plan.arena_bytes);
    return bytes;
  }

  /// One arena for these requests, or several where their blocks take less: memory comes in sizes
  /// of its own, so what lies beyond the last full page may cost a page.
  [[nodiscard]] std::vector<Packed> tightly(const std::vector<std::size_t>& members,
                                            int cuts = 3) const {
    std::vector<Packed> best{{members, plan_memory(requests_of(members))}};
    const std::size_t bytes = best[0].plan.arena_bytes, full = detail::full_block_below(bytes);
    if (cuts == 0 || !is_worth(detail::block_size(bytes), bytes)) return best;
    std::vector<std::size_t> below, beyond;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const bool fits = requests_[members[i]].bytes + best[0].plan.offsets[i] <= full;
      (fits ? below : beyond).push_back(members[i]);
    }
    if (below.empty() || beyond.empty()) return best;
    std::vector<Packed> apart = tightly(below, cuts - 1);
    std::ranges::move(tightly(beyond, cuts - 1), std::back_inserter(apart));
    return memory_of_all(apart) < memory_of_all(best) ? apart : best;
  }

  /// Adds an arena.
  void add(ArenasPlan& plan, const Packed& packed) const {
    for (std::size_t i = 0; i < packed.members.size(); ++i) {
      plan.offsets[packed.members[i]] = packed.plan.offsets[i];
      plan.arena_of[packed.members[i]] = static_cast<int>(plan.arenas.size());
    }
    plan.arenas.push_back(span_of(requests_of(packed.members), packed.plan.arena_bytes));
  }
  [[nodiscard]] std::vector<BufferRequest> requests_of(std::span<const std::size_t> members) const {
    std::vector<BufferRequest> requests;
    for (const std::size_t i : members) requests.push_back(requests_[i]);
    return requests;
  }

  [[nodiscard]] std::vector<BufferRequest> members_of(const Grouping& grouping, int arena) const {
    std::vector<BufferRequest> members;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (grouping.arena_of[i] == arena) members.push_back(requests_[i]);
    }
    return members;
  }
  [[nodiscard]] ArenaSpan span_of(std::span<const BufferRequest> members, std::size_t bytes) const {
    ArenaSpan span{bytes, latest_, members.front().last};
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
    return peak_of(arenas, memory_of);
  }

  std::span<const BufferRequest> requests_;
  std::span<const LaterMemory> later_;
  int latest_, steps_;
};

/// Requests in the order of their numbers, by size.
struct BySize {
  explicit BySize(std::span<const BufferRequest> requests) {
    constexpr std::size_t kSmall = 128 << 10;
    for (const BufferRequest& one : requests) {
      is_large.push_back(one.bytes > kSmall);
      if (is_large.back()) large.push_back(one);
    }
  }
  /// An arena of small ones beside those of large ones: few of these are there long, a number that
  /// all updates read say, and would keep a large arena.
  [[nodiscard]] Grouping with_small(const Grouping& of_large) const {
    Grouping all{{}, of_large.arenas + 1};
    auto next = of_large.arena_of.begin();
    for (const bool one : is_large) all.arena_of.push_back(one ? *next++ : of_large.arenas);
    return all;
  }
  /// Each large one by itself.
  [[nodiscard]] Grouping alone() const {
    Grouping each{std::vector<int>(large.size()), static_cast<int>(large.size())};
    std::iota(each.arena_of.begin(), each.arena_of.end(), 0);
    return with_small(each);
  }

  std::vector<bool> is_large;
  std::vector<BufferRequest> large;
};

}  // namespace

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

ArenasPlan plan_arenas(std::span<const BufferRequest> requests, std::span<const LaterMemory> later,
                       int latest) {
  const ArenaCuts arenas(requests, later, latest);
  const BySize sizes(requests);
  ArenasPlan plan = arenas.pack(sizes.with_small(ArenaCuts(sizes.large, later, latest).choose()));
  if (plan.arenas.size() > 1) {
    ArenasPlan one = arenas.pack_in_one();
    if (arenas.peak_of(one.arenas) <= arenas.peak_of(plan.arenas)) plan = std::move(one);
  }
  constexpr std::size_t kMostAlone = 256, kParts = 32;
  if (!later.empty() && sizes.large.size() <= kMostAlone) {
    ArenasPlan alone = arenas.pack(sizes.alone());
    if (is_worth(arenas.peak_of(plan.arenas), arenas.peak_of(alone.arenas), kParts))
      plan = std::move(alone);
  }
  plan.live_peak = live_peak_of(requests);
  return plan;
}

}  // namespace dyad::exec
