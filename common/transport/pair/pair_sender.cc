// PairSender: how pairs begin, fail and end.
#include "common/transport/pair/pair_sender.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/transport/pair/pair_parcel.h"

namespace baton {

std::vector<uint64_t> PairSender::warm() const {
  std::vector<uint64_t> incarnations;
  for (const auto& [id, pair] : pairs_) {
    if (pair.state == State::kWarm) incarnations.push_back(pair.incarnation);
  }
  return incarnations;
}

PairId PairSender::FindPair(const std::string& address) const {
  for (const auto& [id, pair] : pairs_) {
    if (pair.address == address && !pair.leaving) return id;
  }
  return 0;
}

void PairSender::Warm(const std::string& address, uint64_t incarnation, base::Instant now,
                      Actions* actions) {
  if (device_lost_) return;
  int falls = 0;
  const PairId id = FindPair(address);
  if (id != 0) {
    Pair& pair = pairs_.at(id);
    const bool same = pair.wanted == incarnation;
    if (pair.state != State::kFallen || (same && now < pair.deadline)) {
      if (pair.state == State::kWarm) pair.used_at = now;
      return;
    }
    if (same) falls = pair.falls;
  }
  if (!MakeRoom(now, actions)) return;
  pairs_.erase(id);
  Open(address, incarnation, now, actions).falls = falls;
}

bool PairSender::MakeRoom(base::Instant now, Actions* actions) {
  int used = 0;
  PairId oldest = 0;
  for (const auto& [id, pair] : pairs_) {
    if (pair.state == State::kFallen) continue;
    ++used;
    const bool unused = pair.state == State::kWarm && pair.parcels.empty() && pair.line.empty();
    if (unused && (oldest == 0 || pair.used_at < pairs_.at(oldest).used_at)) oldest = id;
  }
  if (used < limits_.max_pairs) return true;
  // Its communicator still costs memory until the abort is over: the next Warm finds room.
  if (oldest != 0) Leave(oldest, now, actions);
  return false;
}

PairSender::Pair& PairSender::Open(const std::string& address, uint64_t incarnation,
                                   base::Instant now, Actions* actions) {
  const PairId id = next_pair_++;
  Pair& pair = pairs_[id];
  pair.address = address;
  pair.wanted = incarnation;
  pair.used_at = now;
  pair.deadline = now + limits_.connect;
  actions->push_back(OpenControl{id, address});
  actions->push_back(TellReceiver{id, hello_});
  return pair;
}

void PairSender::OnMessage(PairId id, const ToSender& message, base::Instant now,
                           Actions* actions) {
  const auto found = pairs_.find(id);
  if (found == pairs_.end() || found->second.state == State::kFallen) return;
  if (const auto* epoch = std::get_if<PairEpoch>(&message)) {
    return OnEpoch(id, *epoch, now, actions);
  }
  Pair& pair = found->second;
  // A message that crossed an abort belongs to an older epoch.
  const uint64_t of = std::visit([](const auto& m) { return m.epoch; }, message);
  if (of != pair.epoch || pair.state == State::kAborting || pair.state == State::kOpening) return;
  if (std::holds_alternative<PairReady>(message)) {
    pair.peer_ready = true;
    ProveIfReady(id, now, actions);
  } else if (const auto* go = std::get_if<PairGo>(&message)) {
    OnGo(id, *go, now, actions);
  } else if (const auto* done = std::get_if<PairDone>(&message)) {
    OnDone(id, *done, now, actions);
  } else if (const auto* abort = std::get_if<PairAbort>(&message)) {
    Abort(id, "the receiver: " + abort->why, /*tell=*/false, now, actions);
  }
}

void PairSender::OnEpoch(PairId id, const PairEpoch& message, base::Instant now, Actions* actions) {
  Pair& pair = pairs_.at(id);
  if (pair.leaving) return;
  if (pair.state != State::kOpening || message.epoch <= pair.epoch) {
    return Abort(id, "the receiver began an epoch out of turn", /*tell=*/true, now, actions);
  }
  constexpr int64_t kLeast = kParcelHeaderBytes + kPartAlignment;
  if (message.parcel_bytes < kLeast) {
    const std::string why = absl::StrCat("the receiver takes parcels of ", message.parcel_bytes,
                                         " bytes, expected at least ", kLeast);
    return Fall(id, PairEvent::kRefused, why, now + limits_.fallen, actions);
  }
  pair.incarnation = message.incarnation;
  pair.epoch = message.epoch;
  pair.parcel_bytes = std::min(message.parcel_bytes, limits_.parcel_bytes);
  pair.connected = pair.peer_ready = false;
  pair.next_number = 0;
  pair.state = State::kConnecting;
  pair.deadline = now + limits_.connect;
  actions->push_back(DeviceCommand(Connect{id, message.epoch, message.unique_id, /*rank=*/1}));
}

void PairSender::OnConnected(const Connected& event, base::Instant now, Actions* actions) {
  const auto found = pairs_.find(event.pair);
  if (found == pairs_.end() || found->second.epoch != event.epoch ||
      found->second.state != State::kConnecting) {
    return;
  }
  if (!event.status.ok()) {
    return Abort(event.pair, std::string(event.status.message()), /*tell=*/true, now, actions);
  }
  found->second.connected = true;
  actions->push_back(TellReceiver{event.pair, PairReady{event.epoch}});
  ProveIfReady(event.pair, now, actions);
}

void PairSender::ProveIfReady(PairId id, base::Instant now, Actions* actions) {
  Pair& pair = pairs_.at(id);
  if (pair.state != State::kConnecting || !pair.connected || !pair.peer_ready) return;
  pair.state = State::kProving;
  pair.deadline = now + limits_.connect;
  AnnounceParcel(id, {}, now, actions);
}

void PairSender::BecomeWarm(PairId id, base::Instant now, Actions* actions) {
  Pair& pair = pairs_.at(id);
  pair.state = State::kWarm;
  pair.deadline = base::kNever;
  pair.used_at = now;
  pair.falls = 0;
  const bool again = pair.failures > 0;
  actions->push_back(
      PairNews{again ? PairEvent::kRebuilt : PairEvent::kBuilt, pair.address, std::string()});
}

void PairSender::Abort(PairId id, const std::string& why, bool tell, base::Instant now,
                       Actions* actions) {
  Pair& pair = pairs_.at(id);
  if (pair.state == State::kAborting || pair.state == State::kFallen) return;
  if (pair.epoch == 0) return Fall(id, PairEvent::kRefused, why, now + limits_.retry, actions);
  if (now - pair.failed_at > limits_.forgive) pair.failures = 0;
  ++pair.failures;
  pair.failed_at = now;
  actions->push_back(PairNews{PairEvent::kAborted, pair.address, why});
  if (tell && pair.control) actions->push_back(TellReceiver{id, PairAbort{pair.epoch, why}});
  Leave(id, now, actions);
  pair.leaving = !pair.control;
}

void PairSender::Leave(PairId id, base::Instant now, Actions* actions) {
  Pair& pair = pairs_.at(id);
  pair.leaving = true;
  pair.state = State::kAborting;
  pair.deadline = base::kNever;
  std::erase_if(granted_, [id](const ParcelKey& key) { return key.pair == id; });
  for (auto& [push_id, push] : pushes_) {
    if (push.pair == id) DropOut(push_id, actions);
  }
  // The sources stay with parcels that are being gathered; their parts may go another way already.
  for (auto& [number, parcel] : pair.parcels) {
    if (parcel.push != 0) Return(std::exchange(parcel.push, 0), parcel.sources, actions);
  }
  if (pair.epoch == 0) {
    if (pair.control) actions->push_back(CloseControl{id});
    pairs_.erase(id);
    return;
  }
  if (!device_lost_) AwaitAbort(id, now, actions);
}

void PairSender::AfterAbort(PairId id, base::Instant now, Actions* actions) {
  Pair& pair = pairs_.at(id);
  if (pair.refused) {
    return Fall(id, PairEvent::kRefused, "the receiver refused it", now + limits_.fallen, actions);
  }
  if (!pair.leaving && pair.failures >= limits_.max_failures) {
    return Fall(id, PairEvent::kFallenBack, "it failed " + std::to_string(pair.failures) + " times",
                now + PauseAfter(++pair.falls), actions);
  }
  if (pair.leaving) {
    if (pair.control) actions->push_back(CloseControl{id});
    actions->push_back(PairNews{PairEvent::kClosed, pair.address, std::string()});
    pairs_.erase(id);
    return;
  }
  pair.state = State::kOpening;
  pair.deadline = now + limits_.connect;
  actions->push_back(TellReceiver{id, PairAborted{pair.epoch}});
}

base::Duration PairSender::PauseAfter(int falls) const {
  base::Duration pause = limits_.fallen;
  for (int fall = 1; fall < falls && pause < limits_.fallen_most; ++fall) pause *= 2;
  return std::max(limits_.fallen, std::min(pause, limits_.fallen_most));
}

void PairSender::Fall(PairId id, PairEvent event, const std::string& why, base::Instant until,
                      Actions* actions) {
  Pair& pair = pairs_.at(id);
  if (pair.control) actions->push_back(CloseControl{id});
  pair.control = false;
  pair.leaving = false;
  pair.state = State::kFallen;
  pair.deadline = until;
  actions->push_back(PairNews{event, pair.address, why});
}

void PairSender::OnControlClosed(PairId id, bool refused, const std::string& why, base::Instant now,
                                 Actions* actions) {
  const auto found = pairs_.find(id);
  if (found == pairs_.end() || !found->second.control) return;
  Pair& pair = found->second;
  pair.control = false;
  pair.refused = refused;
  if (pair.epoch == 0) {  // nothing was built yet
    // The pair is not forgotten, so that Warm does not dial it again and again.
    const base::Duration pause = refused ? limits_.fallen : limits_.retry;
    return Fall(id, PairEvent::kRefused, why, now + pause, actions);
  }
  if (pair.state == State::kOpening) {  // between two epochs: the last one is aborted already
    pair.leaving = true;
    return AfterAbort(id, now, actions);
  }
  if (pair.state == State::kAborting) {
    pair.leaving = true;
    return;
  }
  if (pair.state == State::kWarm && pair.parcels.empty()) return Leave(id, now, actions);
  Abort(id, "the control stream ended: " + why, /*tell=*/false, now, actions);
}

void PairSender::LoseDevice(base::Instant now, Actions* actions) {
  device_lost_ = true;
  granted_.clear();
  stream_.clear();
  actions->push_back(DeviceCommand(AbandonDevice{}));
  actions->push_back(PairNews{PairEvent::kDeviceLost, std::string(),
                              "a call into the device did not come back; restart this worker to "
                              "pair devices again"});
  std::vector<PairId> ids;
  for (const auto& [id, pair] : pairs_) ids.push_back(id);
  for (const PairId id : ids) {
    if (pairs_.at(id).state == State::kFallen) continue;
    if (pairs_.at(id).state != State::kAborting) Leave(id, now, actions);
    const auto found = pairs_.find(id);
    if (found == pairs_.end()) continue;
    Fall(id, PairEvent::kFallenBack, "the device is lost", base::kNever, actions);
  }
}

void PairSender::TickPair(PairId id, base::Instant now, Actions* actions) {
  Pair& pair = pairs_.at(id);
  if (now >= pair.deadline) {
    switch (pair.state) {
      case State::kAborting:
        return LoseDevice(now, actions);
      case State::kFallen:
        // One that may fall back again is remembered for longer than its pause.
        if (pair.falls == 0 || now >= pair.deadline + limits_.fallen_most) pairs_.erase(id);
        return;
      case State::kOpening:
        return Fall(id, PairEvent::kRefused, "the receiver did not begin an epoch in time",
                    now + limits_.fallen, actions);
      default:
        return Abort(id, "the communicator was not ready in time", /*tell=*/true, now, actions);
    }
  }
  if (IsStuck(pair, id, now)) {
    return Abort(id, "a parcel was not taken in time", /*tell=*/true, now, actions);
  }
  const bool unused = pair.state == State::kWarm && pair.parcels.empty() && pair.line.empty();
  if (unused && now - pair.used_at > limits_.idle) Leave(id, now, actions);
}

void PairSender::Tick(base::Instant now, Actions* actions) {
  std::vector<PairId> ids;
  for (const auto& [id, pair] : pairs_) ids.push_back(id);
  for (const PairId id : ids) {
    if (pairs_.contains(id) && !device_lost_) TickPair(id, now, actions);
  }
}

}  // namespace baton
