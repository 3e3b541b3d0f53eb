#include "dyad/exec/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace dyad::exec {
namespace {

/// True when no two blocks that are needed at one step overlap.
bool is_sound(std::span<const BufferRequest> requests, const MemoryPlan& plan) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (plan.offsets[i] + requests[i].bytes > plan.arena_bytes) return false;
    for (std::size_t j = 0; j < i; ++j) {
      const bool together =
          requests[i].first <= requests[j].last && requests[j].first <= requests[i].last;
      const bool overlap = plan.offsets[i] < plan.offsets[j] + requests[j].bytes &&
                           plan.offsets[j] < plan.offsets[i] + requests[i].bytes;
      if (together && overlap) return false;
    }
  }
  return true;
}

TEST(MemoryPlan, ABlockTakesThePlaceOfOneThatIsNoLongerNeeded) {
  const std::vector<BufferRequest> chain{{1024, 0, 1}, {1024, 1, 2}, {1024, 2, 3}, {1024, 3, 4}};
  const MemoryPlan plan = plan_memory(chain);
  EXPECT_EQ(plan.arena_bytes, 2048u);
  EXPECT_EQ(plan.live_peak, 2048u);
  EXPECT_TRUE(is_sound(chain, plan));
}

TEST(MemoryPlan, BlocksNeededAtOneStepLieApart) {
  const std::vector<BufferRequest> together{{100, 0, 3}, {200, 1, 2}, {300, 2, 5}};
  const MemoryPlan plan = plan_memory(together);
  EXPECT_TRUE(is_sound(together, plan));
  EXPECT_EQ(plan.arena_bytes, 128u + 256u + 320u);
  for (const std::size_t offset : plan.offsets) EXPECT_EQ(offset % 64, 0u);
}

TEST(MemoryPlan, TheSmallestGapThatHoldsABlockIsTaken) {
  // Two blocks free a gap of 128 and one of 256 between blocks that stay.
  const std::vector<BufferRequest> requests{{1024, 0, 9}, {256, 0, 4}, {512, 0, 9},
                                            {128, 0, 4},  {64, 0, 9},  {128, 5, 9}};
  const MemoryPlan plan = plan_memory(requests);
  EXPECT_TRUE(is_sound(requests, plan));
  EXPECT_EQ(plan.arena_bytes, plan.live_peak);
}

TEST(MemoryPlan, NothingNeedsNothing) {
  EXPECT_EQ(plan_memory({}).arena_bytes, 0u);
  const std::vector<BufferRequest> empty{{0, 0, 2}};
  EXPECT_EQ(plan_memory(empty).arena_bytes, 0u);
}

TEST(MemoryPlan, RandomRequestsNeverOverlapAndStayNearTheLeast) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<BufferRequest> requests;
    for (int i = 0; i < 120; ++i) {
      const int first = static_cast<int>(random() % 100);
      requests.push_back(
          {(random() % 64 + 1) * 100, first, first + static_cast<int>(random() % 12)});
    }
    const MemoryPlan plan = plan_memory(requests);
    ASSERT_TRUE(is_sound(requests, plan)) << "round " << round;
    EXPECT_GE(plan.arena_bytes, plan.live_peak);
    EXPECT_LE(plan.arena_bytes, plan.live_peak + plan.live_peak / 4) << "round " << round;
  }
}

constexpr std::size_t kMega = std::size_t{1} << 20;

/// Memory at the step where it takes most.
std::size_t most(std::span<const ArenaSpan> arenas, std::span<const LaterMemory> later, int steps) {
  std::size_t most = 0;
  for (int step = 0; step < steps; ++step) {
    std::size_t now = 0;
    for (const ArenaSpan& arena : arenas)
      now += arena.first <= step && step <= arena.last ? arena.bytes : 0;
    for (const LaterMemory& one : later) now += one.first <= step ? one.bytes : 0;
    most = std::max(most, now);
  }
  return most;
}

