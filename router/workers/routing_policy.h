#pragma once

#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "router/workers/prefix_hints.h"
#include "router/workers/worker_view.h"

namespace baton {

// What a request needs of its workers.
struct RoutingNeed {
  int64_t tokens = 0;       // prompt and what was generated
  int64_t peak_tokens = 0;  // with what may still be generated
  // The fingerprint of the model that drew the first tokens, which must go on; "" while any will
  // do.
  std::string fingerprint;
  std::set<WorkerKey> avoid;  // passed over while there is another
  // The chain of those tokens, or null when nothing depends on it. Shared because needs are copied.
  std::shared_ptr<const PrefixChain> prefix;
};

// Prefill and decode workers between which a push failed lately, by address.
using PairSet = std::set<std::pair<std::string, std::string>>;

// What is known of the workers.
struct RoutingInput {
  std::span<const WorkerView> decode;   // healthy ones of one model
  std::span<const WorkerView> prefill;  // healthy
  const PairSet& failed_pairs;
  const PrefixHints* hints = nullptr;  // null: nothing is cached anywhere
  int64_t local_prefill_below = 0;     // tokens that the decode worker does not hold yet
  base::Instant now{};
};

// The workers that were picked.
struct Route {
  WorkerView decode;
  std::optional<WorkerView> prefill;  // empty: the decode worker prefills
  int64_t held_tokens = 0;            // of the prompt, believed to be in its prefix cache
};

// Picks workers by power of two choices: the decode worker by the blocks it will need at its peak,
// the prefill worker by the tokens queued before. Equal fingerprint, layout and protocol major are
// required; equal numerics and no recent failure preferred. Empty when no worker has room now.
std::optional<Route> PickRoute(const RoutingNeed& need, const RoutingInput& input,
                               std::mt19937_64* random);

// Picks only the prefill worker, for a reservation that exists already, and never one in
// `need.avoid`.
std::optional<WorkerView> PickOtherPrefill(const RoutingNeed& need, const WorkerView& decode,
                                           const RoutingInput& input, std::mt19937_64* random);

// Whether blocks of `prefill` can be pushed to `decode`.
bool CanPair(const WorkerFacts& prefill, const WorkerFacts& decode);

}  // namespace baton
