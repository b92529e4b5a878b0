#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <thread>

#include "common/base/bounded_queue.h"
#include "common/http/http_exchange.h"

namespace baton {

// A thread that answers requests one after the other, so that the threads that read and write need
// not wait for what is slow to answer.
class AnswerThread final {
 public:
  // So many requests may wait; a further one is answered 503.
  static constexpr size_t kMostWaiting = 16;

  explicit AnswerThread(std::function<HttpReply(const HttpRequest&)> answer);
  // Gives the answer that is under way and lets go of the requests that wait.
  ~AnswerThread();
  AnswerThread(const AnswerThread&) = delete;
  AnswerThread& operator=(const AnswerThread&) = delete;

  // Answers it in its turn. Thread-safe, never waits.
  void Add(std::shared_ptr<HttpExchange> exchange);

 private:
  void Run();

  const std::function<HttpReply(const HttpRequest&)> answer_;
  base::BoundedQueue<std::shared_ptr<HttpExchange>> waiting_{kMostWaiting};
  std::thread thread_;
};

}  // namespace baton