TEST(ArenasPlan, WhatNobodyNeedsMakesWayForWhatComesLater) {
  const std::vector<BufferRequest> requests{{4 * kMega, 0, 3}, {kMega, 2, 6}};
  const std::vector<LaterMemory> later{{4 * kMega, 4, 4}, {kMega, 5, 5}};
  const ArenasPlan plan = plan_arenas(requests, later);
  ASSERT_EQ(plan.arenas.size(), 2u);
  EXPECT_EQ(plan.arenas[0].last, 3);
  EXPECT_EQ(plan.arenas[1].first, 2);
  EXPECT_EQ(plan.arena_of, (std::vector<int>{0, 1}));
  EXPECT_EQ(most(plan.arenas, later, 7), 6 * kMega);
  EXPECT_EQ(plan.bytes(), 5 * kMega);
  EXPECT_EQ(plan.most_at_once(), 5 * kMega);
  EXPECT_EQ(plan.live_peak, 5 * kMega);
}

TEST(ArenasPlan, WhatIsNeededShortlyTakesThePlaceOfWhatGoesFirst) {
  // Kept for a backward part: 4 MB each, needed last in steps 4, 6 and 19. The first goes before
  // any memory is taken, and what each step hands to the next comes in its place; so the second can
  // make way.
  std::vector<BufferRequest> requests{{4 * kMega, 0, 4}, {4 * kMega, 1, 6}, {4 * kMega, 2, 19}};
  for (int step = 5; step < 19; ++step) requests.push_back({2 * kMega, step, step + 1});
  const std::vector<LaterMemory> later{
      {kMega, 5, 5}, {2 * kMega, 7, 7}, {kMega, 11, 11}, {kMega, 15, 15}};
  const ArenasPlan plan = plan_arenas(requests, later);
  ASSERT_EQ(plan.arenas.size(), 2u);
  EXPECT_EQ(plan.arenas[0].bytes, 8 * kMega);
  EXPECT_EQ(plan.arenas[1].last, 6);
  EXPECT_EQ(plan.arenas[1].bytes, 4 * kMega);
  EXPECT_EQ(most(plan.arenas, later, 20), 13 * kMega);
}

