#include "router/placement/choose_place.h"

#include <algorithm>
#include <variant>

namespace baton {
namespace {

// Whether a worker that gets requests could take it, with or without a place now. Of one sequence
// the largest context tells, unless the worker that has it was found unfit. Beams need a pool
// beside their length, and these may be the largest at different workers.
bool AnyCouldDecode(const PlacementView& view, const RoutingNeed& need) {
  if (need.beam_tokens == 0 && need.unfit.empty()) {
    return need.longest_sequence() <=
           view.workers.ServingContext(WorkerKind::kDecode, need.fingerprint);
  }
  return std::ranges::any_of(view.workers.Serving(WorkerKind::kDecode),
                             [&](const WorkerView* worker) { return CouldDecode(*worker, need); });
}

RequestQueue::Room RoomOf(const PlacementView& view, const RequestQueue::Ahead& ahead) {
  RequestQueue::Room room;
  // Whoever needs no prefill worker, or one of another model, may still go.
  const bool all_split = view.local_prefill_below == 0;
  if (ahead.prefill == "" && all_split) return room;
  for (const WorkerView* worker : view.workers.WithPlace(WorkerKind::kDecode)) {
    const bool kept = std::ranges::any_of(
        ahead.needs, [&](const RoutingNeed* need) { return CouldDecode(*worker, *need); });
    if (kept || (all_split && ahead.prefill == worker->facts.fingerprint)) continue;
    room.context = std::max(room.context, worker->context());
    room.pool = std::max(room.pool, worker->pool_tokens());
  }
  return room;
}

// Whether decode workers of the model, or of any, serve that no prefill worker belongs to.
bool AnyWithoutPrefill(const WorkerTable& workers, const std::string& fingerprint) {
  if (!fingerprint.empty()) return workers.ServingContext(WorkerKind::kPrefill, fingerprint) == 0;
  return workers.ServingModels(WorkerKind::kPrefill) < workers.ServingModels(WorkerKind::kDecode);
}

// As RouteVia decides, for whichever decode worker it may be.
bool NeedsPrefill(const PlacementView& view, const RoutingNeed& need) {
  if (!view.local_prefill_below || need.beside || !need.unfit.empty()) return false;
  const int64_t held_at_least = need.tokens - *view.local_prefill_below + 1;
  if (held_at_least <= 0 || AnyWithoutPrefill(view.workers, need.fingerprint)) return false;
  return view.hints == nullptr || need.prefix == nullptr || held_at_least > need.cacheable_tokens ||
         !view.hints->AnyHolds(*need.prefix, held_at_least);
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
  input.prefill_kept_for = ahead.prefill;
  return ChooseAmong(view, input, need, random, place);
}

RequestQueue::Try ChooseAmong(const PlacementView& view, const RoutingInput& input,
                              const RoutingNeed& need, std::mt19937_64* random,
                              ChosenPlace* place) {
  if (!AnyCouldDecode(view, need)) return RequestQueue::Try::kAbsent;
  const std::variant<Route, Lack> picked = PickRoute(need, input, random);
  if (const Lack* const lack = std::get_if<Lack>(&picked)) {
    return *lack == Lack::kPrefill ? RequestQueue::Try::kNoPrefill : RequestQueue::Try::kNoDecode;
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

RequestQueue::Passage PassageOf(const PlacementView& view) {
  RequestQueue::Passage passage;
  passage.room = [view](const RequestQueue::Ahead& ahead) { return RoomOf(view, ahead); };
  passage.absent = [view](const RoutingNeed& need) { return !AnyCouldDecode(view, need); };
  passage.needs_prefill = [view](const RoutingNeed& need) { return NeedsPrefill(view, need); };
  passage.local_below = view.local_prefill_below.value_or(0);
  return passage;
}

}  // namespace baton
