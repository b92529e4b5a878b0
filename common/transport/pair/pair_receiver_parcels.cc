// PairReceiver: whose parcel comes next, and what becomes of it.
#include <algorithm>
#include <utility>

#include "common/transport/pair/pair_parcel.h"
#include "common/transport/pair/pair_receiver.h"

namespace baton {

void PairReceiver::OnAnnounce(PairId id, const PairAnnounce& message, base::Instant now,
                              Actions* actions) {
  Peer& peer = peers_.at(id);
  if (message.epoch != peer.epoch) return;  // crossed an abort
  if (peer.state == State::kAborting || peer.state == State::kAborted) return;
  absl::Status status = CheckParcelPlan(message.plan, self_.parcel_bytes);
  if (status.ok() && peer.state != State::kLive) {
    status = absl::InvalidArgumentError("a parcel was announced before the pair was ready");
  }
  if (status.ok() && message.plan.number != peer.next_number) {
    status =
        absl::InvalidArgumentError("parcel " + std::to_string(message.plan.number) +
                                   " was announced, expected " + std::to_string(peer.next_number));
  }
  if (status.ok() &&
      peer.announced.size() + peer.grants.size() >= static_cast<size_t>(limits_.max_waiting)) {
    status = absl::ResourceExhaustedError("more than " + std::to_string(limits_.max_waiting) +
                                          " parcels wait");
  }
  if (!status.ok()) return Abort(id, std::string(status.message()), /*tell=*/true, now, actions);
  ++peer.next_number;
  peer.used_at = now;
  peer.announced.push_back(message.plan);
  GrantNext(now, actions);
}

PairId PairReceiver::NextPeer() const {
  PairId first = 0;
  for (const auto& [id, peer] : peers_) {
    if (peer.announced.empty()) continue;
    if (id > last_active_) return id;
    if (first == 0) first = id;
  }
  return first;
}

bool PairReceiver::OthersWait(PairId id) const {
  return std::ranges::any_of(peers_, [id](const auto& entry) {
    return entry.first != id && !entry.second.announced.empty();
  });
}

void PairReceiver::GrantNext(base::Instant now, Actions* actions) {
  while (!free_buffers_.empty() && !device_lost_) {
    if (active_ == 0) {
      active_ = NextPeer();
      if (active_ == 0) return;
      last_active_ = active_;
      turn_ = 0;
    }
    Peer& peer = peers_.at(active_);
    const bool turn_over = turn_ >= limits_.turn_parcels && OthersWait(active_);
    if (peer.announced.empty() || turn_over) {
      if (!peer.grants.empty() || peer.state == State::kAborting) return;  // another's turn then
      active_ = 0;
      continue;
    }
    ++turn_;
    const ParcelPlan plan = std::move(peer.announced.front());
    peer.announced.pop_front();
    const int buffer = free_buffers_.back();
    free_buffers_.pop_back();
    peer.grants[plan.number] = {.plan = plan, .buffer = buffer, .since = now};
    actions->push_back(
        DeviceCommand(ReceiveParcel{{active_, peer.epoch, plan.number}, buffer, plan.bytes}));
  }
}

void PairReceiver::OnDevice(const DeviceEvent& event, base::Instant now, Actions* actions) {
  if (const auto* made = std::get_if<UniqueIdMade>(&event)) {
    OnUniqueId(*made, now, actions);
  } else if (const auto* connected = std::get_if<Connected>(&event)) {
    OnConnected(*connected, now, actions);
  } else if (const auto* posted = std::get_if<ReceivePosted>(&event)) {
    OnPosted(*posted, now, actions);
  } else if (const auto* received = std::get_if<ParcelReceived>(&event)) {
    OnReceived(*received, now, actions);
  } else if (const auto* delivered = std::get_if<ParcelDelivered>(&event)) {
    OnDelivered(*delivered, now, actions);
  } else if (const auto* aborted = std::get_if<DeviceAborted>(&event)) {
    OnAborted(*aborted, now, actions);
  }
}

void PairReceiver::OnPosted(const ReceivePosted& event, base::Instant now, Actions* actions) {
  Peer* const peer = FindPeer(event.key.pair, event.key.epoch);
  if (peer == nullptr || peer->state != State::kLive) return;
  if (!event.status.ok()) {
    return Abort(event.key.pair, std::string(event.status.message()), /*tell=*/true, now, actions);
  }
  peer->grants.at(event.key.number).since = now;
  actions->push_back(TellSender{event.key.pair, PairGo{event.key.epoch, event.key.number}});
}

void PairReceiver::OnReceived(const ParcelReceived& event, base::Instant now, Actions* actions) {
  Peer* const peer = FindPeer(event.key.pair, event.key.epoch);
  if (peer == nullptr || peer->state != State::kLive) return;
  if (!event.status.ok()) {
    return Abort(event.key.pair, std::string(event.status.message()), /*tell=*/true, now, actions);
  }
  const Grant grant = std::move(peer->grants.extract(event.key.number).mapped());
  peer->used_at = now;
  delivering_[event.key] = grant.buffer;
  actions->push_back(BytesReceived{grant.plan.bytes});
  actions->push_back(DeviceCommand(DeliverParcel{event.key, grant.buffer, grant.plan}));
  GrantNext(now, actions);
}

void PairReceiver::OnDelivered(const ParcelDelivered& event, base::Instant now, Actions* actions) {
  const auto found = delivering_.find(event.key);
  if (found == delivering_.end()) return;
  free_buffers_.push_back(found->second);
  delivering_.erase(found);
  Peer* const peer = FindPeer(event.key.pair, event.key.epoch);
  if (peer != nullptr && peer->state == State::kLive) {
    const PairDone done{event.key.epoch, event.key.number, event.outcome};
    actions->push_back(TellSender{event.key.pair, done});
    if (event.outcome == ParcelOutcome::kBroken) {
      Abort(event.key.pair, event.why, /*tell=*/true, now, actions);
    }
  }
  GrantNext(now, actions);
}

}  // namespace baton
