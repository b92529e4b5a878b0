#include "router/request/attempt_ledger.h"

#include <gtest/gtest.h>

#include "common/base/status.h"

namespace baton {
namespace {

const base::Instant kNow = base::Instant(std::chrono::hours(1));
constexpr base::Duration kAvoid = std::chrono::seconds(10);

WorkerKey Key(const std::string& address) { return {address, 1}; }
bool Alive(const WorkerKey&) { return true; }
bool Dead(const WorkerKey&) { return false; }

absl::Status Failure(absl::StatusCode code, Reason reason) {
  return MakeError(code, {.reason = reason}, "x");
}

std::optional<absl::Status> VerdictOf(const AttemptLedger& ledger,
                                      const AttemptLedger::IsAlive& alive) {
  return ledger.Verdict(alive, {.counted = 4, .killed = 3, .not_finite = 2},
                        absl::UnavailableError("gone"));
}

TEST(AttemptLedgerTest, ReasonsDecideTheOutcomeBeforeCodes) {
  using Code = absl::StatusCode;
  EXPECT_EQ(OutcomeOfStatus(Failure(Code::kResourceExhausted, Reason::kFull)),
            AttemptOutcome::kFull);
  EXPECT_EQ(OutcomeOfStatus(Failure(Code::kUnavailable, Reason::kDraining)),
            AttemptOutcome::kDraining);
  EXPECT_EQ(OutcomeOfStatus(Failure(Code::kUnavailable, Reason::kPushFailed)),
            AttemptOutcome::kPushFailed);
  EXPECT_EQ(OutcomeOfStatus(Failure(Code::kAborted, Reason::kRevoked)), AttemptOutcome::kRevoked);
  EXPECT_EQ(OutcomeOfStatus(absl::UnavailableError("reset")), AttemptOutcome::kStreamBroken);
  EXPECT_EQ(OutcomeOfStatus(absl::OkStatus()), AttemptOutcome::kStreamBroken);
  EXPECT_EQ(OutcomeOfStatus(absl::InternalError("bug")), AttemptOutcome::kOther);
}

TEST(AttemptLedgerTest, APushThatItsReceiverRefusedEndsAsTheReceiverSays) {
  const auto push_failed = [](const char* why) {
    return MakeError(absl::StatusCode::kUnavailable,
                     {.reason = Reason::kPushFailed, .values = {{"push_reason", why}}}, "x");
  };
  for (const auto& [why, outcome] : {std::pair{"REVOKED", AttemptOutcome::kRevoked},
                                     std::pair{"EXPIRED", AttemptOutcome::kExpired},
                                     std::pair{"DRAINING", AttemptOutcome::kDraining},
                                     std::pair{"DRAINED", AttemptOutcome::kDraining}}) {
    EXPECT_EQ(OutcomeOfStatus(push_failed(why)), outcome) << why;
    EXPECT_TRUE(IsWordOfReceiver(push_failed(why))) << why;
    EXPECT_FALSE(CountsAgainstRequest(OutcomeOfStatus(push_failed(why)))) << why;
  }
  for (const char* why : {"", "UNKNOWN_TICKET", "LAYOUT_MISMATCH", "PUSH_FAILED", "anything"}) {
    EXPECT_EQ(OutcomeOfStatus(push_failed(why)), AttemptOutcome::kPushFailed) << why;
    EXPECT_FALSE(IsWordOfReceiver(push_failed(why))) << why;
  }
  EXPECT_FALSE(IsWordOfReceiver(Failure(absl::StatusCode::kAborted, Reason::kRevoked)));
}

TEST(AttemptLedgerTest, OnlyDeathBreakAndFailedPushCount) {
  for (const auto outcome :
       {AttemptOutcome::kFull, AttemptOutcome::kRevoked, AttemptOutcome::kExpired,
        AttemptOutcome::kDraining, AttemptOutcome::kTooLong}) {
    EXPECT_FALSE(CountsAgainstRequest(outcome)) << AttemptOutcomeName(outcome);
  }
  for (const auto outcome :
       {AttemptOutcome::kStreamBroken, AttemptOutcome::kWorkerDied, AttemptOutcome::kPushFailed,
        AttemptOutcome::kDeviceFault, AttemptOutcome::kNotFinite}) {
    EXPECT_TRUE(CountsAgainstRequest(outcome)) << AttemptOutcomeName(outcome);
  }
}

TEST(AttemptLedgerTest, FourthCountedAttemptIsTheLast) {
  AttemptLedger ledger;
  for (int i = 0; i < 9; ++i) ledger.Record(AttemptOutcome::kFull, {Key("d")}, kNow, kAvoid);
  for (int i = 0; i < 3; ++i) {
    ledger.Record(AttemptOutcome::kStreamBroken, {Key("d")}, kNow, kAvoid);
    EXPECT_FALSE(VerdictOf(ledger, Alive).has_value());
  }
  ledger.Record(AttemptOutcome::kPushFailed, {Key("d")}, kNow, kAvoid);
  const auto verdict = VerdictOf(ledger, Alive);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(*verdict), Reason::kAttemptsExhausted);
}

TEST(AttemptLedgerTest, ThirdDeadProcessEndsTheRequest) {
  AttemptLedger ledger;
  ledger.Record(AttemptOutcome::kStreamBroken, {Key("d1")}, kNow, kAvoid);
  ledger.Record(AttemptOutcome::kStreamBroken, {Key("d2")}, kNow, kAvoid);
  EXPECT_FALSE(VerdictOf(ledger, Dead).has_value());
  ledger.Record(AttemptOutcome::kStreamBroken, {Key("d3")}, kNow, kAvoid);
  EXPECT_FALSE(VerdictOf(ledger, Alive).has_value());
  const auto verdict = VerdictOf(ledger, Dead);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ReasonOf(*verdict), Reason::kRequestKilledWorkers);
}

