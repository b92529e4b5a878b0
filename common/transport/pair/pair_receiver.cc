// PairReceiver: how pairs begin, fail and end.
#include "common/transport/pair/pair_receiver.h"

#include <algorithm>
#include <utility>

namespace baton {

PairReceiver::Peer* PairReceiver::FindPeer(PairId pair, uint64_t epoch) {
  const auto found = peers_.find(pair);
  return found == peers_.end() || found->second.epoch != epoch ? nullptr : &found->second;
}

void PairReceiver::OnPeer(PairId id, base::Instant now, Actions* actions) {
  if (device_lost_) {
    actions->push_back(
        EndPeer{id, /*refused=*/true, "a call into its device did not come back here"});
    return;
  }
  if (!MakeRoom(now, actions)) {
    actions->push_back(ReceiverNews{PairEvent::kRefused, id, "no room for another pair"});
    actions->push_back(EndPeer{
        id, /*refused=*/true,
        "this worker has " + std::to_string(limits_.max_pairs) + " pairs, as many as it may"});
    return;
  }
  peers_[id].used_at = now;
  BeginEpoch(id, now, actions);
}

bool PairReceiver::MakeRoom(base::Instant now, Actions* actions) {
  if (peers_.size() < static_cast<size_t>(limits_.max_pairs)) return true;
  PairId oldest = 0;
  for (const auto& [id, peer] : peers_) {
    const bool unused = peer.state == State::kLive && peer.announced.empty() && peer.grants.empty();
    if (unused && (oldest == 0 || peer.used_at < peers_.at(oldest).used_at)) oldest = id;
  }
  // Its communicator costs memory until the abort is over: the new one has to come again.
  if (oldest != 0) Dismiss(oldest, /*refused=*/false, "another pair needs its place", now, actions);
  return false;
}

void PairReceiver::BeginEpoch(PairId id, base::Instant now, Actions* actions) {
  Peer& peer = peers_.at(id);
  ++peer.epoch;
  peer.state = State::kMaking;
  peer.connected = peer.peer_ready = peer.peer_aborted = false;
  peer.next_number = 0;
  peer.deadline = now + limits_.connect;
  actions->push_back(DeviceCommand(MakeUniqueId{id, peer.epoch}));
}

void PairReceiver::OnUniqueId(const UniqueIdMade& event, base::Instant now, Actions* actions) {
  Peer* const peer = FindPeer(event.pair, event.epoch);
  if (peer == nullptr || peer->state != State::kMaking) return;
  if (!event.status.ok()) {
    return Dismiss(event.pair, /*refused=*/true, std::string(event.status.message()), now, actions);
  }
  peer->state = State::kConnecting;
  peer->deadline = now + limits_.connect;
  PairEpoch message = self_;
  message.epoch = event.epoch;
  message.unique_id = event.unique_id;
  actions->push_back(TellSender{event.pair, std::move(message)});
  actions->push_back(DeviceCommand(Connect{event.pair, event.epoch, event.unique_id, /*rank=*/0}));
}

void PairReceiver::OnConnected(const Connected& event, base::Instant now, Actions* actions) {
  Peer* const peer = FindPeer(event.pair, event.epoch);
  if (peer == nullptr || peer->state != State::kConnecting) return;
  if (!event.status.ok()) {
    return Abort(event.pair, std::string(event.status.message()), /*tell=*/true, now, actions);
  }
  peer->connected = true;
  actions->push_back(TellSender{event.pair, PairReady{event.epoch}});
  LiveIfReady(event.pair, now, actions);
}

void PairReceiver::LiveIfReady(PairId id, base::Instant now, Actions* actions) {
  Peer& peer = peers_.at(id);
  if (peer.state != State::kConnecting || !peer.connected || !peer.peer_ready) return;
  peer.state = State::kLive;
  peer.deadline = base::kNever;
  peer.used_at = now;
  actions->push_back(
      ReceiverNews{peer.aborts > 0 ? PairEvent::kRebuilt : PairEvent::kBuilt, id, std::string()});
}

void PairReceiver::OnMessage(PairId id, const ToReceiver& message, base::Instant now,
                             Actions* actions) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  if (std::holds_alternative<PairHello>(message)) {
    return Abort(id, "the sender said hello twice", /*tell=*/true, now, actions);
  }
  if (const auto* aborted = std::get_if<PairAborted>(&message)) {
    if (aborted->epoch != peer.epoch) return;
    peer.peer_aborted = true;
    // It may know more than we do; its own abort message came before, if it sent one.
    if (peer.state != State::kAborting && peer.state != State::kAborted) {
      return Abort(id, "the sender aborted", /*tell=*/false, now, actions);
    }
    if (peer.state == State::kAborted) AfterAbort(id, now, actions);
    return;
  }
  if (const auto* abort = std::get_if<PairAbort>(&message)) {
    if (abort->epoch == peer.epoch) {
      Abort(id, "the sender: " + abort->why, /*tell=*/false, now, actions);
    }
  } else if (const auto* ready = std::get_if<PairReady>(&message)) {
    if (ready->epoch != peer.epoch) return;
    peer.peer_ready = true;
    LiveIfReady(id, now, actions);
  } else if (const auto* announce = std::get_if<PairAnnounce>(&message)) {
    OnAnnounce(id, *announce, now, actions);
  }
}

