#pragma once

#include "absl/status/status.h"
#include "baton/worker/v1/generation.pb.h"
#include "common/engine/engine.h"
#include "common/worker/worker_core.h"

// How the end of a sequence becomes the end of its stream to the router.
namespace baton {

// Whether a cancel, the deadline or an error has cut the sequence off. Its stream then ends with a
// status instead of a Final.
bool EndedEarly(FinishReason reason);

// The status with which the stream of a sequence that ended early ends.
absl::Status StatusOfEnd(const FinishedEvent& event, WorkerRole role);

// Fills in what a Final says about where the time went.
void TimingsToProto(const FinishedEvent& event, worker::v1::WorkerTimings* timings);

}  // namespace baton
