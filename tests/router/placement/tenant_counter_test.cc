#include "router/placement/tenant_counter.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(TenantCounterTest, AGeneratedTokenCountsAsTwoOfAPromptDividedByTheWeight) {
  TenantCounter one(1), two(2);
  for (TenantCounter* counter : {&one, &two}) {
    const TokenCharge charge = counter->Charge(100, 50);
    EXPECT_EQ(charge.output_tokens, 50);
    counter->Settle(charge, {.output_tokens = 50});
  }
  EXPECT_EQ(one.served(), 200);
  EXPECT_EQ(two.served(), 100);
}

TEST(TenantCounterTest, OutputIsChargedAsExpectedAndPutRightAtTheEnd) {
  TenantCounter counter(1);
  for (int i = 0; i < 100; ++i) counter.Settle(counter.Charge(10, 4000), {.output_tokens = 30});
  EXPECT_EQ(counter.served(), 100 * (10 + 60));
  const TokenCharge charge = counter.Charge(10, 4000);
  EXPECT_EQ(charge.output_tokens, 30) << "as they have been, not as many as allowed";
  EXPECT_EQ(counter.Charge(10, 7).output_tokens, 7);
}

TEST(TenantCounterTest, AnAttemptInVainCostsNoPromptAndOnlyTheTokensItBrought) {
  TenantCounter counter(1);
  counter.Settle(counter.Charge(100, 50), {.in_vain = true});
  EXPECT_EQ(counter.served(), 0);
  counter.Settle(counter.Charge(100, 50), {.output_tokens = 20, .in_vain = true});
  EXPECT_EQ(counter.served(), 40);
  counter.Settle(counter.Charge(100, 30), {.output_tokens = 30});
  EXPECT_EQ(counter.served(), 40 + 100 + 60) << "the prompt once, each token once";
}

TEST(TenantCounterTest, WhoEndsBeforeItTellsHasCostWhatWasExpectedAndTeachesNothing) {
  TenantCounter counter(1);
  counter.Settle(counter.Charge(100, 50), {.output_tokens = std::nullopt});
  EXPECT_EQ(counter.served(), 200);
  EXPECT_EQ(counter.Charge(0, 4000).output_tokens, TenantCounter(1).Charge(0, 4000).output_tokens);
  TenantCounter again(1);
  again.Settle(again.Charge(100, 50), {.output_tokens = std::nullopt, .in_vain = true});
  EXPECT_EQ(again.served(), 0) << "it comes back";
}

TEST(TenantCounterTest, IsLiftedButNeverLowered) {
  TenantCounter counter(1);
  counter.LiftTo(10);
  EXPECT_EQ(counter.served(), 10);
  counter.LiftTo(5);
  EXPECT_EQ(counter.served(), 10);
}

}  // namespace
}  // namespace baton
