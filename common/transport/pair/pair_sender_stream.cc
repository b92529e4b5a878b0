// PairSender: what lies on the device's stream, and when a pair that aborts has its turn there.
#include <algorithm>
#include <limits>

#include "common/transport/pair/pair_sender.h"

namespace baton {
namespace {

// Stands among parcels for a pair that waits for its abort and has none there.
constexpr uint64_t kNoParcel = std::numeric_limits<uint64_t>::max();

}  // namespace

// Connecting takes its time, so what the device got later may be launched earlier.
void PairSender::OnLaunched(const ParcelLaunched& event, base::Instant now, Actions* actions) {
  const auto place = std::ranges::find(stream_, event.key);
  if (place == stream_.end()) return;
  const auto waits = [this](const ParcelKey& key) {
    const Parcel* const parcel = FindParcel(key);
    return parcel != nullptr && !parcel->launched;
  };
  const auto first_waiting = std::find_if(stream_.begin(), place, waits);
  Parcel& parcel = *FindParcel(event.key);
  parcel.launched = true;
  parcel.since = now;
  std::rotate(first_waiting, place, place + 1);
  AbortFirst(now, actions);
}

// Only the first on the stream moves, so its time begins when what lay in front has left.
void PairSender::LeaveStream(const std::function<bool(const ParcelKey&)>& which, base::Instant now,
                             Actions* actions) {
  if (stream_.empty()) return;
  const ParcelKey first = stream_.front();
  std::erase_if(stream_, which);
  if (stream_.empty() || stream_.front() == first) return;
  Parcel* const next = FindParcel(stream_.front());
  if (next != nullptr) next->since = now;
  AbortFirst(now, actions);
}

void PairSender::AwaitAbort(PairId id, base::Instant now, Actions* actions) {
  const auto of_it = [id](const ParcelKey& key) { return key.pair == id; };
  if (std::ranges::none_of(stream_, of_it)) {
    stream_.push_back({id, pairs_.at(id).epoch, kNoParcel});
  }
  AbortFirst(now, actions);
}

// The call that aborts a pair does not return while another pair's parcel lies in front of its own,
// and the thread that is in it can abort no other. So it is made when nothing lies there any more,
// be it that the parcel in front was taken or that it was given up itself.
void PairSender::AbortFirst(base::Instant now, Actions* actions) {
  if (stream_.empty()) return;
  const PairId id = stream_.front().pair;
  Pair& pair = pairs_.at(id);
  if (pair.state != State::kAborting || pair.deadline != base::kNever) return;
  pair.deadline = now + limits_.abort;
  ForgiveOthers(id, now);
  actions->push_back(DeviceCommand(AbortPair{id, pair.epoch}));
}

void PairSender::OnAborted(const DeviceAborted& event, base::Instant now, Actions* actions) {
  const auto found = pairs_.find(event.pair);
  if (found == pairs_.end() || found->second.epoch != event.epoch ||
      found->second.state != State::kAborting) {
    return;
  }
  ForgiveOthers(event.pair, now);
  for (auto& [number, parcel] : found->second.parcels) {
    if (parcel.state == ParcelState::kSending) free_buffers_.push_back(parcel.buffer);
    EndGather(&parcel, actions);
  }
  found->second.parcels.clear();
  LeaveStream([&](const ParcelKey& key) { return key.pair == event.pair; }, now, actions);
  AfterAbort(event.pair, now, actions);
  FillBuffers(now, actions);
}

// While the device's thread aborts a pair it launches nothing: what it has been given has its time
// from then on.
void PairSender::ForgiveOthers(PairId id, base::Instant now) {
  for (auto& [other, pair] : pairs_) {
    if (other == id) continue;
    for (auto& [number, parcel] : pair.parcels) {
      if (parcel.state == ParcelState::kSending) parcel.since = now;
    }
  }
}

// Parcels that are announced or granted wait for others, and so do those behind the first one on
// the stream.
bool PairSender::IsStuck(const Pair& pair, PairId id, base::Instant now) const {
  return std::ranges::any_of(pair.parcels, [&](const auto& entry) {
    const auto& [number, parcel] = entry;
    if (now - parcel.since <= limits_.transfer) return false;
    if (parcel.state != ParcelState::kSending) return parcel.state == ParcelState::kSent;
    return !parcel.launched || stream_.front() == ParcelKey{id, pair.epoch, number};
  });
}

}  // namespace baton
