#pragma once

#include <memory>

#include "common/base/ticket_table.h"
#include "common/transport/kv_transport.h"
#include "common/worker/worker_core.h"
#include "decode_worker/reservation.h"

namespace baton {

// Where a push finds its reservation: the tickets that this worker has granted and that are still
// valid. Thread-safe.
class KvReceiver final : public KvInboxes {
 public:
  // `core` outlives the receiver.
  explicit KvReceiver(WorkerCore* core) : core_(core) {}

  // A new ticket that opens `reservation`.
  Ticket Grant(std::shared_ptr<Reservation> reservation);
  // The ticket is void from now on.
  void Void(const Ticket& ticket) { reservations_.Remove(ticket); }
  size_t granted() const { return reservations_.size(); }

  absl::StatusOr<std::shared_ptr<KvInbox>> Open(const PushHello& hello,
                                                std::shared_ptr<KvPushReply> reply) override;

 private:
  WorkerCore* const core_;
  TicketTable<Reservation> reservations_;  // shared with their streams and pushes
};

}  // namespace baton
