#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <shared_mutex>

// What many threads use at every call, kept apart by thread: a cache line that several cores write
// costs each of them more than a small call takes.

namespace dyad {

inline constexpr std::size_t kThreadSlots = 16;
inline constexpr std::size_t kCacheLine = 64;

/// The slot of the calling thread, always the same one. Threads have slots in turn: more of them
/// than there are slots share some.
[[nodiscard]] inline std::size_t thread_slot() noexcept {
  static constinit std::atomic<std::size_t> next = 0;
  thread_local const std::size_t slot = next.fetch_add(1, std::memory_order_relaxed) % kThreadSlots;
  return slot;
}

/// A count that threads add to without meeting.
class CountByThread {
 public:
  void operator++() noexcept {
    counts_[thread_slot()].value.fetch_add(1, std::memory_order_relaxed);
  }
  /// Of all threads.
  [[nodiscard]] std::int64_t total() const noexcept {
    std::int64_t sum = 0;
    for (const Count& count : counts_) sum += count.value.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(kCacheLine) Count {
    std::atomic<std::int64_t> value = 0;
  };
  std::array<Count, kThreadSlots> counts_;
};

/// A std::shared_mutex whose readers do not meet; who writes waits for those of each slot in turn.
/// A reader unlocks on the thread that locked.
class MutexByThread {
 public:
  void lock() {
    for (Part& part : parts_) part.mutex.lock();
  }
  void unlock() {
    for (Part& part : parts_) part.mutex.unlock();
  }
  void lock_shared() { parts_[thread_slot()].mutex.lock_shared(); }
  void unlock_shared() { parts_[thread_slot()].mutex.unlock_shared(); }

 private:
  struct alignas(kCacheLine) Part {
    std::shared_mutex mutex;
  };
  std::array<Part, kThreadSlots> parts_;
};

}  // namespace dyad
