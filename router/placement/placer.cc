#include "router/placement/placer.h"

#include <algorithm>
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

RoutingInput Placer::InputOf(const WorkerDirectory::Tables& tables) const {
  return {.decode = tables.workers.WithPlace(WorkerKind::kDecode),
          .prefill = tables.workers.WithPlace(WorkerKind::kPrefill),
          .serving_prefill = tables.workers.Serving(WorkerKind::kPrefill),
          .failed_pairs = tables.failed_pairs,
          .hints = &directory_->prefix_hints(),
          .warm = &tables.workers.warm_pairs(),
          .local_prefill_below = options_.local_prefill_below,
          .one_model = tables.workers.ServingModels(WorkerKind::kDecode) <= 1,
          .now = tables.now};
}

RequestQueue::Try Placer::Place(const WorkerDirectory::Tables& tables, const RoutingNeed& need,
                                const RequestQueue::Ahead& ahead, Placement* placement) {
  RoutingInput input = InputOf(tables);
  input.ahead = ahead.needs;
  input.prefill_is_kept = ahead.prefill;
  base::MutexLock lock(&mutex_);
  const base::Instant begin = clock_->Now();
  const std::variant<Route, Lack> picked = PickRoute(need, input, &random_);
  const Route* const route = std::get_if<Route>(&picked);
  probe_->Picked(clock_->Now() - begin, route != nullptr);
  if (route == nullptr) {
    if (std::get<Lack>(picked) == Lack::kPrefill) return RequestQueue::Try::kNoPrefill;
    const int64_t most = tables.workers.ServingContext(WorkerKind::kDecode, need.fingerprint);
    return need.peak_tokens <= most ? RequestQueue::Try::kNoDecode : RequestQueue::Try::kAbsent;
  }
  const bool local = route->prefill == nullptr;
  const WorkerClaim claim{.tokens = need.tokens,
                          .growth_tokens = need.peak_tokens - need.tokens,
                          .computes = local,
                          .decodes = true};
  // Copied before they are changed by what this attempt takes.
  placement->held_tokens = route->held_tokens;
  if (!local) placement->prefill = TakePrefill(tables, *route->prefill, need);
  placement->decode.view = *route->decode;
  placement->decode.hold =
      directory_->Hold(tables, WorkerKind::kDecode, placement->decode.view, claim);
  return RequestQueue::Try::kPlaced;
}

bool Placer::MorePlaces(const WorkerDirectory::Tables& tables,
                        const RequestQueue::Ahead& ahead) const {
  // Whoever needs no prefill worker may still go.
  if (ahead.prefill && options_.local_prefill_below == 0) return false;
  const auto open = tables.workers.WithPlace(WorkerKind::kDecode);
  return std::ranges::any_of(open, [&](const WorkerView* view) {
    return std::ranges::none_of(ahead.needs,
                                [&](const RoutingNeed* need) { return CouldDecode(*view, *need); });
  });
}

void Placer::WarmUp(const Placement& placement) {
  if (placement.prefill) warmups_.Ask(placement.prefill->view, placement.decode.view);
}

PlacedWorker Placer::TakePrefill(const WorkerDirectory::Tables& tables, const WorkerView& prefill,
                                 const RoutingNeed& need) {
  PlacedWorker placed{prefill, nullptr};
  placed.hold = directory_->Hold(tables, WorkerKind::kPrefill, placed.view,
                                 {.tokens = need.tokens, .computes = true});
  return placed;
}

std::optional<PlacedWorker> Placer::PlaceOtherPrefill(const RoutingNeed& need,
                                                      const WorkerView& decode) {
  std::optional<PlacedWorker> placed;
  directory_->Use([&](const WorkerDirectory::Tables& tables) {
    base::MutexLock lock(&mutex_);
    const WorkerView* const view = PickOtherPrefill(need, decode, InputOf(tables), &random_);
    if (view != nullptr) placed = TakePrefill(tables, *view, need);
  });
  if (placed) warmups_.Ask(placed->view, decode);
  return placed;
}

}  // namespace baton
