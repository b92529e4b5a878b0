// The part of RequestFlow that ends the request and tells everybody.
#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "router/request/answer_part.h"
#include "router/request/request_flow.h"
#include "router/request/request_summary.h"

namespace baton {
namespace {

v1::FinishReason ReasonToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopEos:
      return v1::FINISH_REASON_STOP_EOS;
    case FinishReason::kStopToken:
      return v1::FINISH_REASON_STOP_TOKEN;
    case FinishReason::kStopString:
      return v1::FINISH_REASON_STOP_STRING;
    case FinishReason::kStopGrammar:
      return v1::FINISH_REASON_STOP_GRAMMAR;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kRunaway:
      return v1::FINISH_REASON_RUNAWAY;
    default:
      return v1::FINISH_REASON_UNSPECIFIED;
  }
}

v1::StopCause CauseToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopEos:
      return v1::STOP_CAUSE_EOS;
    case FinishReason::kStopToken:
      return v1::STOP_CAUSE_TOKEN;
    case FinishReason::kStopString:
      return v1::STOP_CAUSE_STRING;
    case FinishReason::kStopGrammar:
      return v1::STOP_CAUSE_GRAMMAR;
    case FinishReason::kRunaway:
      return v1::STOP_CAUSE_RUNAWAY;
    default:
      return v1::STOP_CAUSE_NONE;
  }
}

// Adds the id by which logs name the request to `status`: the client may not have heard of it yet.
absl::Status Named(const absl::Status& status, const std::string& request_id) {
  ErrorDetail detail = DetailOf(status);
  detail.values.emplace_back("request_id", request_id);
  return MakeError(status.code(), std::move(detail),
                   {status.message().data(), status.message().size()});
}

}  // namespace

void RequestFlow::Finish(const OutputEnd& end) {
  if (spec_.beams.on()) return FinishBeams();
  const OutputEnd ended = end;  // `end` may be part of what is reset below
  const std::string rest =
      ended.reason == FinishReason::kStopString ? std::string() : output_->FinishText();
  const bool finished = attempt_ != nullptr && attempt_->finished();
  EndAttempt(finished ? AttemptOutcome::kFinished : AttemptOutcome::kReleased, ended.reason);
  if (!rest.empty()) {
    v1::Delta delta;
    delta.set_text(rest);
    const absl::Status taken = sink_->Append(std::move(delta));
    if (!taken.ok()) return Fail(taken, FinishReason::kError);
  }
  // It may end before a decode worker has its prompt; then the others wait no longer.
  if (part_ != nullptr) part_->Begun(spec_, std::nullopt);
  timings_.set_total_ms(base::Milliseconds(context_->clock->Now() - arrived_));
  end_ = ended;
  // The books are closed first, so that whoever has the answer finds the request in the figures and
  // its id free again.
  Close(ended.reason, absl::OkStatus());
  sink_->Finish(FinalMessage(ended));
}

v1::Final RequestFlow::FinalMessage(const OutputEnd& end) const {
  v1::Final final;
  final.set_finish_reason(ReasonToProto(end.reason));
  final.set_stop_cause(CauseToProto(end.reason));
  if (end.stop_token) final.set_stop_token_id(*end.stop_token);
  if (end.stop_string) final.set_stop_string(*end.stop_string);
  v1::Usage* usage = final.mutable_usage();
  usage->set_prompt_tokens(static_cast<int32_t>(spec_.prompt.size()));
  usage->set_cached_tokens(std::min(cached_tokens_, usage->prompt_tokens()));
  usage->set_completion_tokens(output_->size());
  if (const auto step = output_->natural_end_step()) usage->set_natural_end_step(*step);
  *final.mutable_timings() = timings_;
  final.set_attempts(attempts_);
  final.set_prefill_worker(prefill_worker_);
  final.set_decode_worker(decode_worker_);
  if (part_ != nullptr) final.set_seed(spec_.sampling.seed);
  if (spec_.ranked()) final.set_score(logprob_sum_ / output_->size());
  return final;
}

void RequestFlow::Fail(const absl::Status& status, FinishReason reason) {
  const AttemptOutcome outcome = reason == FinishReason::kAborted    ? AttemptOutcome::kCancelled
                                 : reason == FinishReason::kDeadline ? AttemptOutcome::kDeadline
                                                                     : AttemptOutcome::kOther;
  EndAttempt(outcome, FinishReason::kNone);
  StopWaiting();  // if that is what it did to its end
  timings_.set_total_ms(base::Milliseconds(context_->clock->Now() - arrived_));
  Close(reason, status);
  sink_->Fail(Named(status, spec_.request_id));
}

