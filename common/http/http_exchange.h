#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/http/http_message.h"

namespace baton {

class ExchangeState;

// One request and its answer. Answered by Reply, or by Begin, any number of Write, and End; what
// comes after Reply, End or Abort, or once the client is gone, does nothing. One that is let go of
// unanswered is answered 500, and one that has begun is broken off. Thread-safe, never waits, and
// outlives its connection and its server harmlessly.
class HttpExchange final {
 public:
  // The server and tests of handlers make them.
  HttpExchange(HttpRequest request, std::shared_ptr<ExchangeState> state);
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  const HttpRequest& request() const { return request_; }
  // Moves the body out of the request. Not beside other calls of request().
  std::string TakeBody() { return std::move(request_.body); }

  // The whole answer.
  void Reply(HttpReply reply);
  // A streamed answer, in chunks (to a client of HTTP/1.0: until the connection's end).
  void Begin(int status, HttpHeaders headers);
  // False when more than the buffer's bound would wait for the client; the chunk is then lost. What
  // the client lost for good does not wait, so of a client that is gone it is true.
  bool Write(std::string chunk);
  // The last chunk of a streamed answer, which is taken however much waits, because its room was
  // held before. `held` is let go of when the client has all of it or is gone.
  void WriteLast(std::string chunk, std::shared_ptr<void> held);
  // The answer is complete once the client took what was written.
  void End();
  // Drops what waits and closes the connection, so that the client sees a broken answer.
  void Abort();

  // `gone` is called once when the client closed its side or was lost before the answer was
  // complete, at once if that is so already. It runs in an I/O thread and must not block.
  void OnGone(std::function<void()> gone);
  // The moment since which the client has taken nothing of what is ready for it.
  std::optional<base::Instant> StalledSince() const;

 private:
  HttpRequest request_;
  const std::shared_ptr<ExchangeState> state_;
};

}  // namespace baton
