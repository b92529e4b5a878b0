// Attempts that come to nothing although nothing broke: what they cost the request, and what bounds
// them.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/router/faults_fixture.h"

namespace baton::testing {
namespace {

class UnbrokenAttemptsTest : public FaultsTest {};

TEST_F(UnbrokenAttemptsTest, RevokedExpiredAndDrainedAttemptsAreNotCounted) {
  const std::vector<std::pair<Reason, std::string>> ends = {
      {Reason::kRevoked, "revoked"}, {Reason::kExpired, "expired"}, {Reason::kDrained, "draining"}};
  for (const auto& [reason, outcome] : ends) {
    const auto left = std::make_shared<std::atomic<int>>(7);
    decode_.clear();
    prefill_.clear();
    router_.reset();
    StartSplit([left, reason = reason](const FakeMoment& moment) {
      const bool here = moment.point == FakePoint::kToken;
      if (!here || left->fetch_sub(1) <= 0) return FakeAction::Go();
      return FakeAction::Fail(WithReason(absl::StatusCode::kAborted, reason));
    });
    ExpectUndisturbed(Generate(Request("fault", 12)), 1);  // nothing broke
    EXPECT_EQ(Metric("baton_attempts_total{outcome=\"" + outcome + "\""), 7);
  }
}

TEST_F(UnbrokenAttemptsTest, FullDecodeWorkersAreTriedAgainUntilOneHasRoom) {
  const auto left = std::make_shared<std::atomic<int>>(6);
  StartSplit([=](const FakeMoment& moment) {
    if (moment.point != FakePoint::kDecodeOpen || left->fetch_sub(1) <= 0) return FakeAction::Go();
    return FakeAction::Fail(WithReason(absl::StatusCode::kResourceExhausted, Reason::kFull));
  });
  ExpectUndisturbed(Generate(Request("fault", 12)), 1);  // nothing broke
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"full\""), 6);
}

// As of a prompt that waited too long at a worker full of reservations: its push was open.
TEST_F(UnbrokenAttemptsTest, PrefillRevokedBehindItsPushGoesBackToTheQueueAndIsNotCounted) {
  const auto left = std::make_shared<std::atomic<int>>(6);
  StartSplit([=](const FakeMoment& moment) {
    if (moment.point != FakePoint::kPrefillOpen || left->fetch_sub(1) <= 0) return FakeAction::Go();
    return FakeAction::Fail(WithReason(absl::StatusCode::kAborted, Reason::kRevoked));
  });
  ExpectUndisturbed(Generate(Request("fault", 12)), 1);
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"revoked\""), 6);
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"push_failed\""), 0);
  EXPECT_EQ(Metric("baton_router_worker_retries_total{outcome=\"accepted\""), 0);
  // One reservation for each prompt: none is offered twice.
  EXPECT_EQ(decode_[0]->decode_streams() + decode_[1]->decode_streams(), 7);
  EXPECT_EQ(prefill_[0]->prefill_streams() + prefill_[1]->prefill_streams(), 7);
}

// What bounds a request in which nothing breaks, and nothing goes on either.
TEST_F(UnbrokenAttemptsTest, WhatIsRevokedAgainAndAgainEndsAtItsDeadline) {
  options_.deadlines.request = std::chrono::milliseconds(400);
  options_.deadlines.full_backoff = std::chrono::milliseconds(50);
  StartSplit([](const FakeMoment& moment) {
    if (moment.point != FakePoint::kDecodeOpen) return FakeAction::Go();
    return FakeAction::Fail(WithReason(absl::StatusCode::kAborted, Reason::kRevoked));
  });
  const Answer answer = Generate(Request("fault", 12));
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kDeadlineExceeded) << answer.status;
  const double revoked = Metric("baton_attempts_total{outcome=\"revoked\"");
  EXPECT_GT(revoked, 2);
  EXPECT_LE(revoked, 2 * (400 / 50 + 1)) << "each worker is asked again after a while only";
}

TEST_F(UnbrokenAttemptsTest, RowsOfAttemptsInWhichNothingBrokeHaveNumbersOfTheirOwn) {
  StartSplit(
      OneFault{FakePoint::kToken, 5,
               FakeAction::Fail(WithReason(absl::StatusCode::kUnavailable, Reason::kDrained))});
  ExpectUndisturbed(Generate(Request("fault", 12)), 1);
  std::vector<int32_t> numbers;
  for (const auto& worker : decode_) {
    for (const auto& generation : worker->seen()) numbers.push_back(generation.attempt());
  }
  EXPECT_THAT(numbers, ::testing::UnorderedElementsAre(1, 2));
}

class TooLongTest : public FaultsTest, public ::testing::WithParamInterface<FakePoint> {
 protected:
  // So many workers of the kind that is asked at the point find everything too long.
  void StartTooLong(int refusing) {
    const FakePoint point = GetParam();
    for (int i = 0; i < 6; ++i) {
      const auto script = [=](const FakeMoment& moment) {
        if (moment.point != point || i >= refusing) return FakeAction::Go();
        return FakeAction::Fail(InvalidArgument(Reason::kTooLong, "max_tokens", "no"));
      };
      AddDecode([&](FakeWorkerOptions& worker) { worker.script = script; });
      AddPrefill([&](FakeWorkerOptions& worker) { worker.script = script; });
    }
    StartRouter();
  }
};

// More of them than the attempts that a request has, and none is asked twice.
TEST_P(TooLongTest, IsTheAffairOfTheWorkersThatSaySo) {
  StartTooLong(5);
  ExpectUndisturbed(Generate(Request("fault", 12)), 1);
  EXPECT_LE(Metric("baton_attempts_total{outcome=\"too_long\""), 5);
  ExpectUndisturbed(Generate(Request("fault", 12)), 1);
  for (const auto& worker : decode_) EXPECT_LE(worker->decode_streams(), 12);
}

TEST_P(TooLongTest, EverywhereIsAWorkerThatIsMissing) {
  options_.deadlines.no_worker = std::chrono::milliseconds(200);
  StartTooLong(6);
  const Answer answer = Generate(Request("fault", 12));
  EXPECT_EQ(Metric("baton_attempts_total{outcome=\"too_long\""), 6) << "each was asked once";
  // Without a prefill worker a decode worker computes the prompt itself.
  if (GetParam() == FakePoint::kPrefillOpen) return ExpectUndisturbed(answer, 1);
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable) << answer.status;
  EXPECT_EQ(ReasonText(answer.status), "NO_WORKER");
  EXPECT_THAT(std::string(answer.status.message()),
              ::testing::HasSubstr("6 that should have room for it found it too"));
}

INSTANTIATE_TEST_SUITE_P(Points, TooLongTest,
                         ::testing::Values(FakePoint::kDecodeOpen, FakePoint::kPrefillOpen),
                         [](const auto& test) {
                           return test.param == FakePoint::kDecodeOpen ? "Decode" : "Prefill";
                         });

}  // namespace
}  // namespace baton::testing
