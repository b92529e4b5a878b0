#include "router/placement/placer.h"

#include <utility>

#include "common/base/ticket.h"
#include "router/router_probe.h"

namespace baton {

Placer::Placer(const RouterOptions& options, WorkerDirectory* directory, RouterProbe* probe,
               const base::Clock* clock)
    : options_(options),
      directory_(directory),
      probe_(probe),
      clock_(clock),
      random_(RandomBits()),
      warmups_(probe, clock) {}

PlacementView Placer::ViewOf(const WorkerDirectory::Tables& tables) const {
  return {.workers = tables.workers,
          .failed_pairs = tables.failed_pairs,
          .routing = options_.routing,
          .hints = &directory_->prefix_hints(),
          .local_prefill_below = options_.local_prefill_below,
          .now = tables.now};
}

RequestQueue::Try Placer::Place(const WorkerDirectory::Tables& tables, const RoutingNeed& need,
                                const RequestQueue::Ahead& ahead, Placement* placement) {
  base::MutexLock lock(&mutex_);
  ChosenPlace chosen;
  const base::Instant begin = clock_->Now();
  const RequestQueue::Try outcome = ChoosePlace(ViewOf(tables), need, ahead, &random_, &chosen);
  const bool placed = outcome == RequestQueue::Try::kPlaced;
  probe_->Picked(options_.routing, clock_->Now() - begin, placed);
  if (!placed) return outcome;
  // Copied before they are changed by what this attempt takes.
  placement->held_tokens = chosen.route.held_tokens;
  placement->cached_tokens = chosen.route.cached_tokens();
  placement->chosen_by = chosen.route.chosen_by;
  placement->split = chosen.route.split;
  placement->decode.view = *chosen.route.decode;
  if (chosen.route.prefill != nullptr) {
    placement->prefill = TakePrefill(tables, *chosen.route.prefill, chosen.prefill);
  }
  Expect(need, *placement);
  probe_->Chosen(*placement, need.tokens, need.prefix != nullptr);
  placement->decode.hold =
      directory_->Hold(tables, WorkerKind::kDecode, placement->decode.view, chosen.decode);
  return outcome;
}

// What a request that comes next may count on, before the workers tell of it.
void Placer::Expect(const RoutingNeed& need, const Placement& placement) {
  if (!ByPrefix(options_.routing) || need.prefix == nullptr) return;
  directory_->WillHold(placement.decode.view.key(), *need.prefix);
  if (placement.prefill) directory_->WillHold(placement.prefill->view.key(), *need.prefix);
}

RequestQueue::Passage Placer::PassageOf(const WorkerDirectory::Tables& tables) const {
  return baton::PassageOf(ViewOf(tables));
}

void Placer::WarmUp(const Placement& placement) {
  if (placement.prefill) warmups_.Ask(placement.prefill->view, placement.decode.view);
}

PlacedWorker Placer::TakePrefill(const WorkerDirectory::Tables& tables, const WorkerView& prefill,
                                 const WorkerClaim& claim) {
  PlacedWorker placed{prefill, nullptr};
  placed.hold = directory_->Hold(tables, WorkerKind::kPrefill, placed.view, claim);
  return placed;
}

std::optional<PlacedWorker> Placer::PlaceOtherPrefill(const RoutingNeed& need,
                                                      const WorkerView& decode) {
  std::optional<PlacedWorker> placed;
  directory_->Use([&](const WorkerDirectory::Tables& tables) {
    base::MutexLock lock(&mutex_);
    const WorkerView* const view =
        PickOtherPrefill(need, decode, RoutingInputOf(ViewOf(tables)), &random_);
    if (view != nullptr) placed = TakePrefill(tables, *view, PrefillClaimOf(need));
  });
  if (placed) warmups_.Ask(placed->view, decode);
  return placed;
}

}  // namespace baton
