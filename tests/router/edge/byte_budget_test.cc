#include "router/edge/byte_budget.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "common/base/status.h"
#include "router/edge/gathered_bytes.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

TEST(ByteBudget, RefusesWhatIsNotLeftWithBothNumbersAndRetryInfo) {
  ByteBudget budget(100);
  const auto first = budget.Take("a", 60);
  ASSERT_TRUE(first.ok());
  const absl::Status full = budget.Take("a", 16).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(full), Reason::kQueueFull);
  EXPECT_THAT(DetailOf(full).values,
              ElementsAre(::testing::Pair("have", "76"), ::testing::Pair("limit", "75")));
  EXPECT_TRUE(DetailOf(full).retry_after.has_value());
  EXPECT_TRUE(budget.Take("a", 15).ok());
  EXPECT_EQ(budget.used(), 60u);
}

TEST(ByteBudget, WhatIsNeverLeftIsNotToBeSentAgain) {
  ByteBudget budget(100);
  EXPECT_TRUE(budget.Take("a", 75).ok());
  const absl::Status refused = budget.Take("a", 76).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(refused), Reason::kLimitExceeded);
  EXPECT_THAT(DetailOf(refused).values,
              ElementsAre(::testing::Pair("have", "76"), ::testing::Pair("limit", "75")));
  EXPECT_FALSE(DetailOf(refused).retry_after.has_value());
}

// Takes one byte after the other until there is no more for it.
std::vector<ByteBudget::Share> TakeAll(ByteBudget* budget, const std::string& client) {
  std::vector<ByteBudget::Share> shares;
  for (auto share = budget->Take(client, 1); share.ok(); share = budget->Take(client, 1)) {
    shares.push_back(*std::move(share));
  }
  return shares;
}

TEST(ByteBudget, WhoeverTakesAllLeavesSomethingForTheNext) {
  ByteBudget budget(1000);
  std::vector<std::vector<ByteBudget::Share>> clients;
  std::vector<size_t> held;
  for (const char* client : {"a", "b", "c", "d"}) {
    held.push_back(clients.emplace_back(TakeAll(&budget, client)).size());
  }
  EXPECT_THAT(held, ElementsAre(750, 186, 48, 12));
  EXPECT_EQ(budget.used(), 996u);
  clients[1].clear();
  EXPECT_EQ(ReasonOf(budget.Take("a", 1).status()), Reason::kQueueFull)
      << "it has more than three times what is left";
  EXPECT_EQ(TakeAll(&budget, "e").size(), 141u);
}

TEST(ByteBudget, ClientsThatTakeInTurnsHaveEqualShares) {
  ByteBudget budget(700);
  std::vector<ByteBudget::Share> shares;
  size_t a = 0;
  size_t b = 0;
  for (int i = 0; i < 1000; ++i) {
    auto of_a = budget.Take("a", 1);
    auto of_b = budget.Take("b", 1);
    a += of_a.ok() ? 1 : 0;
    b += of_b.ok() ? 1 : 0;
    if (of_a.ok()) shares.push_back(*std::move(of_a));
    if (of_b.ok()) shares.push_back(*std::move(of_b));
  }
  EXPECT_NEAR(static_cast<double>(a), 300, 5);
  EXPECT_NEAR(static_cast<double>(b), 300, 5);
}

TEST(ByteBudget, SharesAreGivenBackOnceWhereverTheyWereMoved) {
  ByteBudget budget(100);
  {
    ByteBudget::Share share = *budget.Take("a", 60);
    ByteBudget::Share moved = std::move(share);
    share = *budget.Take("b", 10);
    EXPECT_EQ(budget.used(), 70u);
    EXPECT_TRUE(moved.Resize(65).ok());
    EXPECT_EQ(budget.used(), 75u);
    EXPECT_TRUE(moved.Resize(5).ok());
    EXPECT_EQ(budget.used(), 15u);
    moved = ByteBudget::Share();
    EXPECT_EQ(budget.used(), 10u);
  }
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_TRUE(budget.Take("a", 75).ok()) << "nothing is held in its name";
}

// What cannot be refused may be more than there is.
TEST(ByteBudget, NothingIsLeftWhileMoreIsHeldThanItHas) {
  ByteBudget budget(100);
  {
    const ByteBudget::Share share = budget.Add("a", 150);
    EXPECT_EQ(ReasonOf(budget.Take("b", 1).status()), Reason::kQueueFull);
  }
  EXPECT_TRUE(budget.Take("b", 75).ok());
}

TEST(ByteBudget, WhatARequestHoldsGrowsByTheSameRule) {
  ByteBudget budget(200);
  const ByteBudget::Share other = *budget.Take("b", 100);
  ByteBudget::Share share = *budget.Take("a", 50);
  const absl::Status full = share.Resize(76);
  EXPECT_EQ(ReasonOf(full), Reason::kQueueFull);
  EXPECT_THAT(DetailOf(full).values,
              ElementsAre(::testing::Pair("have", "76"), ::testing::Pair("limit", "75")));
  EXPECT_EQ(budget.used(), 150U) << "a refused share stays as it was";
  EXPECT_TRUE(share.Resize(75).ok());
  EXPECT_EQ(budget.used(), 175U);
  EXPECT_EQ(ReasonOf(share.Resize(151)), Reason::kLimitExceeded);
}

TEST(ByteBudget, AnswersLeaveRoomForTheClientsOwnRequests) {
  ByteBudget budget(400);
  ByteBudget::Share share;
  EXPECT_TRUE(budget.Grow("a", 10, &share).ok());
  EXPECT_TRUE(budget.Grow("a", 225, &share).ok());
  EXPECT_EQ(budget.used(), 225U);
  const absl::Status full = budget.Grow("a", 226, &share);
  EXPECT_EQ(ReasonOf(full), Reason::kQueueFull);
  EXPECT_TRUE(DetailOf(full).retry_after.has_value());
  EXPECT_EQ(budget.used(), 225U) << "a refused share stays as it was";
  EXPECT_TRUE(budget.Take("a", 75).ok());
  share = {};
  EXPECT_EQ(budget.used(), 0U);
}

TEST(GatheredBytes, WhatIsShortTakesNothingAndTheRestWholeSteps) {
  ByteBudget budget(size_t{1} << 20);
  GatheredBytes gathered(&budget, "a");
  EXPECT_TRUE(gathered.Add(65'535).ok());
  EXPECT_EQ(budget.used(), 0U);
  EXPECT_TRUE(gathered.Add(1).ok());
  EXPECT_EQ(budget.used(), 65'536U);
  EXPECT_TRUE(gathered.Add(65'535).ok());
  EXPECT_EQ(budget.used(), 65'536U);
  EXPECT_TRUE(gathered.Add(100'000).ok());
  EXPECT_EQ(budget.used(), 3 * 65'536U);
  gathered.Clear();
  EXPECT_EQ(budget.used(), 0U);
}

// Whatever these are: messages and prompts may be three quarters of the budget.
TEST(GatheredBytes, WhatOneClientHoldsLeavesRoomForTheAnswersOfOthers) {
  ByteBudget budget(size_t{16} << 20);
  const auto others = budget.Take("a", size_t{12} << 20);
  ASSERT_TRUE(others.ok());
  GatheredBytes more(&budget, "a");
  EXPECT_EQ(ReasonOf(more.Add(size_t{1} << 20)), Reason::kQueueFull);
  GatheredBytes gathered(&budget, "b");
  EXPECT_TRUE(gathered.Add(size_t{2} << 20).ok());
}

}  // namespace
}  // namespace baton
