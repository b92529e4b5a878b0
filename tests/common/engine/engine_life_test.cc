// Ends, leases, faults and the engine's own end.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "tests/common/engine/harness.h"
#include "tests/fakes/eventually.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

// A clock by which telling what a plan has changed takes time.
class SlowTellingClock final : public base::Clock {
 public:
  explicit SlowTellingClock(base::Duration telling) : telling_(telling) {}
  base::Instant Now() const override { return clock_.Now(); }
  double UnixNow() const override {
    clock_.Advance(telling_);
    return clock_.UnixNow();
  }

 private:
  const base::Duration telling_;
  mutable base::ManualClock clock_;
};

TEST(EngineLifeTest, APromptThatWasHeldForCompanyStartsAlsoIfItsTimePassesAtOnce) {
  const SlowTellingClock clock(milliseconds(10));
  auto options = Defaults();
  options.clock = &clock;
  options.engine.prefill_batch_wait = milliseconds(5);
  EngineHarness harness(options);
  EXPECT_EQ(harness.Generate(MakeSpec(10, 5)).size(), 5u);
}

TEST(EngineLifeTest, CancelInEachStateReturnsTheBlocks) {
  auto options = Defaults();
  options.engine.max_num_seqs = 2;
  options.engine.max_prefill_tokens = 2;
  EngineHarness harness(options);
  harness.control().Pause();
  const SequenceId prefilling = harness.Admit(MakeSpec(30, 20, 0));
  const SequenceId reserved = harness.Admit(MakeSpec(30, 20, 1, SequenceKind::kReserved));
  const SequenceId queued = harness.Admit(MakeSpec(30, 20, 2));
  const SequenceId in_line = harness.Admit(MakeSpec(30, 20, 3, SequenceKind::kReserved));
  ASSERT_TRUE(harness.PollUntil([](const EngineFigures& f) { return f.running == 1; }));
  for (const SequenceId id : {prefilling, reserved, queued, in_line}) {
    harness.engine().Cancel(id);
    harness.engine().Cancel(id);
  }
  harness.control().Resume();
  for (const SequenceId id : {prefilling, reserved, queued, in_line}) {
    ASSERT_TRUE(harness.RunUntilOver(id));
    EXPECT_EQ(harness.seen(id).finished->reason, FinishReason::kAborted);
  }
  if (harness.seen(reserved).detached) harness.engine().ReturnLease(reserved);
  EXPECT_TRUE(harness.AllBlocksBack());
}

TEST(EngineLifeTest, CancelWhileDecodingStopsAtTheNextStep) {
  EngineHarness harness(Defaults());
  const SequenceId id = harness.Admit(MakeSpec(10, 200));
  ASSERT_TRUE(harness.RunUntil([&] { return harness.seen(id).tokens.size() >= 2; }));
  harness.engine().Cancel(id);
  ASSERT_TRUE(harness.RunUntilOver(id));
  const auto reason = harness.seen(id).finished->reason;
  EXPECT_TRUE(reason == FinishReason::kAborted || reason == FinishReason::kLength);
  EXPECT_TRUE(harness.AllBlocksBack());
}

TEST(EngineLifeTest, ALeaseThatComesBackLateKeepsItsBlocksQuarantined) {
  EngineHarness harness(Defaults());
  const SequenceId id = harness.Admit(MakeSpec(30, 20, 0, SequenceKind::kReserved));
  ASSERT_TRUE(harness.RunUntil([&] { return harness.seen(id).reserved.has_value(); }));
  EXPECT_EQ(harness.figures().reserved, 1);
  harness.engine().Cancel(id);
  ASSERT_TRUE(harness.RunUntil([&] { return harness.seen(id).detached; }));
  EXPECT_EQ(harness.figures().blocks_quarantined, 8);
  EXPECT_EQ(harness.figures().blocks_free, 56);
  const auto other = harness.Generate(MakeSpec(10, 5, 1));  // must not touch them
  for (const LeasedBlock& block : harness.seen(id).reserved->lease) {
    std::ranges::fill(block.bytes, std::byte{0xAB});
  }
  EXPECT_EQ(harness.Generate(MakeSpec(10, 5, 1)), other);
  harness.engine().ReturnLease(id);
  harness.engine().ReturnLease(id);
  EXPECT_TRUE(harness.AllBlocksBack());
}