TEST(ArenasPlan, AFewSmallValuesCostNoLargePage) {
  const std::vector<BufferRequest> requests{{4 << 20, 0, 3}, {32 << 10, 1, 3}, {4 << 20, 2, 4}};
  const ArenasPlan plan = plan_arenas(requests, {});
  ASSERT_EQ(plan.arenas.size(), 2u);
  EXPECT_EQ(plan.arena_of, (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(plan.arenas[0].bytes, 8u << 20);
  EXPECT_EQ(plan.arenas[1].bytes, 32u << 10);
}

TEST(ArenasPlan, WhatLiesBeyondTheLastFullPageCostsNoOther) {
  constexpr std::size_t kHalf = 512 << 10;
  const std::vector<BufferRequest> requests(6, {kHalf, 0, 3});  // 3 MB; a block would have 4
  const ArenasPlan plan = plan_arenas(requests, {});
  ASSERT_EQ(plan.arenas.size(), 2u);
  EXPECT_EQ(plan.arenas[0].bytes, 4 * kHalf);
  EXPECT_EQ(plan.arenas[1].bytes, 2 * kHalf);
}

TEST(ArenasPlan, ANumberThatIsNeededLongKeepsNoLargeArena) {
  const std::vector<BufferRequest> requests{{8 << 20, 0, 3}, {4, 2, 9}};
  const std::vector<LaterMemory> later{{8 << 20, 4, 4}};
  const ArenasPlan plan = plan_arenas(requests, later);
  ASSERT_EQ(plan.arenas.size(), 2u);
  EXPECT_EQ(plan.arenas[0].last, 3);
  EXPECT_EQ(plan.arenas[1].bytes, 64u);
}

TEST(ArenasPlan, LargeValuesLieAloneWhereFewArenasWouldTakeMuchMore) {
  // Kept by a forward part of 16 layers; the backward part makes a gradient as large of each.
  constexpr int kLayers = 16;
  constexpr std::size_t kMegabyte = 1 << 20;
  std::vector<BufferRequest> requests;
  std::vector<LaterMemory> later;
  for (int i = 0; i < kLayers; ++i) {
    requests.push_back({kMegabyte, i, 2 * kLayers - 1 - i});
    later.push_back({kMegabyte, 2 * kLayers - i, 2 * kLayers - i});
  }
  const ArenasPlan plan = plan_arenas(requests, later);
  EXPECT_EQ(plan.arenas.size(), std::size_t{kLayers});
  EXPECT_EQ(most(plan.arenas, later, 2 * kLayers + 1), kLayers * kMegabyte);
}

TEST(ArenasPlan, IsOneArenaWhereNothingComesLater) {
  const std::vector<BufferRequest> requests{{4 * kMega, 0, 3}, {2 * kMega, 2, 6}};
  EXPECT_EQ(plan_arenas(requests, {}).arenas.size(), 1u);
  const std::vector<LaterMemory> at_once{{4 * kMega, 0, 6}}, little{{1024, 4, 4}};
  EXPECT_EQ(plan_arenas(requests, at_once).arenas.size(), 1u);
  EXPECT_EQ(plan_arenas(requests, little).arenas.size(), 1u);
  EXPECT_TRUE(plan_arenas({}, at_once).arenas.empty());
}

TEST(ArenasPlan, RandomRequestsNeverOverlapAndTakeNoMoreThanOneArena) {
  std::mt19937 random(3);
  int cut = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<BufferRequest> requests;
    std::vector<LaterMemory> later;
    for (int i = 0; i < 60; ++i) {  // kept from a first half for a second one, in which others die
      const int first = static_cast<int>(random() % 50);
      const int last = round % 2 ? 99 - first : first + static_cast<int>(random() % 40);
      requests.push_back({(random() % 64 + 1) * 100000, first, last});
    }
    for (int i = 0; i < 30; ++i) {
      const int first = 50 + static_cast<int>(random() % 50);
      later.push_back({(random() % 64 + 1) * 50000, first, first});
    }
    const ArenasPlan plan = plan_arenas(requests, later);
    cut += plan.arenas.size() > 1 ? 1 : 0;
    for (std::size_t k = 0; k < plan.arenas.size(); ++k) {
      const ArenaSpan& arena = plan.arenas[k];
      std::vector<BufferRequest> members;
      MemoryPlan packed{.offsets = {}, .arena_bytes = arena.bytes, .live_peak = 0};
      for (std::size_t i = 0; i < requests.size(); ++i) {
        if (plan.arena_of[i] != static_cast<int>(k)) continue;
        members.push_back(requests[i]);
        packed.offsets.push_back(plan.offsets[i]);
        EXPECT_GE(requests[i].first, arena.first);
        EXPECT_LE(requests[i].last, arena.last);
      }
      ASSERT_TRUE(is_sound(members, packed)) << "round " << round;
    }
    const ArenaSpan one{plan_memory(requests).arena_bytes, 0, 99};
    EXPECT_LE(most(plan.arenas, later, 100), most({&one, 1}, later, 100) + 6 * kMega);
  }
  EXPECT_GT(cut, 20);
}

TEST(Lend, ABlockLiesInMemoryThatIsTakenForALaterResult) {
  // Results have their memory from step 4 on, and are written in steps 5 and 6.
  const std::vector<BufferRequest> requests{{800, 3, 5}, {1100, 2, 4}, {100, 0, 1}};
  std::vector<LaterMemory> later{{1600, 4, 5}, {1000, 4, 6}};
  EXPECT_EQ(lend(requests, later), (std::vector<int>{1, 0, -1}));
  EXPECT_EQ(later[1].first, 3);
  EXPECT_EQ(later[0].first, 2);
}

TEST(Lend, RefusesWhereItDoesNotFit) {
  const auto lies_in = [](const BufferRequest& block, LaterMemory later) {
    return lend({&block, 1}, {&later, 1})[0];
  };
  EXPECT_EQ(lies_in({800, 3, 4}, {800, 4, 5}), 0);
  EXPECT_EQ(lies_in({801, 3, 4}, {800, 4, 5}), -1) << "too small";
  EXPECT_EQ(lies_in({800, 3, 5}, {800, 4, 5}), -1) << "written while it is needed";
  EXPECT_EQ(lies_in({800, 2, 3}, {800, 4, 5}), -1) << "not there when it is needed last";
  // Taken earlier, it would be there when most memory is needed.
  const std::vector<BufferRequest> requests{{800, 0, 4}, {9000, 0, 1}};
  std::vector<LaterMemory> later{{1600, 4, 5}};
  EXPECT_EQ(lend(requests, later), (std::vector<int>{-1, -1}));
  EXPECT_EQ(later[0].first, 4);
}

}  // namespace
}  // namespace dyad::exec
