// The part of RequestFlow that brings tokens from the workers to the client.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "router/request/logprob_messages.h"
#include "router/request/request_flow.h"

namespace baton {
namespace {

void FillEosStep(const PlacedToken& token, v1::EosStep* out) {
  const EosSignal& signal = token.token.eos;
  out->set_step(token.index + 1);
  if (!std::isnan(signal.eos_logprob)) {
    out->set_eos_logprob(signal.eos_logprob);
    out->set_eos_prob(std::exp(static_cast<double>(signal.eos_logprob)));
  }
  out->set_eos_prob_sampling(signal.eos_prob_sampling);
  out->set_eos_rank(signal.eos_rank);
  out->set_entropy(signal.entropy);
  out->set_top1_prob(signal.top1_prob);
  out->set_timestamp(token.unix_time);
  out->mutable_probe()->Assign(token.token.probe.begin(), token.token.probe.end());
}

v1::EndPrediction PredictionOf(const EndEstimate& end) {
  v1::EndPrediction prediction;
  prediction.set_at_step(end.at_step);
  prediction.set_expected_remaining(end.expected_remaining);
  prediction.set_p50(end.p50);
  prediction.set_p90(end.p90);
  for (size_t i = 0; i < kEndHorizons.size(); ++i) {
    v1::EndWithin* within = prediction.add_within();
    within->set_horizon(kEndHorizons[i]);
    within->set_probability(end.p_within[i]);
  }
  prediction.set_predictor(std::string(PredictorKindName(end.kind)));
  return prediction;
}

}  // namespace

// The tokens before are kept whatever comes. This one may be of another continuation than the
// worker that drew those would have written, and that is not silent.
void RequestFlow::NoteNumerics() {
  if (numerics_ == attempt_numerics_) return;
  if (output_->size() > 0) {
    spdlog::info(
        "request {}: continues after {} tokens on a worker with numerics {}; those tokens were "
        "made with {}, so the rest may differ from an undisturbed run",
        Name(), output_->size(), attempt_numerics_, numerics_);
    context_->probe->NumericsChanged();
  }
  numerics_ = attempt_numerics_;
}

bool RequestFlow::TakeToken(const PlacedToken& token, bool may_repeat) {
  const AcceptedOutput::Verdict verdict = output_->Judge(token);
  if (verdict == AcceptedOutput::Verdict::kKnown && may_repeat &&
      token.index == attempt_->first_index()) {
    // Of the two workers that tell the first token, one may know more of the end.
    if (token.index + 1 == output_->size()) Predict(token);
    return true;
  }
  if (pending_end_) {
    Finish(*pending_end_);  // the worker goes on where the request has ended
    return false;
  }
  if (verdict != AcceptedOutput::Verdict::kNext) {
    FailAttempt({.status = absl::InternalError(
                     absl::StrCat("token ", token.token.token, " at index ", token.index,
                                  "; expected index ", output_->size()))});
    return false;
  }
  const int32_t vocab = context_->model.config.vocab;
  if (token.token.token < 0 || token.token.token >= vocab) {
    FailAttempt({.status = absl::InternalError(
                     absl::StrCat("token ", token.token.token, " at index ", token.index,
                                  "; expected ids from 0 to ", vocab - 1))});
    return false;
  }
  NoteNumerics();
  AcceptedOutput::Addition addition = output_->Accept(token);
  logprob_sum_ += token.token.logprob;
  shown_.tokens = output_->size();
  if (watched_ != nullptr) watched_->Token(token.token.eos);
  LogToken(token);
  Deliver(token, std::move(addition.text));
  if (state_ == State::kDone) return false;
  if (!addition.end) {
    Predict(token);
    return true;
  }
  if (addition.end->reason == FinishReason::kStopString) {
    Finish(*addition.end);
    return false;
  }
  EndSoon(*std::move(addition.end), context_->options.deadlines.release);
  return true;
}

void RequestFlow::Deliver(const PlacedToken& token, std::string text) {
  const base::Instant now = context_->clock->Now();
  if (token.index == 0) {
    first_token_at_ = now;
    timings_.set_ttft_ms(base::Milliseconds(now - arrived_));
    if (spec_.index == 0) {
      context_->probe->FirstToken(spec_.tenant, now - arrived_);
    } else {
      context_->probe->FirstOfFurther();
    }
    if (trace_ != nullptr) trace_->FirstToken(now);
  } else {
    context_->probe->NextToken(now - last_token_at_);
  }
  last_token_at_ = now;
  v1::Delta delta;
  delta.set_text(std::move(text));
  delta.add_token_ids(token.token.token);
  if (spec_.logprobs) {
    FillLogprobs(token.token, *context_->model.tokenizer, delta.add_logprobs());
  }
  if (spec_.eos_steps) FillEosStep(token, delta.add_eos_steps());
  const absl::Status taken = sink_->Append(std::move(delta));
  if (!taken.ok()) Fail(taken, FinishReason::kError);
}

// Tells the page and the client what the token's worker foresees, the client once per step and
// behind the token itself.
void RequestFlow::Predict(const PlacedToken& token) {
  const auto& end = token.token.end;
  if (end) Foresee(*end);
  if (spec_.predict_every == 0 || !end || end->at_step <= predicted_step_) return;
  if (end->at_step % spec_.predict_every != 0 || pending_end_) return;
  predicted_step_ = end->at_step;
  sink_->Predict(PredictionOf(*end));
}

void RequestFlow::Foresee(const EndEstimate& end) {
  shown_.expected_remaining = end.expected_remaining;
  shown_.p50 = end.p50;
  shown_.p90 = end.p90;
  if (watched_ != nullptr) watched_->Foresee(end);
}

void RequestFlow::LogToken(const PlacedToken& token) {
  if (eos_rows_ == nullptr) return;
  eos_rows_->Accept({.timestamp = token.unix_time,
                     .step = output_->size(),
                     .id = token.token.token,
                     .signal = token.token.eos,
                     .natural_end_step = output_->natural_end_step(),
                     .attempt = attempt_->number()});
}

void RequestFlow::EndSoon(OutputEnd end, base::Duration within) {
  if (!pending_end_) pending_end_ = std::move(end);
  end_by_ = std::min(end_by_, context_->clock->Now() + within);
}

}  // namespace baton
