#include "router/placement/request_queue.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr std::chrono::milliseconds kRetryAfter{1000};
// With more requests than this that each wait for workers of their own, those behind wait too, so
// that a pass stays short.
constexpr size_t kMaxAhead = 16;

}  // namespace

absl::Status RequestQueue::Add(Waiting waiting) {
  if (waiting.is_new && new_waiting_ >= max_new_) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        {.reason = Reason::kQueueFull,
         .values = {{"have", absl::StrCat(new_waiting_)}, {"limit", absl::StrCat(max_new_)}},
         .retry_after = kRetryAfter},
        absl::StrCat(new_waiting_, " requests wait already and the limit is ", max_new_,
                     "; try again later"));
  }
  new_waiting_ += waiting.is_new ? 1 : 0;
  tokens_ += waiting.need.tokens;
  const Turn turn(waiting.arrived, waiting.id);
  turn_of_.emplace(waiting.id, turn);
  waiting_.emplace(turn, Queued{.waiting = std::move(waiting), .absent_since = {}});
  return absl::OkStatus();
}

bool RequestQueue::Remove(uint64_t id) {
  const auto found = turn_of_.find(id);
  if (found == turn_of_.end()) return false;
  Erase(waiting_.find(found->second));
  return true;
}

RequestQueue::Queue::iterator RequestQueue::Erase(Queue::iterator at) {
  new_waiting_ -= at->second.waiting.is_new ? 1 : 0;
  tokens_ -= at->second.waiting.need.tokens;
  turn_of_.erase(at->second.waiting.id);
  return waiting_.erase(at);
}

void RequestQueue::Pass(base::Instant now, const Passage& passage) {
  std::vector<const RoutingNeed*> needs;
  bool prefill = false;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Queued& queued = it->second;
    const Try outcome = passage.place(queued.waiting, {.needs = needs, .prefill = prefill});
    if (outcome == Try::kPlaced) {
      it = Erase(it);
      continue;
    }
    if (outcome == Try::kAbsent) {
      if (!queued.absent_since) queued.absent_since = now;
      const bool given_up = passage.hopeless(queued.waiting, *queued.absent_since);
      it = given_up ? Erase(it) : std::next(it);
      continue;
    }
    queued.absent_since.reset();
    if (outcome == Try::kNoPrefill) prefill = true;
    if (outcome == Try::kNoDecode) needs.push_back(&queued.waiting.need);
    if (needs.size() > kMaxAhead) return;
    if (!passage.more_places({.needs = needs, .prefill = prefill})) return;
    ++it;
  }
}

}  // namespace baton
