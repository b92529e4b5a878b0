// Who gets blocks, who gives way, and what happens to leased ones.
#include "tests/common/sched/scheduler_fixture.h"

namespace baton {
namespace {

using SchedulerMemoryTest = SchedulerTest;
TEST_F(SchedulerMemoryTest, OneSequenceThatFillsThePoolFinishes) {
  Start(5);
  const SequenceId id = Add(kLocal, 12, 8);
  StepAll();
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kLength);
  EXPECT_EQ(Count<TokenEvent>(id), 8);
  EXPECT_EQ(scheduler_->figures().preemptions, 0u);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerMemoryTest, APromptStartsOnlyWithAllItsBlocks) {
  Start(6);
  const SequenceId first = Add(kPrefill, 16, 1);
  const SequenceId second = Add(kPrefill, 12, 1);
  const StepPlan plan = Plan();
  ASSERT_EQ(plan.rows.size(), 1u);
  EXPECT_EQ(plan.rows[0].sequence, first);
  EXPECT_EQ(scheduler_->figures().waiting, 1);
  Commit(plan);
  ReturnLease(first);
  EXPECT_TRUE(Step());
  EXPECT_NE(Last<FinishedEvent>(second), nullptr);
}

TEST_F(SchedulerMemoryTest, AReservationLeavesABlockForEveryRunningSequence) {
  Start(6);
  const SequenceId runs = Add(kLocal, 7, 16);
  ASSERT_TRUE(Step());
  const SequenceId too_big = Add(kReserved, 16, 4);  // would take all four that are left
  Plan();
  EXPECT_EQ(Count<BlocksGranted>(too_big), 0);
  Cancel(too_big);
  Cancel(runs);
}

TEST_F(SchedulerMemoryTest, AReservationThatLeavesOneIsGranted) {
  Start(6);
  Add(kLocal, 7, 16);
  ASSERT_TRUE(Step());
  const SequenceId fits = Add(kReserved, 12, 4);
  Step();
  ASSERT_NE(Last<BlocksGranted>(fits), nullptr);
  EXPECT_EQ(Last<BlocksGranted>(fits)->lease.size(), 3u);
}

TEST_F(SchedulerMemoryTest, TheLineIsNotOvertaken) {
  Start(8);
  const SequenceId runs = Add(kLocal, 12, 2);
  ASSERT_TRUE(Step());
  const SequenceId big = Add(kReserved, 20, 4);
  const SequenceId small = Add(kReserved, 4, 4);
  Plan();
  EXPECT_EQ(Count<BlocksGranted>(small), 0);
  Cancel(runs);
  Cancel(big);
}

TEST_F(SchedulerMemoryTest, AReservedRequestIsRevokedBeforeAnybodyIsPreempted) {
  Start(6);
  const SequenceId a = Add(kLocal, 7, 16);
  const SequenceId b = Add(kLocal, 2, 16);
  ASSERT_TRUE(Step());
  const SequenceId older = Add(kReserved, 4, 4);
  Step();  // 2 + 1 + 1 blocks, two left for those that run
  ASSERT_EQ(Count<BlocksGranted>(older), 1);
  while (Count<RevokedEvent>(older) == 0) ASSERT_TRUE(Step());
  EXPECT_EQ(scheduler_->figures().preemptions, 0u);
  EXPECT_EQ(Count<DetachEvent>(older), 1);
  EXPECT_EQ(pool_->num_quarantined(), 1);
  ReturnLease(older);
  EXPECT_EQ(pool_->num_quarantined(), 0);
  StepAll();
  EXPECT_NE(Last<FinishedEvent>(a), nullptr);
  EXPECT_NE(Last<FinishedEvent>(b), nullptr);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerMemoryTest, TheYoungestReservationIsRevokedFirst) {
  Start(5);
  Add(kLocal, 7, 12);
  ASSERT_TRUE(Step());
  const SequenceId older = Add(kReserved, 4, 4);
  const SequenceId younger = Add(kReserved, 4, 4);
  while (Step()) {
  }
  EXPECT_EQ(Count<RevokedEvent>(younger), 1);
  EXPECT_EQ(Count<RevokedEvent>(older), 0);
}

TEST_F(SchedulerMemoryTest, ReturningBlocksAreWaitedForInsteadOfTakingMoreVictims) {
  Start(5);
  const SequenceId runs = Add(kLocal, 7, 12);
  ASSERT_TRUE(Step());
  const SequenceId older = Add(kReserved, 4, 4);
  const SequenceId younger = Add(kReserved, 4, 4);
  while (Step()) {
  }
  EXPECT_EQ(Count<RevokedEvent>(younger), 1);
  EXPECT_EQ(Count<RevokedEvent>(older), 0);
  const int tokens = Count<TokenEvent>(runs);
  EXPECT_FALSE(Step());  // stands still until the lease comes back
  ReturnLease(younger);
  EXPECT_TRUE(Step());
  EXPECT_EQ(Count<TokenEvent>(runs), tokens + 1);
}

// A peer that reads them may hang.
TEST_F(SchedulerMemoryTest, BlocksThatAPeerReadsAreNotWaitedFor) {
  options_.max_prefill_tokens = 8;
  Start(9);
  const SequenceId a = Add(kLocal, 4, 12);
  const SequenceId b = Add(kLocal, 4, 12);
  ASSERT_TRUE(Step());
  const SequenceId prompt = Add(SequenceKind::kPrefill, 12, 4);
  ASSERT_TRUE(Step());
  ASSERT_GE(Count<BlocksProven>(prompt), 1);
  Cancel(prompt);
  StepAll();
  EXPECT_EQ(Count<DetachEvent>(prompt), 1);
  EXPECT_EQ(Last<FinishedEvent>(a)->reason, FinishReason::kLength);
  EXPECT_EQ(Last<FinishedEvent>(b)->reason, FinishReason::kLength);
  EXPECT_GE(Last<FinishedEvent>(b)->preemptions, 1);
  ReturnLease(prompt);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerMemoryTest, TheYoungestIsPreemptedAndTheOldestNever) {
  Start(6);
  const SequenceId a = Add(kLocal, 4, 16);
  const SequenceId b = Add(kLocal, 4, 12);
  const SequenceId c = Add(kLocal, 4, 8);
  StepAll();
  for (const SequenceId id : {a, b, c}) {
    EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kLength);
  }
  EXPECT_EQ(Last<FinishedEvent>(a)->preemptions, 0);
  EXPECT_GE(Last<FinishedEvent>(c)->preemptions, 1);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerMemoryTest, NoReservationIsGrantedWhileAPreemptedOneWaits) {
  Start(5);
  const SequenceId a = Add(kLocal, 6, 10);
  const SequenceId b = Add(kLocal, 6, 4);
  while (state_[b] != SequenceState::kPreempted) ASSERT_TRUE(Step());
  const SequenceId reservation = Add(kReserved, 1, 4);  // one block would be free
  while (Count<FinishedEvent>(a) == 0) {
    ASSERT_TRUE(Step());
    if (StateOf(b) == SequenceState::kPreempted) {
      ASSERT_EQ(Count<BlocksGranted>(reservation), 0);
    }
  }
  StepAll();
  EXPECT_EQ(Count<TokenEvent>(b), 4);
  EXPECT_EQ(Count<BlocksGranted>(reservation), 1);
}

