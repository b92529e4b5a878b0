#include "router/placement/placer.h"

#include <algorithm>
#include <utility>
#include <vector>

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

std::variant<Placement, Placer::Obstacle> Placer::Place(RoutingNeed need) {
  if (need.fingerprint.empty()) need.fingerprint = directory_->ServingFingerprint();
  const std::vector<WorkerView> decode = directory_->Healthy(WorkerKind::kDecode);
  const bool present = std::any_of(decode.begin(), decode.end(), [&](const WorkerView& view) {
    return view.facts.fingerprint == need.fingerprint;
  });
  if (!present) return Obstacle::kAbsent;
  const std::vector<WorkerView> prefill = directory_->Healthy(WorkerKind::kPrefill);
  const PairSet failed = directory_->FailedPairs();
  const RoutingInput input{.decode = decode,
                           .prefill = prefill,
                           .failed_pairs = failed,
                           .hints = &directory_->prefix_hints(),
                           .local_prefill_below = options_.local_prefill_below,
                           .now = clock_->Now()};
  // The lock makes the choice and its hold one step for placements that run beside each other.
  base::MutexLock lock(&mutex_);
  const std::optional<Route> route = PickRoute(need, input, &random_);
  probe_->Picked(clock_->Now() - input.now, route.has_value());
  if (!route) return Obstacle::kBusy;
  Placement placement;
  const bool local = !route->prefill.has_value();
  placement.decode = {route->decode,
                      directory_->Hold(route->decode, need.tokens, need.peak_tokens, local)};
  placement.held_tokens = route->held_tokens;
  if (!local) {
    placement.prefill = Claim(*route->prefill, need);
    warmups_.Ask(*route->prefill, route->decode);
  }
  return placement;
}

PlacedWorker Placer::Claim(const WorkerView& prefill, const RoutingNeed& need) {
  return {prefill, directory_->Hold(prefill, need.tokens, need.tokens, /*computes=*/true)};
}

std::optional<PlacedWorker> Placer::PlaceOtherPrefill(const RoutingNeed& need,
                                                      const WorkerView& decode) {
  const std::vector<WorkerView> prefill = directory_->Healthy(WorkerKind::kPrefill);
  const PairSet failed = directory_->FailedPairs();
  const RoutingInput input{
      .decode = {}, .prefill = prefill, .failed_pairs = failed, .now = clock_->Now()};
  base::MutexLock lock(&mutex_);
  const std::optional<WorkerView> view = PickOtherPrefill(need, decode, input, &random_);
  if (!view) return std::nullopt;
  warmups_.Ask(*view, decode);
  return Claim(*view, need);
}

}  // namespace baton
