// How a connection answers.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "boost/asio/post.hpp"
#include "common/http/connection.h"
#include "common/http/io_thread.h"
#include "common/http/reply_text.h"

namespace baton {
namespace {

// A buffer that has grown beyond this is let go of when it is empty.
constexpr size_t kKeptBytes = 4096;

}  // namespace

void Connection::LetGo(std::string* text) {
  text->clear();
  if (text->capacity() > kKeptBytes) text->shrink_to_fit();
}

bool Connection::RefusesHost(const HttpRequest& request) {
  const std::string* const host = request.Find("Host");
  if (host == nullptr || !options_.refuse_host) return false;
  const std::optional<std::string> why = options_.refuse_host(*host);
  if (why) Answer(options_.error_reply(403, *why), reader_->has_body());
  return why.has_value();
}

bool Connection::AnswersPreflight(const HttpRequest& request) {
  if (request.method != "OPTIONS" || request.Find("Origin") == nullptr ||
      request.Find("Access-Control-Request-Method") == nullptr) {
    return false;
  }
  if (origin_.empty()) {
    Answer(options_.error_reply(403, "pages of this origin may not send requests here"),
           reader_->has_body());
    return true;
  }
  HttpReply reply{.status = 204,
                  .headers = {{"Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS"},
                              {"Access-Control-Max-Age", "600"}}};
  if (const std::string* names = request.Find("Access-Control-Request-Headers")) {
    reply.headers.emplace_back("Access-Control-Allow-Headers", *names);
  }
  Answer(std::move(reply), reader_->has_body());
  return true;
}

void Connection::Answer(HttpReply reply, bool close) {
  receiving_.reset();
  reader_.reset();
  EnterAnswer();
  keep_alive_ = keep_alive_ && !close;
  auto& refusals = thread_->shared().refusals;
  const auto refusal = static_cast<size_t>(std::max(reply.status, 400) - 400);
  if (reply.status >= 400 && refusal < refusals.size()) ++refusals[refusal];
  WriteHead({.status = reply.status,
             .headers = std::move(reply.headers),
             .body_bytes = reply.body.size()});
  if (!is_head_) output_ += reply.body;
  answer_ends_ = true;
  BeginEnding();
  Flush();
}

void Connection::AnswerFailure(int status, const std::string& message) {
  Answer(options_.error_reply(status, message), true);
}

void Connection::WriteHead(ExchangeState::Head head) {
  HttpServerShared& shared = thread_->shared();
  const base::Duration age = options_.limits.connection_age;
  const bool old = age > base::Duration::zero() && options_.clock->Now() - began_ >= age;
  if (shared.going_away || old) keep_alive_ = false;
  const bool has_body = head.status >= 200 && head.status != 204 && head.status != 304;
  chunked_ = !head.body_bytes && !http_1_0_;
  if (!head.body_bytes && http_1_0_) keep_alive_ = false;
  if (!origin_.empty()) {
    head.headers.emplace_back("Access-Control-Allow-Origin", origin_);
    head.headers.emplace_back("Access-Control-Expose-Headers", "*");
  }
  if (options_.allow_origin) head.headers.emplace_back("Vary", "Origin");
  ReplyHead text{.status = head.status,
                 .headers = head.headers,
                 .content_length = std::nullopt,
                 .chunked = chunked_,
                 .keep_alive = keep_alive_,
                 .http_1_0 = http_1_0_,
                 .unix_now = options_.clock->UnixNow()};
  if (has_body) text.content_length = head.body_bytes;
  output_ += HeadText(text);
  const auto group = static_cast<size_t>(std::clamp(head.status / 100, 0, 5));
  ++shared.answers[group];
}

void Connection::BeginEnding() {
  if (std::exchange(ending_, true)) return;
  deadline_ = options_.clock->Now() + options_.limits.slow_client;
}

void Connection::Pump() {
  for (int turn = 0; turn < kTurns; ++turn) {
    if (phase_ != Phase::kAnswer || state_ == nullptr || answer_ends_) return;
    if (!output_.empty()) {
      const ExchangeState::Fate fate = state_->fate();
      if (fate == ExchangeState::Fate::kAborted) return Close();
      if (fate == ExchangeState::Fate::kEnded) BeginEnding();
      return;
    }
    ExchangeState::Outgoing next = state_->Take();
    if (next.abort) return Close();
    if (next.head) WriteHead(*std::move(next.head));
    if (!next.body.empty() && !is_head_) output_ += chunked_ ? ChunkText(next.body) : next.body;
    if (next.end) {
      if (chunked_ && !is_head_) output_ += LastChunkText();
      answer_ends_ = true;
      BeginEnding();
    }
    if (output_.empty() && !answer_ends_) return;
    Flush();
  }
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Pump(); });
}

void Connection::Flush() {
  bool progress = false;
  while (written_ < output_.size()) {
    size_t taken = 0;
    const StreamResult result = stream_->Write(std::string_view(output_).substr(written_), &taken);
    if (result == StreamResult::kClosed) return OnPeerGone();
    if (result == StreamResult::kWantRead) {
      WaitReadable();
      break;
    }
    if (result == StreamResult::kWantWrite) {
      WaitWritable();
      break;
    }
    written_ += taken;
    progress = true;
  }
  const bool all = written_ == output_.size();
  if (state_ != nullptr && progress) state_->Left(output_.size() - written_);
  if (phase_ == Phase::kAnswer && !ending_) {
    // Twice the time, so that a handler that looks at StalledSince can end it with a reason.
    if (all) deadline_ = base::kNever;
    if (!all && (progress || deadline_ == base::kNever)) {
      deadline_ = options_.clock->Now() + 2 * options_.limits.slow_client;
    }
  }
  if (!all) return;
  written_ = 0;
  LetGo(&output_);
  if (phase_ == Phase::kAnswer && answer_ends_) FinishAnswer();
}

void Connection::FinishAnswer() {
  LeaveAnswer();
  answer_ends_ = ending_ = false;
  if (state_ != nullptr) std::exchange(state_, nullptr)->Complete();
  if (!keep_alive_ || thread_->shared().going_away) return Linger();
  BecomeIdle();
  // What came meanwhile. Not from here: an answer may be given within a call that reads.
  if (input_.empty() && !read_paused_) return;
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->phase_ != Phase::kIdle) return;
    self->Consume({});
    if (std::exchange(self->read_paused_, false)) self->ReadMore();
  });
}

}  // namespace baton
