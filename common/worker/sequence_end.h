#pragma once

#include "absl/status/status.h"
#include "baton/worker/v1/generation.pb.h"
#include "common/engine/engine.h"
#include "common/worker/worker_core.h"

// How the end of a sequence becomes the end of its worker stream.
namespace baton {

// Cut off by a cancel, the deadline or an error: the stream ends with a status instead of a Final.
bool EndedEarly(FinishReason reason);

// That status.
absl::Status StatusOfEnd(const FinishedEvent& event, WorkerRole role);

// What a Final says about where the time went.
void TimingsToProto(const FinishedEvent& event, worker::v1::WorkerTimings* timings);

}  // namespace baton
