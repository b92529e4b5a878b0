#include "common/admin/answer_thread.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace baton {

AnswerThread::AnswerThread(std::function<HttpReply(const HttpRequest&)> answer)
    : answer_(std::move(answer)), thread_([this] { Run(); }) {}

AnswerThread::~AnswerThread() {
  waiting_.Close();
  thread_.join();
}

void AnswerThread::Add(std::shared_ptr<HttpExchange> exchange) {
  if (waiting_.TryPush(std::move(exchange))) return;
  exchange->Reply({.status = 503,
                   .headers = {{"Content-Type", "text/plain"}, {"Retry-After", "1"}},
                   .body = absl::StrCat(kMostWaiting, " requests like this one wait; at most ",
                                        kMostWaiting, " may, so try again\n")});
}

void AnswerThread::Run() {
  while (const auto exchange = waiting_.PopUntil(base::kNever)) {
    if (waiting_.closed()) return;
    (*exchange)->Reply(answer_((*exchange)->request()));
  }
}

}  // namespace baton
