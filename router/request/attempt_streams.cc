// The part of Attempt that hears its streams.
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "router/request/attempt.h"
#include "router/request/flow_context.h"

namespace baton {
namespace {

// A worker that does not keep to the protocol.
AttemptNews Misspoke(const std::string& how, WorkerKind blamed) {
  AttemptNews news;
  news.failure = {
      .outcome = AttemptOutcome::kOther, .status = absl::InternalError(how), .blamed = blamed};
  return news;
}

// Says what is not as a worker has to tell the results of a search; "" if all is.
std::string WrongWith(const std::vector<BeamResult>& beams, int32_t steps, const RequestSpec& asked,
                      int32_t vocab) {
  if (std::ssize(beams) != asked.beams.results) {
    return absl::StrCat("Final with ", beams.size(), " answers of a beam search; expected ",
                        asked.beams.results);
  }
  if (steps < 0 || steps > asked.stop.max_tokens) {
    return absl::StrCat("Final of a beam search of ", steps, " steps; expected at most ",
                        asked.stop.max_tokens);
  }
  for (const BeamResult& beam : beams) {
    if (beam.tokens.empty() || beam.reason == FinishReason::kNone || !std::isfinite(beam.score)) {
      return "Final with an answer of a beam search that has no token, reason or score";
    }
    for (const TokenId id : beam.tokens) {
      if (id < 0 || id >= vocab) {
        return absl::StrCat("Final with token ", id, "; expected ids from 0 to ", vocab - 1);
      }
    }
  }
  return "";
}

}  // namespace

bool Attempt::Owns(const CallEvent& event) const {
  return event.call == (event.kind == CallKind::kDecode ? decode_call_ : prefill_call_);
}

AttemptNews Attempt::Hear(CallEvent& event) {
  const bool decode = event.kind == CallKind::kDecode;
  if (const auto* ended = std::get_if<CallEnded>(&event.what)) {
    return decode ? OnDecodeEnded(ended->status) : OnPrefillEnded(ended->status);
  }
  if (decode) {
    const auto& message = std::get<worker::v1::DecodeResponse>(event.what);
    if (message.has_reserved()) return OnReserved(message.reserved());
    if (message.has_started()) {
      if (!waits_for_scores()) return OnStarted(message.started());
      held_started_ = message.started();
      return {};
    }
    if (message.has_scores()) return OnScores(message.scores(), WorkerKind::kDecode);
    if (message.has_tokens()) return OnTokens(message.tokens());
    if (message.has_final()) return OnDecodeFinal(message.final());
  } else {
    const auto& message = std::get<worker::v1::PrefillResponse>(event.what);
    if (message.has_scores()) return OnScores(message.scores(), WorkerKind::kPrefill);
    if (message.has_first_token()) return OnFirstToken(message.first_token());
    if (message.has_final()) return OnPrefillFinal(message.final());
  }
  return {};
}

void Attempt::ReadNext(const CallEvent& event) {
  if (std::holds_alternative<CallEnded>(event.what)) return;
  if (event.kind == CallKind::kPrefill) {
    prefill_->ReadNext();
    if (decode_unread_ && !held_started_) {
      decode_unread_ = false;
      decode_->ReadNext();
    }
  } else if (held_started_) {
    decode_unread_ = true;
  } else {
    decode_->ReadNext();
  }
}

AttemptNews Attempt::OnReserved(const worker::v1::Reserved& reserved) {
  if (local()) return {};
  if (phase_ != Phase::kOpened) return Misspoke("reserved twice", WorkerKind::kDecode);
  const WorkerView& decode = placement_.decode.view;
  phase_ = Phase::kReserved;
  StopAwaiting();  // the decode worker gives a silent reservation up by itself
  ticket_ = reserved.ticket();
  push_address_ = reserved.push_address();
  if (push_address_.empty()) push_address_ = decode.facts.push_address;
  if (push_address_.empty()) push_address_ = decode.address;
  skip_blocks_ = reserved.cached_blocks();
  OpenPrefill();
  AttemptNews news;
  news.prefill_began = true;
  return news;
}

AttemptNews Attempt::OnStarted(const worker::v1::DecodeStarted& started) {
  if (phase_ != (local() ? Phase::kOpened : Phase::kReserved)) {
    return Misspoke("Started at the wrong time", WorkerKind::kDecode);
  }
  phase_ = Phase::kStarted;
  StopAwaiting();
  if (local()) placement_.decode.hold->PrefillDone();
  LearnPrompt(started);
  LearnHandoff();
  AttemptNews news;
  news.decode_began = true;
  news.may_repeat = !local();
  news.tokens.push_back(TokenFromProto(started.token()));
  const int32_t index = news.tokens.front().index;
  if (index != first_index_) {
    return Misspoke(absl::StrCat("started at index ", index, "; expected ", first_index_),
                    WorkerKind::kDecode);
  }
  if (local() && index == 0) news.figures.cached_tokens = started.cached_tokens();
  return news;
}

AttemptNews Attempt::OnScores(const worker::v1::PromptScores& scores, WorkerKind from) {
  const bool expected = progress_.score_from > 0 && !started() && !first_token_at_ &&
                        local() == (from == WorkerKind::kDecode);
  if (!expected) return Misspoke("scores that nobody waits for", from);
  AttemptNews news;
  news.scores.push_back(ScoresFromProto(scores));
  return news;
}

AttemptNews Attempt::OnTokens(const worker::v1::Tokens& tokens) const {
  if (!started()) return Misspoke("tokens before Started", WorkerKind::kDecode);
  AttemptNews news;
  for (const worker::v1::Token& token : tokens.tokens()) {
    news.tokens.push_back(TokenFromProto(token));
  }
  return news;
}

AttemptNews Attempt::OnDecodeFinal(const worker::v1::DecodeFinal& final) {
  AttemptNews news;
  news.ending = EndingFromProto(final.ending());
  const bool searched = progress_.spec.beams.on();
  const bool brought = searched ? started() : progress_.output.size() > first_index_;
  if (news.ending->reason == FinishReason::kNone || !brought) {
    return Misspoke("Final without a reason or without a token", WorkerKind::kDecode);
  }
  const int32_t size = progress_.output.size();
  const int32_t most = progress_.spec.stop.max_tokens;
  if (!searched && news.ending->reason == FinishReason::kLength && size < most) {
    return Misspoke(absl::StrCat("Final for its length after ", size, " of ", most, " tokens"),
                    WorkerKind::kDecode);
  }
  if (searched) {
    news.beams = BeamsFromProto(final.beams());
    const std::string wrong =
        WrongWith(news.beams, final.beam_steps(), progress_.spec, context_->model.config.vocab);
    if (!wrong.empty()) return Misspoke(wrong, WorkerKind::kDecode);
    beam_tokens_ = int64_t{progress_.spec.beams.width} * final.beam_steps();
  }
  phase_ = Phase::kFinished;
  if (local()) {
    news.figures.queue_ms = final.timings().queue_ms();
    if (first_index_ == 0) news.figures.prefill_ms = final.timings().prefill_ms();
  }
  // Of a short answer the decode worker's last word may come before the prefill worker's.
  news.last_word = local() || prefill_over_ || prefill_ended_;
  return news;
}

AttemptNews Attempt::OnDecodeEnded(const absl::Status& status) const {
  if (finished()) return {};
  const absl::Status why =
      status.ok() ? absl::UnavailableError("the decode stream ended without Final") : status;
  AttemptNews news;
  news.last_word = true;
  news.failure = {.outcome = OutcomeOfStatus(why), .status = why, .blamed = WorkerKind::kDecode};
  return news;
}

AttemptNews Attempt::OnPrefillFinal(const worker::v1::PrefillFinal& final) {
  prefill_over_ = true;
  AttemptNews news;
  if (held_started_) news = OnStarted(*std::exchange(held_started_, std::nullopt));
  news.figures.queue_ms = final.timings().queue_ms();
  if (first_index_ == 0) {
    news.figures.prefill_ms = final.timings().prefill_ms();
    news.figures.kv_transfer_ms = final.transfer_ms();
  }
  news.last_word = !started() || finished();
  if (started()) return news;
  const RouterDeadlines& deadlines = context_->options.deadlines;
  const base::Instant now = context_->clock->Now();
  Await("Started after the commit", AttemptOutcome::kPushFailed, now + deadlines.commit_to_started,
        now + deadlines.slow_answer);
  return news;
}

AttemptNews Attempt::OnFirstToken(const worker::v1::FirstToken& first) {
  if (first_token_at_) return Misspoke("two first tokens", WorkerKind::kPrefill);
  first_token_at_ = context_->clock->Now();
  placement_.prefill->hold->PrefillDone();
  AttemptNews news;
  news.may_repeat = true;
  news.tokens.push_back(TokenFromProto(first.token()));
  if (news.tokens.front().index == 0) {
    news.figures.cached_tokens = first.cached_tokens();
    news.figures.prefill_ms = base::Milliseconds(*first_token_at_ - prefill_opened_);
  }
  if (first.has_ending()) news.ending = EndingFromProto(first.ending());
  if (!held_started_) return news;
  // It tells the same token.
  const AttemptNews started = OnStarted(*std::exchange(held_started_, std::nullopt));
  news.decode_began = started.decode_began;
  news.failure = started.failure;
  return news;
}

AttemptNews Attempt::OnPrefillEnded(const absl::Status& status) {
  const bool may_go_elsewhere = !status.ok() && !started() && !first_token_at_;
  AttemptNews news;
  const base::Instant asked = prefill_opened_;
  if (may_go_elsewhere && !IsFinalRefusal(status) && TryOtherPrefill(status)) {
    news.figures.queue_ms = base::Milliseconds(prefill_opened_ - asked);  // in the first one's line
    return news;
  }
  prefill_ended_ = true;
  news.last_word = !started() || finished();
  // The KV cache is where it belongs, or now the decode worker has the word on it.
  if (started() || (status.ok() && prefill_over_)) return news;
  const absl::Status why =
      status.ok() ? absl::UnavailableError("the prefill stream ended too early") : status;
  const WorkerKind blamed = IsWordOfReceiver(why) ? WorkerKind::kDecode : WorkerKind::kPrefill;
  news.failure = {.outcome = OutcomeOfStatus(why), .status = why, .blamed = blamed};
  return news;
}

}  // namespace baton
