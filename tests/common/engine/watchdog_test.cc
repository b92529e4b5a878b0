// What is a stall of the engine's thread and what is none.
#include "common/engine/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>

#include "absl/synchronization/notification.h"
#include "common/base/status.h"
#include "tests/common/engine/harness.h"
#include "tests/fakes/eventually.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

constexpr auto kTimeout = milliseconds(8);

// A device that is told what it finished. Counts the watchdog's looks.
class SilentRunner final : public ModelRunner {
 public:
  absl::Status Submit(const StepPlan&) override { return absl::OkStatus(); }
  absl::StatusOr<StepOutput> Wait() override { return StepOutput(); }
  uint64_t operations_finished() const override {
    ++looks;
    if (works_at_every_third_look && looks % 3 == 0) works_at_every_third_look.load()->Works();
    return operations;
  }
  int32_t max_in_flight() const override { return 1; }

  mutable std::atomic<uint64_t> looks{0};
  std::atomic<uint64_t> operations{0};
  std::atomic<Watchdog*> works_at_every_third_look{nullptr};
};

class WatchdogTest : public testing::Test {
 protected:
  // Until the watchdog has looked so often again.
  bool Looks(uint64_t more) {
    return Eventually([this, until = runner_.looks + more] { return runner_.looks >= until; });
  }

  SilentRunner runner_;
  base::ManualClock clock_;
  std::atomic<int> stalls_{0};
  Watchdog watchdog_{[this] { return runner_.operations_finished(); }, &clock_, kTimeout,
                     [this] { ++stalls_; }};
};

TEST_F(WatchdogTest, WorkWithoutASignOfLifeIsAStallAndIsToldOnce) {
  watchdog_.Works();
  ASSERT_TRUE(Looks(8));
  EXPECT_EQ(stalls_, 0) << "no time has passed";
  clock_.Advance(kTimeout);
  EXPECT_TRUE(Eventually([this] { return stalls_ == 1; }));
}

TEST_F(WatchdogTest, RestIsNoStallHoweverLong) {
  watchdog_.Works();
  watchdog_.Rests();
  for (int i = 0; i < 10; ++i) {
    clock_.Advance(kTimeout);
    ASSERT_TRUE(Looks(2));
  }
  EXPECT_EQ(stalls_, 0);
  watchdog_.Works();
  ASSERT_TRUE(Looks(2));
  clock_.Advance(kTimeout);
  EXPECT_TRUE(Eventually([this] { return stalls_ == 1; }));
}

TEST_F(WatchdogTest, EveryPieceOfWorkAndOfAStepIsASignOfLife) {
  for (int i = 0; i < 10; ++i) {
    watchdog_.Works();
    ASSERT_TRUE(Looks(2));
    clock_.Advance(kTimeout * 3 / 4);
    ++runner_.operations;
    ASSERT_TRUE(Looks(2));
    clock_.Advance(kTimeout * 3 / 4);
  }
  EXPECT_EQ(stalls_, 0);
}

TEST_F(WatchdogTest, AProcessThatWasStoppedForLongIsNoStall) {
  watchdog_.Works();
  runner_.works_at_every_third_look = &watchdog_;
  for (int i = 0; i < 10; ++i) {
    clock_.Advance(100 * kTimeout);
    ASSERT_TRUE(Looks(4));
  }
  EXPECT_EQ(stalls_, 0);
}

// Where this process's planning, or what follows a commit, hangs until it is let go.
struct Hang {
  std::atomic<bool> armed{false};
  absl::Notification reached, go;
  void Pass() {
    if (!armed.exchange(false)) return;
    reached.Notify();
    go.WaitForNotification();
  }
};

// The engine reads the time of the day only when it tells what a plan or a commit brought about.
class HangingClock final : public base::Clock {
 public:
  base::Instant Now() const override { return manual.Now(); }
  double UnixNow() const override {
    hang.Pass();
    return manual.UnixNow();
  }
  base::ManualClock manual;
  mutable Hang hang;
};

// Fails unless the engine ends with a fault while `hang` holds it.
void ExpectStall(EngineHarness* harness, base::ManualClock* clock, Hang* hang) {
  const bool reached = hang->reached.WaitForNotificationWithTimeout(absl::Seconds(10));
  hang->armed = false;
  ASSERT_TRUE(reached);
  harness->AdvanceUntilFault(clock);
  const std::optional<absl::Status> fault = harness->fault();
  hang->go.Notify();
  harness->engine().Stop();
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(ReasonOf(*fault), Reason::kDeviceFault);
  EXPECT_FALSE(harness->figures().healthy);
}

TEST(EngineStallTest, WhatFollowsACommitAndHangsIsAStall) {
  HangingClock clock;
  auto options = Defaults();
  options.clock = &clock;
  options.engine.stall_timeout = milliseconds(80);
  EngineHarness harness(options);
  harness.control().Pause();
  harness.Admit(MakeSpec(10, 200));
  ASSERT_TRUE(harness.PollUntil([](const EngineFigures& f) { return f.running == 1; }));
  clock.hang.armed = true;
  harness.control().Resume();
  ExpectStall(&harness, &clock.manual, &clock.hang);
}

// A policy has no state of its own.
Hang* hang_of_policy = nullptr;

TEST(EngineStallTest, PlanningThatHangsIsAStall) {
  Hang hang;
  hang_of_policy = &hang;
  base::ManualClock clock;
  auto options = Defaults();
  options.clock = &clock;
  options.engine.stall_timeout = milliseconds(80);
  options.engine.policy.starts_before = [](const SequenceView& a, const SequenceView& b,
                                           const PolicyMoment&) {
    hang_of_policy->Pass();
    return a.id < b.id;
  };
  EngineHarness harness(options);
  harness.control().Pause();
  harness.Admit(MakeSpec(10, 200));
  ASSERT_TRUE(harness.PollUntil([](const EngineFigures& f) { return f.running == 1; }));
  hang.armed = true;
  for (int32_t i = 1; i < 4; ++i) harness.Admit(MakeSpec(10, 200, i));
  harness.control().Resume();
  ExpectStall(&harness, &clock, &hang);
}

}  // namespace
}  // namespace baton
