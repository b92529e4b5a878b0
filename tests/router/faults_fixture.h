#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "tests/router/router_fixture.h"

namespace baton::testing {

// A fault that happens once, at the `count`th time that some worker is at its point.
struct OneFault {
  FakePoint point;
  int32_t index = -1;  // -1: at any
  FakeAction action;
  std::shared_ptr<std::atomic<int>> left = std::make_shared<std::atomic<int>>(1);

  FakeAction operator()(const FakeMoment& moment) const {
    const bool here = moment.point == point && (index < 0 || moment.index == index);
    if (!here || left->fetch_sub(1) <= 0) return FakeAction::Go();
    return action;
  }
};

inline absl::Status Lost() { return absl::UnavailableError("connection lost"); }
inline absl::Status WithReason(absl::StatusCode code, Reason reason) {
  return MakeError(code, {.reason = reason}, "scripted");
}

class FaultsTest : public RouterTest {
 protected:
  FaultsTest() {
    options_.deadlines.avoid = std::chrono::milliseconds(300);
    options_.deadlines.full_backoff = std::chrono::milliseconds(20);
  }

  void StartSplit(const std::function<FakeAction(const FakeMoment&)>& script, int workers = 2) {
    for (int i = 0; i < workers; ++i) {
      AddDecode([&](FakeWorkerOptions& worker) { worker.script = script; });
      AddPrefill([&](FakeWorkerOptions& worker) { worker.script = script; });
    }
    StartRouter();
  }

  void ExpectUndisturbed(const Answer& answer, int attempts) {
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_THAT(answer.ids, ::testing::ElementsAreArray(Expected("fault", 12)));
    EXPECT_EQ(answer.text, TextOf(Expected("fault", 12)));
    EXPECT_EQ(answer.final->usage().completion_tokens(), 12);
    EXPECT_EQ(answer.final->finish_reason(), v1::FINISH_REASON_LENGTH);
    EXPECT_EQ(answer.final->attempts(), attempts);
  }
};

}  // namespace baton::testing
