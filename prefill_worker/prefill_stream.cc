#include "prefill_worker/prefill_stream.h"

#include <string>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "common/worker/sequence_end.h"

namespace baton {
namespace {

absl::Status PushFailed(const absl::Status& cause) {
  const std::string message(cause.message());
  return MakeError(absl::StatusCode::kUnavailable,
                   {.reason = Reason::kPushFailed,
                    .values = {{"push_code", std::string(CodeName(cause.code()))},
                               {"push_reason", std::string(ReasonName(ReasonOf(cause)))},
                               {"push_message", message}}},
                   "the KV cache could not be handed over: " + message);
}

// Not what the decode worker gave up because its stream is over, so that nobody waits for it.
void CountFailure(const absl::Status& why, WorkerProbe* probe) {
  const Reason reason = ReasonOf(why);
  if (why.code() == absl::StatusCode::kCancelled && reason == Reason::kRevoked) return;
  probe->PushFailed(reason == Reason::kNone ? Reason::kPushFailed : reason);
}

// The ticket's one push is open, so that no other prefill worker can use it. FULL would send the
// router to one.
absl::Status PlaceGivenUp(const absl::Status& cause) {
  if (ReasonOf(cause) != Reason::kFull) return cause;
  return MakeError(absl::StatusCode::kAborted, {.reason = Reason::kRevoked},
                   std::string(cause.message()) + ", with a new attempt");
}

absl::Status NotNeeded() {
  return absl::CancelledError("the first token ended the request; nothing is handed over");
}

}  // namespace

void PrefillStream::Start(const worker_pb::PrefillRequest& request) {
  absl::Status status = Begin();
  if (status.ok()) status = Admit(request);
  if (!status.ok()) End(status);
}

absl::Status PrefillStream::Check(const worker_pb::PrefillRequest& request) const {
  BATON_RETURN_IF_ERROR(core_->CheckGeneration(request.generation()));
  BATON_RETURN_IF_ERROR(core_->CheckPeerShape(KvShapeFromProto(request.layout())));
  if (!TicketFromProto(request.ticket())) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.reason = Reason::kUnknownTicket, .field = "ticket"},
                     "ticket.secret has " + std::to_string(request.ticket().secret().size()) +
                         " bytes; pass on the ticket of Reserved, " +
                         std::to_string(Ticket::kSecretBytes) + " bytes");
  }
  const int64_t tokens =
      int64_t{request.generation().prompt_ids_size()} + request.generation().generated_ids_size();
  const int64_t block_size = core_->identity().shape.block_size;
  const int64_t blocks = (tokens + block_size - 1) / block_size;
  if (request.skip_blocks() < 0 || request.skip_blocks() > blocks) {
    return absl::InvalidArgumentError("skip_blocks is " + std::to_string(request.skip_blocks()) +
                                      "; the prompt has " + std::to_string(blocks) + " blocks");
  }
  if (request.push_address().empty()) {
    return absl::InvalidArgumentError(
        "push_address is empty; give the address of the decode worker that granted the ticket");
  }
  return absl::OkStatus();
}

absl::Status PrefillStream::Admit(const worker_pb::PrefillRequest& request) {
  base::Failpoint("accepted");
  BATON_RETURN_IF_ERROR(Check(request));
  BATON_ASSIGN_OR_RETURN(SequenceSpec spec, SpecFromProto(request.generation()));
  spec.kind = SequenceKind::kPrefill;
  spec.reserve_timeout = core_->timeouts().default_reserve;
  request_id_ = request.generation().request_id();
  predict_ = request.generation().predict();
  if (trace_ != nullptr) trace_->SetGeneration(request.generation());
  sender_ = std::make_shared<KvSender>(
      core_, request.skip_blocks(), KvShapeFromProto(request.layout()),
      [self = shared_from_this()](const PushOutcome& outcome) { self->OnPushOver(outcome); });
  // No event comes before the push is open.
  const auto open = [this, address = request.push_address(),
                     ticket = *TicketFromProto(request.ticket())] {
    sender_->Open(transport_, address, ticket, trace_ == nullptr ? "" : trace_->OpenPush());
  };
  return AdmitSequence(std::move(spec), ExtrasOf(request.generation()),
                       {.admitted = open, .refused = [this] { sender_.reset(); }});
}

void PrefillStream::LetGo(const absl::Status& status) {
  if (sequence().valid()) sender_->Cancel(status);
}

void PrefillStream::On(const RefusedEvent& event) {
  End(PlaceGivenUp(event.status));
  {
    base::MutexLock lock(&mutex_);
    sequence_over_ = true;
  }
  LeaveEngineIfOver();
}

void PrefillStream::On(const StateEvent& event) {
  if (event.to == SequenceState::kPrefilling) base::Failpoint("prefilling");
}

