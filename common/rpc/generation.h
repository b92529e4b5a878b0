#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/worker/v1/generation.pb.h"
#include "common/base/eos_signal.h"
#include "common/base/kv_shape.h"
#include "common/base/ticket.h"
#include "common/sample/params.h"
#include "common/sched/beam_group.h"
#include "common/sched/sequence.h"

// Translates between the messages of baton.worker.v1 and the types that the rest of the code uses,
// both ways, so that the router speaks and the workers listen with the same functions.
namespace baton {

// One generated token and its place among all generated tokens of the request, counted from 0.
struct PlacedToken {
  int32_t index = 0;
  SampledToken token;
  double unix_time = 0;  // when sampled
};

// Scores of a prompt's tokens from an index on, counted from 0.
struct PlacedScores {
  int32_t first_index = 0;
  std::vector<TokenScore> scores;
};

// How a worker's part of a request ended.
struct WorkerEnding {
  FinishReason reason = FinishReason::kNone;
  std::optional<TokenId> stop_token;
  std::optional<int32_t> natural_end_step;  // counted from 1
};

namespace worker_pb = ::baton::worker::v1;

// The sequence that `proto` asks for. Its kind, deadline and reserve timeout are not part of
// Generation: the caller sets them. Enums are checked here; ids, lengths and sampling values are
// checked by Engine::Admit.
absl::StatusOr<SequenceSpec> SpecFromProto(const worker_pb::Generation& proto);
// Fills ids, sampling, stopping, guide, natural_end_step, end_chance_step, cache_salt, waited_ms
// and length_class.
void SpecToProto(const SequenceSpec& spec, worker_pb::Generation* proto);

// What a token carries beside the token itself.
struct TokenExtras {
  bool eos_signal = false;
  bool probe = false;
};
// What the router asks for.
TokenExtras ExtrasOf(const worker_pb::Generation& generation);
// An estimate of the end goes along if the token has one.
void TokenToProto(const PlacedToken& token, const TokenExtras& extras, worker_pb::Token* proto);
PlacedToken TokenFromProto(const worker_pb::Token& proto);

void ScoresToProto(const PlacedScores& scores, worker_pb::PromptScores* proto);
PlacedScores ScoresFromProto(const worker_pb::PromptScores& proto);

void EndingToProto(const WorkerEnding& ending, worker_pb::Ending* proto);
WorkerEnding EndingFromProto(const worker_pb::Ending& proto);

void BeamsToProto(const std::vector<BeamResult>& beams,
                  google::protobuf::RepeatedPtrField<worker_pb::BeamAnswer>* proto);
std::vector<BeamResult> BeamsFromProto(
    const google::protobuf::RepeatedPtrField<worker_pb::BeamAnswer>& proto);

// UNSPECIFIED and unknown values become kNone; reasons that never reach a client become
// UNSPECIFIED.
FinishReason FinishReasonFromProto(worker_pb::FinishCause cause);
worker_pb::FinishCause FinishCauseToProto(FinishReason reason);

void TicketToProto(const Ticket& ticket, worker_pb::Ticket* proto);
// Empty when the secret does not have Ticket::kSecretBytes bytes.
std::optional<Ticket> TicketFromProto(const worker_pb::Ticket& proto);

void KvShapeToProto(const KvShape& shape, worker_pb::KvLayout* proto);
KvShape KvShapeFromProto(const worker_pb::KvLayout& proto);

}  // namespace baton
