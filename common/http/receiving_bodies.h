#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "common/base/mutex.h"

namespace baton {

class ReceivingBody;

// All bodies that are being received, by their clients. Together they have a bound, and at the
// bound the client gives way that has most: so whoever has less than others always finds room, and
// a client alone has all of it. Thread-safe.
class ReceivingBodies final {
 public:
  ReceivingBodies() = default;
  ReceivingBodies(const ReceivingBodies&) = delete;
  ReceivingBodies& operator=(const ReceivingBodies&) = delete;

 private:
  friend class ReceivingBody;
  struct Client {
    size_t bytes = 0;
    std::unordered_set<ReceivingBody*> bodies;
  };

  // Takes the largest body of the client off the books and tells it.
  void EndLargest(Client* client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of all
  std::unordered_map<std::string, Client> clients_ ABSL_GUARDED_BY(mutex_);
};

// One of them, while it lives. Of one thread.
class ReceivingBody final {
 public:
  // `give_way` is called from any thread, with a lock held, when the body has to end for another
  // one's sake. It must only pass that on.
  ReceivingBody(ReceivingBodies* all, std::string client, std::function<void()> give_way);
  ~ReceivingBody();
  ReceivingBody(const ReceivingBody&) = delete;
  ReceivingBody& operator=(const ReceivingBody&) = delete;

  // It has so many bytes by now, where all may have at most `most`. False when there is no room for
  // it, since its own client has most or it was to give way; it then has to end.
  bool GrowTo(size_t bytes, size_t most);
  // It was to give way, and counts no more.
  bool gave_way() const;

 private:
  friend class ReceivingBodies;

  ReceivingBodies* const all_;
  const std::string client_;
  const std::function<void()> give_way_;
  size_t bytes_ = 0;  // these two under the lock of all
  bool gave_way_ = false;
};

}  // namespace baton
