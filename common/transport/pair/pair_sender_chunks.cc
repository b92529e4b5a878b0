// PairSender: how pushes become chunks, and what becomes of those.
#include <algorithm>
#include <utility>

#include "common/transport/pair/pair_chunk.h"
#include "common/transport/pair/pair_sender.h"

namespace baton {
namespace {

ChunkPart PartOf(const SourcePart& source) {
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
    for (auto& [number, chunk] : pair.chunks) {
      if (chunk.push == id) chunk.push = 0;  // travels void if it still has to
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
  for (auto& [number, chunk] : pair.chunks) {
    const bool unsent =
        chunk.state == ChunkState::kAnnounced || chunk.state == ChunkState::kGranted;
    if (chunk.push == id && unsent) Return(std::exchange(chunk.push, 0), chunk.sources, actions);
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

// One chunk holds parts of one push; pushes take turns.
bool PairSender::AnnounceOne(PairId id, base::Instant now, Actions* actions) {
  Pair& pair = pairs_.at(id);
  const bool open = pair.state == State::kWarm && !pair.line.empty() &&
                    pair.chunks.size() < static_cast<size_t>(limits_.max_announced);
  if (!open) return false;
  const PushId push_id = pair.line.front();
  pair.line.pop_front();
  Push& push = pushes_.at(push_id);
  Chunk chunk{.push = push_id};
  chunk.plan.ticket = push.ticket;
  int64_t end = kChunkHeaderBytes;
  while (!push.queue.empty() && chunk.sources.size() < kMaxChunkParts) {
    SourcePart& part = push.queue.front();
    const auto size = static_cast<int64_t>(SizeOf(part.bytes));
    if (PartEnd(end, size) > pair.chunk_bytes && !chunk.sources.empty()) break;
    // A block larger than a chunk is cut.
    const int64_t taken =
        std::min(size, (pair.chunk_bytes - end) / kPartAlignment * kPartAlignment);
    const SourcePart piece{part.ordinal, part.offset,
                           Subrange(part.bytes, 0, static_cast<size_t>(taken))};
    end = PartEnd(end, taken);
    chunk.plan.parts.push_back(PartOf(piece));
    chunk.sources.push_back(piece);
    part.offset += taken;
    part.bytes =
        Subrange(part.bytes, static_cast<size_t>(taken), static_cast<size_t>(size - taken));
    if (part.bytes.empty()) push.queue.pop_front();
  }
  if (!push.queue.empty()) pair.line.push_back(push_id);
  AnnounceChunk(id, std::move(chunk), now, actions);
  return true;
}

void PairSender::AnnounceChunk(PairId id, Chunk chunk, base::Instant now, Actions* actions) {
  Pair& pair = pairs_.at(id);
  chunk.plan.number = pair.next_number++;
  chunk.plan.bytes = PartOffsets(chunk.plan.parts).back();
  chunk.since = now;
  actions->push_back(TellReceiver{id, PairAnnounce{pair.epoch, chunk.plan}});
  pair.chunks.emplace(chunk.plan.number, std::move(chunk));
}

void PairSender::OnGo(PairId id, const PairGo& message, base::Instant now, Actions* actions) {
  Pair& pair = pairs_.at(id);
  const auto next = std::ranges::find_if(
      pair.chunks, [](const auto& entry) { return entry.second.state == ChunkState::kAnnounced; });
  if (next == pair.chunks.end() || next->first != message.number) {
    return Abort(id,
                 "the receiver granted chunk " + std::to_string(message.number) + " out of turn",
                 /*tell=*/true, now, actions);
  }
  Chunk& chunk = next->second;
  chunk.state = ChunkState::kGranted;
  if (!chunk.plan.parts.empty()) {
    actions->push_back(GrantWaited{now - chunk.since, chunk.plan.bytes});
  }
  granted_.push_back({id, pair.epoch, message.number});
  FillSlots(now, actions);
}

void PairSender::FillSlots(base::Instant now, Actions* actions) {
  while (!granted_.empty() && !free_slots_.empty()) {
    const ChunkKey key = granted_.front();
    granted_.pop_front();
    Chunk& chunk = *FindChunk(key);
    chunk.state = ChunkState::kSending;
    chunk.since = now;
    chunk.slot = free_slots_.back();
    free_slots_.pop_back();
    SendChunk send{.key = key, .slot = chunk.slot, .plan = chunk.plan, .sources = {}};
    if (chunk.push != 0) {
      chunk.reader = chunk.push;
      ++pushes_.at(chunk.push).gathering;
      send.sources = chunk.sources;
    } else {
      send.is_void = !chunk.plan.parts.empty();
    }
    actions->push_back(DeviceCommand(std::move(send)));
  }
}

PairSender::Chunk* PairSender::FindChunk(const ChunkKey& key) {
  const auto pair = pairs_.find(key.pair);
  if (pair == pairs_.end() || pair->second.epoch != key.epoch) return nullptr;
  const auto chunk = pair->second.chunks.find(key.number);
  return chunk == pair->second.chunks.end() ? nullptr : &chunk->second;
}

void PairSender::OnDevice(const DeviceEvent& event, base::Instant now, Actions* actions) {
  if (const auto* connected = std::get_if<Connected>(&event)) {
    OnConnected(*connected, now, actions);
  } else if (const auto* gathered = std::get_if<ChunkGathered>(&event)) {
    Chunk* chunk = FindChunk(gathered->key);
    if (chunk != nullptr) EndGather(chunk, actions);
  } else if (const auto* sent = std::get_if<ChunkSent>(&event)) {
    OnSent(*sent, now, actions);
  } else if (const auto* aborted = std::get_if<DeviceAborted>(&event)) {
    OnAborted(*aborted, now, actions);
  }
}

void PairSender::EndGather(Chunk* chunk, Actions* actions) {
  const PushId reader = std::exchange(chunk->reader, 0);
  if (reader == 0) return;
  --pushes_.at(reader).gathering;
  ReleaseIfUnread(reader, actions);
}

void PairSender::OnSent(const ChunkSent& event, base::Instant now, Actions* actions) {
  Chunk* const chunk = FindChunk(event.key);
  if (chunk == nullptr || chunk->state != ChunkState::kSending) return;
  const PairId id = event.key.pair;
  if (pairs_.at(id).state == State::kAborting) return;  // DeviceAborted frees its slot
  if (!event.status.ok()) {
    return Abort(id, std::string(event.status.message()), /*tell=*/true, now, actions);
  }
  chunk->state = ChunkState::kSent;
  chunk->since = now;
  free_slots_.push_back(chunk->slot);
  if (chunk->done) FinishChunk(id, event.key.number, now, actions);
  FillSlots(now, actions);
}

void PairSender::OnDone(PairId id, const PairDone& message, base::Instant now, Actions* actions) {
  Chunk* const chunk = FindChunk({id, message.epoch, message.number});
  const bool under_way =
      chunk != nullptr && !chunk->done &&
      (chunk->state == ChunkState::kSending || chunk->state == ChunkState::kSent);
  if (!under_way) {
    return Abort(
        id,
        "the receiver answered chunk " + std::to_string(message.number) + ", which it had not got",
        /*tell=*/true, now, actions);
  }
  chunk->done = true;
  chunk->outcome = message.outcome;
  if (chunk->state == ChunkState::kSent) FinishChunk(id, message.number, now, actions);
}

void PairSender::FinishChunk(PairId id, uint64_t number, base::Instant now, Actions* actions) {
  Pair& pair = pairs_.at(id);
  const Chunk chunk = std::move(pair.chunks.extract(number).mapped());
  pair.used_at = now;
  if (chunk.push != 0) {
    if (chunk.outcome == ChunkOutcome::kWritten) {
      actions->push_back(PartsDone{chunk.push, chunk.plan.parts});
    } else {
      if (chunk.outcome == ChunkOutcome::kDiscarded) {
        actions->push_back(PairNews{PairEvent::kDiscarded, pair.address,
                                    "the receiver had no place for blocks of a push"});
      }
      Return(chunk.push, chunk.sources, actions);
      DropOut(chunk.push, actions);
    }
  }
  const bool proof = pair.state == State::kProving;
  if (chunk.outcome == ChunkOutcome::kBroken ||
      (proof && chunk.outcome != ChunkOutcome::kWritten)) {
    return Abort(id, "chunk " + std::to_string(number) + " arrived broken", /*tell=*/true, now,
                 actions);
  }
  if (proof) BecomeWarm(id, now, actions);
  Announce(id, now, actions);
}

}  // namespace baton
