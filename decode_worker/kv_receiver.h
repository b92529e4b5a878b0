#pragma once

#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/ticket.h"
#include "common/transport/kv_transport.h"
#include "common/worker/worker_core.h"
#include "decode_worker/reservation.h"

namespace baton {

// The tickets that this worker has granted and that are not over: where a push finds its
// reservation. Thread-safe.
class KvReceiver final : public KvInboxes {
 public:
  // `core` outlives the receiver.
  explicit KvReceiver(WorkerCore* core) : core_(core) {}

  Ticket Grant(std::shared_ptr<Reservation> reservation);
  // The ticket is void from now on.
  void Void(const Ticket& ticket);
  size_t granted() const;

  absl::StatusOr<std::shared_ptr<KvInbox>> Open(const PushHello& hello,
                                                std::shared_ptr<KvPushReply> reply) override;

 private:
  struct Entry {
    Ticket ticket;
    std::shared_ptr<Reservation> reservation;  // shared with its stream and its push
  };

  // Looks at every entry, so that the time says nothing about any secret.
  std::shared_ptr<Reservation> Find(const Ticket& ticket) const;

  WorkerCore* const core_;
  mutable base::Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
