#include "common/base/timer_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "common/base/mutex.h"

namespace baton::base {
namespace {

TEST(TimerQueueTest, RunsInOrderOfTimeAndMayArmAgain) {
  Mutex mutex;
  CondVar changed;
  std::vector<int> order;
  SteadyClock clock;
  TimerQueue timers(&clock);
  const auto note = [&](int what) {
    MutexLock lock(&mutex);
    order.push_back(what);
    changed.NotifyAll();
  };
  timers.After(std::chrono::milliseconds(60), [&] { note(3); });
  timers.After(std::chrono::milliseconds(20), [&] {
    note(1);
    timers.After(std::chrono::milliseconds(1), [&] { note(2); });
  });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  MutexLock lock(&mutex);
  while (order.size() < 3) ASSERT_TRUE(changed.WaitUntil(&mutex, deadline));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(TimerQueueTest, NothingRunsAfterStop) {
  SteadyClock clock;
  TimerQueue timers(&clock);
  std::atomic<int> runs{0};
  timers.After(std::chrono::hours(1), [&] { ++runs; });
  timers.Stop();
  timers.After(Duration::zero(), [&] { ++runs; });
  timers.Stop();
  EXPECT_EQ(runs, 0);
}

}  // namespace
}  // namespace baton::base
