#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "common/base/clock.h"
#include "router/router_options.h"
#include "router/workers/prefix_hints.h"
#include "router/workers/split_cost.h"
#include "router/workers/warm_pairs.h"
#include "router/workers/worker_view.h"

namespace baton {

class WorkerTable;

// What kScore adds up, in tokens of prompts that a worker would have to compute. The lowest sum is
// chosen.
struct ScoreWeights {
  double computed = 1;      // a token of the prompt that the worker computes
  double received = 0.1;    // one that it is sent, because another worker computed it
  double queued = 1;        // a token of prompts before it there
  double occupancy = 2000;  // all blocks of the pool, at the peak of what runs
  double remaining = 2;     // a step for which all tokens of the pool are expected to stay
};

// What made the difference where a decode worker was chosen.
enum class ChosenBy {
  kOnly,       // there was no other
  kLoad,       // it is the less busy
  kPrefix,     // it holds more of the prompt than the least busy one that was looked at
  kRemaining,  // it is expected to have room sooner
};
std::string_view RoutingName(Routing routing);      // "load", "prefix", "remaining", "score"
std::string_view ChosenByName(ChosenBy chosen_by);  // "only", "load", "prefix", "remaining"

// What a request needs of its workers.
struct RoutingNeed {
  int64_t tokens = 0;       // prompt and what was generated
  int64_t peak_tokens = 0;  // with what may still be generated
  int64_t beam_tokens = 0;  // of the longest beam, whose blocks are a part of that; 0: no beams
  // The fingerprint of the model that drew the first tokens, which must go on; "" while any will
  // do.
  std::string fingerprint;
  std::set<WorkerKey> avoid;  // passed over while there is another
  std::set<WorkerKey> unfit;  // never to be asked again, for they found it too long
  // The chain of those tokens, or null when nothing depends on it. Shared because needs are copied.
  std::shared_ptr<const PrefixChain> prefix;
  // Of `tokens`, those that the worker that computes the prompt may take from its cache. What comes
  // behind is scored, and computed wherever it is cached.
  int64_t cacheable_tokens = std::numeric_limits<int64_t>::max();
  // A decode worker where another answer of the same request runs. While it has a place, it is
  // taken and computes the prompt, that is the last block of it.
  std::optional<WorkerKey> beside;

  int64_t longest_sequence() const { return beam_tokens > 0 ? beam_tokens : peak_tokens; }
};

// Prefill and decode workers between which a push failed lately, by address. A look-up copies none.
struct AddressPairLess {
  using is_transparent = void;
  using Views = std::pair<std::string_view, std::string_view>;
  bool operator()(const Views& a, const Views& b) const { return a < b; }
};
using PairSet = std::set<std::pair<std::string, std::string>, AddressPairLess>;

// What is known of the workers.
struct RoutingInput {
  WorkerViews decode;           // with a place
  WorkerViews prefill;          // with a place
  WorkerViews serving_prefill;  // with or without
  const PairSet& failed_pairs;
  Routing routing = Routing::kLoad;
  ScoreWeights weights = {};
  // Null: nothing is cached anywhere. kPrefix and kScore look up holders of the prompt in `table`.
  const PrefixHints* hints = nullptr;
  const WorkerTable* table = nullptr;
  const WarmPairs* warm = nullptr;  // null: no device leads to another
  // Prompts with fewer tokens that the decode worker does not hold are computed there; empty: those
  // that ChooseSplit says.
  std::optional<int64_t> local_prefill_below = 0;
  bool one_model = false;  // all decode workers have the same
  base::Instant now{};
  // Of requests that came before and wait: the decode workers that they could use are kept for
  // them.
  std::span<const RoutingNeed* const> ahead{};
  // The model whose prefill workers one of those waits for, "" for any; empty: none does.
  std::optional<std::string_view> prefill_kept_for = std::nullopt;
};

// The workers that were picked.
struct Route {
  const WorkerView* decode = nullptr;
  const WorkerView* prefill = nullptr;  // null: the decode worker prefills
  int64_t held_tokens = 0;              // of the prompt, believed to be in its prefix cache
  int64_t prefill_held_tokens = 0;      // likewise, of `prefill`
  ChosenBy chosen_by = ChosenBy::kLoad;
  SplitChoice split;    // why there is a `prefill`, or none
  bool beside = false;  // RoutingNeed::beside decided

  // Of the prompt, what nobody computes again.
  int64_t cached_tokens() const { return prefill == nullptr ? held_tokens : prefill_held_tokens; }
};

// Of which kind of worker none could be picked.
enum class Lack { kDecode, kPrefill };

// Picks workers. By load and by what remains, that is by power of two choices: the prefill worker
// by the tokens queued before. By prefix and score, the best is picked of some drawn at random and
// some that hold the most of the prompt; a prefill worker then by what it holds, or by the tokens
// queued before and those it would have to compute. The request must fit into both. Equal
// fingerprint, layout and protocol major are required; equal numerics, no recent failure, not being
// avoided, and a prefill worker where the whole sequence would fit are preferred; then a prefill
// worker with a warm pair to the decode worker, chosen of those likewise, unless the prompt would
// wait there for more tokens than its own longer than elsewhere; by prefix and score, what it would
// have to compute of it included. Where the decode worker has no room for a prompt that is local,
// or its prefill workers have none, another one is picked, once. The work does not grow with the
// number of workers, as long as those with a place are much alike.
std::variant<Route, Lack> PickRoute(const RoutingNeed& need, const RoutingInput& input,
                                    std::mt19937_64* random);

// Picks only the prefill worker, for a reservation that exists already, and never one in
// `need.avoid`. Null when there is none.
const WorkerView* PickOtherPrefill(const RoutingNeed& need, const WorkerView& decode,
                                   const RoutingInput& input, std::mt19937_64* random);

// Whether a decode worker could run the request, now or when it has room.
bool CouldDecode(const WorkerView& decode, const RoutingNeed& need);
// Whether every decode worker that could run `other` could run `need`, too, as far as can be told
// without looking at workers.
bool WantsAllThat(const RoutingNeed& need, const RoutingNeed& other);
// Whether blocks of `prefill` can be pushed to `decode`.
bool CanPair(const WorkerFacts& prefill, const WorkerFacts& decode);

}  // namespace baton
