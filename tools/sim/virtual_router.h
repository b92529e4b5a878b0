#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "router/placement/choose_place.h"
#include "router/placement/request_queue.h"
#include "router/router_options.h"
#include "router/workers/prefix_hints.h"
#include "router/workers/worker_table.h"
#include "tools/sim/cluster.h"
#include "tools/sim/timeline.h"

namespace baton::simulator {

// A worker's number among those of its kind, by which it is known in a fleet, and the incarnation
// of its process: no other worker's, so that those of one role differ in the high half.
inline uint32_t NumberOf(const WorkerKey& key) {
  return static_cast<uint32_t>(key.incarnation - 1);
}
inline uint64_t IncarnationOf(uint64_t number, bool only_prefills) {
  return number + 1 + (only_prefills ? uint64_t{1} << 32 : 0);
}

// Where an attempt runs and what it took there.
struct TakenPlace {
  WorkerKey decode, prefill;
  bool local = true;  // the decode worker prefills
  WorkerClaim decode_claim, prefill_claim;
  bool prompt_done = false;
};

// A router without threads, network or text: the queue, table, hints and placement that are served,
// run as Admission and WorkerDirectory run them.
class VirtualRouter final {
 public:
  struct Links {
    // A request got a place.
    std::function<void(uint64_t id, TakenPlace place)> placed;
    // A request will get none.
    std::function<void(uint64_t id, const absl::Status& why)> refused;
    // What the router could use has changed.
    std::function<void()> tell_demand;
  };
  VirtualRouter(const ClusterSetup& setup, uint64_t seed, Timeline* timeline, Links links);
  VirtualRouter(const VirtualRouter&) = delete;
  VirtualRouter& operator=(const VirtualRouter&) = delete;

  // A request comes, or comes back.
  void Enqueue(RequestQueue::Waiting waiting);
  // Something changed: tries to place who waits, once all that happens at this moment has happened.
  void Wake();

  // The prompt of an attempt is computed; the attempt is over.
  void PromptDone(TakenPlace* place);
  void GiveBack(uint64_t id, TakenPlace* place, const TokensServed& served);
  void MarkFull(const WorkerKey& decode);

  WorkerTable& table() { return table_; }
  PrefixHints& hints() { return hints_; }
  const RequestQueue::Wanted& wanted() const { return queue_.wanted(); }

 private:
  void Pump();
  RequestQueue::Try Choose(const RoutingNeed& need, const RequestQueue::Ahead& ahead,
                           ChosenPlace* chosen);
  RequestQueue::Try Place(const RequestQueue::Waiting& waiting, const RequestQueue::Ahead& ahead);
  PlacementView view() const;

  const RouterDeadlines deadlines_;
  const std::optional<int32_t> local_prefill_below_;
  const SimRouting routing_;
  Timeline* const timeline_;
  const Links links_;
  RequestQueue queue_;
  WorkerTable table_;
  PrefixHints hints_;
  const PairSet no_failed_pairs_;
  std::mt19937_64 random_;
  bool pump_due_ = false;
  base::Instant look_again_{};
  RequestQueue::Wanted told_;
};

}  // namespace baton::simulator