void RequestFlow::FailByDeadline() {
  if (state_ == State::kQueued || state_ == State::kPreparing) context_->probe->DiedInQueue();
  Fail(absl::DeadlineExceededError("the request's deadline passed; allow more time or ask for "
                                   "fewer tokens"),
       FinishReason::kDeadline);
}

void RequestFlow::Reject(const absl::Status& status) {
  rejected_ = true;
  Close(FinishReason::kError, status);
  sink_->Fail(Named(status, spec_.request_id));
}

void RequestFlow::Close(FinishReason reason, const absl::Status& status) {
  if (waiter_ != 0) context_->admission->Remove(waiter_);
  waiter_ = 0;
  context_->pool->Drop(text_work_);
  EnterState(State::kDone);
  if (eos_rows_ != nullptr) eos_rows_->Finish(reason);
  if (watched_ != nullptr) {
    watched_->End(spec_.request_id, {.reason = reason,
                                     .natural_end_step = output_->natural_end_step(),
                                     .max_tokens = spec_.stop.max_tokens});
    watched_.reset();
  }
  if (logged_ && !rejected_) WriteSummary(reason, status);
  if (!status.ok() && (part_ == nullptr || part_->IsFirstToFail())) {
    spdlog::info("request {}: {} {}", Name(), std::string(CodeName(status.code())),
                 std::string(status.message()));
  }
  RequestFigures figures;
  figures.reason = reason;
  figures.rejected = rejected_;
  figures.tenant = spec_.tenant;
  figures.status = status;
  const base::Instant now = context_->clock->Now();
  figures.total = now - arrived_;
  figures.slack = deadline_ - now;
  if (output_ && output_->size() > 1) {
    figures.decoding = last_token_at_ - first_token_at_;
    figures.decoding_gaps = output_->size() - 1;
  }
  figures.prompt_tokens = static_cast<int32_t>(spec_.prompt.size());
  figures.output_tokens = output_ ? output_->size() : 0;
  figures.output_tokens += BeamTokens();
  if (!rejected_) figures.queue_ms = timings_.queue_ms();
  if (output_) figures.natural_end_step = output_->natural_end_step();
  LogEnd(figures);
  if (trace_ != nullptr) {
    trace_->End({.figures = figures,
                 .reason = FinishReasonName(reason),
                 .max_tokens = spec_.stop.max_tokens,
                 .cached_tokens = std::min(cached_tokens_, figures.prompt_tokens),
                 .attempts = attempts_});
    trace_.reset();
  }
  // A late event of a stream may keep this flow for longer than the router, and so the router's
  // budget.
  spec_.held.reset();
  if (part_ != nullptr) return part_->Book(std::move(figures));
  context_->probe->RequestEnded(figures);
  context_->registry->Remove(spec_.tenant, spec_.request_id);
}

void RequestFlow::LogEnd(const RequestFigures& figures) const {
  if (!spdlog::should_log(spdlog::level::debug)) return;
  spdlog::debug(
      "request {} ended: reason={} tenant={} prompt_tokens={} cached_tokens={} output_tokens={} "
      "queue_ms={:.1f} ttft_ms={:.1f} total_ms={:.1f} attempts={}",
      Name(), figures.rejected ? "rejected" : std::string(FinishReasonName(figures.reason)),
      figures.tenant, figures.prompt_tokens, std::min(cached_tokens_, figures.prompt_tokens),
      figures.output_tokens, timings_.queue_ms(), timings_.ttft_ms(),
      base::Milliseconds(figures.total), attempts_);
}

void RequestFlow::WriteSummary(FinishReason reason, const absl::Status& status) {
  context_->eos_log->AppendSummary(
      SummaryLine({.spec = spec_,
                   .model = context_->model.name,
                   .arrived = unix_arrived_,
                   .reason = reason,
                   .status = status,
                   .end = end_,
                   .output_length = output_ ? output_->size() : 0,
                   .natural_end_step = output_ ? output_->natural_end_step() : std::nullopt,
                   .cached_tokens = cached_tokens_,
                   .attempts = attempts_,
                   .timings = timings_,
                   .prefill_worker = prefill_worker_,
                   .decode_worker = decode_worker_}));
}

}  // namespace baton
