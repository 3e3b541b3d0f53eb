#include "dyad/runtime/cores.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace dyad::runtime {
namespace {

TEST(Cores, LoopsTakeWhatIsFree) {
  Cores cores(8);
  EXPECT_EQ(cores.take_up_to(5), 5);
  EXPECT_EQ(cores.take_up_to(8), 3);
  EXPECT_EQ(cores.take_up_to(2), 0);
  cores.give_back(5);
  EXPECT_EQ(cores.take_up_to(8), 5);
  cores.give_back(3);
  cores.give_back(5);
  EXPECT_EQ(cores.take_up_to(1), 0) << "a region on one core needs no team";
  EXPECT_EQ(cores.take_up_to(100), 8);
}

TEST(Cores, LibrariesGoOnSideBySideWhileThereAreEnough) {
  Cores cores(8);
  EXPECT_EQ(cores.take(4), 4);
  EXPECT_EQ(cores.take(4), 4);  // would wait forever if there were one team for all
  cores.give_back(4);
  cores.give_back(4);
  EXPECT_EQ(cores.take(100), 8);
}

TEST(Cores, WhoWaitsComesBeforeWhoAsksLater) {
  Cores cores(4);
  const int first = cores.take(3);
  std::atomic<bool> served{false};
  std::thread waiter([&] {
    const int taken = cores.take(4);
    served = true;
    cores.give_back(taken);
  });
  // Two fit beside the first three nearly: from when the other waits, nobody gets the last one.
  cores.give_back(1);
  int taken = 2;
  while (!served && taken > 0) {
    taken = cores.take_up_to(2);
    if (taken > 0) cores.give_back(taken);
  }
  EXPECT_FALSE(served);
  EXPECT_EQ(taken, 0);
  cores.give_back(first - 1);
  waiter.join();
  EXPECT_TRUE(served);
  EXPECT_EQ(cores.take(4), 4);
}

TEST(Cores, NeverMoreAreTakenThanThereAre) {
  Cores cores(3);
  std::atomic<int> in_use{0}, wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 2000; ++round) {
        const int taken = caller % 2 == 0 ? cores.take(2 + round % 2) : cores.take_up_to(3);
        if ((in_use += taken) > 3) ++wrong;
        in_use -= taken;
        if (taken > 0) cores.give_back(taken);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cores.take(3), 3);
}

}  // namespace
}  // namespace dyad::runtime
