#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "router/workers/routing_policy.h"
#include "router/workers/worker_view.h"

namespace baton {

// Questions of the routing policy about one worker, or one of each kind, for one request.

// Of the prompt, what the worker would not compute again, and likewise with what it is about to
// compute, which is why requests that begin alike meet there.
int64_t HeldTokens(const WorkerView& view, const RoutingNeed& need, const RoutingInput& input);
int64_t ExpectedTokens(const WorkerView& view, const RoutingNeed& need, const RoutingInput& input);

bool IsAvoided(const WorkerView& view, const RoutingNeed& need);
bool IsUnfit(const WorkerView& view, const RoutingNeed& need);
// Whether the worker's last word is recent and was not FULL.
bool MayBeAsked(const WorkerView& view, base::Instant now);
bool HasRoomForPrompt(const WorkerView& view);
// Whether it knows what the request asks for.
bool Knows(const WorkerFacts& worker, const RoutingNeed& need);
// Whether the decode worker is kept for one that came before, or so are the prefill workers that
// could hand over to it.
bool IsKept(const WorkerView& decode, const RoutingInput& input);
bool IsPrefillKept(const WorkerView& decode, const RoutingInput& input);

// A prefill worker computes the prompt and draws one token. A process of both roles hands nothing
// to itself, at whatever address.
bool CouldPrefill(const WorkerView& prefill, const WorkerView& decode, const RoutingNeed& need);
// Whether some prefill worker that spoke lately could, with or without a place now.
bool AnyCouldPrefill(const WorkerView& decode, const RoutingNeed& need, const RoutingInput& input);
// Whether its length alone makes the prompt local, where so much of it is held.
bool IsShort(const RoutingNeed& need, int64_t held_tokens, const RoutingInput& input);

// Whether a push between the two failed lately, and whether that is so of all prefill workers from
// which the prompt could come.
bool HasFailed(const WorkerView& prefill, const WorkerView& decode, const RoutingInput& input);
bool IsCutOff(const WorkerView& decode, const RoutingNeed& need, const RoutingInput& input);

// Whether the same prefill workers can hand over to both decode workers.
bool PairAlike(const WorkerFacts& decode, const WorkerFacts& other);

}  // namespace baton