void PrefillStream::On(const BlocksReadyEvent& event) {
  {
    base::MutexLock lock(&mutex_);
    if (ended_) return;
    cached_tokens_ = event.cached_tokens;
  }
  const int32_t block_size = core_->identity().shape.block_size;
  if (!event.blocks.empty()) {
    sender_->NoteComputed((event.blocks.back().ordinal + 1) * block_size);
  }
  sender_->Send(event.blocks, event.last ? event.last_block_tokens : block_size);
}

void PrefillStream::On(const ScoresEvent& event) {
  worker_pb::PrefillResponse response;
  ScoresToProto({event.first_index, event.scores}, response.mutable_scores());
  Send(std::move(response));
}

void PrefillStream::On(const TokenEvent& event) {
  if (draws_answer_) core_->probe().TokenSampled(event.token, eos_policy_);
  if (event.runaway != RunawayAction::kOff) TellRunaway(event.runaway, event.index);
  base::MutexLock lock(&mutex_);
  // FinishedEvent, which follows at once, tells whether this token ends the request.
  token_ = PlacedToken{event.index, event.token, event.unix_time};
  cached_tokens_ = event.cached_tokens;
  first_token_at_ = core_->clock().Now();
}

void PrefillStream::On(const FinishedEvent& event) {
  bool ended = false;
  {
    base::MutexLock lock(&mutex_);
    ended = ended_;
    finished_ = event;
    sequence_over_ = true;
  }
  if (EndedEarly(event.reason)) {
    End(StatusOfEnd(event, WorkerRole::kPrefill));
  } else if (!ended) {
    SendFirstToken(event);
  }
  FinishIfOver();
  LeaveEngineIfOver();
}

void PrefillStream::On(const DetachEvent&) {
  // The sequence ended early, so the push is being cancelled; its end returns the lease.
}

void PrefillStream::SendFirstToken(const FinishedEvent& event) {
  base::Failpoint("first_token");
  worker_pb::PrefillResponse response;
  worker_pb::FirstToken* first = response.mutable_first_token();
  PlacedToken token;
  {
    base::MutexLock lock(&mutex_);
    token = *token_;
    first->set_cached_tokens(cached_tokens_);
  }
  if (!predict_) token.token.end.reset();
  TokenToProto(token, extras_, first->mutable_token());
  if (event.reason == FinishReason::kStopEos && draws_answer_) {
    core_->probe().StoppedByEos(token.token.eos);
  }
  const bool goes_on = event.reason == FinishReason::kNone;
  if (!goes_on) {
    EndingToProto({event.reason, event.stop_token, event.natural_end_step},
                  first->mutable_ending());
  }
  Send(std::move(response));
  base::Failpoint("first_token_sent");
  if (goes_on) {
    sender_->Commit(token.index, token.token, token.unix_time);
  } else {
    sender_->Cancel(NotNeeded());
  }
}

void PrefillStream::OnPushOver(const PushOutcome& outcome) {
  if (trace_ != nullptr) trace_->ClosePush(outcome.status, outcome.blocks, outcome.bytes);
  bool failed = false;
  {
    base::MutexLock lock(&mutex_);
    outcome_ = outcome;
    const bool not_needed = finished_ && finished_->reason != FinishReason::kNone;
    failed = !ended_ && !outcome.status.ok() && !not_needed;
  }
  if (failed) {
    CountFailure(outcome.status, &core_->probe());
    End(PushFailed(outcome.status));
  }
  FinishIfOver();
  LeaveEngineIfOver();
}

void PrefillStream::FinishIfOver() {
  worker_pb::PrefillResponse response;
  worker_pb::PrefillFinal* final = response.mutable_final();
  {
    base::MutexLock lock(&mutex_);
    if (ended_ || !finished_ || !outcome_) return;
    // A push that failed while it was needed ends the stream with its reason (OnPushOver).
    if (!outcome_->status.ok() && finished_->reason == FinishReason::kNone) return;
    ended_ = true;
    TimingsToProto(*finished_, final->mutable_timings());
    if (outcome_->status.ok()) {
      final->set_transfer_ms(base::Milliseconds(core_->clock().Now() - first_token_at_));
      final->set_pushed_bytes(outcome_->bytes);
      final->set_pushed_blocks(outcome_->blocks);
    }
  }
  base::Failpoint("committed");
  if (trace_ != nullptr) trace_->End(absl::OkStatus());
  Send(std::move(response));
  writer_.Finish(grpc::Status::OK);
}

void PrefillStream::LeaveEngineIfOver() {
  {
    base::MutexLock lock(&mutex_);
    if (!sequence_over_ || !outcome_ || std::exchange(left_, true)) return;
  }
  core_->engine().ReturnLease(sequence());
  core_->events().Forget(sequence());
}

}  // namespace baton
