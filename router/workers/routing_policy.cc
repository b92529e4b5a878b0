#include "router/workers/routing_policy.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace baton {
namespace {

using Candidates = std::vector<const WorkerView*>;
using Predicate = std::function<bool(const WorkerView&)>;

// As many workers are looked at for one pick: the best two of many hardly differ from the best of
// sixteen, and a placement must not cost more in a larger cluster.
constexpr size_t kSample = 16;

// Those of `views` that may be picked: of a few all, of many some drawn at random, and all again if
// none of those drawn will do.
Candidates Eligible(WorkerViews views, std::mt19937_64* random, const Predicate& may) {
  Candidates candidates;
  if (views.size() > kSample) {
    for (size_t i = 0; i < kSample; ++i) {
      const WorkerView* view = views[(*random)() % views.size()];
      if (may(*view)) candidates.push_back(view);
    }
    if (!candidates.empty()) return candidates;
  }
  std::copy_if(views.begin(), views.end(), std::back_inserter(candidates),
               [&](const WorkerView* view) { return may(*view); });
  return candidates;
}

// Keeps the candidates with the fewest things against them.
void KeepBest(Candidates* candidates, const std::function<int(const WorkerView&)>& faults) {
  if (candidates->empty()) return;
  int least = faults(*candidates->front());
  for (const WorkerView* view : *candidates) least = std::min(least, faults(*view));
  std::erase_if(*candidates, [&](const WorkerView* view) { return faults(*view) > least; });
}

// Two drawn at random, the lighter of them: close to the best, and routers that see the same old
// figures do not all run to one worker.
const WorkerView* PickOfTwo(const Candidates& candidates, std::mt19937_64* random,
                            const std::function<double(const WorkerView&)>& weight) {
  if (candidates.empty()) return nullptr;
  const size_t n = candidates.size();
  const size_t first = (*random)() % n;
  if (n == 1) return candidates[0];
  const size_t second = (first + 1 + (*random)() % (n - 1)) % n;
  const WorkerView* a = candidates[first];
  const WorkerView* b = candidates[second];
  return weight(*b) < weight(*a) ? b : a;
}

double Occupancy(const WorkerView& view, const RoutingNeed& need) {
  const int64_t block = std::max(1, view.facts.layout.block_size);
  const double wanted = static_cast<double>((need.peak_tokens + block - 1) / block);
  const double total = std::max(1, view.blocks_total);
  return (static_cast<double>(view.blocks_expected) + wanted) / total;
}

double QueuedTokens(const WorkerView& view) { return static_cast<double>(view.queued_tokens); }

bool IsAvoided(const WorkerView& view, const RoutingNeed& need) {
  return std::ranges::any_of(need.avoid, [&](const WorkerKey& key) {
    return key.incarnation == view.facts.incarnation && key.address == view.address;
  });
}

// Whether the worker's last word is recent and was not FULL.
bool MayBeAsked(const WorkerView& view, base::Instant now) {
  return now >= view.full_until && now <= view.fresh_until;
}

bool HasRoomForPrompt(const WorkerView& view) {
  return view.places_free >= 1 && view.prompt_tokens_free >= 1;
}

// A prefill worker computes the prompt and draws one token.
bool CouldPrefill(const WorkerView& prefill, const WorkerView& decode, const RoutingNeed& need) {
  return CanPair(prefill.facts, decode.facts) && need.tokens + 1 <= prefill.facts.max_model_len &&
         need.tokens <= prefill.context();
}

const WorkerView* PickPrefill(const RoutingNeed& need, const WorkerView& decode,
                              const RoutingInput& input, bool never_avoided,
                              std::mt19937_64* random) {
  const auto may = [&](const WorkerView& view) {
    return MayBeAsked(view, input.now) && HasRoomForPrompt(view) &&
           CouldPrefill(view, decode, need) && !(never_avoided && IsAvoided(view, need));
  };
  const auto faults = [&](const WorkerView& view) {
    const bool failed =
        input.failed_pairs.contains(AddressPairLess::Views(view.address, decode.address));
    const bool other_numerics = view.facts.numerics != decode.facts.numerics;
    return 4 * failed + 2 * IsAvoided(view, need) + 1 * other_numerics;
  };
  Candidates candidates = Eligible(input.prefill, random, may);
  KeepBest(&candidates, faults);
  const WorkerView* const any = PickOfTwo(candidates, random, QueuedTokens);
  if (any == nullptr || input.warm == nullptr) return any;
  // Those with a warm pair are looked up: of many workers, hardly any of those drawn is one.
  Candidates paired;
  std::ranges::copy_if(input.warm->With(decode), std::back_inserter(paired),
                       [&](const WorkerView* view) {
                         return view->serving && may(*view) && faults(*view) <= faults(*any);
                       });
  const WorkerView* const warm = PickOfTwo(paired, random, QueuedTokens);
  const bool about_as_soon =
      warm != nullptr && warm->queued_tokens <= any->queued_tokens + need.tokens;
  return about_as_soon ? warm : any;
}

const WorkerView* PickDecode(const RoutingNeed& need, const RoutingInput& input,
                             const WorkerView* other_model_than, std::mt19937_64* random) {
  Candidates candidates = Eligible(input.decode, random, [&](const WorkerView& view) {
    const bool kept = std::ranges::any_of(
        input.ahead, [&](const RoutingNeed* other) { return CouldDecode(view, *other); });
    const bool same_model = other_model_than != nullptr &&
                            view.facts.fingerprint == other_model_than->facts.fingerprint;
    return view.places_free >= 1 && MayBeAsked(view, input.now) && CouldDecode(view, need) &&
           !kept && !same_model;
  });
  KeepBest(&candidates, [&](const WorkerView& view) { return IsAvoided(view, need) ? 1 : 0; });
  return PickOfTwo(candidates, random,
                   [&](const WorkerView& view) { return Occupancy(view, need); });
}

int64_t HeldTokens(const WorkerView& decode, const RoutingNeed& need, const RoutingInput& input) {
  if (input.hints == nullptr || need.prefix == nullptr) return 0;
  return input.hints->HeldTokens(decode.key(), *need.prefix);
}

std::variant<Route, Lack> RouteVia(const WorkerView* decode, const RoutingNeed& need,
                                   const RoutingInput& input, std::mt19937_64* random) {
  if (decode == nullptr) return Lack::kDecode;
  const int64_t held = HeldTokens(*decode, need, input);
  const bool any_prefill =
      std::ranges::any_of(input.serving_prefill, [&](const WorkerView* prefill) {
        return input.now <= prefill->fresh_until && CouldPrefill(*prefill, *decode, need);
      });
  if (!any_prefill || need.tokens - held < input.local_prefill_below) {
    if (!HasRoomForPrompt(*decode)) return Lack::kDecode;
    return Route{decode, nullptr, held};
  }
  if (input.prefill_is_kept) return Lack::kPrefill;
  const WorkerView* prefill = PickPrefill(need, *decode, input, /*never_avoided=*/false, random);
  if (prefill == nullptr) return Lack::kPrefill;
  return Route{decode, prefill, held};
}

}  // namespace

