// One sequence's life: states, ends, and cancels in each of them.
#include <set>

#include "tests/common/sched/scheduler_fixture.h"

namespace baton {
namespace {

using SchedulerLifeTest = SchedulerTest;
TEST_F(SchedulerLifeTest, APrefillReportsBlocksAsTheyBecomeFinalThenEnds) {
  options_.max_prefill_tokens = 6;
  Start(8);
  const SequenceId id = Add(kPrefill, 14, 5);
  Step();
  ASSERT_EQ(Count<BlocksProven>(id), 1);
  EXPECT_EQ(Last<BlocksProven>(id)->blocks.size(), 1u);
  Step();
  EXPECT_EQ(Last<BlocksProven>(id)->blocks.size(), 2u);
  EXPECT_FALSE(Last<BlocksProven>(id)->last);
  Step();
  EXPECT_TRUE(Last<BlocksProven>(id)->last);
  EXPECT_EQ(Last<BlocksProven>(id)->blocks.size(), 1u);
  EXPECT_EQ(Last<BlocksProven>(id)->last_block_tokens, 2);
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kNone);
  EXPECT_EQ(StateOf(id), SequenceState::kDone);
  EXPECT_EQ(pool_->num_used(), 4);  // until the push is over
  Cancel(id);
  EXPECT_EQ(Count<DetachEvent>(id), 0);
  ReturnLease(id);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerLifeTest, AFullLastBlockIsReportedOnceAsTheLast) {
  Start(8);
  const SequenceId id = Add(kPrefill, 8, 5);
  Step();
  ASSERT_EQ(Count<BlocksProven>(id), 1);
  EXPECT_TRUE(Last<BlocksProven>(id)->last);
  EXPECT_EQ(Last<BlocksProven>(id)->blocks.size(), 2u);
  EXPECT_EQ(Last<BlocksProven>(id)->last_block_tokens, 4);
}

TEST_F(SchedulerLifeTest, APrefillReportsItsCachedBlocksAtTheStart) {
  Start(16, /*caching=*/true);
  Add(Spec(kLocal, 12, 1));
  StepAll();
  const SequenceId id = Add(Spec(kPrefill, 12, 5));
  const StepPlan plan = Plan();
  ASSERT_EQ(Count<BlocksProven>(id), 1);
  EXPECT_EQ(Last<BlocksProven>(id)->blocks.size(), 2u);
  EXPECT_EQ(Last<BlocksProven>(id)->cached_tokens, 8);
  Commit(plan);
  EXPECT_EQ(Last<BlocksProven>(id)->blocks.size(), 1u);
}

TEST_F(SchedulerLifeTest, AFirstTokenThatEndsTheRequestHasNothingToCommit) {
  Start(8);
  const SequenceId id = Add(kPrefill, 6, 1);
  Step();
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kLength);
  EXPECT_EQ(Count<BlocksProven>(id), 0);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerLifeTest, APrefillWhoseLeaseCameBackEarlyLeasesNothingMore) {
  options_.max_prefill_tokens = 4;
  Start(8);
  const SequenceId id = Add(kPrefill, 12, 5);
  Step();
  ASSERT_EQ(Count<BlocksProven>(id), 1);
  ReturnLease(id);  // the push broke
  StepAll();
  EXPECT_EQ(Count<BlocksProven>(id), 1);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerLifeTest, AnImportedTokenCountsButIsNotEmitted) {
  Start(8);
  const SequenceId id = Add(kReserved, 6, 3);
  Step();
  CommitImport(id);
  EXPECT_EQ(StateOf(id), SequenceState::kDecoding);
  StepAll();
  EXPECT_EQ(Count<TokenEvent>(id), 2);
  EXPECT_EQ(Last<TokenEvent>(id)->index, 2);
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kLength);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerLifeTest, AnImportedTokenMayBeTheEnd) {
  Start(8);
  const SequenceId id = Add(kReserved, 6, 3);
  Step();
  CommitImport(id, 2);
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kStopEos);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerLifeTest, AnImportedNaturalEndIsRemembered) {
  Start(8);
  SequenceSpec spec = Spec(kReserved, 6, 3);
  spec.stop.eos_policy = EosPolicy::kIgnoreMask;
  const SequenceId id = Add(spec);
  Step();
  scheduler_->CommitImport(id, {.token = 77, .natural_end = true}, now_);
  StepAll();
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kLength);
  EXPECT_EQ(Last<FinishedEvent>(id)->natural_end_step, 1);
}

TEST_F(SchedulerLifeTest, ASecondCommitOrOneOutOfPlaceDoesNothing) {
  Start(16);
  const SequenceId id = Add(kReserved, 6, 5);
  CommitImport(id);  // not granted yet
  EXPECT_TRUE(Count<StateEvent>(id) == 0);
  Step();
  CommitImport(id);
  CommitImport(id);
  StepAll();
  EXPECT_EQ(Count<TokenEvent>(id), 4);
  const SequenceId local = Add(kLocal, 4, 5);
  CommitImport(local);
  StepAll();
  EXPECT_EQ(Count<TokenEvent>(local), 5);
}

