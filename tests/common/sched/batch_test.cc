#include "common/sched/batch.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace baton {
namespace {

using Shares = std::vector<int32_t>;

BatchCandidate Decode(uint64_t last_turn = 1) {
  return {.pending = 1, .decodes = true, .last_turn = last_turn};
}
BatchCandidate Prefill(int32_t pending, uint64_t last_turn = 0) {
  return {.pending = pending, .decodes = false, .last_turn = last_turn};
}
BatchBudget Budget(int32_t rows, int32_t tokens, int32_t prefill) {
  return {.max_rows = rows, .max_tokens = tokens, .max_prefill_tokens = prefill};
}

// How many tokens each candidate got.
Shares ByCandidate(const std::vector<BatchCandidate>& candidates, const BatchBudget& budget) {
  Shares tokens(candidates.size(), 0);
  for (const BatchShare& share : ShareStep(candidates, budget)) {
    EXPECT_EQ(tokens[share.candidate], 0) << "two rows of one sequence";
    EXPECT_GE(share.tokens, 1);
    tokens[share.candidate] = share.tokens;
  }
  return tokens;
}

TEST(ShareStepTest, EverybodyRunsWhenTheBudgetAllows) {
  EXPECT_EQ(ByCandidate({Decode(), Prefill(10), Decode(), Prefill(20)}, Budget(8, 100, 100)),
            (Shares{1, 10, 1, 20}));
}

TEST(ShareStepTest, PrefillTokensAreBounded) {
  EXPECT_EQ(ByCandidate({Decode(), Prefill(10), Decode(), Prefill(20)}, Budget(8, 100, 12)),
            (Shares{1, 10, 1, 2}));
}

TEST(ShareStepTest, StepTokensAreBoundedAndDecodesComeFirst) {
  EXPECT_EQ(ByCandidate({Prefill(100), Decode(), Decode()}, Budget(8, 10, 100)), (Shares{8, 1, 1}));
}

TEST(ShareStepTest, RowsAreBounded) {
  EXPECT_EQ(ByCandidate({Prefill(3), Prefill(3), Prefill(3)}, Budget(2, 100, 100)),
            (Shares{3, 3, 0}));
}

TEST(ShareStepTest, APromptThatGetsNoTokenTakesNoRow) {
  EXPECT_EQ(ByCandidate({Prefill(5), Prefill(5), Decode()}, Budget(8, 6, 100)), (Shares{5, 0, 1}));
}

BatchCandidate Proposing(int32_t proposals) {
  return {.pending = 1, .decodes = true, .last_turn = 1, .proposals = proposals};
}

TEST(ShareStepTest, ProposalsGetWhatIsLeftOfTokensAndDraws) {
  BatchBudget budget = Budget(8, 100, 100);
  budget.max_draws = 100;
  EXPECT_EQ(ByCandidate({Proposing(3), Prefill(10), Proposing(5)}, budget), (Shares{4, 10, 6}));
  budget.max_tokens = 16;
  EXPECT_EQ(ByCandidate({Proposing(3), Prefill(10), Proposing(5)}, budget), (Shares{4, 10, 2}));
  budget.max_tokens = 12;
  EXPECT_EQ(ByCandidate({Proposing(3), Prefill(10), Proposing(5)}, budget), (Shares{1, 10, 1}));
  budget.max_tokens = 100;
  budget.max_draws = 5;
  EXPECT_EQ(ByCandidate({Proposing(3), Prefill(10), Proposing(5)}, budget), (Shares{3, 10, 1}));
  budget.max_draws = 0;
  EXPECT_EQ(ByCandidate({Proposing(3), Prefill(10), Proposing(5)}, budget), (Shares{1, 10, 1}));
}

// Runs `steps` steps and returns how many tokens each candidate fed.
Shares Totals(std::vector<BatchCandidate> candidates, const BatchBudget& budget, int32_t steps) {
  Shares totals(candidates.size(), 0);
  uint64_t turn = 1;
  for (int32_t step = 0; step < steps; ++step) {
    int32_t tokens = 0;
    for (const BatchShare& share : ShareStep(candidates, budget)) {
      totals[share.candidate] += share.tokens;
      candidates[share.candidate].last_turn = ++turn;
      tokens += share.tokens;
    }
    EXPECT_LE(tokens, budget.max_tokens);
  }
  return totals;
}

TEST(ShareStepTest, DecodesBeyondTheBudgetTakeTurns) {
  EXPECT_EQ(Totals({Decode(), Decode(), Decode()}, Budget(8, 1, 100), 9), (Shares{3, 3, 3}));
  EXPECT_EQ(Totals({Decode(), Decode(), Decode(), Decode(), Decode()}, Budget(8, 2, 100), 10),
            (Shares{4, 4, 4, 4, 4}));
}

TEST(ShareStepTest, APromptIsNotStarvedByDecodes) {
  const Shares totals = Totals({Decode(), Decode(), Decode(), Prefill(1000)}, Budget(8, 2, 100), 8);
  EXPECT_EQ(totals, (Shares{4, 4, 4, 4}));
}

TEST(ShareStepTest, DecodesAreNotStalledByAFreshPrompt) {
  for (int32_t budget = 3; budget < 20; ++budget) {
    const Shares shares =
        ByCandidate({Decode(7), Prefill(1000, 0), Decode(7)}, Budget(8, budget, 50));
    EXPECT_EQ(shares[0], 1);
    EXPECT_EQ(shares[2], 1);
    EXPECT_EQ(shares[1], budget - 2);
  }
}

BatchCandidate Beams(int32_t rows, uint64_t last_turn = 1) {
  return {.pending = 0, .decodes = true, .last_turn = last_turn, .rows = rows};
}

TEST(ShareStepTest, BeamsRunTogetherOrNotAtAll) {
  EXPECT_EQ(ByCandidate({Decode(), Beams(4), Prefill(20)}, Budget(8, 10, 100)), (Shares{1, 4, 5}));
  EXPECT_EQ(ByCandidate({Decode(), Beams(4), Decode()}, Budget(8, 4, 100)), (Shares{1, 0, 1}));
  EXPECT_EQ(ByCandidate({Decode(), Beams(4), Decode()}, Budget(4, 100, 100)), (Shares{1, 0, 1}));
}

TEST(ShareStepTest, BeamsBeyondTheBudgetGetTheirTurn) {
  const Shares totals =
      Totals({Decode(), Beams(4), Decode(), Beams(3), Prefill(1000)}, Budget(8, 4, 100), 40);
  for (const int32_t total : totals) EXPECT_GE(total, 8);
  EXPECT_EQ(totals[1] % 4, 0);
  EXPECT_EQ(totals[3] % 3, 0);
}

TEST(ShareStepTest, NobodyMeansNothing) { EXPECT_TRUE(ShareStep({}, Budget(8, 8, 8)).empty()); }

}  // namespace
}  // namespace baton
