// The part of RequestFlow that hears what the streams of an attempt say.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "router/request/request_flow.h"

namespace baton {
namespace {

// How long the prefill worker's figures are awaited after a first token that ends the request.
constexpr base::Duration kFiguresWait = std::chrono::milliseconds(250);

}  // namespace

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
  if (attempt_->phase != DecodePhase::kOpened) {
    return FailAttempt(AttemptOutcome::kOther, absl::InternalError("reserved twice"),
                       WorkerKind::kDecode);
  }
  const WorkerView& decode = attempt_->placement.decode.view;
  attempt_->phase = DecodePhase::kReserved;
  attempt_->StopAwaiting();  // the decode worker gives a silent reservation up by itself
  attempt_->ticket = reserved.ticket();
  attempt_->push_address = reserved.push_address();
  if (attempt_->push_address.empty()) attempt_->push_address = decode.facts.push_address;
  if (attempt_->push_address.empty()) attempt_->push_address = decode.address;
  attempt_->skip_blocks = reserved.cached_blocks();
  EnterState(State::kPrefilling);
  StopWaiting();
  OpenPrefill();
}

void RequestFlow::OnStarted(const worker::v1::DecodeStarted& started) {
  const DecodePhase before = attempt_->local() ? DecodePhase::kOpened : DecodePhase::kReserved;
  if (attempt_->phase != before) {
    return FailAttempt(AttemptOutcome::kOther, absl::InternalError("Started at the wrong time"),
                       WorkerKind::kDecode);
  }
  attempt_->phase = DecodePhase::kStarted;
  attempt_->StopAwaiting();
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
  if (!attempt_->started()) {
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
  if (attempt_->local()) {
    timings_.set_queue_ms(timings_.queue_ms() + final.timings().queue_ms());
    if (attempt_->first_index == 0) timings_.set_prefill_ms(final.timings().prefill_ms());
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
  if (IsFinalRefusal(status)) {
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
  timings_.set_queue_ms(timings_.queue_ms() + final.timings().queue_ms());
  if (attempt_->first_index == 0) {
    timings_.set_prefill_ms(final.timings().prefill_ms());
    timings_.set_kv_transfer_ms(final.transfer_ms());
  }
  if (pending_end_ && !attempt_->started()) return Finish(*pending_end_);
  if (attempt_->started()) return;
  const RouterDeadlines& deadlines = context_->options.deadlines;
  const base::Instant now = context_->clock->Now();
  attempt_->Await("Started after the commit", AttemptOutcome::kPushFailed,
                  now + deadlines.commit_to_started, now + deadlines.slow_answer);
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
  if (attempt_->started()) return;  // the KV cache is where it belongs
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

}  // namespace baton