TEST_F(SchedulerLifeTest, AResumedSequenceGoesOnWithTheNextIndex) {
  Start(16);
  SequenceSpec spec = Spec(kLocal, 6, 5);
  spec.generated = {300, 301};
  spec.natural_end_step = 2;
  const SequenceId id = Add(spec);
  Step();
  EXPECT_EQ(Last<TokenEvent>(id)->index, 2);
  StepAll();
  EXPECT_EQ(Count<TokenEvent>(id), 3);
  EXPECT_EQ(Last<FinishedEvent>(id)->natural_end_step, 2);
}

TEST_F(SchedulerLifeTest, CachedTokensSpanTheAcceptedOnesButUsageCountsThePrompt) {
  Start(16, /*caching=*/true);
  SequenceSpec spec = Spec(kLocal, 6, 8);
  spec.generated = {300, 301, 302, 303, 304};
  Add(spec);
  Step();
  const SequenceId again = Add(spec);
  StepAll();
  const TokenEvent* first = nullptr;
  for (const SchedEvent& event : events_) {
    if (event.sequence == again && first == nullptr) first = std::get_if<TokenEvent>(&event.what);
  }
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->cached_tokens, 8);
  EXPECT_EQ(Last<FinishedEvent>(again)->cached_tokens, 6);
}

TEST_F(SchedulerLifeTest, CancelEndsEveryState) {
  options_.max_prefill_tokens = 4;
  Start(16);
  const SequenceId queued = Add(kLocal, 4, 5);
  Cancel(queued);
  const SequenceId in_line = Add(kReserved, 4, 5);
  Cancel(in_line);
  const SequenceId reserved = Add(kReserved, 4, 5);
  const SequenceId prefilling = Add(kLocal, 12, 5);
  const SequenceId prefill = Add(kPrefill, 12, 5);
  Step();
  ASSERT_EQ(StateOf(reserved), SequenceState::kReserved);
  ASSERT_EQ(StateOf(prefilling), SequenceState::kPrefilling);
  for (const SequenceId id : {reserved, prefilling, prefill}) Cancel(id);
  const SequenceId decoding = Add(kLocal, 4, 5);
  Step();
  ASSERT_EQ(StateOf(decoding), SequenceState::kDecoding);
  Cancel(decoding);
  Cancel(decoding);  // the second is a no-op
  ReturnLease(reserved);
  for (const SequenceId id : {queued, in_line, reserved, prefilling, prefill, decoding}) {
    ASSERT_EQ(Count<FinishedEvent>(id), 1) << id.value();
    EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kAborted);
    EXPECT_EQ(StateOf(id), SequenceState::kFailed);
  }
  ExpectAllBlocksBack();
}

TEST_F(SchedulerLifeTest, CancelEndsAPreemptedSequence) {
  Start(5);
  Add(kLocal, 6, 10);
  const SequenceId id = Add(kLocal, 6, 4);
  while (state_[id] != SequenceState::kPreempted) ASSERT_TRUE(Step());
  Cancel(id);
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kAborted);
  StepAll();
  ExpectAllBlocksBack();
}

TEST_F(SchedulerLifeTest, CancelWhileTheStepRunsWaitsForItsEnd) {
  Start(8);
  const SequenceId id = Add(kLocal, 4, 5);
  const StepPlan plan = Plan();
  Cancel(id);
  EXPECT_EQ(Count<FinishedEvent>(id), 0);
  EXPECT_EQ(pool_->num_used(), 1);  // the device still writes there
  Commit(plan);
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kAborted);
  EXPECT_EQ(Count<TokenEvent>(id), 0);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerLifeTest, RowsBanWhatWouldRepeatAnNgramOfAnyAttempt) {
  model_.force = [](const kernels::SampleRow& row) {
    return std::vector<TokenId>{0, 10, 11, 7, 8}.at(row.output.size());
  };
  Start(8);
  SequenceSpec spec = Spec(kLocal, 0, 5);
  spec.prompt = {10, 11, 12, 10};
  spec.generated = {11};
  spec.sampling.no_repeat_ngram_size = 3;
  Add(spec);
  std::vector<std::set<TokenId>> banned;
  for (StepPlan plan = Plan(); !plan.empty(); plan = Plan()) {
    const auto ids = plan.rows[0].draws[0].banned_ids;
    banned.emplace_back(ids.begin(), ids.end());
    Commit(plan);
  }
  EXPECT_EQ(banned, (std::vector<std::set<TokenId>>{{12}, {}, {10, 12}, {}}));
  ExpectAllBlocksBack();
}

}  // namespace
}  // namespace baton
