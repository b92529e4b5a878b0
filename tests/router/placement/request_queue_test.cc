#include "router/placement/request_queue.h"

#include <gmock/gmock.h>

#include "common/base/status.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using Try = RequestQueue::Try;

class RequestQueueTest : public ::testing::Test {
 protected:
  absl::Status Add(uint64_t id, int arrived_s, bool is_new = true, int64_t peak = 10) {
    return queue_.Add({.id = id,
                       .arrived = start_ + std::chrono::seconds(arrived_s),
                       .need = {.tokens = 5, .peak_tokens = peak},
                       .is_new = is_new});
  }
  // One pass in which `outcome` says what becomes of each id; returns the ids in the order in which
  // they were tried.
  std::vector<uint64_t> Pass(const std::function<Try(uint64_t)>& outcome) {
    std::vector<uint64_t> tried;
    queue_.Pass(now_, {.place =
                           [&](const RequestQueue::Waiting& waiting, const auto& ahead) {
                             tried.push_back(waiting.id);
                             ahead_.assign(ahead.needs.begin(), ahead.needs.end());
                             prefill_ahead_ = ahead.prefill.has_value();
                             return outcome(waiting.id);
                           },
                       .room = [&](const auto&) { return room_; },
                       .hopeless =
                           [&](const auto&, base::Instant since) {
                             return now_ - since >= std::chrono::seconds(30);
                           }});
    return tried;
  }

  RequestQueue queue_{2};
  base::Instant start_{std::chrono::hours(1)};
  base::Instant now_ = start_;
  RequestQueue::Room room_{.context = 5000, .pool = 5000};
  std::vector<const RoutingNeed*> ahead_;
  bool prefill_ahead_ = false;
};

TEST_F(RequestQueueTest, WhoComesBackKeepsTheTurnOfItsArrival) {
  ASSERT_TRUE(Add(1, 3).ok());
  ASSERT_TRUE(Add(2, 2).ok());
  ASSERT_TRUE(Add(3, 1, /*is_new=*/false).ok());
  EXPECT_THAT(Pass([](uint64_t) { return Try::kPlaced; }), ElementsAre(3, 2, 1));
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.tokens(), 0);
}

TEST_F(RequestQueueTest, OnlyNewRequestsCountAgainstTheBound) {
  for (uint64_t id = 10; id < 20; ++id) ASSERT_TRUE(Add(id, 0, /*is_new=*/false).ok());
  ASSERT_TRUE(Add(1, 1).ok());
  ASSERT_TRUE(Add(2, 1).ok());
  const absl::Status refused = Add(3, 1);
  EXPECT_EQ(ReasonOf(refused), Reason::kQueueFull);
  EXPECT_TRUE(DetailOf(refused).retry_after.has_value());
  EXPECT_TRUE(queue_.Remove(1));
  EXPECT_FALSE(queue_.Remove(1));
  EXPECT_TRUE(Add(3, 1).ok());
}

TEST_F(RequestQueueTest, ARequestForSeveralAnswersCountsAsSoMany) {
  RequestQueue queue(4);
  const auto of = [&](uint64_t id, const std::string& tenant, int32_t answers) {
    return RequestQueue::Waiting{.id = id,
                                 .arrived = start_ + std::chrono::seconds(id),
                                 .need = {.tokens = 5, .peak_tokens = 10},
                                 .answers = answers,
                                 .tenant = tenant};
  };
  ASSERT_TRUE(queue.Add(of(1, "a", 3)).ok());
  EXPECT_EQ(ReasonOf(queue.Add(of(2, "a", 2))), Reason::kQueueFull);
  ASSERT_TRUE(queue.Add(of(3, "a", 1)).ok());
  // Another tenant gets room only if those that leave for it leave no line shorter than its own.
  EXPECT_FALSE(queue.MakeRoomFor(of(4, "b", 3)).has_value());
  ASSERT_TRUE(queue.MakeRoomFor(of(4, "b", 2)).has_value());
  ASSERT_TRUE(queue.MakeRoomFor(of(4, "b", 2)).has_value());
  EXPECT_FALSE(queue.MakeRoomFor(of(4, "b", 2)).has_value()) << "there is room now";
  EXPECT_TRUE(queue.Add(of(4, "b", 2)).ok());
}

TEST_F(RequestQueueTest, TheOldestIsTheFirstThatHadNoAttempt) {
  EXPECT_EQ(queue_.oldest_new(), std::nullopt);
  ASSERT_TRUE(Add(1, 2).ok());
  ASSERT_TRUE(Add(2, 0, /*is_new=*/false).ok());
  ASSERT_TRUE(queue_
                  .Add({.id = 3,
                        .arrived = start_ + std::chrono::seconds(1),
                        .need = {.tokens = 5, .peak_tokens = 10},
                        .tenant = "other"})
                  .ok());
  EXPECT_EQ(queue_.oldest_new(), start_ + std::chrono::seconds(1));
  EXPECT_TRUE(queue_.Remove(3));
  EXPECT_EQ(queue_.oldest_new(), start_ + std::chrono::seconds(2));
  EXPECT_TRUE(queue_.Remove(1));
  EXPECT_EQ(queue_.oldest_new(), std::nullopt);
}

TEST_F(RequestQueueTest, WhoWaitsHoldsBackThoseBehindUntilNoOtherPlacesAreLeft) {
  for (uint64_t id = 1; id <= 4; ++id) {
    ASSERT_TRUE(Add(id, static_cast<int>(id), false, id == 2 ? 1000 : 10).ok());
  }
  const auto second_waits = [](uint64_t id) { return id == 2 ? Try::kNoDecode : Try::kPlaced; };
  EXPECT_THAT(Pass(second_waits), ElementsAre(1, 2, 3, 4));
  ASSERT_EQ(ahead_.size(), 1u);  // of the last that was tried
  EXPECT_EQ(queue_.size(), 1);
  ASSERT_TRUE(Add(5, 5).ok());
  room_ = {};
  EXPECT_THAT(Pass(second_waits), ElementsAre(2));
}

TEST_F(RequestQueueTest, LackOfAPrefillWorkerIsToldToThoseBehind) {
  ASSERT_TRUE(Add(1, 1).ok());
  ASSERT_TRUE(Add(2, 2).ok());
  Pass([](uint64_t id) { return id == 1 ? Try::kNoPrefill : Try::kPlaced; });
  EXPECT_TRUE(prefill_ahead_);
  EXPECT_TRUE(ahead_.empty());
}

TEST_F(RequestQueueTest, WhoNobodyCanTakeBlocksNobodyAndIsGivenUpAfterAWhile) {
  ASSERT_TRUE(Add(1, 1).ok());
  const auto absent = [](uint64_t id) { return id == 1 ? Try::kAbsent : Try::kPlaced; };
  room_ = {};
  ASSERT_TRUE(Add(2, 2).ok());
  EXPECT_THAT(Pass(absent), ElementsAre(1, 2));
  now_ += std::chrono::seconds(29);
  Pass(absent);
  EXPECT_EQ(queue_.size(), 1);
  now_ += std::chrono::seconds(1);
  Pass(absent);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(RequestQueueTest, AWorkerThatShowsItselfEndsTheWaitForOne) {
  ASSERT_TRUE(Add(1, 1).ok());
  const auto absent = [](uint64_t) { return Try::kAbsent; };
  Pass(absent);
  now_ += std::chrono::seconds(20);
  Pass([](uint64_t) { return Try::kNoDecode; });
  now_ += std::chrono::seconds(20);
  Pass(absent);
  EXPECT_EQ(queue_.size(), 1);
}

}  // namespace
}  // namespace baton
