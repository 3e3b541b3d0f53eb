#include "dyad/exec/memory_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "dyad/exec/memory_ledger.h"

namespace dyad::exec {
namespace {

bool meet(const BufferRequest& a, const BufferRequest& b) {
  return a.first <= b.last && b.first <= a.last;
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

}  // namespace dyad::exec
