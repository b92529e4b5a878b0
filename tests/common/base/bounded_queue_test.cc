#include "common/base/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/fakes/eventually.h"

namespace baton::base {
namespace {

using std::chrono::steady_clock;

// Long enough never to pass in a test that is right.
Instant Soon() { return steady_clock::now() + std::chrono::seconds(60); }
Instant Past() { return steady_clock::now() - std::chrono::seconds(1); }

TEST(BoundedQueue, IsFirstInFirstOut) {
  BoundedQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.TryPush(int{i}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.TryPop(), i);
  EXPECT_EQ(queue.TryPop(), std::nullopt);
}

TEST(BoundedQueue, TryPushRefusesWhenFullAndLeavesTheItem) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.TryPush(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.TryPush(std::move(second)));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, 2);
  EXPECT_EQ(queue.size(), queue.capacity());
}

TEST(BoundedQueue, ReservedItemsAreTakenBeyondTheBoundInOrder) {
  BoundedQueue<int> queue(1);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_TRUE(queue.PushReserved(2));
  EXPECT_TRUE(queue.PushReserved(3));
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.TryPop(), 1);
  EXPECT_FALSE(queue.TryPush(4));  // two reserved ones still fill it
  EXPECT_EQ(queue.TryPop(), 2);
  EXPECT_EQ(queue.TryPop(), 3);
}

TEST(BoundedQueue, ACloseRefusesPushesButDrains) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.TryPush(1));
  queue.Close();
  EXPECT_TRUE(queue.closed());
  EXPECT_FALSE(queue.TryPush(2));
  EXPECT_FALSE(queue.PushReserved(2));
  EXPECT_FALSE(queue.Push(2));
  EXPECT_EQ(queue.PopUntil(Soon()), 1);
  EXPECT_EQ(queue.PopUntil(kNever), std::nullopt);
}

TEST(BoundedQueue, PopUntilEndsAtItsDeadline) {
  BoundedQueue<int> queue(1);
  EXPECT_EQ(queue.PopUntil(Past()), std::nullopt);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_EQ(queue.PopUntil(Past()), 1);  // what is there is given even then
}

TEST(BoundedQueue, PopUntilWakesForAnItemAndForAClose) {
  BoundedQueue<int> queue(1);
  std::thread producer([&queue] { EXPECT_TRUE(queue.TryPush(5)); });
  EXPECT_EQ(queue.PopUntil(Soon()), 5);
  producer.join();
  std::thread closer([&queue] { queue.Close(); });
  EXPECT_EQ(queue.PopUntil(kNever), std::nullopt);
  closer.join();
}

TEST(BoundedQueue, PushWaitsForRoomAndEndsOnClose) {
  BoundedQueue<int> queue(1);
  EXPECT_TRUE(queue.TryPush(1));
  std::atomic<int> pushed = 0;
  std::thread producer([&] {
    EXPECT_TRUE(queue.Push(2));
    pushed = 1;
    EXPECT_FALSE(queue.Push(3));
    pushed = 2;
  });
  EXPECT_EQ(queue.PopUntil(Soon()), 1);
  EXPECT_TRUE(Eventually([&] { return pushed == 1; }));
  EXPECT_EQ(queue.size(), 1u);
  queue.Close();
  producer.join();
  EXPECT_EQ(pushed, 2);
  EXPECT_EQ(queue.TryPop(), 2);
}

TEST(BoundedQueue, LosesAndRepeatsNothingAmongManyThreads) {
  constexpr int kProducers = 3;
  constexpr int kItems = 2000;
  BoundedQueue<int> queue(7);
  std::vector<std::atomic<int>> seen(kProducers * kItems);
  std::atomic<bool> above_bound = false;
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&queue, p] {
      for (int i = 0; i < kItems; ++i) EXPECT_TRUE(queue.Push(p * kItems + i));
    });
  }
  std::vector<std::thread> consumers;
  for (int c = 0; c < 2; ++c) {
    consumers.emplace_back([&] {
      std::vector<int> last(kProducers, -1);
      while (const std::optional<int> item = queue.PopUntil(kNever)) {
        ++seen[static_cast<size_t>(*item)];
        if (queue.size() > queue.capacity()) above_bound = true;
        int& previous = last[static_cast<size_t>(*item / kItems)];
        EXPECT_LT(previous, *item);  // the order of one producer holds for each consumer
        previous = *item;
      }
    });
  }
  for (std::thread& producer : producers) producer.join();
  queue.Close();
  for (std::thread& consumer : consumers) consumer.join();
  for (const auto& count : seen) EXPECT_EQ(count, 1);
  EXPECT_FALSE(above_bound);
}

}  // namespace
}  // namespace baton::base
