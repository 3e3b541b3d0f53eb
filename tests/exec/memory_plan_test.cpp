#include "dyad/exec/memory_plan.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace dyad::exec
