#include "dyad/base/by_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <thread>
#include <utility>
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

TEST(ByThread, AWriterWithPatienceComesInAmongReadersThatNeverPause) {
  MutexByThread mutex;
  std::atomic<bool> enough = false;
  std::latch all_in(4);
  std::vector<std::jthread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&, first = true]() mutable {
      while (!enough) {
        const std::shared_lock lock(mutex);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        if (std::exchange(first, false)) all_in.count_down();
      }
    });
  }
  all_in.wait();
  for (int i = 0; i < 3; ++i) {
    const std::unique_lock lock(mutex, std::chrono::minutes(1));
    EXPECT_TRUE(lock.owns_lock());
  }
  enough = true;
}

TEST(ByThread, AWriterWithPatienceGivesUpWhatItHas) {
  MutexByThread mutex;
  std::shared_lock reader(mutex);
  EXPECT_FALSE(mutex.try_lock_for(std::chrono::milliseconds(20)));
  on_threads([&](int) { const std::shared_lock beside(mutex); });  // of every slot
  reader.unlock();
  EXPECT_TRUE(mutex.try_lock_for(std::chrono::milliseconds(20)));
  mutex.unlock();
}

}  // namespace
}  // namespace dyad
