#include "dyad/runtime/cores.h"

#include <algorithm>

namespace dyad::runtime {

int Cores::take_up_to(int most) noexcept {
  if (waiting_.load(std::memory_order_relaxed) > 0) return 0;
  int free = free_.load(std::memory_order_relaxed);
  for (;;) {
    const int taken = std::min(most, free);
    if (taken < 2) return 0;
    if (free_.compare_exchange_weak(free, free - taken, std::memory_order_acquire,
                                    std::memory_order_relaxed))
      return taken;
  }
}

bool Cores::try_take(int wanted) noexcept {
  int free = free_.load(std::memory_order_relaxed);
  while (free >= wanted) {
    if (free_.compare_exchange_weak(free, free - wanted, std::memory_order_acquire,
                                    std::memory_order_relaxed))
      return true;
  }
  return false;
}

int Cores::take(int wanted) {
  wanted = std::min(wanted, count_);
  if (waiting_.load(std::memory_order_relaxed) == 0 && try_take(wanted)) return wanted;
  waiting_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard turn(queue_);
    while (!try_take(wanted)) {
      const int free = free_.load(std::memory_order_relaxed);
      if (free < wanted) free_.wait(free, std::memory_order_relaxed);
    }
  }
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  return wanted;
}

void Cores::give_back(int taken) noexcept {
  free_.fetch_add(taken);  // before it is looked whether somebody waits
  free_.notify_all();
}

}  // namespace dyad::runtime
