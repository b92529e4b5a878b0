#pragma once

#include "absl/status/status.h"
#include "baton/worker/v1/decode.pb.h"
#include "common/base/clock.h"
#include "common/engine/engine.h"

// What a Decode stream says, apart from when it says it.
namespace baton {

// Appends `next` to `last` when both carry tokens, so that what waits for a write becomes one
// message.
bool MergeTokens(worker::v1::DecodeResponse* last, worker::v1::DecodeResponse* next);

// The last message of a stream that ended by itself or by Release, with `reason`.
worker::v1::DecodeResponse FinalOf(const FinishedEvent& event, FinishReason reason);

// --- Why a stream ended. ---

// The push of the reservation was silent for so long.
absl::Status Expired(base::Duration silence);
// Running sequences took the reserved blocks.
absl::Status Revoked();
// What a push is told whose Decode stream has ended.
absl::Status DecodeOver();

}  // namespace baton
