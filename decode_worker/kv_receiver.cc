#include "decode_worker/kv_receiver.h"

#include <utility>

#include "common/base/status.h"
#include "spdlog/spdlog.h"

namespace baton {

Ticket KvReceiver::Grant(std::shared_ptr<Reservation> reservation) {
  const Ticket ticket = Ticket::Draw(core_->identity().incarnation);
  reservations_.Add(ticket, std::move(reservation));
  return ticket;
}

absl::StatusOr<std::shared_ptr<KvInbox>> KvReceiver::Open(const PushHello& hello,
                                                          std::shared_ptr<KvPushReply> reply) {
  const std::shared_ptr<Reservation> reservation = reservations_.Find(hello.ticket);
  absl::Status status = reservation == nullptr ? UnknownTicket() : absl::OkStatus();
  if (status.ok()) status = core_->CheckFingerprint(hello.model_fingerprint);
  if (status.ok()) status = core_->CheckShape(hello.shape);
  if (status.ok() && !reservation->OpenPush(std::move(reply), hello.traceparent))
    status = UnknownTicket();
  if (!status.ok()) {
    spdlog::warn("KV push refused (sender's model {}): {}", hello.model_fingerprint,
                 std::string(status.message()));
    core_->probe().PushRefused(ReasonOf(status));
    return status;
  }
  // A sender need not say how it computes.
  if (!hello.numerics.empty() && hello.numerics != core_->identity().numerics) {
    // This is allowed, but a replayed request may get other tokens than its first attempt would
    // have.
    core_->probe().PushFromOtherNumerics();
    spdlog::info(
        "KV push from a worker with numerics {} (here {}): tokens may differ from a run on equal "
        "ones",
        hello.numerics, core_->identity().numerics);
  }
  return std::shared_ptr<KvInbox>(reservation);
}

}  // namespace baton
