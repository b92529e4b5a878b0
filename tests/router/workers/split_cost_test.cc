#include "router/workers/split_cost.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

// Both ways cost the same but for what a test changes: 1000 tokens of 100 us in one step of 10 ms,
// and two sequences that wait meanwhile.
SplitInput Even() {
  const PromptSide side = {.times = {.step_s = 0.01, .token_s = 1e-4, .step_tokens = 2000},
                           .held_tokens = 0,
                           .queued_tokens = 0,
                           .delayed = 2};
  return {.tokens = 1000,
          .prefill = side,
          .decode = side,
          .handoff = {.known = true, .fixed_s = 0, .token_s = 0}};
}

void ExpectChoice(const SplitInput& input, bool local, SplitReason reason) {
  const SplitChoice choice = ChooseSplit(input);
  EXPECT_EQ(choice.local, local);
  EXPECT_EQ(SplitReasonName(choice.reason), SplitReasonName(reason));
}

TEST(SplitCostTest, TermsAreThoseAddedUpByHand) {
  SplitInput input = Even();
  input.prefill.queued_tokens = 4000;
  input.prefill.held_tokens = 200;
  input.decode.held_tokens = 600;
  input.decode.times.step_tokens = 300;
  input.handoff = {.known = true, .fixed_s = 0.002, .token_s = 1e-5};
  const SplitChoice choice = ChooseSplit(input);
  EXPECT_NEAR(choice.split_cost.wait_s, 0.4 + 2 * 0.01, 1e-9);
  EXPECT_NEAR(choice.split_cost.compute_s, 0.08 + 0.01, 1e-9);
  EXPECT_NEAR(choice.split_cost.transfer_s, 0.002 + 0.004, 1e-9);
  EXPECT_NEAR(choice.split_cost.others_s, 2 * 0.08, 1e-9);
  EXPECT_NEAR(choice.local_cost.wait_s, 0, 1e-9);
  EXPECT_NEAR(choice.local_cost.compute_s, 0.04 + 2 * 0.01, 1e-9);
  EXPECT_NEAR(choice.local_cost.transfer_s, 0, 1e-9);
  EXPECT_NEAR(choice.local_cost.others_s, 2 * 0.04, 1e-9);
  EXPECT_NEAR(choice.split_cost.total_s(), 0.42 + 0.09 + 0.006 + 0.16, 1e-9);
}

TEST(SplitCostTest, WhereBothCostTheSameThePromptIsSplit) {
  EXPECT_FALSE(ChooseSplit(Even()).local);
}

TEST(SplitCostTest, WhoeverHasALineIsPassedBy) {
  SplitInput input = Even();
  input.prefill.queued_tokens = 100;
  ExpectChoice(input, true, SplitReason::kWait);
  input.decode.queued_tokens = 200;
  ExpectChoice(input, false, SplitReason::kWait);
}

TEST(SplitCostTest, WhoeverHoldsMoreOfThePromptComputesIt) {
  SplitInput input = Even();
  input.prefill.delayed = input.decode.delayed = 0;
  input.decode.held_tokens = 500;
  ExpectChoice(input, true, SplitReason::kCompute);
  input.prefill.held_tokens = 600;
  ExpectChoice(input, false, SplitReason::kCompute);
}

TEST(SplitCostTest, WhoeverIsFasterComputesIt) {
  SplitInput input = Even();
  input.prefill.delayed = input.decode.delayed = 0;
  input.decode.times.token_s = 2e-4;
  ExpectChoice(input, false, SplitReason::kCompute);
  input.prefill.times.token_s = 3e-4;
  ExpectChoice(input, true, SplitReason::kCompute);
}

TEST(SplitCostTest, SmallChunksCostStepsAndSlowStepsCostTime) {
  SplitInput input = Even();
  input.decode.times.step_tokens = 100;
  ExpectChoice(input, false, SplitReason::kCompute);
  input.decode.times.step_tokens = 2000;
  input.decode.times.step_s = 0.02;
  ExpectChoice(input, false, SplitReason::kCompute);
}

TEST(SplitCostTest, ATransferIsSpared) {
  SplitInput input = Even();
  input.handoff.fixed_s = 0.001;
  ExpectChoice(input, true, SplitReason::kTransfer);
  input.handoff = {.known = true, .fixed_s = 0, .token_s = 1e-6};
  ExpectChoice(input, true, SplitReason::kTransfer);
}

TEST(SplitCostTest, WhatADecodeWorkerHoldsIsNotTransferred) {
  SplitInput input = Even();
  input.handoff.token_s = 1e-3;
  input.decode.held_tokens = 999;
  EXPECT_NEAR(ChooseSplit(input).split_cost.transfer_s, 1e-3, 1e-9);
}

TEST(SplitCostTest, FewerAreMadeToWait) {
  SplitInput input = Even();
  input.decode.delayed = 3;
  ExpectChoice(input, false, SplitReason::kOthers);
  input.prefill.delayed = 4;
  ExpectChoice(input, true, SplitReason::kOthers);
}

TEST(SplitCostTest, HowManyAreHarmedOutweighsALineOfTokensOnlyUpToItsLength) {
  // Fifty sequences lose 0.1 s each; the line before the prompt takes 42 ms per 400 tokens.
  SplitInput input = Even();
  input.decode.delayed = 50;
  input.prefill.queued_tokens = 40'000;
  ExpectChoice(input, false, SplitReason::kOthers);
  input.prefill.queued_tokens = 50'000;
  ExpectChoice(input, true, SplitReason::kWait);
}

TEST(SplitCostTest, PromptsAreSplitUntilEnoughIsKnown) {
  SplitInput input = Even();
  input.prefill.queued_tokens = 100'000;
  EXPECT_TRUE(ChooseSplit(input).local);
  SplitInput no_handoff = input;
  no_handoff.handoff.known = false;
  ExpectChoice(no_handoff, false, SplitReason::kUnknown);
  SplitInput no_prefill = input;
  no_prefill.prefill.times.token_s = 0;
  ExpectChoice(no_prefill, false, SplitReason::kUnknown);
  SplitInput older_worker = input;
  older_worker.decode.times = {};
  ExpectChoice(older_worker, false, SplitReason::kUnknown);
}

TEST(SplitCostTest, ADecodeWorkerThatComputedNoPromptsIsLikeThePrefillWorker) {
  SplitInput input = Even();
  const double known_s = ChooseSplit(input).local_cost.total_s();
  input.decode.times.token_s = 0;
  EXPECT_NEAR(ChooseSplit(input).local_cost.total_s(), known_s, 1e-12);
}

}  // namespace
}  // namespace baton
