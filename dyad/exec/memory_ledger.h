#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "dyad/exec/memory_plan.h"

namespace dyad::exec {

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
  [[nodiscard]] std::size_t peak() const noexcept {
    std::ptrdiff_t now = 0, peak = 0;
    for (const std::ptrdiff_t c : change_) peak = std::max(peak, now += c);
    return static_cast<std::size_t>(peak);
  }

 private:
  std::vector<std::ptrdiff_t> change_;
};

/// The bytes of a block and of the gap behind it.
constexpr std::size_t aligned(std::size_t bytes) noexcept {
  constexpr std::size_t kAlignment = 64;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

inline int steps_of(std::span<const BufferRequest> requests) {
  int steps = 0;
  for (const BufferRequest& r : requests) steps = std::max(steps, r.last + 1);
  return steps;
}

inline std::size_t live_peak_of(std::span<const BufferRequest> requests) {
  Ledger live(steps_of(requests));
  for (const BufferRequest& r : requests) live.add(aligned(r.bytes), r.first, r.last);
  return live.peak();
}

}  // namespace dyad::exec