TEST(EngineLifeTest, APrefillKeepsItsBlocksUntilTheLeaseIsReturned) {
  EngineHarness harness(Defaults());
  const SequenceId id = harness.Admit(MakeSpec(30, 20, 0, SequenceKind::kPrefill));
  ASSERT_TRUE(harness.RunUntilOver(id));
  EXPECT_EQ(harness.seen(id).tokens.size(), 1u);
  EXPECT_EQ(harness.figures().blocks_used, 8);
  EXPECT_EQ(harness.figures().running, 0);
  harness.engine().ReturnLease(id);
  EXPECT_TRUE(harness.AllBlocksBack());
}

TEST(EngineLifeTest, TheLastBlockSaysHowManyOfItsPositionsAreInUse) {
  for (const int32_t length : {9, 10, 12}) {
    EngineHarness harness(Defaults());
    const SequenceId id = harness.Admit(MakeSpec(length, 2, 0, SequenceKind::kPrefill));
    ASSERT_TRUE(harness.RunUntilOver(id));
    EXPECT_EQ(harness.seen(id).ready.size(), 3u);
    EXPECT_EQ(harness.seen(id).last_block_tokens, length - 8);
    harness.engine().ReturnLease(id);
  }
}

TEST(EngineLifeTest, DeadlinesEndRequestsWithoutOtherTraffic) {
  base::ManualClock clock;
  auto options = Defaults();
  options.clock = &clock;
  EngineHarness harness(options);
  SequenceSpec spec = MakeSpec(30, 20, 0, SequenceKind::kReserved);
  spec.deadline = clock.Now() + milliseconds(100);
  const SequenceId id = harness.Admit(spec);
  ASSERT_TRUE(harness.RunUntil([&] { return harness.seen(id).reserved.has_value(); }));
  clock.Advance(milliseconds(100));
  ASSERT_TRUE(harness.RunUntil([&] { return harness.seen(id).detached; }));
  EXPECT_EQ(harness.seen(id).finished->reason, FinishReason::kDeadline);
  EXPECT_EQ(harness.figures().reservations_expired, 1u);
  harness.engine().ReturnLease(id);
  EXPECT_TRUE(harness.AllBlocksBack());
}

TEST(EngineLifeTest, TheReservationLineAnswersFullAfterItsDeadline) {
  base::ManualClock clock;
  auto options = Defaults();
  options.clock = &clock;
  options.num_blocks = 10;
  EngineHarness harness(options);
  const SequenceId holder = harness.Admit(MakeSpec(30, 5, 0, SequenceKind::kReserved));
  SequenceSpec spec = MakeSpec(30, 5, 1, SequenceKind::kReserved);
  spec.reserve_timeout = std::chrono::seconds(5);
  const SequenceId id = harness.Admit(spec);
  ASSERT_TRUE(
      harness.PollUntil([](const EngineFigures& f) { return f.reserved == 1 && f.waiting == 1; }));
  clock.Advance(std::chrono::seconds(5));
  ASSERT_TRUE(harness.RunUntilOver(id));
  EXPECT_EQ(ReasonOf(*harness.seen(id).refused), Reason::kFull);
  harness.engine().Cancel(holder);
  harness.engine().ReturnLease(holder);
  EXPECT_TRUE(harness.AllBlocksBack());
}

TEST(EngineLifeTest, ADeviceFaultEndsTheEngine) {
  EngineHarness harness(Defaults());
  harness.control().FailNextStep();
  harness.Admit(MakeSpec(10, 5));
  ASSERT_TRUE(harness.RunUntil([&] { return harness.fault().has_value(); }));
  EXPECT_EQ(ReasonOf(*harness.fault()), Reason::kDeviceFault);
  EXPECT_FALSE(harness.figures().healthy);
  const auto refused = harness.engine().Admit(MakeSpec(10, 5));
  EXPECT_EQ(ReasonOf(refused.status()), Reason::kDeviceFault);
  harness.engine().Stop();
  EXPECT_FALSE(harness.engine().events().TryPop());  // nothing follows a fault
  EXPECT_TRUE(harness.engine().events().closed());
}

TEST(EngineLifeTest, AStalledStepEndsTheEngine) {
  base::ManualClock clock;
  auto options = Defaults();
  options.clock = &clock;
  options.engine.stall_timeout = milliseconds(80);
  EngineHarness harness(options);
  harness.control().Pause();
  harness.Admit(MakeSpec(10, 5));
  ASSERT_TRUE(harness.PollUntil([](const EngineFigures& f) { return f.running == 1; }));
  EXPECT_GE(harness.AdvanceUntilFault(&clock), 3);  // 80 ms had to pass
  ASSERT_TRUE(harness.fault().has_value());
  EXPECT_FALSE(harness.figures().healthy);
  harness.control().Resume();
  harness.engine().Stop();
}

