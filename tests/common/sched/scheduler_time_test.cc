// Deadlines, waits and places: what passes with time, and who may run at once.
#include "common/base/status.h"
#include "tests/common/sched/scheduler_fixture.h"

namespace baton {
namespace {

using SchedulerTimeTest = SchedulerTest;
using std::chrono::milliseconds;
TEST_F(SchedulerTimeTest, TheDeadlineEndsEveryState) {
  options_.max_prefill_tokens = 4;
  Start(16);
  const auto with_deadline = [&](SequenceKind kind, int32_t prompt) {
    SequenceSpec spec = Spec(kind, prompt, 5);
    spec.deadline = now_ + milliseconds(10);
    return Add(spec);
  };
  const SequenceId decoding = with_deadline(kLocal, 4);
  Step();
  const SequenceId reserved = with_deadline(kReserved, 4);
  const SequenceId prefilling = with_deadline(kLocal, 12);
  Step();
  const SequenceId queued = with_deadline(kLocal, 4);
  now_ += milliseconds(9);
  Expire();
  EXPECT_EQ(Count<FinishedEvent>(queued), 0);
  EXPECT_EQ(scheduler_->NextWake(now_), now_ + milliseconds(1));
  now_ += milliseconds(1);
  Expire();
  for (const SequenceId id : {queued, reserved, prefilling, decoding}) {
    ASSERT_EQ(Count<FinishedEvent>(id), 1) << id.value();
    EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kDeadline);
    EXPECT_EQ(Last<FinishedEvent>(id)->status.code(), absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_EQ(scheduler_->figures().reservations_expired, 1u);
  ReturnLease(reserved);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerTimeTest, TheReservationLineEndsWithFull) {
  Start(4);
  const SequenceId runs = Add(kLocal, 10, 6);
  ASSERT_TRUE(Step());
  SequenceSpec spec = Spec(kReserved, 10, 4);
  spec.reserve_timeout = milliseconds(50);
  const SequenceId id = Add(spec);
  Step();
  EXPECT_EQ(scheduler_->NextWake(now_), now_ + milliseconds(50));
  now_ += milliseconds(50);
  Expire();
  ASSERT_EQ(Count<RefusedEvent>(id), 1);
  EXPECT_EQ(ReasonOf(Last<RefusedEvent>(id)->status), Reason::kFull);
  EXPECT_EQ(scheduler_->NextWake(now_), base::kNever);
  Cancel(runs);
}

TEST_F(SchedulerTimeTest, ADeadlineInTheLineIsARefusal) {
  Start(4);
  const SequenceId runs = Add(kLocal, 10, 6);
  ASSERT_TRUE(Step());
  SequenceSpec spec = Spec(kReserved, 10, 4);
  spec.deadline = now_ + milliseconds(5);
  const SequenceId id = Add(spec);
  now_ += milliseconds(5);
  Expire();
  ASSERT_EQ(Count<RefusedEvent>(id), 1);
  EXPECT_EQ(Last<RefusedEvent>(id)->status.code(), absl::StatusCode::kDeadlineExceeded);
  Cancel(runs);
}

TEST_F(SchedulerTimeTest, APrefillBatchWaitsToFillButNoLongerThanAsked) {
  options_.prefill_batch_wait = milliseconds(20);
  options_.max_prefill_tokens = 20;
  Start(32);
  const SequenceId first = Add(kLocal, 8, 2);
  EXPECT_FALSE(Step());
  EXPECT_EQ(scheduler_->NextWake(now_), now_ + milliseconds(20));
  now_ += milliseconds(10);
  const SequenceId second = Add(kLocal, 8, 2);
  EXPECT_FALSE(Step());  // 16 of 20 tokens
  now_ += milliseconds(10);
  const StepPlan plan = Plan();
  EXPECT_EQ(plan.rows.size(), 2u);
  Commit(plan);
  StepAll();
  EXPECT_EQ(Count<TokenEvent>(first) + Count<TokenEvent>(second), 4);
}

TEST_F(SchedulerTimeTest, AFullPrefillBatchDoesNotWait) {
  options_.prefill_batch_wait = milliseconds(20);
  options_.max_prefill_tokens = 16;
  Start(32);
  Add(kLocal, 8, 2);
  Add(kLocal, 8, 2);
  EXPECT_TRUE(Step());
}

TEST_F(SchedulerTimeTest, ReservationsDoNotWaitForThePrefillBatch) {
  options_.prefill_batch_wait = milliseconds(20);
  Start(32);
  Add(kLocal, 8, 2);
  const SequenceId id = Add(kReserved, 8, 2);
  Step();
  EXPECT_EQ(Count<BlocksGranted>(id), 1);
}

TEST_F(SchedulerTimeTest, RunningAndReservedCountAgainstMaxNumSeqs) {
  options_.max_num_seqs = 2;
  Start(32);
  Add(kLocal, 4, 5);
  const SequenceId reserved = Add(kReserved, 4, 5);
  const SequenceId third = Add(kLocal, 4, 5);
  for (int i = 0; i < 4; ++i) Step();
  EXPECT_EQ(Count<BlocksGranted>(reserved), 1);
  EXPECT_EQ(Count<StateEvent>(third), 0);
  Cancel(reserved);
  Step();
  EXPECT_EQ(StateOf(third), SequenceState::kDecoding);
}

}  // namespace
}  // namespace baton
