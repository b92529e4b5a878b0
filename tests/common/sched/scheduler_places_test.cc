// How many sequences a worker lets routers send, and the order and patience of its line.
#include "tests/common/sched/scheduler_fixture.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

class SchedulerPlacesTest : public SchedulerTest {
 protected:
  int32_t places() const { return scheduler_->figures().places; }
  SequenceId AddWaited(SequenceKind kind, milliseconds waited, int32_t prompt = 4) {
    SequenceSpec spec = Spec(kind, prompt, 4);
    spec.prompt[0] = 200 + static_cast<int32_t>(last_id_);
    spec.waited = waited;
    spec.reserve_timeout = milliseconds(50);
    return Add(std::move(spec));
  }
};

TEST_F(SchedulerPlacesTest, ThereAreAsManyAsSeatsAndSpareBlocksAllow) {
  Start(100);
  EXPECT_EQ(places(), 8);
  for (int i = 0; i < 11; ++i) Add(kLocal, 4, 20);
  Step();
  EXPECT_EQ(places(), 8);  // three are here that have none
}

TEST_F(SchedulerPlacesTest, FewBlocksAreFewPlaces) {
  Start(5);
  Add(kLocal, 4, 8);
  Step();
  // Four blocks are free, one of them is for the sequence that grows.
  EXPECT_EQ(places(), 4);
}

TEST_F(SchedulerPlacesTest, NothingIsLetInPastOneThatLacksBlocks) {
  Start(8);
  const SequenceId runs = Add(kLocal, 12, 20);
  ASSERT_TRUE(Step());
  const SequenceId big = Add(kReserved, 20, 4);
  Step();
  EXPECT_EQ(places(), 2);
  Cancel(big);
  Step();
  EXPECT_GT(places(), 2);
  Cancel(runs);
}

TEST_F(SchedulerPlacesTest, PromptsThatWaitForCompanyKeepNobodyOut) {
  options_.prefill_batch_wait = milliseconds(20);
  Start(100);
  Add(kLocal, 4, 4);
  Plan();
  EXPECT_EQ(scheduler_->figures().waiting, 1);
  EXPECT_EQ(places(), 8);
}

TEST_F(SchedulerPlacesTest, TheLineGoesByArrivalAtTheRouter) {
  options_.max_num_seqs = 1;
  Start(100);
  const SequenceId runs = AddWaited(kLocal, milliseconds(0));
  Step();
  const SequenceId late = AddWaited(kReserved, milliseconds(10));
  const SequenceId early = AddWaited(kReserved, milliseconds(500));
  Cancel(runs);
  Plan();
  EXPECT_EQ(StateOf(early), SequenceState::kReserved);
  EXPECT_EQ(Count<BlocksGranted>(late), 0);
  Cancel(late);
}

TEST_F(SchedulerPlacesTest, NobodyIsSentAwayWhileSequencesEnd) {
  options_.max_num_seqs = 1;
  Start(100);
  SequenceId runs = AddWaited(kLocal, milliseconds(0));
  Step();
  const SequenceId waits = AddWaited(kReserved, milliseconds(0));
  for (int i = 0; i < 5; ++i) {
    now_ += milliseconds(40);
    const SequenceId next = AddWaited(kLocal, milliseconds(10'000));
    Cancel(runs);
    Step();
    Expire();
    runs = next;
  }
  EXPECT_EQ(Count<RefusedEvent>(waits), 0);  // after 200 ms, of 50
  now_ += milliseconds(50);
  Expire();
  EXPECT_EQ(Count<RefusedEvent>(waits), 1);
  Cancel(runs);
}

// A worker of both roles, all of whose seats wait for other workers.
TEST_F(SchedulerPlacesTest, APromptIsSentAwayWhereReservationsHaveThePlacesAndNoPromptIsComputed) {
  options_.max_num_seqs = 2;
  Start(100);
  const SequenceId reserved = AddWaited(kReserved, milliseconds(0));
  const SequenceId runs = AddWaited(kLocal, milliseconds(0));
  ASSERT_TRUE(Step());
  const SequenceId prompt = AddWaited(kPrefill, milliseconds(0));
  const SequenceId local = AddWaited(kLocal, milliseconds(0));
  now_ += milliseconds(49);
  Expire();
  EXPECT_EQ(Count<RefusedEvent>(prompt), 0);
  EXPECT_EQ(scheduler_->NextWake(now_), now_ + milliseconds(1));
  now_ += milliseconds(1);
  Expire();
  ASSERT_EQ(Count<RefusedEvent>(prompt), 1);
  EXPECT_EQ(ReasonOf(Last<RefusedEvent>(prompt)->status), Reason::kFull);
  EXPECT_EQ(Count<RefusedEvent>(local), 0) << "nobody waits for that one";
  EXPECT_EQ(StateOf(reserved), SequenceState::kReserved);
  Cancel(runs);
}

TEST_F(SchedulerPlacesTest, APromptWaitsAsLongAsOthersAreComputed) {
  options_.max_num_seqs = 2;
  options_.max_prefill_tokens = options_.max_num_batched_tokens = 4;
  Start(100);
  AddWaited(kReserved, milliseconds(0));
  const SequenceId runs = AddWaited(kPrefill, milliseconds(0), 40);
  ASSERT_TRUE(Step());
  const SequenceId prompt = AddWaited(kPrefill, milliseconds(0));
  for (int i = 0; i < 8; ++i) {
    now_ += milliseconds(40);
    ASSERT_TRUE(Step());
    Expire();
  }
  EXPECT_EQ(Count<RefusedEvent>(prompt), 0);  // after 320 ms, of 50
  Cancel(runs);
}

TEST_F(SchedulerPlacesTest, APrefillWorkerSendsNobodyAway) {
  options_.max_num_seqs = 1;
  Start(100);
  const SequenceId runs = AddWaited(kPrefill, milliseconds(0), 8);
  ASSERT_TRUE(Step());
  const SequenceId next = AddWaited(kPrefill, milliseconds(0), 8);
  now_ += milliseconds(10'000);
  Expire();
  EXPECT_EQ(Count<RefusedEvent>(next), 0);
  Cancel(runs);
}

}  // namespace
}  // namespace baton
