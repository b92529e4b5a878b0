#pragma once

#include <memory>
#include <optional>
#include <random>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "router/placement/choose_place.h"
#include "router/placement/pair_warmups.h"
#include "router/placement/request_queue.h"
#include "router/placement/tenant_hold.h"
#include "router/router_options.h"
#include "router/workers/routing_policy.h"
#include "router/workers/worker_directory.h"

namespace baton {

class RouterProbe;

// A worker and what this router has there.
struct PlacedWorker {
  WorkerView view;
  std::unique_ptr<WorkerHold> hold;
};

// Where one attempt runs.
struct Placement {
  PlacedWorker decode;
  std::optional<PlacedWorker> prefill;  // empty: the decode worker prefills
  int64_t held_tokens = 0;  // of the prompt, believed to be in the decode worker's prefix cache
  // Likewise, in the cache of the worker that computes the prompt; and what spoke for the decode
  // worker.
  int64_t cached_tokens = 0;
  ChosenBy chosen_by = ChosenBy::kOnly;
  SplitChoice split;  // why there is a `prefill`, or none
  TenantHold tenant;  // what it has of its tenant's bound
};

// Chooses workers for an attempt, as ChoosePlace does by what the directory knows now, and takes
// what the attempt needs there. Thread-safe.
class Placer final {
 public:
  // All must outlive this.
  Placer(const RouterOptions& options, WorkerDirectory* directory, RouterProbe* probe,
         const base::Clock* clock);

  // Tries to place a request inside WorkerDirectory::Use, behind those that are `ahead` of it, and
  // fills `placement` when it could.
  RequestQueue::Try Place(const WorkerDirectory::Tables& tables, const RoutingNeed& need,
                          const RequestQueue::Ahead& ahead, Placement* placement);
  // Likewise, what a pass through the queue asks of the workers; `place` and `hopeless` are the
  // caller's.
  RequestQueue::Passage PassageOf(const WorkerDirectory::Tables& tables) const;
  // The attempt of a placement is about to be opened.
  void WarmUp(const Placement& placement);

  // Chooses another prefill worker for a reservation on `decode`, and never one that `need` avoids.
  std::optional<PlacedWorker> PlaceOtherPrefill(const RoutingNeed& need, const WorkerView& decode);

 private:
  PlacementView ViewOf(const WorkerDirectory::Tables& tables) const;
  void Expect(const RoutingNeed& need, const Placement& placement);
  PlacedWorker TakePrefill(const WorkerDirectory::Tables& tables, const WorkerView& prefill,
                           const WorkerClaim& claim);

  const RouterOptions& options_;
  WorkerDirectory* const directory_;
  RouterProbe* const probe_;
  const base::Clock* const clock_;
  base::Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  PairWarmups warmups_;
};

}  // namespace baton