bool CouldDecode(const WorkerView& decode, const RoutingNeed& need) {
  return need.peak_tokens <= decode.context() &&
         (need.fingerprint.empty() || decode.facts.fingerprint == need.fingerprint);
}

bool CanPair(const WorkerFacts& prefill, const WorkerFacts& decode) {
  return prefill.fingerprint == decode.fingerprint && CanHandOver(prefill.layout, decode.layout) &&
         prefill.protocol_major == decode.protocol_major;
}

std::variant<Route, Lack> PickRoute(const RoutingNeed& need, const RoutingInput& input,
                                    std::mt19937_64* random) {
  const WorkerView* decode = PickDecode(need, input, nullptr, random);
  const std::variant<Route, Lack> picked = RouteVia(decode, need, input, random);
  if (decode == nullptr || input.one_model || std::holds_alternative<Route>(picked)) return picked;
  // While a new version is rolled out, the workers of the other one may have room.
  const WorkerView* other = PickDecode(need, input, decode, random);
  return other == nullptr ? picked : RouteVia(other, need, input, random);
}

const WorkerView* PickOtherPrefill(const RoutingNeed& need, const WorkerView& decode,
                                   const RoutingInput& input, std::mt19937_64* random) {
  return PickPrefill(need, decode, input, /*never_avoided=*/true, random);
}

}  // namespace baton
