#include "common/worker/sequence_end.h"

#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace baton {

bool EndedEarly(FinishReason reason) {
  return reason == FinishReason::kAborted || reason == FinishReason::kDeadline ||
         reason == FinishReason::kError;
}

absl::Status StatusOfEnd(const FinishedEvent& event, WorkerRole role) {
  if (!event.status.ok()) return event.status;
  if (event.reason == FinishReason::kDeadline) {
    return absl::DeadlineExceededError("the request's deadline passed on the " +
                                       std::string(WorkerRoleName(role)) + " worker");
  }
  return MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kDrained},
                   "the engine ended this sequence; open a new attempt");
}

void TimingsToProto(const FinishedEvent& event, worker::v1::WorkerTimings* timings) {
  timings->set_queue_ms(base::Milliseconds(event.queue_time));
  timings->set_prefill_ms(base::Milliseconds(event.prefill_time));
  timings->set_decode_ms(base::Milliseconds(event.decode_time));
}

}  // namespace baton
