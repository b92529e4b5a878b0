#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/http/http_message.h"

namespace baton {

// What a handler and a connection share of one exchange: the answer on its way from the one to the
// other, and the news that the client is gone on the way back. Thread-safe; knows no sockets.
class ExchangeState final {
 public:
  // `wake` is called when there is something to take and was not before, and at the end, with a
  // lock held, so it must only pass that on.
  ExchangeState(size_t buffer_bytes, const base::Clock* clock, std::function<void()> wake)
      : buffer_bytes_(buffer_bytes), clock_(clock), wake_(std::move(wake)) {}

  // The handler's side, as HttpExchange tells.
  void Reply(HttpReply reply);
  void Begin(int status, HttpHeaders headers);
  bool Write(std::string chunk);
  void WriteLast(std::string chunk, std::shared_ptr<void> held);
  void End();
  void Abort();
  void Abandon();
  void OnGone(std::function<void()> gone);
  std::optional<base::Instant> StalledSince() const;

  // The connection's side, from one thread.
  struct Head {
    int status = 200;
    HttpHeaders headers;
    // Of the whole body, where it is known.
    std::optional<size_t> body_bytes = {};
  };
  struct Outgoing {
    std::optional<Head> head;  // once, before or with the first bytes
    std::string body;
    bool end = false;    // nothing comes after it
    bool abort = false;  // nothing of this or before is of use any more
  };
  enum class Fate { kOpen, kEnded, kAborted };
  // What the handler has made of the answer, of which Take may not have told yet.
  Fate fate() const;
  // What came since the last call; of a reply in pieces, the next one. Its bytes wait for the
  // client until Left says otherwise.
  Outgoing Take();
  // So many bytes of what was taken still wait for the client, which has just taken others.
  void Left(size_t bytes);
  // The client took all of the answer; `wake` and what waits for the client's end are let go of.
  void Complete();
  // The client is gone before that; likewise, and whoever asked for it is told.
  void Gone();

 private:
  void Append(std::string chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t buffer_bytes_;
  const base::Clock* const clock_;
  mutable base::Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);  // empty once the connection let go
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // by whatever means
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
  bool complete_ ABSL_GUARDED_BY(mutex_) = false;
  Outgoing next_ ABSL_GUARDED_BY(mutex_);
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes at the connection
  std::optional<base::Instant> stalled_since_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_gone_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> rest_ ABSL_GUARDED_BY(mutex_);  // of the reply's body, behind next_
  std::shared_ptr<void> held_ ABSL_GUARDED_BY(mutex_);    // of the reply, or of the last chunk
};

}  // namespace baton
