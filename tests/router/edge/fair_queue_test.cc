#include "router/edge/fair_queue.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "common/base/status.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using Values = std::vector<std::pair<std::string, std::string>>;

constexpr size_t kMega = size_t{1} << 20;

class FairQueueTest : public ::testing::Test {
 protected:
  absl::Status Push(const std::string& client, size_t bytes) {
    return queue_.Push({.id = ++id_, .client = client, .bytes = bytes, .run = nullptr});
  }
  // The clients of the next `count` pieces, each of which is over before the next begins.
  std::vector<std::string> Turns(int count) {
    std::vector<std::string> clients;
    for (int i = 0; i < count; ++i) {
      clients.push_back(queue_.Pop()->client);
      queue_.Done(clients.back());
    }
    return clients;
  }

  FairQueue queue_{{.pieces = 100, .bytes = 64 * kMega}};
  uint64_t id_ = 0;
};

TEST_F(FairQueueTest, OneClientIsServedInOrder) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Push("a", kMega).ok());
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(queue_.Pop()->id, id);
  EXPECT_FALSE(queue_.Pop().has_value());
}

TEST_F(FairQueueTest, NewClientComesNextHoweverMuchAnotherHasWaiting) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Push("bulk", 3 * kMega).ok());
  EXPECT_THAT(Turns(4), ElementsAre("bulk", "bulk", "bulk", "bulk"));
  ASSERT_TRUE(Push("small", 10).ok());
  EXPECT_THAT(Turns(2), ElementsAre("small", "bulk"));
}

TEST_F(FairQueueTest, ClientsShareBytesNotPieces) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Push("bulk", kMega).ok());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Push("small", kMega / 8).ok());
  std::vector<std::string> turns = Turns(9);
  EXPECT_EQ(std::count(turns.begin(), turns.end(), "bulk"), 1);
  turns = Turns(9);
  EXPECT_EQ(std::count(turns.begin(), turns.end(), "bulk"), 1);
}

TEST_F(FairQueueTest, ClientsOfEqualPiecesTakeTurns) {
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Push("a", 10).ok());
    ASSERT_TRUE(Push("b", 10).ok());
  }
  EXPECT_THAT(Turns(4), ElementsAre("a", "b", "a", "b"));
}

TEST_F(FairQueueTest, ClientThatAsksAgainWhileItsPieceRunsComesAfterTheOthers) {
  ASSERT_TRUE(Push("bulk", kMega).ok());
  ASSERT_EQ(queue_.Pop()->client, "bulk");
  ASSERT_TRUE(Push("bulk", kMega).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Push("other", 10).ok());
  EXPECT_THAT(Turns(4), ElementsAre("other", "other", "other", "bulk"));
}

TEST_F(FairQueueTest, ClientRunsNoMorePiecesAtOnceThanItMay) {
  FairQueue queue({.pieces = 10, .bytes = kMega, .running = 2});
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(queue.Push({.id = id, .client = "bulk", .bytes = 1, .run = nullptr}).ok());
  }
  EXPECT_EQ(queue.Pop()->id, 1u);
  EXPECT_EQ(queue.Pop()->id, 2u);
  EXPECT_FALSE(queue.Pop().has_value());
  ASSERT_TRUE(queue.Push({.id = 4, .client = "other", .bytes = 1, .run = nullptr}).ok());
  EXPECT_EQ(queue.Pop()->client, "other");
  queue.Done("bulk");
  EXPECT_EQ(queue.Pop()->id, 3u);
}

TEST_F(FairQueueTest, TimeThatNobodyUsedIsNotSaved) {
  ASSERT_TRUE(Push("early", 10).ok());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Push("busy", kMega).ok());
  EXPECT_THAT(Turns(4), ElementsAre("early", "busy", "busy", "busy"));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Push("early", 2 * kMega).ok());
  EXPECT_THAT(Turns(3), ElementsAre("early", "busy", "early"));
}

TEST_F(FairQueueTest, RefusesBeyondItsPieces) {
  FairQueue queue({.pieces = 1, .bytes = kMega});
  ASSERT_TRUE(queue.Push({.id = 1, .client = "a", .bytes = 1, .run = nullptr}).ok());
  const absl::Status full = queue.Push({.id = 2, .client = "b", .bytes = 1, .run = nullptr});
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(full), Reason::kQueueFull);
  EXPECT_EQ(DetailOf(full).values, (Values{{"have", "2"}, {"limit", "1"}}));
  EXPECT_TRUE(DetailOf(full).retry_after.has_value());
  EXPECT_EQ(queue.size(), 1u);
}

