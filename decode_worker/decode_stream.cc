#include "decode_worker/decode_stream.h"

#include <algorithm>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "common/worker/sequence_end.h"
#include "decode_worker/decode_messages.h"

namespace baton {

DecodeStream::DecodeStream(WorkerCore* core, KvReceiver* receiver,
                           grpc::CallbackServerContext* context)
    : WorkerStream(core, context, MergeTokens, "baton.worker.v1.DecodeService/Decode"),
      receiver_(receiver) {}

void DecodeStream::Start() {
  const absl::Status status = Begin();
  if (!status.ok()) return End(status);
  StartRead(&request_);
}

void DecodeStream::OnReadDone(bool ok) {
  if (!ok) {
    // A router that closed its side just has no Release to send; one that vanished is a cancel.
    if (!started_reading_) End(absl::InvalidArgumentError("the stream ended before `start`"));
    return;
  }
  absl::Status status;
  if (!std::exchange(started_reading_, true)) {
    status = request_.has_start() ? Admit(request_.start())
                                  : absl::InvalidArgumentError("the first message must be `start`");
    // What it asked for is the sequence's now; its prompt would stay here until the answer ends.
    worker_pb::DecodeRequest().Swap(&request_);
  } else if (request_.has_release()) {
    OnRelease(request_.release());
  } else {
    status = absl::InvalidArgumentError("after `start` only `release` may come");
  }
  if (!status.ok()) return End(status);
  StartRead(&request_);
}

absl::Status DecodeStream::Admit(const worker_pb::DecodeStart& start) {
  base::Failpoint("accepted");
  BATON_RETURN_IF_ERROR(core_->CheckGeneration(start.generation()));
  BATON_ASSIGN_OR_RETURN(SequenceSpec spec, SpecFromProto(start.generation()));
  local_prefill_ = start.local_prefill();
  predict_ = start.generation().predict() && !spec.natural_end_step;
  first_index_ = static_cast<int32_t>(spec.generated.size());
  prefix_tokens_ = static_cast<int32_t>(spec.prompt.size() + spec.generated.size());
  spec.kind = local_prefill_ ? SequenceKind::kLocal : SequenceKind::kReserved;
  spec.reserve_timeout = start.reserve_timeout_ms() > 0
                             ? std::chrono::milliseconds(start.reserve_timeout_ms())
                             : core_->timeouts().default_reserve;
  request_id_ = start.generation().request_id();
  admitted_at_ = core_->clock().Now();
  if (trace_ != nullptr) trace_->SetGeneration(start.generation());
  return AdmitSequence(std::move(spec), ExtrasOf(start.generation()),
                       {.admitted = [] {}, .refused = [] {}});
}

void DecodeStream::OnRelease(const worker_pb::Release& release) {
  {
    base::MutexLock lock(&mutex_);
    if (ended_ || release_) return;
    release_ = FinishReasonFromProto(release.cause());
  }
  // Its guide is still being compiled.
  if (!sequence().valid()) return End(absl::CancelledError("released before it began"));
  core_->engine().Cancel(sequence());
}

void DecodeStream::LetGo(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  DropReservation(reason == Reason::kExpired || reason == Reason::kRevoked ? status : DecodeOver());
}

void DecodeStream::On(const ReservedEvent& event) {
  base::Failpoint("reserved");
  core_->probe().ReservationGranted(core_->clock().Now() - admitted_at_);
  std::weak_ptr<DecodeStream> weak = weak_from_this();
  auto reservation = std::make_shared<Reservation>(
      event.lease, first_index_, core_->identity().vocab_size, &core_->clock(),
      Reservation::Hooks{
          .committed =
              [weak](const PushCommitment& commitment) {
                if (auto stream = weak.lock()) stream->OnCommitted(commitment);
              },
          .refused = [core =
                          core_](const absl::Status& s) { core->probe().PushRefused(ReasonOf(s)); },
          .opened =
              [weak](const std::string& traceparent) {
                const auto stream = weak.lock();
                if (stream == nullptr || stream->trace_ == nullptr) return;
                stream->trace_->OpenReceive(traceparent);
              }},
      &core_->blocks());
  worker_pb::DecodeResponse response;
  worker_pb::Reserved* reserved = response.mutable_reserved();
  {
    base::MutexLock lock(&mutex_);
    if (ended_) return;  // Finished and Detach follow
    reservation_ = reservation;
    cached_blocks_ = event.cached_blocks;
    ticket_ = receiver_->Grant(std::move(reservation));
    TicketToProto(*ticket_, reserved->mutable_ticket());
  }
  reserved->set_push_address(core_->identity().push_address);
  reserved->set_cached_blocks(event.cached_blocks);
  reserved->set_total_blocks(event.cached_blocks + static_cast<int32_t>(event.lease.size()));
  WatchSilence(core_->timeouts().reservation_silence);
  Send(std::move(response));
}

void DecodeStream::On(const RefusedEvent& event) {
  End(event.status);
  LeaveEngine();
}

void DecodeStream::On(const StateEvent& event) {
  if (event.to == SequenceState::kPrefilling) base::Failpoint("prefilling");
  if (event.to == SequenceState::kPreempted) base::Failpoint("preempted");
}

void DecodeStream::On(const BlocksReadyEvent&) {}

void DecodeStream::On(const ScoresEvent& event) {
  worker_pb::DecodeResponse response;
  ScoresToProto({event.first_index, event.scores}, response.mutable_scores());
  Send(std::move(response));
}

void DecodeStream::On(const TokenEvent& event) {
  if (draws_answer_) core_->probe().TokenSampled(event.token, eos_policy_);
  if (event.runaway != RunawayAction::kOff) TellRunaway(event.runaway, event.index);
  last_signal_ = event.token.eos;
  AwaitStarted();
  PlacedToken token{event.index, event.token, event.unix_time};
  if (!predict_) token.token.end.reset();
  if (local_prefill_ && event.index == first_index_) {
    base::Failpoint("started");
    return SendStarted(token, event.cached_tokens);
  }
  base::Failpoint("decoding");
  worker_pb::DecodeResponse response;
  TokenToProto(token, extras_, response.mutable_tokens()->add_tokens());
  Send(std::move(response));
}

void DecodeStream::On(const FinishedEvent& event) {
  AwaitStarted();
  FinishReason reason = event.reason;
  bool ended = false;
  {
    base::MutexLock lock(&mutex_);
    ended = ended_;
    if (reason == FinishReason::kAborted && release_) reason = *release_;
    if (!EndedEarly(reason)) ended_ = true;
  }
  if (!ended && !EndedEarly(reason)) {
    base::Failpoint("finishing");
    // Where the first token ended the answer, the prefill worker drew it, and has noted it.
    if (event.reason == FinishReason::kStopEos && draws_answer_) {
      core_->probe().StoppedByEos(last_signal_);
    }
    DropReservation(DecodeOver());
    if (trace_ != nullptr) trace_->End(absl::OkStatus());
    Send(FinalOf(event, reason));
    writer_.Finish(grpc::Status::OK);
  } else if (!ended) {
    End(StatusOfEnd(event, WorkerRole::kDecode));
  }
  LeaveEngine();
}

void DecodeStream::On(const RevokedEvent&) {
  End(Revoked());
  LeaveEngine();
}

void DecodeStream::On(const DetachEvent&) { LeaveEngine(); }

void DecodeStream::OnCommitted(const PushCommitment& commitment) {
  std::shared_ptr<Reservation> reservation;
  std::optional<Ticket> ticket;
  int32_t cached_tokens = 0;
  {
    base::MutexLock lock(&mutex_);
    if (ended_) return;
    reservation = reservation_;
    ticket = std::exchange(ticket_, std::nullopt);
    cached_tokens = std::min(cached_blocks_ * core_->identity().shape.block_size, prefix_tokens_);
  }
  if (ticket) receiver_->Void(*ticket);
  if (trace_ != nullptr) trace_->CloseReceive(commitment.block_count, commitment.byte_count);
  PlacedToken first{commitment.first_index, commitment.first_token, commitment.unix_time};
  // The prefill worker has an estimate from a file only; here lengths are learnt, too.
  if (!first.token.end) {
    first.token.end = core_->Foresee(length_class_, first.index + 1, min_tokens_);
  }
  if (!predict_ || first.token.natural_end) first.token.end.reset();
  SampledToken for_engine = first.token;
  // To the predictor here the products of another probe would mean something else.
  if (commitment.probe_digest != core_->identity().probe_digest) for_engine.probe.clear();
  base::Failpoint("started");
  // The engine is told of the commit first, so that whatever the router sends because of Started
  // finds the blocks in the prefix cache. No token and no end overtakes Started, for their events
  // wait for this lock. Should the engine have revoked the blocks meanwhile, its RevokedEvent ends
  // the stream.
  base::MutexLock lock(&started_mutex_);
  core_->engine().CommitImport(sequence(), std::move(for_engine));
  SendStarted(first, cached_tokens);
  reservation->Accept();
}

void DecodeStream::AwaitStarted() {
  if (!local_prefill_) base::MutexLock lock(&started_mutex_);
}

void DecodeStream::SendStarted(const PlacedToken& token, int32_t cached_tokens) {
  worker_pb::DecodeResponse response;
  worker_pb::DecodeStarted* started = response.mutable_started();
  TokenToProto(token, extras_, started->mutable_token());
  started->set_cached_tokens(cached_tokens);
  Send(std::move(response));
}

void DecodeStream::WatchSilence(base::Duration delay) {
  core_->timers().After(delay, [weak = weak_from_this()] {
    if (auto stream = weak.lock()) stream->CheckSilence();
  });
}

void DecodeStream::CheckSilence() {
  base::Duration left{};
  {
    base::MutexLock lock(&mutex_);
    if (ended_ || !ticket_) return;
    left = reservation_->last_sign_of_life() + core_->timeouts().reservation_silence -
           core_->clock().Now();
  }
  if (left > base::Duration::zero()) return WatchSilence(left);
  core_->probe().ReservationExpired();
  End(Expired(core_->timeouts().reservation_silence));
}

void DecodeStream::LeaveEngine() {
  std::shared_ptr<Reservation> reservation;
  {
    base::MutexLock lock(&mutex_);
    reservation = reservation_;
  }
  const auto leave = [core = core_, id = sequence()] {
    core->engine().ReturnLease(id);
    core->events().Forget(id);
  };
  if (reservation == nullptr) return leave();
  reservation->Detach(leave);
}

void DecodeStream::DropReservation(const absl::Status& push_status) {
  std::shared_ptr<Reservation> reservation;
  std::optional<Ticket> ticket;
  {
    base::MutexLock lock(&mutex_);
    reservation = reservation_;
    ticket = std::exchange(ticket_, std::nullopt);
  }
  if (ticket) receiver_->Void(*ticket);
  if (reservation != nullptr) reservation->Refuse(push_status);
}

}  // namespace baton