TEST(AttemptLedgerTest, WhatASecondAttemptCannotComputeEither) {
  const absl::Status end = Failure(absl::StatusCode::kInternal, Reason::kLogitsNotFinite);
  AttemptLedger ledger;
  ledger.Record(OutcomeOfStatus(end), {Key("d1")}, kNow, kAvoid);
  EXPECT_FALSE(VerdictOf(ledger, Alive).has_value());
  EXPECT_TRUE(ledger.Avoid(kNow).contains(Key("d1")));
  ledger.Record(OutcomeOfStatus(end), {Key("d1")}, kNow, kAvoid);
  const auto verdict = VerdictOf(ledger, Alive);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ReasonOf(*verdict), Reason::kLogitsNotFinite);
}

TEST(AttemptLedgerTest, SameProcessIsCountedDeadOnce) {
  AttemptLedger ledger;
  for (int i = 0; i < 3; ++i) {
    ledger.Record(AttemptOutcome::kStreamBroken, {Key("d1")}, kNow, kAvoid);
  }
  EXPECT_FALSE(VerdictOf(ledger, Dead).has_value());
}

TEST(AttemptLedgerTest, CertaintyIsNeededOnlyWhenTheDeathsOfAllSuspectsWouldDecide) {
  AttemptLedger ledger;
  ledger.Record(AttemptOutcome::kStreamBroken, {Key("d1")}, kNow, kAvoid);
  ledger.Record(AttemptOutcome::kStreamBroken, {Key("d2")}, kNow, kAvoid);
  EXPECT_FALSE(ledger.NeedsCertainty(3));
  ledger.Record(AttemptOutcome::kStreamBroken, {Key("d3")}, kNow, kAvoid);
  EXPECT_TRUE(ledger.NeedsCertainty(3));
}

TEST(AttemptLedgerTest, WhoFoundItTooLongIsUnfitForGood) {
  AttemptLedger ledger;
  ledger.Record(AttemptOutcome::kFull, {Key("d1")}, kNow, kAvoid);
  ledger.Record(AttemptOutcome::kTooLong, {Key("d2")}, kNow, kAvoid);
  EXPECT_EQ(ledger.unfit(), std::set<WorkerKey>{Key("d2")});
}

TEST(AttemptLedgerTest, CulpritsAreAvoidedForAWhile) {
  AttemptLedger ledger;
  ledger.Record(AttemptOutcome::kFull, {Key("d1")}, kNow, kAvoid);
  EXPECT_TRUE(ledger.Avoid(kNow).contains(Key("d1")));
  EXPECT_TRUE(ledger.Avoid(kNow + kAvoid).empty());
}

}  // namespace
}  // namespace baton
