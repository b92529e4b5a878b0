#include "router/workers/routing_policy.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace baton {
namespace {

using Candidates = std::vector<const WorkerView*>;

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

// Whether the request fits at its peak if it has the worker's pool for itself.
bool Fits(const WorkerView& view, const RoutingNeed& need) {
  const int64_t pool = int64_t{view.blocks_total} * std::max(1, view.facts.layout.block_size);
  return need.peak_tokens <= std::min<int64_t>(view.facts.max_model_len, pool);
}

Candidates PrefillCandidates(const RoutingNeed& need, const WorkerView& decode,
                             const RoutingInput& input, bool with_place) {
  Candidates candidates;
  for (const WorkerView& view : input.prefill) {
    if (!CanPair(view.facts, decode.facts)) continue;
    if (with_place && (view.places_free < 1 || input.now < view.full_until)) continue;
    candidates.push_back(&view);
  }
  KeepBest(&candidates, [&](const WorkerView& view) {
    const bool failed = input.failed_pairs.contains({view.link->address, decode.link->address});
    const bool avoided = need.avoid.contains(view.key());
    const bool other_numerics = view.facts.numerics != decode.facts.numerics;
    return 4 * failed + 2 * avoided + 1 * other_numerics;
  });
  return candidates;
}

int64_t HeldTokens(const WorkerView& decode, const RoutingNeed& need, const RoutingInput& input) {
  if (input.hints == nullptr || need.prefix == nullptr) return 0;
  return input.hints->HeldTokens(decode.key(), *need.prefix);
}

double QueuedTokens(const WorkerView& view) { return static_cast<double>(view.queued_tokens); }

const WorkerView* PickDecode(const RoutingNeed& need, const RoutingInput& input,
                             std::mt19937_64* random) {
  Candidates candidates;
  for (const WorkerView& view : input.decode) {
    if (!need.fingerprint.empty() && view.facts.fingerprint != need.fingerprint) continue;
    if (input.now >= view.full_until) candidates.push_back(&view);
  }
  KeepBest(&candidates, [&](const WorkerView& view) {
    return 2 * !Fits(view, need) + 1 * need.avoid.contains(view.key());
  });
  return PickOfTwo(candidates, random,
                   [&](const WorkerView& view) { return Occupancy(view, need); });
}

}  // namespace

bool CanPair(const WorkerFacts& prefill, const WorkerFacts& decode) {
  return prefill.fingerprint == decode.fingerprint && CanHandOver(prefill.layout, decode.layout) &&
         prefill.protocol_major == decode.protocol_major;
}

std::optional<Route> PickRoute(const RoutingNeed& need, const RoutingInput& input,
                               std::mt19937_64* random) {
  const WorkerView* decode = PickDecode(need, input, random);
  if (decode == nullptr) return std::nullopt;
  const int64_t held = HeldTokens(*decode, need, input);
  const bool local = need.tokens - held < input.local_prefill_below ||
                     PrefillCandidates(need, *decode, input, /*with_place=*/false).empty();
  if (local) {
    if (decode->places_free < 1) return std::nullopt;
    return Route{*decode, std::nullopt, held};
  }
  const Candidates candidates = PrefillCandidates(need, *decode, input, /*with_place=*/true);
  const WorkerView* prefill = PickOfTwo(candidates, random, QueuedTokens);
  if (prefill == nullptr) return std::nullopt;
  return Route{*decode, *prefill, held};
}

std::optional<WorkerView> PickOtherPrefill(const RoutingNeed& need, const WorkerView& decode,
                                           const RoutingInput& input, std::mt19937_64* random) {
  Candidates candidates = PrefillCandidates(need, decode, input, /*with_place=*/true);
  std::erase_if(candidates,
                [&](const WorkerView* view) { return need.avoid.contains(view->key()); });
  const WorkerView* prefill = PickOfTwo(candidates, random, QueuedTokens);
  if (prefill == nullptr) return std::nullopt;
  return *prefill;
}

}  // namespace baton
