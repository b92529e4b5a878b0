#include "common/guide/task_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace baton {
namespace {

TEST(TaskPoolTest, RunsInOrderAndRefusesBeyondItsBound) {
  std::latch begun(1), go_on(1), done(3);
  std::vector<int> order;
  TaskPool pool(1, 2);
  EXPECT_TRUE(pool.Submit([&] {
    begun.count_down();
    go_on.wait();
    order.push_back(0);
    done.count_down();
  }));
  begun.wait();
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(pool.Submit([&, i] {
      order.push_back(i);
      done.count_down();
    }),
              i < 3)
        << i;
  }
  go_on.count_down();
  done.wait();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(TaskPoolTest, StopFinishesWhatRunsAndDropsTheRest) {
  std::latch begun(1), go_on(1);
  std::atomic<int> ran = 0;
  auto pool = std::make_unique<TaskPool>(1, 1000000);
  EXPECT_TRUE(pool->Submit([&] {
    begun.count_down();
    go_on.wait();
    ++ran;
  }));
  EXPECT_TRUE(pool->Submit([&] { ran += 100; }));
  begun.wait();
  std::thread stop([&] { pool->Stop(); });
  // It takes nothing as soon as it stops.
  while (pool->Submit([&] { ran += 1000; })) std::this_thread::yield();
  go_on.count_down();
  stop.join();
  EXPECT_EQ(ran, 1);
  pool.reset();
}

TEST(TaskPoolTest, SlowTasksGoLastButHaveTheirTurn) {
  constexpr int kQuick = TaskPool::kQuickInARow + 2;
  std::latch begun(1), go_on(1), done(kQuick + 2);
  std::vector<int> order;
  TaskPool pool(1, 100);
  // Quick, too, and the first in the row.
  EXPECT_TRUE(pool.Submit([&] {
    begun.count_down();
    go_on.wait();
  }));
  begun.wait();
  const auto submit = [&](int number, TaskPool::Kind kind) {
    EXPECT_TRUE(pool.Submit(
        [&, number] {
          order.push_back(number);
          done.count_down();
        },
        kind));
  };
  for (const int slow : {-1, -2}) submit(slow, TaskPool::Kind::kSlow);
  for (int i = 1; i <= kQuick; ++i) submit(i, TaskPool::Kind::kQuick);
  go_on.count_down();
  done.wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4, 5, 6, 7, -1, 8, 9, 10, -2}));
}

}  // namespace
}  // namespace baton
