#include "router/edge/byte_budget.h"

#include <gmock/gmock.h>

#include "common/base/status.h"
#include "router/edge/gathered_bytes.h"

namespace baton {
namespace {

TEST(ByteBudget, RefusesWhatIsNotLeftWithBothNumbersAndRetryInfo) {
  ByteBudget budget(100);
  const auto first = budget.Take(60);
  ASSERT_TRUE(first.ok());
  const absl::Status full = budget.Take(41).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(full), Reason::kQueueFull);
  EXPECT_THAT(DetailOf(full).values, ::testing::ElementsAre(::testing::Pair("have", "101"),
                                                            ::testing::Pair("limit", "100")));
  EXPECT_TRUE(DetailOf(full).retry_after.has_value());
  EXPECT_TRUE(budget.Take(40).ok());
  EXPECT_EQ(budget.used(), 60u);
}

TEST(ByteBudget, WhatIsNeverLeftIsNotToBeSentAgain) {
  ByteBudget budget(100);
  EXPECT_TRUE(budget.Take(100).ok());
  const absl::Status refused = budget.Take(101).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(refused), Reason::kLimitExceeded);
  EXPECT_THAT(DetailOf(refused).values, ::testing::ElementsAre(::testing::Pair("have", "101"),
                                                               ::testing::Pair("limit", "100")));
  EXPECT_FALSE(DetailOf(refused).retry_after.has_value());
}

TEST(ByteBudget, SharesAreGivenBackOnceWhereverTheyWereMoved) {
  ByteBudget budget(100);
  {
    ByteBudget::Share share = *budget.Take(60);
    ByteBudget::Share moved = std::move(share);
    share = *budget.Take(10);
    EXPECT_EQ(budget.used(), 70u);
    moved.Resize(80);
    EXPECT_EQ(budget.used(), 90u);
    moved.Resize(5);
    EXPECT_EQ(budget.used(), 15u);
    moved = ByteBudget::Share();
    EXPECT_EQ(budget.used(), 10u);
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(ByteBudget, AShareGrowsUpToALimitOfItsOwn) {
  ByteBudget budget(100);
  const ByteBudget::Share other = budget.Add(50);
  ByteBudget::Share share;
  EXPECT_TRUE(budget.Grow(10, 75, &share));
  EXPECT_TRUE(budget.Grow(25, 75, &share));
  EXPECT_EQ(budget.used(), 75U);
  EXPECT_FALSE(budget.Grow(26, 75, &share));
  EXPECT_EQ(budget.used(), 75U) << "a refused share stays as it was";
  share = {};
  EXPECT_EQ(budget.used(), 50U);
}

TEST(GatheredBytes, WhatIsShortTakesNothingAndTheRestWholeSteps) {
  ByteBudget budget(size_t{1} << 20);
  GatheredBytes gathered(&budget);
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

}  // namespace
}  // namespace baton
