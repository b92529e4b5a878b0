#include "common/guide/guide_budget.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

using std::chrono::milliseconds;

TEST(GuideBudgetTest, TokensPayForWorkUpToTheirPart) {
  GuideBudget budget;
  for (int i = 0; i < 1000; ++i) {
    budget.Take(1);
    budget.Spend(GuideBudget::kEachToken);
    ASSERT_FALSE(budget.spent()) << i;
  }
  budget.Spend(GuideBudget::kAtOnce);
  EXPECT_TRUE(budget.spent());
}

TEST(GuideBudgetTest, CheapTokensSaveNothingUpForADearOne) {
  GuideBudget budget;
  budget.Take(1000);
  EXPECT_EQ(budget.left(), GuideBudget::kAtOnce);
}

TEST(GuideBudgetTest, WorkThatWouldBeFeltIsSlowUntilItIsPaid) {
  GuideBudget budget;
  budget.Take(1);
  budget.Spend(milliseconds(1));
  EXPECT_FALSE(budget.slow());
  budget.Take(1);
  budget.Spend(milliseconds(3));
  EXPECT_TRUE(budget.slow());
  budget.Take(1);
  EXPECT_FALSE(budget.slow());
  // Dear work between cheap work is not forgotten at the next token.
  budget.Spend(milliseconds(40));
  int tokens = 0;
  for (; budget.slow(); ++tokens) budget.Take(1);
  EXPECT_GE(tokens, 19);
}

}  // namespace
}  // namespace baton
