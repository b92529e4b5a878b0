#pragma once

#include <cstdint>
#include <optional>
#include <random>

#include "common/base/clock.h"
#include "router/placement/request_queue.h"
#include "router/workers/prefix_hints.h"
#include "router/workers/routing_policy.h"
#include "router/workers/worker_table.h"

namespace baton {

// What a placement looks at.
struct PlacementView {
  const WorkerTable& workers;
  const PairSet& failed_pairs;
  Routing routing = Routing::kLoad;
  const PrefixHints* hints = nullptr;              // null: nothing is cached anywhere
  std::optional<int64_t> local_prefill_below = 0;  // as RoutingInput says
  base::Instant now{};
};

// Where an attempt would run and what it would take there. The views stand until the table changes.
struct ChosenPlace {
  Route route;
  WorkerClaim decode;
  WorkerClaim prefill;  // with route.prefill only
};

// What the routing policy is shown of all this.
RoutingInput RoutingInputOf(const PlacementView& view);
// What a prefill worker gives for the prompt of `need`.
WorkerClaim PrefillClaimOf(const RoutingNeed& need);

// Chooses workers for a request behind those that are `ahead` of it, and fills `place` when it
// could; nothing is taken yet.
RequestQueue::Try ChoosePlace(const PlacementView& view, const RoutingNeed& need,
                              const RequestQueue::Ahead& ahead, std::mt19937_64* random,
                              ChosenPlace* place);
// As ChoosePlace, of workers that are given.
RequestQueue::Try ChooseAmong(const PlacementView& view, const RoutingInput& input,
                              const RoutingNeed& need, std::mt19937_64* random, ChosenPlace* place);

// What a queue that is gone through asks of the workers; whom it places and gives up is the
// caller's. The table must not change but for what is taken.
RequestQueue::Passage PassageOf(const PlacementView& view);

}  // namespace baton
