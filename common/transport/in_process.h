#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/transport/kv_transport.h"

namespace baton {

// A transport whose two ends are in one process, with a thread for each push: the test double of
// GrpcStreamTransport. Addresses are ignored.
class InProcessTransport final : public KvTransport {
 public:
  // Both outlive the transport. Its destructor waits for its pushes to be over.
  InProcessTransport(KvInboxes* inboxes, const base::Clock* clock)
      : inboxes_(inboxes), clock_(clock) {}
  ~InProcessTransport() override;

  std::shared_ptr<KvPush> Open(const std::string& address, const PushHello& hello,
                               std::shared_ptr<KvPushObserver> observer) override;

 private:
  KvInboxes* const inboxes_;
  const base::Clock* const clock_;
  base::Mutex mutex_;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