TEST_F(SchedulerMemoryTest, APrefillIsNeverAVictim) {
  Start(5);
  const SequenceId local = Add(kLocal, 4, 12);
  ASSERT_TRUE(Step());
  const SequenceId prefill = Add(kPrefill, 8, 2);
  StepAll();  // the local one needs the blocks that the prefill leases
  EXPECT_EQ(Count<RevokedEvent>(prefill), 0);
  EXPECT_EQ(scheduler_->figures().preemptions, 0u);
  EXPECT_EQ(StateOf(local), SequenceState::kDecoding);
  ReturnLease(prefill);
  StepAll();
  EXPECT_EQ(Last<FinishedEvent>(local)->reason, FinishReason::kLength);
}

TEST_F(SchedulerMemoryTest, ALeaseReturnedLateKeepsItsBlocksInQuarantine) {
  Start(4);
  const SequenceId id = Add(kReserved, 15, 1);
  Step();
  ASSERT_EQ(Count<BlocksGranted>(id), 1);
  Cancel(id);
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kAborted);
  EXPECT_EQ(Count<DetachEvent>(id), 1);
  EXPECT_EQ(pool_->num_quarantined(), 4);
  const SequenceId next = Add(kLocal, 4, 2);
  EXPECT_FALSE(Step());
  ReturnLease(id);
  EXPECT_TRUE(Step());
  StepAll();
  EXPECT_NE(Last<FinishedEvent>(next), nullptr);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerMemoryTest, ACommitThatCrossesARevocationReturnsTheLease) {
  Start(3);
  const SequenceId runs = Add(kLocal, 3, 8);
  ASSERT_TRUE(Step());
  const SequenceId id = Add(kReserved, 4, 1);
  while (Step()) {
  }
  ASSERT_EQ(Count<RevokedEvent>(id), 1);
  EXPECT_EQ(pool_->num_quarantined(), 1);
  CommitImport(id);
  EXPECT_EQ(pool_->num_quarantined(), 0);
  EXPECT_EQ(StateOf(id), SequenceState::kFailed);
  EXPECT_EQ(Count<FinishedEvent>(id), 0);
  StepAll();
  EXPECT_EQ(Last<FinishedEvent>(runs)->reason, FinishReason::kLength);
}

