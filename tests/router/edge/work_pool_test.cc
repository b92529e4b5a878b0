#include "router/edge/work_pool.h"

#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

namespace baton {
namespace {

using ::testing::ElementsAre;

// A pool of one thread, which is held until Open.
class WorkPoolTest : public ::testing::Test {
 protected:
  WorkPoolTest() {
    EXPECT_TRUE(pool_
                    ->Submit({.id = 1,
                              .client = "bulk",
                              .bytes = 1 << 20,
                              .run =
                                  [this] {
                                    begun_.set_value();
                                    opened_.get_future().wait();
                                  }})
                    .ok());
    begun_.get_future().wait();
  }
  absl::Status Submit(uint64_t id, const std::string& client) {
    return pool_->Submit({.id = id,
                          .client = client,
                          .bytes = 1 << 20,
                          .run = [this, client] { ran_.push_back(client); },
                          .displaced =
                              [this, id](const absl::Status& full) {
                                EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
                                displaced_.push_back(id);
                              }});
  }
  // Lets everything run that waits.
  void Open() {
    opened_.set_value();
    pool_.reset();
  }

  std::promise<void> begun_;
  std::promise<void> opened_;
  std::vector<std::string> ran_;  // by the one thread
  std::vector<uint64_t> displaced_;
  std::optional<WorkPool> pool_{std::in_place, 1, FairQueueBounds{.pieces = 8, .bytes = 8 << 20}};
};

TEST_F(WorkPoolTest, AnotherClientComesAfterWhatRunsAlready) {
  for (uint64_t id = 2; id < 5; ++id) ASSERT_TRUE(Submit(id, "bulk").ok());
  ASSERT_TRUE(Submit(5, "other").ok());
  Open();
  EXPECT_THAT(ran_, ElementsAre("other", "bulk", "bulk", "bulk"));
}

TEST_F(WorkPoolTest, DroppedWorkNeverRunsAndWhatBeganCannotBeDropped) {
  ASSERT_TRUE(Submit(2, "gone").ok());
  ASSERT_TRUE(Submit(3, "stays").ok());
  EXPECT_EQ(pool_->figures().waiting, 2u);
  EXPECT_EQ(pool_->figures().bytes, size_t{2} << 20);
  EXPECT_TRUE(pool_->Drop(2));
  EXPECT_FALSE(pool_->Drop(2));
  EXPECT_FALSE(pool_->Drop(1));
  EXPECT_EQ(pool_->figures().waiting, 1u);
  EXPECT_EQ(pool_->figures().refused, 0u);
  Open();
  EXPECT_THAT(ran_, ElementsAre("stays"));
}

TEST_F(WorkPoolTest, RefusesBeyondItsBoundAndTakesAgainAfterADrop) {
  for (uint64_t id = 2; id < 10; ++id) ASSERT_TRUE(Submit(id, "bulk").ok());
  EXPECT_EQ(Submit(10, "bulk").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool_->figures().refused, 1u);
  EXPECT_TRUE(pool_->Drop(9));
  EXPECT_TRUE(Submit(10, "bulk").ok());
  Open();
  EXPECT_EQ(ran_.size(), 8u);
  EXPECT_THAT(displaced_, ElementsAre());
}

TEST_F(WorkPoolTest, FullPoolLeavesRoomToAnotherClientAndTellsWhoLeft) {
  for (uint64_t id = 2; id < 10; ++id) ASSERT_TRUE(Submit(id, "bulk").ok());
  EXPECT_TRUE(Submit(10, "other").ok());
  EXPECT_THAT(displaced_, ElementsAre(9u));
  EXPECT_EQ(pool_->figures().refused, 1u);
  EXPECT_FALSE(pool_->Drop(9)) << "its end is told already";
  Open();
  EXPECT_EQ(ran_.size(), 8u);
  EXPECT_EQ(ran_.front(), "other");
}

TEST(WorkPool, LongWorkOfOneClientLeavesAThreadToTheOthers) {
  std::promise<void> opened;
  std::promise<void> served;
  std::atomic<int> ran{0};
  const std::shared_future<void> open = opened.get_future().share();
  {
    WorkPool pool(2, {.pieces = 8, .bytes = 8 << 20});
    const auto submit = [&](uint64_t id, const std::string& client, std::function<void()> run) {
      ASSERT_TRUE(
          pool.Submit({.id = id, .client = client, .bytes = 1, .run = std::move(run)}).ok());
    };
    for (uint64_t id = 1; id <= 3; ++id) {
      submit(id, "bulk", [&, open] {
        open.wait();
        ++ran;
      });
    }
    submit(4, "other", [&] { served.set_value(); });
    served.get_future().wait();
    EXPECT_EQ(ran, 0);
    opened.set_value();
  }
  EXPECT_EQ(ran, 3);
}

}  // namespace
}  // namespace baton
