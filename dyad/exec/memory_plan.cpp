#include "dyad/exec/memory_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace dyad::exec {
namespace {

bool meet(const BufferRequest& a, const BufferRequest& b) {
  return a.first <= b.last && b.first <= a.last;
}

std::size_t peak_of(std::span<const BufferRequest> requests, std::span<const std::size_t> sizes) {
  int last = -1;
  for (const BufferRequest& r : requests) last = std::max(last, r.last);
  std::vector<std::ptrdiff_t> change(static_cast<std::size_t>(last + 2), 0);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    change[static_cast<std::size_t>(requests[i].first)] += static_cast<std::ptrdiff_t>(sizes[i]);
    change[static_cast<std::size_t>(requests[i].last + 1)] -= static_cast<std::ptrdiff_t>(sizes[i]);
  }
  std::ptrdiff_t live = 0, peak = 0;
  for (const std::ptrdiff_t c : change) peak = std::max(peak, live += c);
  return static_cast<std::size_t>(peak);
}

}  // namespace

MemoryPlan plan_memory(std::span<const BufferRequest> requests, std::size_t alignment) {
  MemoryPlan plan;
  plan.offsets.assign(requests.size(), 0);
  std::vector<std::size_t> sizes;
  for (const BufferRequest& r : requests) {
    sizes.push_back((r.bytes + alignment - 1) / alignment * alignment);
  }
  plan.live_peak = peak_of(requests, sizes);

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

}  // namespace dyad::exec
