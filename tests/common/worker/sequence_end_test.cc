#include "common/worker/sequence_end.h"

#include <gtest/gtest.h>

#include "common/base/status.h"

namespace baton {
namespace {

TEST(SequenceEndTest, OnlyWhatWasCutOffEndedEarly) {
  for (const FinishReason reason :
       {FinishReason::kAborted, FinishReason::kDeadline, FinishReason::kError}) {
    EXPECT_TRUE(EndedEarly(reason)) << FinishReasonName(reason);
  }
  for (const FinishReason reason :
       {FinishReason::kNone, FinishReason::kStopEos, FinishReason::kStopToken,
        FinishReason::kStopString, FinishReason::kLength}) {
    EXPECT_FALSE(EndedEarly(reason)) << FinishReasonName(reason);
  }
}

TEST(SequenceEndTest, TheEnginesOwnStatusComesFirst) {
  const FinishedEvent event{.reason = FinishReason::kDeadline,
                            .status = absl::InternalError("device")};
  EXPECT_EQ(StatusOfEnd(event, WorkerRole::kDecode), event.status);
}

TEST(SequenceEndTest, ADeadlineNamesTheWorkerThatSawIt) {
  const FinishedEvent event{.reason = FinishReason::kDeadline};
  for (const WorkerRole role : {WorkerRole::kPrefill, WorkerRole::kDecode}) {
    const absl::Status status = StatusOfEnd(event, role);
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_NE(std::string(status.message()).find(WorkerRoleName(role)), std::string::npos);
  }
}

TEST(SequenceEndTest, EverythingElseIsDrainedAndMayBeTriedAgain) {
  const absl::Status status = StatusOfEnd({.reason = FinishReason::kAborted}, WorkerRole::kDecode);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status), Reason::kDrained);
}

TEST(SequenceEndTest, TimingsAreMilliseconds) {
  worker::v1::WorkerTimings timings;
  TimingsToProto({.queue_time = std::chrono::microseconds(1500),
                  .prefill_time = std::chrono::seconds(2),
                  .decode_time = std::chrono::milliseconds(3)},
                 &timings);
  EXPECT_EQ(timings.queue_ms(), 1.5);
  EXPECT_EQ(timings.prefill_ms(), 2000);
  EXPECT_EQ(timings.decode_ms(), 3);
}

}  // namespace
}  // namespace baton
