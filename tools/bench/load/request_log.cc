#include "tools/bench/load/request_log.h"

#include <algorithm>
#include <utility>

namespace baton::bench {
namespace {

// How many chunks a record has room for before it is sent; for longer answers the room doubles.
constexpr int32_t kReservedChunks = 4096;

}  // namespace

RequestLog::RequestLog(std::shared_ptr<LoadState> state, const PlannedRequest& request)
    : state_(std::move(state)),
      index_(request.index),
      prompt_tokens_(request.prompt_tokens),
      max_tokens_(request.max_tokens) {
  record_.chunks.reserve(static_cast<size_t>(std::clamp(request.max_tokens, 1, kReservedChunks)));
}

void RequestLog::WillBeSent(base::Instant due, base::Instant scheduled, base::Instant now) {
  due_ = due;
  scheduled_ = scheduled;
  sent_ = now;
}

void RequestLog::OnSent(base::Instant now) {
  sent_ = now;
  if (state_->closed_loop) scheduled_ = now;
}

void RequestLog::OnChunk(base::Instant now, int32_t tokens) {
  if (record_.chunks.empty()) {
    state_->last_ttft_ms.store(base::Milliseconds(now - scheduled_), std::memory_order_relaxed);
  }
  record_.chunks.push_back({.at = Since(now), .tokens = tokens});
  state_->output_tokens.fetch_add(tokens, std::memory_order_relaxed);
}

void RequestLog::OnEnd(base::Instant now, RequestRecord result) {
  TakeResult(now, std::move(result));
  if (record_.ok()) {
    ++state_->done;
  } else if (!record_.cancelled) {
    ++state_->failed;
  }
  base::MutexLock lock(&state_->mutex);
  ended_ = true;
  if (--state_->under_way == 0) state_->quiet.NotifyAll();
  if (state_->closed_loop) {
    state_->free_places.push_back(now);
    state_->place_or_halt.NotifyAll();
  }
  if (record_.status.code() == absl::StatusCode::kUnavailable) {
    ++state_->unavailable_in_row;
    state_->last_unavailable = record_.status;
  } else if (!record_.cancelled) {
    state_->unavailable_in_row = 0;
  }
}

void RequestLog::MoveTo(LoadResult* result) {
  base::MutexLock lock(&state_->mutex);
  if (ended_) {
    result->lag_ms.push_back(std::max(0.0, base::Milliseconds(sent_ - due_)));
    result->records.push_back(std::move(record_));
    return;
  }
  // Its callbacks may still run, so what they write is left alone.
  RequestRecord lost;
  lost.cancelled = true;
  lost.status = absl::InternalError("the stream did not end after it had been cancelled");
  Identify(due_, due_, &lost);
  lost.ended = lost.sent;
  result->lag_ms.push_back(0);
  result->records.push_back(std::move(lost));
}

void RequestLog::TakeResult(base::Instant now, RequestRecord result) {
  Identify(scheduled_, sent_, &result);
  result.ended = Since(now);
  result.chunks = std::move(record_.chunks);
  if (result.chunks.capacity() > 2 * result.chunks.size()) result.chunks.shrink_to_fit();
  record_ = std::move(result);
}

void RequestLog::Identify(base::Instant scheduled, base::Instant sent,
                          RequestRecord* record) const {
  record->index = index_;
  record->planned_prompt_tokens = prompt_tokens_;
  record->max_tokens = max_tokens_;
  record->scheduled = Since(scheduled);
  record->sent = Since(sent);
}

}  // namespace baton::bench
