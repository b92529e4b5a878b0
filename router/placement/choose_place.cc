#include "router/placement/choose_place.h"

#include <algorithm>
#include <variant>

namespace baton {
namespace {

// Whether a worker that gets requests could take it, with or without a place now. Of one sequence
// the largest context tells. Beams need a pool beside their length, and these may be the largest at
// different workers.
bool AnyCouldDecode(const PlacementView& view, const RoutingNeed& need) {
  if (need.beam_tokens == 0) {
    return need.longest_sequence() <=
           view.workers.ServingContext(WorkerKind::kDecode, need.fingerprint);
  }
  return std::ranges::any_of(view.workers.Serving(WorkerKind::kDecode),
                             [&](const WorkerView* worker) { return CouldDecode(*worker, need); });
}

}  // namespace

RoutingInput RoutingInputOf(const PlacementView& view) {
  return {.decode = view.workers.WithPlace(WorkerKind::kDecode),
          .prefill = view.workers.WithPlace(WorkerKind::kPrefill),
          .serving_prefill = view.workers.Serving(WorkerKind::kPrefill),
          .failed_pairs = view.failed_pairs,
          .routing = view.routing,
          .hints = view.hints,
          .table = &view.workers,
          .warm = &view.workers.warm_pairs(),
          .local_prefill_below = view.local_prefill_below,
          .one_model = view.workers.ServingModels(WorkerKind::kDecode) <= 1,
          .now = view.now};
}

WorkerClaim PrefillClaimOf(const RoutingNeed& need) {
  return {.tokens = need.tokens, .computes = true};
}

RequestQueue::Try ChoosePlace(const PlacementView& view, const RoutingNeed& need,
                              const RequestQueue::Ahead& ahead, std::mt19937_64* random,
                              ChosenPlace* place) {
  RoutingInput input = RoutingInputOf(view);
  input.ahead = ahead.needs;
  input.prefill_is_kept = ahead.prefill;
  return ChooseAmong(view, input, need, random, place);
}

RequestQueue::Try ChooseAmong(const PlacementView& view, const RoutingInput& input,
                              const RoutingNeed& need, std::mt19937_64* random,
                              ChosenPlace* place) {
  const std::variant<Route, Lack> picked = PickRoute(need, input, random);
  if (const Lack* const lack = std::get_if<Lack>(&picked)) {
    if (*lack == Lack::kPrefill) return RequestQueue::Try::kNoPrefill;
    return AnyCouldDecode(view, need) ? RequestQueue::Try::kNoDecode : RequestQueue::Try::kAbsent;
  }
  place->route = std::get<Route>(picked);
  place->decode = {.tokens = need.tokens,
                   .held_tokens = place->route.beside ? place->route.held_tokens : 0,
                   .growth_tokens = need.peak_tokens - need.tokens,
                   .computes = place->route.prefill == nullptr,
                   .decodes = true};
  place->prefill = PrefillClaimOf(need);
  return RequestQueue::Try::kPlaced;
}

bool MorePlaces(const PlacementView& view, const RequestQueue::Ahead& ahead) {
  // Whoever needs no prefill worker may still go.
  if (ahead.prefill && view.local_prefill_below == 0) return false;
  const auto open = view.workers.WithPlace(WorkerKind::kDecode);
  return std::ranges::any_of(open, [&](const WorkerView* worker) {
    return std::ranges::none_of(
        ahead.needs, [&](const RoutingNeed* need) { return CouldDecode(*worker, *need); });
  });
}

}  // namespace baton
