#include "dyad/base/by_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace dyad {
namespace {

constexpr int kThreads = 40;  // more than there are slots

template <class F>
void on_threads(const F& body) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&body, i] { body(i); });
}

TEST(ByThread, AThreadKeepsItsSlotAndThreadsHaveAllInTurn) {
  std::mutex mutex;
  std::multiset<std::size_t> slots;
  on_threads([&](int) {
    const std::size_t slot = thread_slot();
    EXPECT_EQ(thread_slot(), slot);
    const std::lock_guard lock(mutex);
    slots.insert(slot);
  });
  for (std::size_t slot = 0; slot < kThreadSlots; ++slot)
    EXPECT_GE(slots.count(slot), kThreads / kThreadSlots) << slot;
}

TEST(ByThread, CountsWhatAllThreadsAdd) {
  CountByThread count;
  on_threads([&](int) {
    for (int i = 0; i < 1000; ++i) ++count;
  });
  EXPECT_EQ(count.total(), kThreads * 1000);
}

TEST(ByThread, AWriterIsAloneAndReadersAreNot) {
  MutexByThread mutex;
  int written = 0, copy = 0;
  on_threads([&](int thread) {
    for (int i = 0; i < 100; ++i) {
      if (thread % 4 == 0) {
        const std::unique_lock lock(mutex);
        ++written;
        copy = written;
      } else {
        const std::shared_lock lock(mutex);
        EXPECT_EQ(written, copy);
      }
    }
  });
  EXPECT_EQ(written, kThreads / 4 * 100);
  const std::shared_lock reader(mutex);
  std::jthread([&] { const std::shared_lock beside(mutex); }).join();
}

TEST(ByThread, AWriterThatWaitsKeepsNoReaderOut) {
  MutexByThread mutex;
  std::shared_lock reader(mutex);
  std::jthread writer([&] { const std::unique_lock alone(mutex); });
  for (int i = 0; i < 3; ++i) {
    on_threads([&](int) { const std::shared_lock beside(mutex); });  // of every slot
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  reader.unlock();
}

}  // namespace
}  // namespace dyad
