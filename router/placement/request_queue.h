#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "router/workers/routing_policy.h"

namespace baton {

// The requests that wait at a router for workers, in the order in which they came to it. One that
// comes back, because its attempt failed, keeps the turn of its arrival. It has no threads and no
// clock. Not thread-safe.
class RequestQueue final {
 public:
  struct Waiting {
    uint64_t id = 0;
    base::Instant arrived{};  // at the router
    RoutingNeed need;
    bool is_new = true;  // it had no attempt yet; only such count against the bound
  };

  // `max_new` requests may wait that had no attempt yet.
  explicit RequestQueue(int32_t max_new) : max_new_(max_new) {}

  // Refuses a new request with RESOURCE_EXHAUSTED, QUEUE_FULL and RetryInfo at the bound.
  absl::Status Add(Waiting waiting);
  // False when it is not there.
  bool Remove(uint64_t id);

  // What became of the try to place one request.
  enum class Try {
    kPlaced,
    kNoDecode,   // the decode workers that could take it have no place
    kNoPrefill,  // likewise the prefill workers
    kAbsent      // no worker that is there could ever take it
  };
  // What stands before a request that is tried: needs that wait for decode workers, and whether
  // one waits for a prefill worker. Whoever waits holds back those that want the same workers.
  struct Ahead {
    std::span<const RoutingNeed* const> needs;
    bool prefill = false;
  };
  struct Passage {
    // Tries to place `waiting`.
    std::function<Try(const Waiting& waiting, const Ahead& ahead)> place;
    // Whether some worker has a place that nobody in `ahead` could use. Asked before going on.
    std::function<bool(const Ahead& ahead)> more_places;
    // Whether a request for which no worker has been there since `since` is given up.
    std::function<bool(const Waiting& waiting, base::Instant since)> hopeless;
  };
  // Goes through the queue once, first come first served, and takes out who was placed or given up.
  void Pass(base::Instant now, const Passage& passage);

  bool empty() const { return waiting_.empty(); }
  int64_t size() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t tokens() const { return tokens_; }  // of prompts and what was generated

 private:
  using Turn = std::pair<base::Instant, uint64_t>;
  struct Queued {
    Waiting waiting;
    std::optional<base::Instant> absent_since;
  };
  using Queue = std::map<Turn, Queued>;
  Queue::iterator Erase(Queue::iterator at);

  const int32_t max_new_;
  Queue waiting_;
  std::unordered_map<uint64_t, Turn> turn_of_;
  int32_t new_waiting_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace baton
