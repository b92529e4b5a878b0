#include "common/engine/event_sink.h"

#include <chrono>
#include <type_traits>
#include <utility>
#include <variant>

namespace baton {
namespace {

// How often a full queue is looked at again.
constexpr auto kRetry = std::chrono::milliseconds(1);

std::vector<LeasedBlock> Addresses(const std::vector<BlockAt>& blocks, const KvCache& kv) {
  std::vector<LeasedBlock> leased;
  leased.reserve(blocks.size());
  for (const BlockAt& at : blocks)
    leased.push_back({at.ordinal, kv.bytes(at.block), kv.peer_bytes(at.block)});
  return leased;
}

ReservedEvent Convert(const BlocksGranted& granted, const KvCache& kv, double) {
  return {.cached_blocks = granted.cached_blocks, .lease = Addresses(granted.lease, kv)};
}

BlocksReadyEvent Convert(const BlocksProven& proven, const KvCache& kv, double) {
  return {.blocks = Addresses(proven.blocks, kv),
          .last_block_tokens = proven.last_block_tokens,
          .cached_tokens = proven.cached_tokens,
          .last = proven.last};
}

TokenEvent Convert(TokenEvent token, const KvCache&, double unix_now) {
  token.unix_time = unix_now;
  return token;
}

template <typename Plain>
Plain Convert(Plain event, const KvCache&, double) {
  return event;
}

}  // namespace

void EventSink::Emit(EngineEvent event) {
  base::MutexLock lock(&mutex_);
  while (!faulted_ && !hurry_) {
    if (queue_.TryPush(std::move(event)) || queue_.closed()) return;
    hurried_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + kRetry);
  }
  if (!faulted_) queue_.PushReserved(std::move(event));
}

void EventSink::EmitFault(absl::Status status) {
  base::MutexLock lock(&mutex_);
  if (std::exchange(faulted_, true)) return;
  queue_.PushReserved(FaultEvent{std::move(status)});
}

void EventSink::Hurry() {
  base::MutexLock lock(&mutex_);
  hurry_ = true;
  hurried_.NotifyAll();
}

SequenceEvent ToEngineEvent(SchedEvent event, const KvCache& kv, double unix_now) {
  SequenceEvent out{.sequence = event.sequence, .at = event.at, .what = DetachEvent()};
  std::visit([&](auto&& what) { out.what = Convert(std::move(what), kv, unix_now); },
             std::move(event.what));
  return out;
}

}  // namespace baton