void PairReceiver::Abort(PairId id, const std::string& why, bool tell, base::Instant now,
                         Actions* actions) {
  Peer& peer = peers_.at(id);
  if (peer.state == State::kAborting || peer.state == State::kAborted) return;
  // The sender knows nothing of an epoch without an id, so it could not abort it.
  if (peer.state == State::kMaking) return Dismiss(id, /*refused=*/true, why, now, actions);
  ++peer.aborts;
  actions->push_back(ReceiverNews{PairEvent::kAborted, id, why});
  if (tell && peer.control) actions->push_back(TellSender{id, PairAbort{peer.epoch, why}});
  peer.state = State::kAborting;
  peer.deadline = now + limits_.abort;
  peer.announced.clear();
  actions->push_back(DeviceCommand(AbortPair{id, peer.epoch}));
}

void PairReceiver::OnAborted(const DeviceAborted& event, base::Instant now, Actions* actions) {
  Peer* const peer = FindPeer(event.pair, event.epoch);
  if (peer == nullptr || peer->state != State::kAborting) return;
  for (const auto& [number, grant] : peer->grants) free_buffers_.push_back(grant.buffer);
  peer->grants.clear();
  if (active_ == event.pair) active_ = 0;
  peer->state = State::kAborted;
  peer->deadline = now + limits_.connect;
  AfterAbort(event.pair, now, actions);
  GrantNext(now, actions);
}

void PairReceiver::AfterAbort(PairId id, base::Instant now, Actions* actions) {
  Peer& peer = peers_.at(id);
  if (!peer.control) {
    peers_.erase(id);
  } else if (peer.peer_aborted) {
    BeginEpoch(id, now, actions);
  }
}

void PairReceiver::Dismiss(PairId id, bool refused, const std::string& why, base::Instant now,
                           Actions* actions) {
  Peer& peer = peers_.at(id);
  if (peer.control) {
    actions->push_back(EndPeer{id, refused, why});
    actions->push_back(ReceiverNews{PairEvent::kClosed, id, why});
    peer.control = false;
  }
  OnControlClosed(id, now, actions);
}

void PairReceiver::OnControlClosed(PairId id, base::Instant now, Actions* actions) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  if (std::exchange(peer.control, false)) {
    actions->push_back(ReceiverNews{PairEvent::kClosed, id, "the sender left"});
  }
  if (peer.state == State::kAborting) return;  // erased after it
  if (peer.state == State::kAborted) {
    peers_.erase(found);
    return;
  }
  peer.state = State::kAborting;
  peer.deadline = now + limits_.abort;
  peer.announced.clear();
  actions->push_back(DeviceCommand(AbortPair{id, peer.epoch}));
}

void PairReceiver::LoseDevice(Actions* actions) {
  device_lost_ = true;
  actions->push_back(DeviceCommand(AbandonDevice{}));
  actions->push_back(
      ReceiverNews{PairEvent::kDeviceLost, 0,
                   "a call into the device did not come back; restart this worker to "
                   "pair devices again"});
  for (const auto& [id, peer] : peers_) {
    if (peer.control) actions->push_back(EndPeer{id, /*refused=*/true, "the device is lost"});
  }
  peers_.clear();
  active_ = 0;
}

void PairReceiver::TickPeer(PairId id, base::Instant now, Actions* actions) {
  Peer& peer = peers_.at(id);
  if (now >= peer.deadline) {
    if (peer.state == State::kAborting) return LoseDevice(actions);
    if (peer.state == State::kAborted) {
      return Dismiss(id, /*refused=*/true, "the sender did not abort in time", now, actions);
    }
    return Abort(id, "the communicator was not ready in time", /*tell=*/true, now, actions);
  }
  const bool stuck = std::ranges::any_of(
      peer.grants, [&](const auto& entry) { return now - entry.second.since > limits_.receive; });
  if (stuck) Abort(id, "a granted parcel did not arrive in time", /*tell=*/true, now, actions);
}

void PairReceiver::Tick(base::Instant now, Actions* actions) {
  std::vector<PairId> ids;
  for (const auto& [id, peer] : peers_) ids.push_back(id);
  for (const PairId id : ids) {
    if (peers_.contains(id)) TickPeer(id, now, actions);
  }
}

}  // namespace baton
