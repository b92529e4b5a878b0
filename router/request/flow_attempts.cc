// The part of RequestFlow that begins attempts, applies their news and ends them.
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "router/request/answer_part.h"
#include "router/request/request_flow.h"

namespace baton {
namespace {

// As the log names it.
std::string PrefillWorkerOf(const Attempt& attempt) {
  if (attempt.local()) return "local";
  return attempt.prefill_worker().empty() ? "not asked yet" : attempt.prefill_worker();
}

}  // namespace

void RequestFlow::OpenAttempt(Placement placement) {
  ++attempts_;
  ++opened_;
  if (!std::exchange(tried_, true)) {
    const bool asked = spec_.eos_steps || spec_.predict_every > 0 || logged_;
    if (!spec_.beams.on()) {
      watched_ = context_->probe->eos().Watch(asked, spec_.stop.min_tokens);
    }
  }
  CallSink sink = [weak = weak_from_this()](CallEvent event) {
    if (const auto self = weak.lock()) self->Post(std::move(event));
  };
  attempt_numerics_ = placement.decode.view.facts.numerics;
  EnterState(State::kReserving);
  if (trace_ != nullptr) trace_->OpenAttempt(opened_, placement);
  attempt_ = std::make_unique<Attempt>(context_, Progress(), opened_, std::move(placement),
                                       NeedNow(), std::move(sink), deadline_);
  if (attempt_->local()) StopWaiting();
}

void RequestFlow::OnCall(CallEvent& event) {
  const auto ours = [&] { return attempt_ != nullptr && attempt_->Owns(event); };
  if (!ours()) return;
  Apply(attempt_->Hear(event));
  if (ours()) attempt_->ReadNext(event);
}

void RequestFlow::Apply(const AttemptNews& news) {
  if (news.prefill_began) {
    EnterState(State::kPrefilling);
    StopWaiting();
  }
  if (news.decode_began) EnterState(State::kDecoding);
  Note(news.figures);
  if (spec_.beams.on()) return ApplyToBeams(news);
  for (const PlacedScores& scores : news.scores) {
    if (!TakeScores(scores)) return;
  }
  if (!news.tokens.empty() && NextScore() > 0) {
    return FailAttempt(
        {.status = absl::InternalError(
             absl::StrCat("a token came before the score of token ", scored_, " of the prompt"))});
  }
  if (spec_.only_prompt && !news.tokens.empty()) return Finish({.reason = FinishReason::kLength});
  bool may_repeat = news.may_repeat;
  for (const PlacedToken& token : news.tokens) {
    if (!TakeToken(token, may_repeat)) return;
    may_repeat = false;
  }
  if (part_ != nullptr && news.decode_began) part_->Begun(spec_, attempt_->decode_key());
  // The first token is here, and the KV cache on its way.
  const bool transfers = state_ == State::kPrefilling && !news.tokens.empty();
  if (trace_ != nullptr && transfers && !news.ending && !pending_end_) trace_->Enter("transfer");
  if (news.ending) {
    if (spec_.stop.eos_policy != EosPolicy::kHonor) {
      output_->SeeNaturalEnd(news.ending->natural_end_step);
    }
    EndSoon({.reason = news.ending->reason, .stop_token = news.ending->stop_token},
            context_->options.deadlines.last_figures);
    attempt_->Release(pending_end_->reason);
  }
  if (pending_end_ && news.last_word) return Finish(*pending_end_);
  if (news.failure) FailAttempt(*news.failure);
}

void RequestFlow::Note(const AttemptFigures& figures) {
  // A worker's word that is no time at all leaves the sums of the metrics sound.
  if (std::isfinite(figures.queue_ms) && figures.queue_ms > 0) {
    timings_.set_queue_ms(timings_.queue_ms() + figures.queue_ms);
    waited_until_ = context_->clock->Now();  // so that no wait is counted twice
  }
  if (figures.prefill_ms) timings_.set_prefill_ms(*figures.prefill_ms);
  if (figures.kv_transfer_ms) timings_.set_kv_transfer_ms(*figures.kv_transfer_ms);
  if (figures.cached_tokens) cached_tokens_ = *figures.cached_tokens;
}

void RequestFlow::FailAttempt(const AttemptFailure& failure) {
  if (IsFinalRefusal(failure.status)) {
    if (trace_ != nullptr) trace_->FailAttempt(failure.status);
    EndAttempt(failure.outcome, FinishReason::kNone);
    return Fail(failure.status, FinishReason::kError);
  }
  const auto [outcome, suspect] = attempt_->BlameFor(failure);
  const base::Instant now = context_->clock->Now();
  if (!pending_end_) {
    // Attempts count what broke; a worker without room, or one that drains, broke nothing.
    if (!CountsAgainstRequest(outcome)) --attempts_;
    // What it was refused for want of a place was a wait, too, in that worker's line.
    if (!waiting_since_) waiting_since_ = outcome == AttemptOutcome::kFull ? waited_until_ : now;
  }
  spdlog::log(outcome == AttemptOutcome::kFull ? spdlog::level::info : spdlog::level::warn,
              "request {}: attempt {} on decode worker {}, prefill worker {} ended {} after {} "
              "tokens: {}",
              Name(), attempt_->number(), attempt_->decode_worker(), PrefillWorkerOf(*attempt_),
              std::string(AttemptOutcomeName(outcome)), output_->size(),
              std::string(failure.status.message()));
  ledger_.Record(outcome, {suspect}, now, context_->options.deadlines.avoid);
  last_failure_ = failure.status;
  settle_until_ = now + context_->options.deadlines.settle;
  if (!pending_end_) attempt_->SetInVain();
  if (trace_ != nullptr) trace_->FailAttempt(failure.status);
  EndAttempt(outcome, FinishReason::kNone);
  if (pending_end_) return Finish(*pending_end_);
  RetryOrGiveUp();
}

void RequestFlow::EndAttempt(AttemptOutcome outcome, FinishReason release) {
  const std::unique_ptr<Attempt> attempt = std::move(attempt_);
  if (attempt == nullptr) return;
  decode_worker_ = attempt->decode_worker();
  prefill_worker_ = attempt->prefill_worker();
  if (output_->size() > 0) fingerprint_ = attempt->fingerprint();
  if (trace_ != nullptr) {
    trace_->EndAttempt(outcome, prefill_worker_, output_->size() - attempt->first_index());
  }
  attempt->End(outcome, release);
}

}  // namespace baton
