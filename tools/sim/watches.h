#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/roles/prompt_load.h"
#include "common/roles/role_view.h"
#include "common/sched/place_shares.h"
#include "router/workers/worker_table.h"
#include "router/workers/worker_view.h"
#include "tools/sim/cluster.h"
#include "tools/sim/elastic_roles.h"
#include "tools/sim/fleet.h"
#include "tools/sim/timeline.h"

namespace baton::simulator {

// What workers and routers tell each other now and then, as StatusService and WorkerConnections do:
// each worker's statuses, with the places that it lends, and each router's demands.
class Watches final {
 public:
  // The fleet is complete, and stays so.
  Watches(const ClusterSetup& setup, Timeline* timeline, Fleet* fleet, Ahead* ahead,
          ElasticRoles* roles);
  Watches(const Watches&) = delete;
  Watches& operator=(const Watches&) = delete;

  // Every router learns of every worker at once. Then statuses come until `over`.
  void Begin(std::function<bool()> over);
  // What `router` could use has changed.
  void TellDemand(size_t router);

 private:
  // One router's watch of a worker.
  struct Watch {
    PlaceShares::RouterId seat = 0;
    WorkerLoad told;           // to the router
    uint64_t told_cached = 0;  // the version that it knows of the prefix cache
    base::Instant told_at{};
    WorkerDemand demand;  // as the router said last
    ClusterView cluster;  // likewise, to an elastic worker
    base::Instant demand_at{};
  };
  struct Watched {
    const FleetWorker* worker = nullptr;
    size_t number = 0;
    uint64_t incarnation = 0;
    PlaceShares shares;
    PromptLoad prompt_load;
    std::vector<Watch> by_router;
  };

  void Introduce(Watched* watched, uint64_t incarnation);
  void Tick(Watched* watched);
  void Say(Watched* watched, size_t router);
  PlaceCapacity CapacityOf(const Watched& watched) const;
  // What a router tells an elastic worker of all of them, over its watch of the decode worker.
  std::optional<ClusterView> ClusterFor(const Watched& watched, size_t router) const;
  void TellDemandTo(Watched* watched, size_t router);

  const ClusterSetup& setup_;
  Timeline* const timeline_;
  Fleet* const fleet_;
  Ahead* const ahead_;
  ElasticRoles* const roles_;
  const base::Instant begin_;
  base::Duration interval_{};    // between two statuses of one worker
  base::Duration tell_every_{};  // between two demands of one router
  std::function<bool()> over_;
  std::vector<Watched> decode_, prefill_;
};

}  // namespace baton::simulator
