#include "decode_worker/decode_messages.h"

#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/generation.h"
#include "common/worker/sequence_end.h"

namespace baton {

bool MergeTokens(worker_pb::DecodeResponse* last, worker_pb::DecodeResponse* next) {
  if (!last->has_tokens() || !next->has_tokens()) return false;
  auto* more = next->mutable_tokens()->mutable_tokens();
  auto* tokens = last->mutable_tokens()->mutable_tokens();
  for (worker_pb::Token& token : *more) *tokens->Add() = std::move(token);
  return true;
}

absl::Status Expired(base::Duration silence) {
  return MakeError(absl::StatusCode::kAborted, {.reason = Reason::kExpired},
                   "the reservation's push gave no sign of life for " +
                       std::to_string(base::Seconds(silence)) + " s; open a new attempt");
}

absl::Status Revoked() {
  return MakeError(absl::StatusCode::kAborted, {.reason = Reason::kRevoked},
                   "running requests needed the reserved blocks; open a new attempt");
}

absl::Status DecodeOver() {
  return MakeError(absl::StatusCode::kCancelled, {.reason = Reason::kRevoked},
                   "the Decode stream of this reservation has ended");
}

worker_pb::DecodeResponse FinalOf(const FinishedEvent& event, FinishReason reason) {
  worker_pb::DecodeResponse response;
  worker_pb::DecodeFinal* final = response.mutable_final();
  EndingToProto({reason, event.stop_token, event.natural_end_step}, final->mutable_ending());
  TimingsToProto(event, final->mutable_timings());
  final->set_preemptions(event.preemptions);
  BeamsToProto(event.beams, final->mutable_beams());
  final->set_beam_steps(event.beam_steps);
  return response;
}

}  // namespace baton
