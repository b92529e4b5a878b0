#pragma once

#include <memory>
#include <optional>
#include <random>
#include <variant>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "router/placement/pair_warmups.h"
#include "router/router_options.h"
#include "router/workers/routing_policy.h"
#include "router/workers/worker_directory.h"

namespace baton {

class RouterProbe;

// A worker and this router's claim on it.
struct PlacedWorker {
  WorkerView view;
  std::unique_ptr<WorkerHold> hold;
};

// Where one attempt runs.
struct Placement {
  PlacedWorker decode;
  std::optional<PlacedWorker> prefill;  // empty: the decode worker prefills
  int64_t held_tokens = 0;              // of the prompt, believed to be in its prefix cache
};

// Chooses workers for an attempt: applies the routing policy to what the directory knows now.
// Thread-safe.
class Placer final {
 public:
  // All must outlive this.
  Placer(const RouterOptions& options, WorkerDirectory* directory, RouterProbe* probe,
         const base::Clock* clock);

  // Why there is no placement.
  enum class Obstacle {
    kBusy,    // workers are there, none has room
    kAbsent,  // no healthy worker could take it at all
  };
  std::variant<Placement, Obstacle> Place(RoutingNeed need);

  // Chooses another prefill worker for a reservation on `decode`, and never one that `need` avoids.
  std::optional<PlacedWorker> PlaceOtherPrefill(const RoutingNeed& need, const WorkerView& decode);

 private:
  PlacedWorker Claim(const WorkerView& prefill, const RoutingNeed& need);

  const RouterOptions& options_;
  WorkerDirectory* const directory_;
  RouterProbe* const probe_;
  const base::Clock* const clock_;
  base::Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  PairWarmups warmups_;
};

}  // namespace baton