TEST_F(FairQueueTest, RefusesBeyondItsBytesAndTakesAgainWhenThereIsRoom) {
  ASSERT_TRUE(Push("a", 60 * kMega).ok());
  const absl::Status full = Push("b", 5 * kMega);
  EXPECT_EQ(ReasonOf(full), Reason::kQueueFull);
  EXPECT_EQ(DetailOf(full).values,
            (Values{{"have", std::to_string(65 * kMega)}, {"limit", std::to_string(64 * kMega)}}));
  EXPECT_TRUE(Push("b", 4 * kMega).ok());
  EXPECT_EQ(queue_.bytes(), 64 * kMega);
  Turns(2);
  EXPECT_EQ(queue_.bytes(), 0u);
  EXPECT_TRUE(Push("b", 64 * kMega).ok());
}

TEST_F(FairQueueTest, LastPieceOfWhoHasTheMostLeavesForAClientThatHasLess) {
  FairQueue queue({.pieces = 3, .bytes = kMega});
  uint64_t id = 0;
  const auto piece = [&](const std::string& client) {
    return PoolWork{.id = ++id, .client = client, .bytes = 1, .run = nullptr};
  };
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(queue.MakeRoomFor(piece("bulk")).has_value()) << "there is room";
    ASSERT_TRUE(queue.Push(piece("bulk")).ok());
  }
  EXPECT_FALSE(queue.MakeRoomFor(piece("bulk")).has_value()) << "its own room";
  const auto displaced = queue.MakeRoomFor(piece("other"));
  ASSERT_TRUE(displaced.has_value());
  EXPECT_EQ(displaced->work.id, 6u) << "the last";
  EXPECT_EQ(ReasonOf(displaced->full), Reason::kQueueFull);
  EXPECT_EQ(DetailOf(displaced->full).values, (Values{{"have", "3"}, {"limit", "3"}}));
  EXPECT_TRUE(DetailOf(displaced->full).retry_after.has_value());
  EXPECT_FALSE(queue.MakeRoomFor(piece("other")).has_value()) << "there is room";
  ASSERT_TRUE(queue.Push(piece("other")).ok());
  EXPECT_FALSE(queue.MakeRoomFor(piece("other")).has_value()) << "it would have more than the rest";
  EXPECT_TRUE(queue.MakeRoomFor(piece("third")).has_value());
}

TEST_F(FairQueueTest, ClientOfTheMostBytesLeavesAsManyAsAreLacking) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Push("bulk", 20 * kMega).ok());
  ASSERT_TRUE(Push("small", 1).ok());
  ASSERT_TRUE(Push("small", 1).ok());
  const auto piece = [](size_t bytes) {
    return PoolWork{.id = 100, .client = "other", .bytes = bytes, .run = nullptr};
  };
  EXPECT_FALSE(queue_.MakeRoomFor(piece(33 * kMega)).has_value()) << "more than its part";
  EXPECT_EQ(queue_.MakeRoomFor(piece(30 * kMega))->work.id, 3u);
  EXPECT_EQ(queue_.MakeRoomFor(piece(30 * kMega))->work.id, 2u);
  EXPECT_FALSE(queue_.MakeRoomFor(piece(30 * kMega)).has_value());
  EXPECT_EQ(queue_.bytes(), 20 * kMega + 2);
  EXPECT_TRUE(Push("other", 30 * kMega).ok());
}

TEST_F(FairQueueTest, NobodyLeavesForAPieceThatIsRefusedAllTheSame) {
  FairQueue queue({.pieces = 2, .bytes = 10});
  const PoolWork large{.id = 3, .client = "other", .bytes = 11, .run = nullptr};
  EXPECT_FALSE(queue.MakeRoomFor(large).has_value());
  for (uint64_t id = 1; id <= 2; ++id) {
    ASSERT_TRUE(queue.Push({.id = id, .client = "bulk", .bytes = 1, .run = nullptr}).ok());
  }
  EXPECT_FALSE(queue.MakeRoomFor(large).has_value());
  EXPECT_EQ(queue.size(), 2u);
}

TEST_F(FairQueueTest, RemovedPieceLeavesItsRoomAndTheTurnOfItsClient) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Push("a", kMega).ok());
  EXPECT_EQ(queue_.Remove(1)->id, 1u);
  EXPECT_FALSE(queue_.Remove(1).has_value());
  EXPECT_EQ(queue_.size(), 2u);
  EXPECT_EQ(queue_.bytes(), 2 * kMega);
  EXPECT_EQ(queue_.Pop()->id, 2u);
  EXPECT_TRUE(queue_.Remove(3).has_value());
  EXPECT_FALSE(queue_.Pop().has_value());
}

}  // namespace
}  // namespace baton