TEST_F(SchedulerMemoryTest, AReceiverMayMatchAllFullBlocksAndAComputerNotTheLastToken) {
  Start(20, /*caching=*/true);
  const SequenceId first = Add(Spec(kLocal, 8, 1));
  StepAll();
  ASSERT_NE(Last<FinishedEvent>(first), nullptr);
  const SequenceId receiver = Add(Spec(kReserved, 8, 4));
  Step();
  EXPECT_EQ(Last<BlocksGranted>(receiver)->cached_blocks, 2);
  EXPECT_TRUE(Last<BlocksGranted>(receiver)->lease.empty());
  const SequenceId computer = Add(Spec(kLocal, 8, 1));
  StepAll();
  EXPECT_EQ(Last<FinishedEvent>(computer)->cached_tokens, 4);
}

TEST_F(SchedulerMemoryTest, ImportedBlocksEnterTheCacheOnlyWithTheCommit) {
  Start(20, /*caching=*/true);
  const SequenceId a = Add(Spec(kReserved, 8, 4));
  const SequenceId b = Add(Spec(kReserved, 8, 4));
  Step();
  EXPECT_EQ(Last<BlocksGranted>(b)->cached_blocks, 0);
  CommitImport(a);
  const SequenceId c = Add(Spec(kReserved, 8, 4));
  Step();
  EXPECT_EQ(Last<BlocksGranted>(c)->cached_blocks, 2);
}

TEST_F(SchedulerMemoryTest, SaltsSeparateTenants) {
  Start(20, /*caching=*/true);
  SequenceSpec spec = Spec(kLocal, 8, 1);
  spec.cache_salt = "a";
  Add(spec);
  StepAll();
  const SequenceId same = Add(spec);
  spec.cache_salt = "b";
  const SequenceId other = Add(spec);
  StepAll();
  EXPECT_EQ(Last<FinishedEvent>(same)->cached_tokens, 4);
  EXPECT_EQ(Last<FinishedEvent>(other)->cached_tokens, 0);
}

}  // namespace
}  // namespace baton
