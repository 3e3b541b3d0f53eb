#include "dyad/runtime/threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/runtime/cancel.h"
#include "dyad/runtime/team.h"
#include "tests/runtime/support.h"

namespace dyad {
namespace {

using runtime::parallel_for;

TEST(Threads, CoversEveryUnitOnce) {
  for (const int threads : {1, 2}) {
    const testing::Threads scope(threads);
    for (const std::int64_t n : {0, 1, 7, 64, 1000}) {
      for (const std::int64_t grain : {1, 3, 1000}) {
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(n));
        parallel_for(5, 5 + n, grain, [&](std::int64_t lo, std::int64_t hi) {
          for (std::int64_t i = lo; i < hi; ++i) ++seen[static_cast<std::size_t>(i - 5)];
        });
        for (const auto& count : seen) EXPECT_EQ(count, 1);
      }
    }
  }
}

TEST(Threads, RangesAreAtLeastAGrainLong) {
  const testing::Threads scope(2);
  std::atomic<int> shorter{0};
  parallel_for(0, 1001, 100, [&](std::int64_t lo, std::int64_t hi) {
    if (hi - lo < 100 && hi != 1001) ++shorter;
  });
  EXPECT_EQ(shorter, 0);
}

/// Whether the two units of a loop are worked on at the same time.
bool two_meet() {
  std::atomic<int> inside{0};
  std::atomic<bool> met{false};
  parallel_for(0, 2, 1, [&](std::int64_t lo, std::int64_t hi) {
    if (hi - lo == 2) return;
    ++inside;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (inside < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    if (inside == 2) met = true;
  });
  return met;
}

TEST(Threads, SecondThreadTakesPart) {
  if (runtime::available_cores() < 2) GTEST_SKIP() << "the process may use one core only";
  const testing::Threads scope(2);
  EXPECT_TRUE(two_meet());
}

TEST(Threads, CoresHeldForALibraryServeLoopsOfTheirThread) {
  if (runtime::available_cores() < 2) GTEST_SKIP() << "the process may use one core only";
  const int all = runtime::available_cores();
  const testing::Threads scope(all);
  {
    const runtime::LibraryTeam team(all);
    EXPECT_TRUE(two_meet());
    const runtime::LibraryTeam inside(all);  // would wait for itself
    EXPECT_TRUE(two_meet());
    // Others have none of them.
    bool met = true;
    std::thread([&] { met = two_meet(); }).join();
    EXPECT_FALSE(met);
  }
  bool met = false;
  std::thread([&] { met = two_meet(); }).join();
  EXPECT_TRUE(met);
}

/// What a thread of that number takes of units 0 to n - 1 where no other works.
std::vector<std::int64_t> taken_alone(int thread, std::int64_t n, std::int64_t threads) {
  std::vector<std::int64_t> taken;
  const auto take = [](void* context, std::int64_t lo, std::int64_t hi) {
    for (std::int64_t i = lo; i < hi; ++i)
      static_cast<std::vector<std::int64_t>*>(context)->push_back(i);
  };
  runtime::detail::TeamJob job(0, n, 1, threads, take, &taken);
  job.work(thread);
  return taken;
}

// The same thread has the same part of a loop in its caches the next time.
TEST(Threads, EachTakesItsOwnShareFirst) {
  EXPECT_EQ(taken_alone(0, 8, 2), (std::vector<std::int64_t>{0, 1, 2, 3, 7, 6, 5, 4}));
  EXPECT_EQ(taken_alone(1, 8, 2), (std::vector<std::int64_t>{4, 5, 6, 7, 3, 2, 1, 0}));
  EXPECT_EQ(taken_alone(1, 5, 3), (std::vector<std::int64_t>{1, 2, 4, 3, 0}));
  EXPECT_EQ(taken_alone(2, 2, 3), (std::vector<std::int64_t>{1, 0}));
  std::vector<std::int64_t> all = taken_alone(70, 300, 100);
  std::ranges::sort(all);
  std::vector<std::int64_t> expected(300);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

/// Chunks of thread 1's share that thread 0 takes, where thread 1 needs 1.7 times as long for each.
int taken_from_who_lags() {
  using Clock = std::chrono::steady_clock;
  struct Loop {
    std::atomic<int> begun{0}, taken{0};
    std::thread::id first;
  } loop;
  const auto work = [](void* context, std::int64_t lo, std::int64_t) {
    auto& own = *static_cast<Loop*>(context);
    const bool is_first = std::this_thread::get_id() == own.first;
    if (lo == 0 || lo == 4) {  // both begin at once
      ++own.begun;
      while (own.begun < 2) std::this_thread::yield();
    }
    if (is_first && lo >= 4) ++own.taken;
    const auto end = Clock::now() + std::chrono::microseconds(is_first ? 50 : 85);
    while (Clock::now() < end) continue;
  };
  runtime::detail::TeamJob job(0, 8, 1, 2, work, &loop);
  loop.first = std::this_thread::get_id();
  // The first to begin would take what has not begun at all.
  std::thread second([&] { job.work(1); });
  while (loop.begun == 0) std::this_thread::yield();
  job.work(0);
  second.join();
  return loop.taken;
}

// What is taken from it would lie in another core's caches from then on.
TEST(Threads, WhoOnlyLagsKeepsItsShare) {
  if (runtime::available_cores() < 2) GTEST_SKIP() << "the process may use one core only";
  // A thread may lose its core meanwhile, and then should lose chunks.
  constexpr int kTries = 100;
  int kept = 0;
  for (int i = 0; i < kTries; ++i) kept += taken_from_who_lags() == 0 ? 1 : 0;
  EXPECT_GE(kept, kTries / 4);
}

TEST(Threads, NestedLoopsStayOnTheirThread) {
  const testing::Threads scope(2);
  std::atomic<int> foreign{0}, calls{0};
  parallel_for(0, 8, 1, [&](std::int64_t, std::int64_t) {
    const auto self = std::this_thread::get_id();
    EXPECT_EQ(runtime::team_size(), 1);
    parallel_for(0, 100, 1, [&](std::int64_t lo, std::int64_t hi) {
      ++calls;
      if (std::this_thread::get_id() != self || hi - lo != 100) ++foreign;
    });
  });
  EXPECT_EQ(foreign, 0);
  EXPECT_GE(calls, 1);
  EXPECT_FALSE(runtime::in_parallel_region());
}

TEST(Threads, ExceptionReachesTheCaller) {
  for (const int threads : {1, 2}) {
    const testing::Threads scope(threads);
    try {
      parallel_for(0, 100, 1, [](std::int64_t lo, std::int64_t hi) {
        if (lo <= 50 && 50 < hi) throw IndexError("index 50");
      });
      FAIL() << "nothing was thrown";
    } catch (const IndexError& error) {
      EXPECT_EQ(error.message(), "index 50");
    }
    std::atomic<std::int64_t> sum{0};
    parallel_for(0, 100, 1, [&](std::int64_t lo, std::int64_t hi) { sum += hi - lo; });
    EXPECT_EQ(sum, 100);
  }
}

TEST(Threads, TeamsOfSeveralCallersDoNotMix) {
  const testing::Threads scope(2);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        std::atomic<std::int64_t> sum{0};
        parallel_for(0, 1000, 10, [&](std::int64_t lo, std::int64_t hi) { sum += hi - lo; });
        if (sum != 1000) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, CountIsCappedAndChecked) {
  const testing::Threads scope(1);
  EXPECT_EQ(get_num_threads(), 1);
  set_num_threads(1 << 20);
  EXPECT_EQ(get_num_threads(), runtime::available_cores());
  try {
    set_num_threads(0);
    FAIL() << "nothing was thrown";
  } catch (const ValueError& error) {
    EXPECT_EQ(error.message(), "set_num_threads(0): a kernel needs at least 1 thread");
    EXPECT_NE(std::string(error.what()).find("threads_test.cpp:"), std::string::npos);
  }
}

TEST(Threads, GrainKeepsSmallWorkOnOneThread) {
  // 16 elements of an addition move 192 bytes: never worth a second thread.
  EXPECT_GT(runtime::grain_for({.bytes = 12}, 16), 16);
  // 16 million are.
  EXPECT_LT(2 * runtime::grain_for({.bytes = 12}, 1 << 24), 1 << 24);
  // Few units of much work each are split.
  EXPECT_EQ(runtime::grain_for({.flops = 1e6}, 4), 1);
}

TEST(CancelToken, IsSharedBetweenCopiesAndThreads) {
  const CancelToken token;
  EXPECT_NO_THROW(token.check());
  std::thread([copy = token] { copy.cancel(); }).join();
  EXPECT_TRUE(token.cancelled());
  EXPECT_THROW(token.check(), CancelledError);
  token.reset();
  EXPECT_NO_THROW(token.check());
}

}  // namespace
}  // namespace dyad