TEST(EngineLifeTest, AnIdleEngineNeverStalls) {
  base::ManualClock clock;
  auto options = Defaults();
  options.clock = &clock;
  options.engine.stall_timeout = milliseconds(8);
  EngineHarness harness(options);
  harness.Generate(MakeSpec(10, 5));
  for (int32_t i = 0; i < 50; ++i) {
    clock.Advance(milliseconds(8));
    harness.PollUntil([&, polls = 0](const EngineFigures&) mutable { return ++polls > 2; });
  }
  EXPECT_TRUE(harness.figures().healthy);
  EXPECT_EQ(harness.Generate(MakeSpec(10, 5)).size(), 5u);
}

TEST(EngineLifeTest, DrainRefusesNewOnesAndFinishesTheRest) {
  EngineHarness harness(Defaults());
  harness.control().Pause();
  const SequenceId id = harness.Admit(MakeSpec(10, 20));
  harness.engine().Drain();
  const auto refused = harness.engine().Admit(MakeSpec(10, 5));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused.status()), Reason::kDraining);
  harness.control().Resume();
  ASSERT_TRUE(harness.RunUntilOver(id));
  EXPECT_EQ(harness.seen(id).tokens.size(), 20u);
}

TEST(EngineLifeTest, StopEndsEverySequenceAndClosesTheEvents) {
  EngineHarness harness(Defaults());
  const SequenceId running = harness.Admit(MakeSpec(10, 200, 0));
  const SequenceId reserved = harness.Admit(MakeSpec(10, 20, 1, SequenceKind::kReserved));
  ASSERT_TRUE(harness.RunUntil([&] { return harness.seen(reserved).reserved.has_value(); }));
  harness.engine().Stop();
  harness.engine().Stop();
  harness.ReadAll();
  EXPECT_TRUE(harness.seen(running).over());
  EXPECT_EQ(harness.seen(reserved).finished->reason, FinishReason::kAborted);
  EXPECT_TRUE(harness.seen(reserved).detached);
  EXPECT_TRUE(harness.engine().events().closed());
  EXPECT_FALSE(harness.engine().Admit(MakeSpec(10, 5)).ok());
  harness.engine().Cancel(running);  // harmless
}

TEST(EngineLifeTest, StopDoesNotWaitForAnOwnerThatReadsNothing) {
  auto options = Defaults();
  options.engine.max_model_len = 6000;
  options.num_blocks = 1500;
  EngineHarness harness(options);
  SequenceSpec spec = MakeSpec(10, 5900);
  spec.stop.eos_policy = EosPolicy::kIgnoreContinue;
  harness.Admit(spec);
  const size_t capacity = harness.engine().events().capacity();
  // The engine then waits for room.
  EXPECT_TRUE(Eventually([&] { return harness.engine().events().size() == capacity; },
                         std::chrono::seconds(20)));
  harness.engine().Stop();
}

TEST(EngineLifeTest, TokensCarryTheirSignalLogprobsAndTime) {
  EngineHarness harness(Defaults());
  SequenceSpec spec = MakeSpec(10, 4);
  spec.sampling.num_top_logprobs = 3;
  const SequenceId id = harness.Admit(spec);
  ASSERT_TRUE(harness.RunUntilOver(id));
  for (const SampledToken& token : harness.seen(id).samples) {
    EXPECT_EQ(token.top_logprobs.size(), 3u);
    EXPECT_LT(token.eos.eos_logprob, 0);
    EXPECT_GT(token.eos.eos_rank, 0);
  }
}

TEST(EngineLifeTest, FiguresCountEveryBlockAtEveryStep) {
  auto options = Defaults();
  options.num_blocks = 24;
  EngineHarness harness(options);
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < 6; ++i) ids.push_back(harness.Admit(MakeSpec(12, 30, i)));
  const auto all_over = [&] {
    const EngineFigures f = harness.figures();
    EXPECT_EQ(f.blocks_free + f.blocks_cached + f.blocks_quarantined + f.blocks_used,
              f.blocks_total);
    return std::ranges::all_of(ids, [&](SequenceId id) { return harness.seen(id).over(); });
  };
  ASSERT_TRUE(harness.RunUntil(all_over));
  EXPECT_EQ(harness.figures().generated_tokens, 180u);
}

TEST(EngineLifeTest, AFailpointMakesASlowerDevice) {
  EngineHarness harness(Defaults());
  ASSERT_TRUE(base::ArmFailpoints("stepping:delay_ms=20").ok());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(harness.Generate(MakeSpec(4, 3)).size(), 3u);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(3 * 20));
  base::DisarmFailpoints();
}

}  // namespace
}  // namespace baton
