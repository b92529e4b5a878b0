#include "decode_worker/kv_receiver.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

// The same words for a spoofed, an expired, a used and an old worker's ticket.
absl::Status UnknownTicket() {
  return MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kUnknownTicket},
                   "this worker has no open reservation of that ticket; open a new attempt");
}

}  // namespace

Ticket KvReceiver::Grant(std::shared_ptr<Reservation> reservation) {
  const Ticket ticket = Ticket::Draw(core_->identity().incarnation);
  base::MutexLock lock(&mutex_);
  entries_.push_back({ticket, std::move(reservation)});
  return ticket;
}

void KvReceiver::Void(const Ticket& ticket) {
  std::shared_ptr<Reservation> dropped;  // destroyed without the lock
  base::MutexLock lock(&mutex_);
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return SameTicket(entry.ticket, ticket); });
  if (found == entries_.end()) return;
  dropped = std::move(found->reservation);
  entries_.erase(found);
}

size_t KvReceiver::granted() const {
  base::MutexLock lock(&mutex_);
  return entries_.size();
}

std::shared_ptr<Reservation> KvReceiver::Find(const Ticket& ticket) const {
  base::MutexLock lock(&mutex_);
  std::shared_ptr<Reservation> found;
  for (const Entry& entry : entries_) {
    if (SameTicket(entry.ticket, ticket)) found = entry.reservation;
  }
  return found;
}

absl::StatusOr<std::shared_ptr<KvInbox>> KvReceiver::Open(const PushHello& hello,
                                                          std::shared_ptr<KvPushReply> reply) {
  const std::shared_ptr<Reservation> reservation = Find(hello.ticket);
  absl::Status status = reservation == nullptr ? UnknownTicket() : absl::OkStatus();
  if (status.ok()) status = core_->CheckFingerprint(hello.model_fingerprint);
  if (status.ok()) status = core_->CheckShape(hello.shape);
  if (status.ok() && !reservation->OpenPush(std::move(reply))) status = UnknownTicket();
  if (!status.ok()) {
    spdlog::warn("push refused: {}", std::string(status.message()));
    core_->probe().PushRefused(ReasonOf(status));
    return status;
  }
  // A sender need not say.
  if (!hello.numerics.empty() && hello.numerics != core_->identity().numerics) {
    // Legal, but a replayed request may get other tokens than the first attempt would have.
    core_->probe().PushFromOtherNumerics();
    spdlog::info("a push comes from numerics {}, this worker has {}", hello.numerics,
                 core_->identity().numerics);
  }
  return std::shared_ptr<KvInbox>(reservation);
}

}  // namespace baton
