#pragma once

#include <functional>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace baton {

// Breaks the silence of a request that waits: a thread that, unless the first token comes `after`
// its beginning, asks what is waited for and tells it.
class WaitNotice final {
 public:
  // `ask` may take a second and its answer is not told if the token came meanwhile. Both run in the
  // thread of this object.
  WaitNotice(base::Duration after, std::function<std::string()> ask,
             std::function<void(const std::string&)> tell);
  ~WaitNotice();
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

  // The first token is there, or the request is over.
  void End();

 private:
  bool WaitEnded(base::Duration time);

  base::Mutex mutex_;
  base::CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
