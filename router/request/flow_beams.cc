// The part of RequestFlow that brings the answers of a beam search to the client: all at once, at
// the end.
#include <algorithm>
#include <utility>
#include <vector>

#include "common/text/text_stream.h"
#include "router/request/held_answers.h"
#include "router/request/request_flow.h"

namespace baton {

// What workers say of a first token tells nothing but that the prompt was computed. So an attempt
// that follows another one begins with the prompt alone, and finds the same.
void RequestFlow::ApplyToBeams(const AttemptNews& news) {
  if (news.ending && news.beams.empty()) {
    return FailAttempt({.status = absl::InternalError("a worker ended a beam search that it did "
                                                      "not run; is it of an earlier version?")});
  }
  if (news.ending) {
    beams_ = news.beams;
    EndSoon({.reason = news.ending->reason, .stop_token = news.ending->stop_token},
            context_->options.deadlines.last_figures);
    attempt_->Release(pending_end_->reason);
  }
  if (pending_end_ && news.last_word) return FinishBeams();
  if (news.failure) FailAttempt(*news.failure);
}

void RequestFlow::FinishBeams() {
  const OutputEnd ended = *pending_end_;
  EndAttempt(AttemptOutcome::kFinished, ended.reason);
  const base::Instant now = context_->clock->Now();
  first_token_at_ = last_token_at_ = now;
  timings_.set_ttft_ms(base::Milliseconds(now - arrived_));
  timings_.set_total_ms(timings_.ttft_ms());
  context_->probe->FirstToken(spec_.tenant, now - arrived_);
  context_->probe->TokensBeside(std::max(0, BeamTokens() - 1));
  HeldAnswers answers(spec_.beams.results);
  for (size_t i = 0; i < beams_.size(); ++i) {
    const BeamResult& beam = beams_[i];
    // An id that ends an answer is delivered as an id, not as text.
    const size_t spoken = beam.tokens.size() - (beam.reason == FinishReason::kLength ? 0 : 1);
    TextStream text(*context_->model.tokenizer, {.skip_special_tokens = spec_.skip_special_tokens});
    for (size_t at = 0; at < beam.tokens.size(); ++at) {
      v1::Delta delta;
      delta.set_index(static_cast<int32_t>(i));
      delta.add_token_ids(beam.tokens[at]);
      if (at < spoken) delta.set_text(text.Append(beam.tokens[at], /*stops_active=*/false).text);
      if (at + 1 == beam.tokens.size()) delta.mutable_text()->append(text.Finish());
      answers.Append(std::move(delta));
    }
    answers.End(BeamFinal(static_cast<int32_t>(i)));
  }
  end_ = ended;
  // The books are closed first, so that whoever has the answers finds the request in the figures
  // and its id free again.
  Close(ended.reason, absl::OkStatus());
  std::vector<HeldAnswer> best = answers.TakeBest(spec_.beams.results);
  ByteBudget::Share share = context_->budget->Add(spec_.client, BytesHeld(best));
  sink_->FinishHeld(std::move(best), std::move(share));
}

int32_t RequestFlow::BeamTokens() const {
  int32_t tokens = 0;
  for (const BeamResult& beam : beams_) tokens += static_cast<int32_t>(beam.tokens.size());
  return tokens;
}

v1::Final RequestFlow::BeamFinal(int32_t index) const {
  const BeamResult& beam = beams_[static_cast<size_t>(index)];
  OutputEnd end = {.reason = beam.reason};
  if (beam.reason != FinishReason::kLength) end.stop_token = beam.tokens.back();
  v1::Final final = FinalMessage(end);
  final.set_index(index);
  final.set_score(beam.score);
  final.mutable_usage()->set_completion_tokens(static_cast<int32_t>(beam.tokens.size()));
  v1::Usage total = final.usage();
  if (index > 0) {
    final.mutable_usage()->clear_prompt_tokens();
    final.mutable_usage()->clear_cached_tokens();
  }
  if (index + 1 == std::ssize(beams_)) {
    total.set_completion_tokens(BeamTokens());
    *final.mutable_total_usage() = std::move(total);
  }
  return final;
}

}  // namespace baton
