#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <shared_mutex>
#include <vector>

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

/// A value on a cache line of its own.
template <class T>
struct alignas(kCacheLine) OnOwnLine {
  T value{};
};

/// A count that threads add to without meeting. Who sees what a thread did before it counted up
/// sees that, too: of two counts the one that goes up later is never ahead if it is read first.
class CountByThread {
 public:
  void operator++() noexcept {
    counts_[thread_slot()].value.fetch_add(1, std::memory_order_release);
  }
  /// Of all threads.
  [[nodiscard]] std::int64_t total() const noexcept {
    std::int64_t sum = 0;
    for (const auto& count : counts_) sum += count.value.load(std::memory_order_acquire);
    return sum;
  }

 private:
  using Count = OnOwnLine<std::atomic<std::int64_t>>;
  std::vector<Count> counts_ = std::vector<Count>(kThreadSlots);
};

/// A std::shared_mutex whose readers do not meet. Who wants to write without a limit of time keeps
/// no reader out until all are out. A reader unlocks on the thread that locked.
class MutexByThread {
 public:
  void lock() {
    for (std::size_t first = 0;;) {
      // It waits for one while it has none, as std::lock does.
      parts_[first].value.lock();
      std::size_t have = 1;
      while (have < kThreadSlots && at(first + have).try_lock()) ++have;
      if (have == kThreadSlots) return;
      for (std::size_t i = 0; i < have; ++i) at(first + i).unlock();
      first = (first + have) % kThreadSlots;
    }
  }
  /// Whether it is locked now, which has the next of every slot's readers wait for up to
  /// `patience`: among several that never pause there may be no moment at which all are out.
  [[nodiscard]] bool try_lock_for(std::chrono::milliseconds patience) {
    const auto deadline = Clock::now() + patience;
    for (std::size_t have = 0; have < kThreadSlots; ++have) {
      if (at(have).try_lock_until(deadline)) continue;
      while (have > 0) at(--have).unlock();
      return false;
    }
    return true;
  }
  void unlock() {
    for (Part& part : parts_) part.value.unlock();
  }
  void lock_shared() { at(thread_slot()).lock_shared(); }
  void unlock_shared() { at(thread_slot()).unlock_shared(); }

 private:
#ifdef __SANITIZE_THREAD__  // which sees locks that wait by this clock alone
  using Clock = std::chrono::system_clock;
#else
  using Clock = std::chrono::steady_clock;
#endif
  using Part = OnOwnLine<std::shared_timed_mutex>;
  std::shared_timed_mutex& at(std::size_t slot) { return parts_[slot % kThreadSlots].value; }
  std::vector<Part> parts_ = std::vector<Part>(kThreadSlots);
};

}  // namespace dyad
