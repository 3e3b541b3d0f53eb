#include "dyad/runtime/cores.h"

#include <algorithm>

namespace dyad::runtime {

int Cores::take_free(int least, int most) noexcept {
  int free = free_.load(std::memory_order_relaxed);
  for (;;) {
    const int taken = std::min(most, free);
    if (taken < least) return 0;
    if (free_.compare_exchange_weak(free, free - taken, std::memory_order_acquire,
                                    std::memory_order_relaxed))
      return taken;
  }
}

int Cores::take_up_to(int most) noexcept {
  return waiting_.load(std::memory_order_relaxed) > 0 ? 0 : take_free(2, most);
}

int Cores::take(int wanted) {
  wanted = std::min(wanted, count_);
  if (waiting_.load(std::memory_order_relaxed) == 0 && take_free(wanted, wanted) > 0) return wanted;
  waiting_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard turn(queue_);
    while (take_free(wanted, wanted) == 0) {
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
