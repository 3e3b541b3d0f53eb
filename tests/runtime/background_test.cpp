#include "dyad/runtime/background.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "dyad/runtime/planned_team.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime {
namespace {

using namespace std::chrono_literals;

TEST(BackgroundTask, RunsInOrderAtIdlePriority) {
  std::vector<int> order;
  std::atomic<int> policy = -1;
  std::thread::id thread;
  const auto first = std::make_unique<BackgroundTask>([&](const CancelToken&) {
    policy = sched_getscheduler(0);
    thread = std::this_thread::get_id();
    order.push_back(1);
  });
  BackgroundTask second([&](const CancelToken&) { order.push_back(2); });
  second.wait();
  EXPECT_TRUE(first->over());
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_EQ(policy, SCHED_IDLE);
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
}

TEST(BackgroundTask, AnExceptionEndsIt) {
  BackgroundTask task([](const CancelToken&) { throw std::runtime_error("nobody hears this"); });
  task.wait();
  EXPECT_TRUE(task.over());
  std::atomic<bool> ran = false;
  BackgroundTask next([&](const CancelToken&) { ran = true; });
  next.wait();
  EXPECT_TRUE(ran);
}

TEST(BackgroundTask, IsTakenBackBeforeItBegins) {
  std::atomic<bool> begun = false, ran = false;
  auto blocking = std::make_unique<BackgroundTask>([&](const CancelToken& stop) {
    begun = true;
    begun.notify_all();
    while (!stop.cancelled()) std::this_thread::sleep_for(1ms);
  });
  begun.wait(false);
  BackgroundTask waiting([&](const CancelToken&) { ran = true; });
  EXPECT_FALSE(waiting.over());
  EXPECT_FALSE(blocking->over());
  waiting.settle();
  EXPECT_TRUE(waiting.over());
  blocking.reset();  // tells it to stop, and waits
  BackgroundTask last([](const CancelToken&) {});
  last.wait();
  EXPECT_FALSE(ran);
}

TEST(BackgroundTask, LetsGoOfItsWork) {
  const auto held = std::make_shared<int>(1);
  BackgroundTask task([held](const CancelToken&) {});
  task.wait();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(PlannedTeam, SaysWhatPlansAreFor) {
  const ThreadScope alone(1);
  EXPECT_EQ(planned_team_size(), 1);
  {
    const PlannedTeam team(7);
    EXPECT_EQ(planned_team_size(), 7);
    EXPECT_EQ(team_size(), 1);
  }
  EXPECT_EQ(planned_team_size(), 1);
}

}  // namespace
}  // namespace dyad::runtime
