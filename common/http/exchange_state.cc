#include "common/http/exchange_state.h"

#include <iterator>
#include <utility>

namespace baton {

void ExchangeState::Wake() {
  if (woken_ || !wake_) return;
  woken_ = true;
  wake_();
}

void ExchangeState::Reply(HttpReply reply) {
  base::MutexLock lock(&mutex_);
  if (begun_ || ended_ || gone_) return;
  begun_ = ended_ = true;
  size_t bytes = reply.body.size();
  for (const std::string& piece : reply.rest) bytes += piece.size();
  next_ = {
      .head =
          Head{.status = reply.status, .headers = std::move(reply.headers), .body_bytes = bytes},
      .body = std::move(reply.body),
      .end = reply.rest.empty()};
  rest_.assign(std::make_move_iterator(reply.rest.begin()),
               std::make_move_iterator(reply.rest.end()));
  held_ = std::move(reply.held);
  stalled_since_ = clock_->Now();
  Wake();
}

void ExchangeState::Begin(int status, HttpHeaders headers) {
  base::MutexLock lock(&mutex_);
  if (begun_ || ended_ || gone_) return;
  begun_ = true;
  next_.head = Head{.status = status, .headers = std::move(headers)};
  if (!stalled_since_) stalled_since_ = clock_->Now();
  Wake();
}

bool ExchangeState::Write(std::string chunk) {
  base::MutexLock lock(&mutex_);
  if (!begun_ || ended_ || gone_ || chunk.empty()) return true;
  const size_t waiting = taken_ + next_.body.size();
  if (waiting > 0 && waiting + chunk.size() > buffer_bytes_) return false;
  Append(std::move(chunk));
  Wake();
  return true;
}

void ExchangeState::WriteLast(std::string chunk, std::shared_ptr<void> held) {
  base::MutexLock lock(&mutex_);
  if (!begun_ || ended_ || gone_) return;
  Append(std::move(chunk));
  held_ = std::move(held);
  Finish();
}

void ExchangeState::End() {
  base::MutexLock lock(&mutex_);
  if (begun_ && !ended_ && !gone_) Finish();
}

void ExchangeState::Append(std::string chunk) {
  if (next_.body.empty()) {
    next_.body = std::move(chunk);
  } else {
    next_.body += chunk;
  }
  if (!stalled_since_) stalled_since_ = clock_->Now();
}

void ExchangeState::Finish() {
  ended_ = true;
  next_.end = true;
  woken_ = false;
  Wake();
}

void ExchangeState::Abort() {
  base::MutexLock lock(&mutex_);
  if (ended_ || gone_) return;
  ended_ = aborted_ = true;
  next_ = {.head = std::nullopt, .body = "", .abort = true};
  woken_ = false;
  Wake();
}

void ExchangeState::Abandon() {
  bool begun = false;
  {
    base::MutexLock lock(&mutex_);
    on_gone_ = nullptr;
    begun = begun_;
  }
  if (begun) return Abort();
  Reply({.status = 500,
         .headers = {{"Content-Type", "text/plain"}},
         .body = "the request was given up without an answer; send it again\n"});
}

void ExchangeState::OnGone(std::function<void()> gone) {
  {
    base::MutexLock lock(&mutex_);
    if (complete_) return;
    if (!gone_) {
      on_gone_ = std::move(gone);
      return;
    }
  }
  gone();
}

std::optional<base::Instant> ExchangeState::StalledSince() const {
  base::MutexLock lock(&mutex_);
  return stalled_since_;
}

ExchangeState::Fate ExchangeState::fate() const {
  base::MutexLock lock(&mutex_);
  if (aborted_) return Fate::kAborted;
  return ended_ ? Fate::kEnded : Fate::kOpen;
}

ExchangeState::Outgoing ExchangeState::Take() {
  base::MutexLock lock(&mutex_);
  woken_ = false;
  taken_ += next_.body.size();
  Outgoing taken = std::exchange(next_, {});
  if (!rest_.empty()) {
    next_.body = std::move(rest_.front());
    rest_.pop_front();
    next_.end = rest_.empty();
  }
  return taken;
}

void ExchangeState::Left(size_t bytes) {
  base::MutexLock lock(&mutex_);
  taken_ = bytes;
  stalled_since_.reset();
  if (taken_ > 0 || !next_.body.empty()) stalled_since_ = clock_->Now();
}

void ExchangeState::Complete() {
  std::function<void()> drop;  // what these hold may end with them, outside the lock
  std::shared_ptr<void> held;
  base::MutexLock lock(&mutex_);
  std::swap(held, held_);
  complete_ = true;
  wake_ = nullptr;
  stalled_since_.reset();
  std::swap(drop, on_gone_);
}

void ExchangeState::Gone() {
  std::function<void()> gone;
  std::shared_ptr<void> held;  // ends outside the lock, as the next
  std::deque<std::string> rest;
  {
    base::MutexLock lock(&mutex_);
    std::swap(held, held_);
    std::swap(rest, rest_);
    gone_ = true;
    wake_ = nullptr;
    stalled_since_.reset();
    next_ = {};
    std::swap(gone, on_gone_);
  }
  if (gone) gone();
}

}  // namespace baton
