#include "tools/sim/baseline_routing.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tools/sim/virtual_router.h"

namespace baton::simulator {
namespace {

// Evenly spread, whatever the two are.
uint64_t Mixed(uint64_t a, uint64_t b) {
  uint64_t x = a ^ (b * 0x9E3779B97F4A7C15u);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The worker of a baseline, of those with a place; null when there is none.
const WorkerView* OneOf(BaselineRouting routing, WorkerViews views, const RoutingNeed& need,
                        std::mt19937_64* random) {
  if (views.empty()) return nullptr;
  const auto any = [&] { return views[(*random)() % views.size()]; };
  switch (routing) {
    case BaselineRouting::kRandom:
      return any();
    case BaselineRouting::kTwo: {
      const WorkerView* const a = any();
      const WorkerView* const b = any();
      const auto busy = [](const WorkerView* view) {
        return std::pair(view->queued_tokens, view->blocks_expected);
      };
      return busy(b) < busy(a) ? b : a;
    }
    case BaselineRouting::kHash: {
      if (need.prefix == nullptr || need.prefix->blocks.empty()) return any();
      // Every worker stands somewhere else for every beginning (rendezvous hashing), so that one
      // without a place leaves its requests to all others.
      const uint64_t beginning = need.prefix->blocks.front();
      return *std::ranges::max_element(views, {}, [&](const WorkerView* view) {
        return Mixed(beginning, uint64_t{NumberOf(view->key())} + 1);
      });
    }
  }
  return nullptr;
}

}  // namespace

std::string RoutingNameOf(const SimRouting& routing) {
  if (const auto* const served = std::get_if<Routing>(&routing)) {
    return std::string(RoutingName(*served));
  }
  switch (std::get<BaselineRouting>(routing)) {
    case BaselineRouting::kRandom:
      return "random";
    case BaselineRouting::kTwo:
      return "two";
    case BaselineRouting::kHash:
      return "hash";
  }
  return "random";
}

std::vector<SimRouting> AllRoutings() {
  return {Routing::kLoad,           Routing::kPrefix,      Routing::kRemaining,   Routing::kScore,
          BaselineRouting::kRandom, BaselineRouting::kTwo, BaselineRouting::kHash};
}

bool LooksAtPrompts(const SimRouting& routing) {
  return routing == SimRouting(Routing::kPrefix) || routing == SimRouting(Routing::kScore) ||
         routing == SimRouting(BaselineRouting::kHash);
}

RequestQueue::Try ChooseByBaseline(BaselineRouting routing, const PlacementView& view,
                                   const RoutingNeed& need, const RequestQueue::Ahead& ahead,
                                   std::mt19937_64* random, ChosenPlace* place) {
  RoutingInput input = RoutingInputOf(view);
  input.ahead = ahead.needs;
  input.prefill_kept_for = ahead.prefill;
  // Who may not be asked now has no place either.
  const auto one_of = [&](WorkerViews views) {
    std::vector<const WorkerView*> open;
    std::ranges::copy_if(views, std::back_inserter(open), [&](const WorkerView* worker) {
      return view.now >= worker->full_until &&
             (view.workers.Serving(WorkerKind::kPrefill).size() > 0 ||
              worker->prompt_tokens_free >= 1);
    });
    return OneOf(routing, open, need, random);
  };
  const WorkerView* const decode = one_of(input.decode);
  const WorkerView* const prefill = one_of(input.prefill);
  if (decode != nullptr) input.decode = WorkerViews(&decode, 1);
  if (prefill != nullptr) input.prefill = WorkerViews(&prefill, 1);
  return ChooseAmong(view, input, need, random, place);
}

}  // namespace baton::simulator
