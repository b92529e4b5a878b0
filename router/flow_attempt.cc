// RequestFlow: one attempt and its streams.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "router/request_flow.h"

namespace baton {
namespace {

// For the prefill worker's figures after a first token that ends the request.
constexpr base::Duration kFiguresWait = std::chrono::milliseconds(250);
// The router's own clock decides about deadlines; the workers' copy is only a safety net.
constexpr base::Duration kDeadlineSlack = std::chrono::seconds(2);

int32_t WholeMilliseconds(base::Duration duration) {
  return static_cast<int32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

worker::v1::Generation RequestFlow::GenerationNow() const {
  SequenceSpec sequence;
  sequence.prompt = spec_.prompt;
  sequence.generated = output_->ids();
  sequence.sampling = spec_.sampling;
  sequence.stop = spec_.stop;
  sequence.natural_end_step = output_->natural_end_step();
  sequence.cache_salt = spec_.cache_salt;
  worker::v1::Generation generation;
  SpecToProto(sequence, &generation);
  generation.set_request_id(spec_.request_id);
  generation.set_attempt(attempt_->number);
  generation.set_model_fingerprint(attempt_->placement.decode.view.facts.fingerprint);
  generation.set_eos_signals(spec_.eos_steps || context_->eos_log != nullptr);
  return generation;
}

CallOptions RequestFlow::OptionsOfCall(uint64_t call) {
  const base::Duration left = deadline_ - context_->clock->Now() + kDeadlineSlack;
  return {.call = call,
          .deadline = std::chrono::system_clock::now() +
                      std::chrono::duration_cast<std::chrono::system_clock::duration>(left),
          .sink = [weak = weak_from_this()](CallEvent event) {
            if (const auto self = weak.lock()) self->Post(std::move(event));
          }};
}

void RequestFlow::OpenAttempt(Placement placement) {
  const base::Instant now = context_->clock->Now();
  ++attempts_;
  if (attempts_ == 1) timings_.set_queue_ms(base::Milliseconds(now - arrived_));
  attempt_ = std::make_unique<Attempt>();
  attempt_->number = attempts_;
  attempt_->first_index = output_->size();
  attempt_->need = NeedNow();
  attempt_->opened = now;
  attempt_->placement = std::move(placement);
  attempt_->decode_call = context_->next_id++;
  worker_done_ = false;
  const WorkerView& decode = attempt_->placement.decode.view;
  decode_worker_ = decode.link->address;
  prefill_worker_.clear();
  const RouterDeadlines& deadlines = context_->options.deadlines;
  if (!attempt_->local()) {
    attempt_->deadline = now + deadlines.reserve + deadlines.answer_grace;
    attempt_->waits_for = "answer to the reservation";
  }
  context_->probe->AttemptOpened(attempt_->placement);
  EnterState(State::kReserving);
  worker::v1::DecodeStart start;
  *start.mutable_generation() = GenerationNow();
  start.set_local_prefill(attempt_->local());
  start.set_reserve_timeout_ms(WholeMilliseconds(deadlines.reserve));
  attempt_->decode = DecodeCall::Open(decode.link->decode.get(), std::move(start),
                                      OptionsOfCall(attempt_->decode_call));
}

void RequestFlow::OpenPrefill() {
  const WorkerView& decode = attempt_->placement.decode.view;
  const WorkerView& prefill = attempt_->placement.prefill->view;
  attempt_->prefill_call = context_->next_id++;
  attempt_->prefill_opened = context_->clock->Now();
  prefill_worker_ = prefill.link->address;
  worker::v1::PrefillRequest request;
  *request.mutable_generation() = GenerationNow();
  *request.mutable_ticket() = attempt_->ticket;
  request.set_push_address(attempt_->push_address);
  request.set_skip_blocks(attempt_->skip_blocks);
  KvShapeToProto(decode.facts.layout, request.mutable_layout());
  attempt_->prefill = PrefillCall::Open(prefill.link->prefill.get(), std::move(request),
                                        OptionsOfCall(attempt_->prefill_call));
}

void RequestFlow::OnCall(CallEvent& event) {
  // Anything from an older attempt is discarded.
  if (attempt_ == nullptr) return;
  const bool decode = event.kind == CallKind::kDecode;
  if (event.call != (decode ? attempt_->decode_call : attempt_->prefill_call)) return;
  if (auto* ended = std::get_if<CallEnded>(&event.what)) {
    return decode ? OnDecodeEnded(ended->status) : OnPrefillEnded(ended->status);
  }
  if (decode) {
    OnDecodeMessage(std::get<worker::v1::DecodeResponse>(event.what));
    if (attempt_ != nullptr && event.call == attempt_->decode_call) attempt_->decode->ReadNext();
  } else {
    OnPrefillMessage(std::get<worker::v1::PrefillResponse>(event.what));
    if (attempt_ != nullptr && event.call == attempt_->prefill_call) attempt_->prefill->ReadNext();
  }
}

void RequestFlow::OnDecodeMessage(worker::v1::DecodeResponse& message) {
  if (message.has_reserved()) return OnReserved(message.reserved());
  if (message.has_started()) return OnStarted(message.started());
  if (message.has_tokens()) return OnTokens(message.tokens());
  if (message.has_final()) return OnDecodeFinal(message.final());
}

void RequestFlow::OnReserved(const worker::v1::Reserved& reserved) {
  if (attempt_->local()) return;
  if (attempt_->reserved) {
    return FailAttempt(AttemptOutcome::kOther, absl::InternalError("reserved twice"),
                       WorkerKind::kDecode);
  }
  const WorkerView& decode = attempt_->placement.decode.view;
  attempt_->reserved = true;
  attempt_->deadline = base::kNever;  // the decode worker gives a silent reservation up by itself
  attempt_->ticket = reserved.ticket();
  attempt_->push_address = reserved.push_address();
  if (attempt_->push_address.empty()) attempt_->push_address = decode.facts.push_address;
  if (attempt_->push_address.empty()) attempt_->push_address = decode.link->address;
  attempt_->skip_blocks = reserved.cached_blocks();
  EnterState(State::kPrefilling);
  OpenPrefill();
}

void RequestFlow::OnStarted(const worker::v1::DecodeStarted& started) {
  if (attempt_->started || (!attempt_->local() && !attempt_->reserved)) {
    return FailAttempt(AttemptOutcome::kOther, absl::InternalError("Started at the wrong time"),
                       WorkerKind::kDecode);
  }
  attempt_->started = true;
  attempt_->deadline = base::kNever;
  if (attempt_->local()) attempt_->placement.decode.hold->PrefillDone();
  const PlacedToken token = TokenFromProto(started.token());
  if (attempt_->local() && token.index == 0) cached_tokens_ = started.cached_tokens();
  LearnPrompt(started);
  EnterState(State::kDecoding);
  if (token.index != attempt_->first_index) {
    return FailAttempt(AttemptOutcome::kOther,
                       absl::InternalError(absl::StrCat("started at index ", token.index,
                                                        "; expected ", attempt_->first_index)),
                       WorkerKind::kDecode);
  }
  TakeToken(token, /*may_repeat=*/!attempt_->local());
}

void RequestFlow::OnTokens(const worker::v1::Tokens& tokens) {
  if (!attempt_->started) {
    return FailAttempt(AttemptOutcome::kOther, absl::InternalError("tokens before Started"),
                       WorkerKind::kDecode);
  }
  for (const worker::v1::Token& token : tokens.tokens()) {
    if (!TakeToken(TokenFromProto(token), /*may_repeat=*/false)) return;
  }
}

void RequestFlow::OnDecodeFinal(const worker::v1::DecodeFinal& final) {
  const WorkerEnding ending = EndingFromProto(final.ending());
  if (ending.reason == FinishReason::kNone || output_->size() == attempt_->first_index) {
    return FailAttempt(AttemptOutcome::kOther,
                       absl::InternalError("Final without a reason or without a token"),
                       WorkerKind::kDecode);
  }
  if (spec_.stop.eos_policy != EosPolicy::kHonor) output_->SeeNaturalEnd(ending.natural_end_step);
  if (attempt_->local() && attempt_->first_index == 0) {
    timings_.set_prefill_ms(final.timings().prefill_ms());
  }
  worker_done_ = true;
  if (pending_end_) return Finish(*pending_end_);
  Finish({.reason = ending.reason, .stop_token = ending.stop_token});
}

void RequestFlow::OnDecodeEnded(const absl::Status& status) {
  if (pending_end_) return Finish(*pending_end_);
  if (status.ok()) {
    return FailAttempt(AttemptOutcome::kStreamBroken,
                       absl::UnavailableError("the decode stream ended without Final"),
                       WorkerKind::kDecode);
  }
  const bool context_is_full = ReasonOf(status) == Reason::kTooLong && output_->size() > 0;
  if (context_is_full && spec_.stop.max_tokens == 0) {
    return Finish({.reason = FinishReason::kLength});
  }
  if (IsFinalRefusal(status) && !context_is_full) {
    EndAttempt(OutcomeOfStatus(status), FinishReason::kNone);
    return Fail(status, FinishReason::kError);
  }
  FailAttempt(OutcomeOfStatus(status), status, WorkerKind::kDecode);
}

void RequestFlow::OnPrefillMessage(worker::v1::PrefillResponse& message) {
  if (message.has_first_token()) return OnFirstToken(message.first_token());
  if (!message.has_final()) return;
  const worker::v1::PrefillFinal& final = message.final();
  attempt_->prefill_over = true;
  if (attempt_->first_index == 0) {
    timings_.set_prefill_ms(final.timings().prefill_ms());
    timings_.set_kv_transfer_ms(final.transfer_ms());
  }
  if (pending_end_ && !attempt_->started) return Finish(*pending_end_);
  if (attempt_->started) return;
  const RouterDeadlines& deadlines = context_->options.deadlines;
  attempt_->deadline = context_->clock->Now() + deadlines.commit_to_started;
  attempt_->waits_for = "Started after the commit";
  attempt_->overdue = AttemptOutcome::kPushFailed;
}

void RequestFlow::OnFirstToken(const worker::v1::FirstToken& first) {
  if (attempt_->first_token_seen) {
    return FailAttempt(AttemptOutcome::kOther, absl::InternalError("two first tokens"),
                       WorkerKind::kPrefill);
  }
  attempt_->first_token_seen = true;
  attempt_->placement.prefill->hold->PrefillDone();
  const base::Instant now = context_->clock->Now();
  const PlacedToken token = TokenFromProto(first.token());
  if (token.index == 0) {
    cached_tokens_ = first.cached_tokens();
    timings_.set_prefill_ms(base::Milliseconds(now - attempt_->prefill_opened));
  }
  if (!TakeToken(token, /*may_repeat=*/true) || !first.has_ending()) return;
  const WorkerEnding ending = EndingFromProto(first.ending());
  if (spec_.stop.eos_policy != EosPolicy::kHonor) output_->SeeNaturalEnd(ending.natural_end_step);
  EndSoon({.reason = ending.reason, .stop_token = ending.stop_token}, kFiguresWait);
  end_by_ = std::min(end_by_, now + kFiguresWait);
  attempt_->decode->Release(pending_end_->reason);
}

void RequestFlow::OnPrefillEnded(const absl::Status& status) {
  if (attempt_->started) return;  // the KV cache is where it belongs
  if (pending_end_) return Finish(*pending_end_);
  if (status.ok()) {
    if (attempt_->prefill_over) return;  // now the decode worker has the word
    return FailAttempt(AttemptOutcome::kStreamBroken,
                       absl::UnavailableError("the prefill stream ended too early"),
                       WorkerKind::kPrefill);
  }
  if (IsFinalRefusal(status)) {
    EndAttempt(OutcomeOfStatus(status), FinishReason::kNone);
    return Fail(status, FinishReason::kError);
  }
  if (!attempt_->first_token_seen && TryOtherPrefill(status)) return;
  FailAttempt(OutcomeOfStatus(status), status, WorkerKind::kPrefill);
}

bool RequestFlow::TryOtherPrefill(const absl::Status& status) {
  const AttemptOutcome outcome = OutcomeOfStatus(status);
  const Reason reason = ReasonOf(status);
  if (outcome != AttemptOutcome::kFull && reason != Reason::kDraining) return false;
  const WorkerKey refused = attempt_->placement.prefill->view.key();
  context_->directory->MarkFull(refused);
  attempt_->need.avoid.insert(refused);
  auto other = context_->placer->PlaceOtherPrefill(attempt_->need, attempt_->placement.decode.view);
  context_->probe->PrefillOfferedAgain(other.has_value());
  if (!other) return false;
  ++attempt_->prefill_retries;
  attempt_->placement.prefill = std::move(*other);
  OpenPrefill();
  return true;
}

void RequestFlow::FailAttempt(AttemptOutcome outcome, const absl::Status& status,
                              WorkerKind blamed) {
  const WorkerView& decode = attempt_->placement.decode.view;
  const WorkerView& culprit = blamed == WorkerKind::kPrefill && !attempt_->local()
                                  ? attempt_->placement.prefill->view
                                  : decode;
  // When a push fails it is its receiver that may have died: the sender was there to say so.
  const bool push_failed =
      outcome == AttemptOutcome::kPushFailed || outcome == AttemptOutcome::kUnknownTicket;
  const WorkerKey suspect = push_failed ? decode.key() : culprit.key();
  if (push_failed && !attempt_->local()) {
    context_->directory->MarkFailedPair(prefill_worker_, decode_worker_);
  }
  if (outcome == AttemptOutcome::kStreamBroken || push_failed) {
    context_->directory->MarkSuspect(suspect);
  }
  if (outcome == AttemptOutcome::kStreamBroken && !context_->directory->IsAlive(suspect)) {
    outcome = AttemptOutcome::kWorkerDied;
  }
  if (!CountsAgainstRequest(outcome)) context_->directory->MarkFull(suspect);
  const base::Instant now = context_->clock->Now();
  spdlog::warn("request {}: attempt {} on {} {} ended {} after {} tokens: {}", spec_.request_id,
               attempt_->number, decode_worker_, prefill_worker_,
               std::string(AttemptOutcomeName(outcome)), output_->size(),
               std::string(status.message()));
  ledger_.Record(outcome, {suspect}, now, context_->options.deadlines.avoid);
  last_failure_ = status;
  settle_until_ = now + context_->options.deadlines.settle;
  EndAttempt(outcome, FinishReason::kNone);
  if (pending_end_) return Finish(*pending_end_);
  RetryOrGiveUp();
}

void RequestFlow::EndAttempt(AttemptOutcome outcome, FinishReason release) {
  if (attempt_ == nullptr) return;
  const std::unique_ptr<Attempt> attempt = std::move(attempt_);
  if (output_->size() > 0) fingerprint_ = attempt->placement.decode.view.facts.fingerprint;
  context_->probe->AttemptEnded(outcome);
  LearnAnswer(*attempt);
  if (attempt->prefill != nullptr) {
    attempt->prefill_over ? attempt->prefill->Forget() : attempt->prefill->Cancel();
  }
  if (attempt->decode == nullptr) return;
  if (worker_done_) {
    attempt->decode->Forget();
  } else if (release != FinishReason::kNone) {
    attempt->decode->Release(release);
  } else {
    return attempt->decode->Cancel();
  }
  // A worker that does not end its stream is cancelled after all.
  const std::weak_ptr<DecodeCall> weak = attempt->decode;
  context_->timers->At(context_->clock->Now() + context_->options.deadlines.release, [weak] {
    if (const auto call = weak.lock()) call->Cancel();
  });
}

}  // namespace baton
