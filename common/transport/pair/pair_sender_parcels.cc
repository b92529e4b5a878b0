// PairSender: how pushes become parcels, and what becomes of those.
#include <algorithm>
#include <utility>

#include "common/transport/pair/pair_parcel.h"
#include "common/transport/pair/pair_sender.h"

namespace baton {
namespace {

ParcelPart PartOf(const SourcePart& source) {
  return {source.ordinal, source.offset, static_cast<int64_t>(SizeOf(source.bytes))};
}

}  // namespace

bool PairSender::StartPush(PushId push, const std::string& address, const Ticket& ticket,
                           base::Instant now) {
  const PairId id = FindPair(address);
  if (id == 0 || device_lost_) return false;
  Pair& pair = pairs_.at(id);
  // A ticket of another process is not for this pair's receiver.
  if (pair.state != State::kWarm || pair.incarnation != ticket.incarnation) return false;
  pair.used_at = now;
  Push& entry = pushes_[push];
  entry.pair = id;
  entry.ticket = ticket;
  return true;
}

void PairSender::Add(PushId id, std::vector<SourcePart> parts, base::Instant now,
                     Actions* actions) {
  const auto found = pushes_.find(id);
  if (found == pushes_.end() || found->second.ended || parts.empty()) return;
  Push& push = found->second;
  if (push.pair == 0) return Return(id, parts, actions);
  Pair& pair = pairs_.at(push.pair);
  if (push.queue.empty()) pair.line.push_back(id);
  push.queue.insert(push.queue.end(), parts.begin(), parts.end());
  Announce(push.pair, now, actions);
}

void PairSender::EndPush(PushId id, base::Instant now, Actions* actions) {
  const auto found = pushes_.find(id);
  if (found == pushes_.end() || found->second.ended) return;
  Push& push = found->second;
  push.ended = true;
  push.queue.clear();
  push.pair = 0;
  for (auto& [pair_id, pair] : pairs_) {
    if (std::erase(pair.line, id) > 0) pair.used_at = now;
    for (auto& [number, parcel] : pair.parcels) {
      if (parcel.push == id) parcel.push = 0;  // travels void if it still has to
    }
  }
  ReleaseIfUnread(id, actions);
}

void PairSender::DropOut(PushId id, Actions* actions) {
  Push& push = pushes_.at(id);
  if (push.pair == 0) return;
  Pair& pair = pairs_.at(push.pair);
  push.pair = 0;
  std::erase(pair.line, id);
  const std::vector<SourcePart> queued(push.queue.begin(), push.queue.end());
  push.queue.clear();
  Return(id, queued, actions);
  for (auto& [number, parcel] : pair.parcels) {
    const bool unsent =
        parcel.state == ParcelState::kAnnounced || parcel.state == ParcelState::kGranted;
    if (parcel.push == id && unsent) Return(std::exchange(parcel.push, 0), parcel.sources, actions);
  }
}

void PairSender::Return(PushId push, const std::vector<SourcePart>& parts, Actions* actions) {
  if (parts.empty()) return;
  PartsReturned returned{.push = push, .parts = {}};
  for (const SourcePart& part : parts) returned.parts.push_back(PartOf(part));
  actions->push_back(std::move(returned));
}

void PairSender::ReleaseIfUnread(PushId id, Actions* actions) {
  const auto found = pushes_.find(id);
  if (found == pushes_.end() || !found->second.ended || found->second.gathering > 0) return;
  pushes_.erase(found);
  actions->push_back(PushReleased{id});
}

void PairSender::Announce(PairId id, base::Instant now, Actions* actions) {
  while (AnnounceOne(id, now, actions)) {
  }
}

// One parcel holds parts of one push; pushes take turns.
bool PairSender::AnnounceOne(PairId id, base::Instant now, Actions* actions) {
  Pair& pair = pairs_.at(id);
  const bool open = pair.state == State::kWarm && !pair.line.empty() &&
                    pair.parcels.size() < static_cast<size_t>(limits_.max_announced);
  if (!open) return false;
  const PushId push_id = pair.line.front();
  pair.line.pop_front();
  Push& push = pushes_.at(push_id);
  Parcel parcel{.push = push_id};
  parcel.plan.ticket = push.ticket;
  int64_t end = kParcelHeaderBytes;
  while (!push.queue.empty() && parcel.sources.size() < kMaxParcelParts) {
    SourcePart& part = push.queue.front();
    const auto size = static_cast<int64_t>(SizeOf(part.bytes));
    if (PartEnd(end, size) > pair.parcel_bytes && !parcel.sources.empty()) break;
    // A block larger than a parcel is cut.
    const int64_t taken =
        std::min(size, (pair.parcel_bytes - end) / kPartAlignment * kPartAlignment);
    const SourcePart piece{part.ordinal, part.offset,
                           Subrange(part.bytes, 0, static_cast<size_t>(taken))};
    end = PartEnd(end, taken);
    parcel.plan.parts.push_back(PartOf(piece));
    parcel.sources.push_back(piece);
    part.offset += taken;
    part.bytes =
        Subrange(part.bytes, static_cast<size_t>(taken), static_cast<size_t>(size - taken));
    if (part.bytes.empty()) push.queue.pop_front();
  }
  if (!push.queue.empty()) pair.line.push_back(push_id);
  AnnounceParcel(id, std::move(parcel), now, actions);
  return true;
}

void PairSender::AnnounceParcel(PairId id, Parcel parcel, base::Instant now, Actions* actions) {
  Pair& pair = pairs_.at(id);
  parcel.plan.number = pair.next_number++;
  parcel.plan.bytes = PartOffsets(parcel.plan.parts).back();
  parcel.since = now;
  actions->push_back(TellReceiver{id, PairAnnounce{pair.epoch, parcel.plan}});
  pair.parcels.emplace(parcel.plan.number, std::move(parcel));
}

void PairSender::OnGo(PairId id, const PairGo& message, base::Instant now, Actions* actions) {
  Pair& pair = pairs_.at(id);
  const auto next = std::ranges::find_if(pair.parcels, [](const auto& entry) {
    return entry.second.state == ParcelState::kAnnounced;
  });
  if (next == pair.parcels.end() || next->first != message.number) {
    return Abort(id,
                 "the receiver granted parcel " + std::to_string(message.number) + " out of turn",
                 /*tell=*/true, now, actions);
  }
  Parcel& parcel = next->second;
  parcel.state = ParcelState::kGranted;
  if (!parcel.plan.parts.empty()) {
    actions->push_back(GrantWaited{now - parcel.since, parcel.plan.bytes});
  }
  granted_.push_back({id, pair.epoch, message.number});
  FillBuffers(now, actions);
}

void PairSender::FillBuffers(base::Instant now, Actions* actions) {
  while (!granted_.empty() && !free_buffers_.empty()) {
    const ParcelKey key = granted_.front();
    granted_.pop_front();
    Parcel& parcel = *FindParcel(key);
    parcel.state = ParcelState::kSending;
    parcel.since = now;
    parcel.buffer = free_buffers_.back();
    free_buffers_.pop_back();
    stream_.push_back(key);
    SendParcel send{.key = key, .buffer = parcel.buffer, .plan = parcel.plan, .sources = {}};
    if (parcel.push != 0) {
      parcel.reader = parcel.push;
      ++pushes_.at(parcel.push).gathering;
      send.sources = parcel.sources;
    } else {
      send.is_void = !parcel.plan.parts.empty();
    }
    actions->push_back(DeviceCommand(std::move(send)));
  }
}

PairSender::Parcel* PairSender::FindParcel(const ParcelKey& key) {
  const auto pair = pairs_.find(key.pair);
  if (pair == pairs_.end() || pair->second.epoch != key.epoch) return nullptr;
  const auto parcel = pair->second.parcels.find(key.number);
  return parcel == pair->second.parcels.end() ? nullptr : &parcel->second;
}

void PairSender::OnDevice(const DeviceEvent& event, base::Instant now, Actions* actions) {
  if (const auto* connected = std::get_if<Connected>(&event)) {
    OnConnected(*connected, now, actions);
  } else if (const auto* gathered = std::get_if<ParcelGathered>(&event)) {
    Parcel* parcel = FindParcel(gathered->key);
    if (parcel != nullptr) EndGather(parcel, actions);
  } else if (const auto* launched = std::get_if<ParcelLaunched>(&event)) {
    OnLaunched(*launched, now, actions);
  } else if (const auto* sent = std::get_if<ParcelSent>(&event)) {
    OnSent(*sent, now, actions);
  } else if (const auto* aborted = std::get_if<DeviceAborted>(&event)) {
    OnAborted(*aborted, now, actions);
  }
}

void PairSender::EndGather(Parcel* parcel, Actions* actions) {
  const PushId reader = std::exchange(parcel->reader, 0);
  if (reader == 0) return;
  --pushes_.at(reader).gathering;
  ReleaseIfUnread(reader, actions);
}

void PairSender::OnSent(const ParcelSent& event, base::Instant now, Actions* actions) {
  Parcel* const parcel = FindParcel(event.key);
  if (parcel == nullptr || parcel->state != ParcelState::kSending) return;
  const PairId id = event.key.pair;
  if (pairs_.at(id).state == State::kAborting) return;  // DeviceAborted frees its buffer
  if (!event.status.ok()) {
    return Abort(id, std::string(event.status.message()), /*tell=*/true, now, actions);
  }
  parcel->state = ParcelState::kSent;
  parcel->since = now;
  free_buffers_.push_back(parcel->buffer);
  LeaveStream([&](const ParcelKey& key) { return key == event.key; }, now, actions);
  if (parcel->done) FinishParcel(id, event.key.number, now, actions);
  FillBuffers(now, actions);
}

void PairSender::OnDone(PairId id, const PairDone& message, base::Instant now, Actions* actions) {
  Parcel* const parcel = FindParcel({id, message.epoch, message.number});
  const bool under_way =
      parcel != nullptr && !parcel->done &&
      (parcel->state == ParcelState::kSending || parcel->state == ParcelState::kSent);
  if (!under_way) {
    return Abort(
        id,
        "the receiver answered parcel " + std::to_string(message.number) + ", which it had not got",
        /*tell=*/true, now, actions);
  }
  parcel->done = true;
  parcel->outcome = message.outcome;
  if (parcel->state == ParcelState::kSent) FinishParcel(id, message.number, now, actions);
}

void PairSender::FinishParcel(PairId id, uint64_t number, base::Instant now, Actions* actions) {
  Pair& pair = pairs_.at(id);
  const Parcel parcel = std::move(pair.parcels.extract(number).mapped());
  pair.used_at = now;
  if (parcel.push != 0) {
    if (parcel.outcome == ParcelOutcome::kWritten) {
      actions->push_back(PartsDone{parcel.push, parcel.plan.parts});
    } else {
      if (parcel.outcome == ParcelOutcome::kDiscarded) {
        actions->push_back(PairNews{PairEvent::kDiscarded, pair.address,
                                    "the receiver had no place for blocks of a push"});
      }
      Return(parcel.push, parcel.sources, actions);
      DropOut(parcel.push, actions);
    }
  }
  const bool proof = pair.state == State::kProving;
  if (parcel.outcome == ParcelOutcome::kBroken ||
      (proof && parcel.outcome != ParcelOutcome::kWritten)) {
    return Abort(id, "parcel " + std::to_string(number) + " arrived broken", /*tell=*/true, now,
                 actions);
  }
  if (proof) BecomeWarm(id, now, actions);
  Announce(id, now, actions);
}

}  // namespace baton
