#include "router/workers/worker_fit.h"

#include <algorithm>
#include <set>

#include "common/rpc/protocol_version.h"

namespace baton {
namespace {

// What a worker takes of `held` tokens: whole blocks before what it must compute in any case.
int64_t Taken(int64_t held, const RoutingNeed& need) {
  const int64_t block = need.prefix->block_tokens;
  return std::min(held, need.cacheable_tokens / block * block);
}

// Whether the worker is among `keys`, of which there are hardly any.
bool IsOf(const std::set<WorkerKey>& keys, const WorkerView& view) {
  return std::ranges::any_of(keys, [&](const WorkerKey& key) {
    return key.incarnation == view.facts.incarnation && key.address == view.address;
  });
}

}  // namespace

int64_t HeldTokens(const WorkerView& view, const RoutingNeed& need, const RoutingInput& input) {
  if (input.hints == nullptr || need.prefix == nullptr) return 0;
  return Taken(input.hints->HeldTokens(view.key(), *need.prefix), need);
}

int64_t ExpectedTokens(const WorkerView& view, const RoutingNeed& need, const RoutingInput& input) {
  if (input.hints == nullptr || need.prefix == nullptr) return 0;
  return Taken(input.hints->ExpectedTokens(view.key(), *need.prefix), need);
}

bool IsAvoided(const WorkerView& view, const RoutingNeed& need) { return IsOf(need.avoid, view); }

bool IsUnfit(const WorkerView& view, const RoutingNeed& need) { return IsOf(need.unfit, view); }

bool MayBeAsked(const WorkerView& view, base::Instant now) {
  return now >= view.full_until && now <= view.fresh_until;
}

bool HasRoomForPrompt(const WorkerView& view) {
  return view.places_free >= 1 && view.prompt_tokens_free >= 1;
}

bool Knows(const WorkerFacts& worker, const RoutingNeed& need) {
  return need.beam_tokens == 0 || worker.protocol_minor >= kProtocolMinorOfBeams;
}

bool IsKept(const WorkerView& decode, const RoutingInput& input) {
  return std::ranges::any_of(input.ahead,
                             [&](const RoutingNeed* other) { return CouldDecode(decode, *other); });
}

bool IsPrefillKept(const WorkerView& decode, const RoutingInput& input) {
  const auto& model = input.prefill_kept_for;
  return model && (model->empty() || *model == decode.facts.fingerprint);
}

bool CouldPrefill(const WorkerView& prefill, const WorkerView& decode, const RoutingNeed& need) {
  const bool same = prefill.facts.incarnation == decode.facts.incarnation;
  return !same && CanPair(prefill.facts, decode.facts) && Knows(prefill.facts, need) &&
         need.tokens + 1 <= prefill.facts.max_model_len && need.tokens <= prefill.context() &&
         !IsUnfit(prefill, need);
}

bool AnyCouldPrefill(const WorkerView& decode, const RoutingNeed& need, const RoutingInput& input) {
  return std::ranges::any_of(input.serving_prefill, [&](const WorkerView* prefill) {
    return input.now <= prefill->fresh_until && CouldPrefill(*prefill, decode, need);
  });
}

bool IsShort(const RoutingNeed& need, int64_t held_tokens, const RoutingInput& input) {
  return input.local_prefill_below && need.tokens - held_tokens < *input.local_prefill_below;
}

bool HasFailed(const WorkerView& prefill, const WorkerView& decode, const RoutingInput& input) {
  return input.failed_pairs.contains(AddressPairLess::Views(prefill.address, decode.address));
}

bool IsCutOff(const WorkerView& decode, const RoutingNeed& need, const RoutingInput& input) {
  if (input.failed_pairs.empty()) return false;
  bool any = false;
  for (const WorkerView* const prefill : input.serving_prefill) {
    if (input.now > prefill->fresh_until || !CouldPrefill(*prefill, decode, need)) continue;
    if (!HasFailed(*prefill, decode, input)) return false;
    any = true;
  }
  return any && !IsShort(need, HeldTokens(decode, need, input), input);
}

bool PairAlike(const WorkerFacts& decode, const WorkerFacts& other) {
  return decode.fingerprint == other.fingerprint && decode.layout == other.layout &&
         decode.protocol_major == other.protocol_major;
}

}  // namespace baton
