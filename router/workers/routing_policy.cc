#include "router/workers/routing_policy.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "router/workers/candidates.h"
#include "router/workers/worker_fit.h"
#include "router/workers/worker_table.h"

namespace baton {
namespace {

using Predicate = std::function<bool(const WorkerView&)>;

// By prefix, as many holders of the prompt are looked at beside those that are drawn.
constexpr size_t kHolders = 8;

// Adds workers that hold the most of the prompt: of many workers, hardly any of those drawn does.
void AddHolders(WorkerKind kind, const RoutingNeed& need, const RoutingInput& input,
                std::mt19937_64* random, const Predicate& may, Candidates* candidates) {
  if (input.hints == nullptr || input.table == nullptr || need.prefix == nullptr) return;
  const auto will_do = [&](const WorkerKey& key) {
    const WorkerView* const view = input.table->Find(kind, key);
    return view != nullptr && view->serving && may(*view);
  };
  for (const WorkerKey& key : input.hints->Holders(*need.prefix, kHolders, random, will_do)) {
    const WorkerView* const view = input.table->Find(kind, key);
    if (std::ranges::find(*candidates, view) == candidates->end()) candidates->push_back(view);
  }
}

double Occupancy(const WorkerView& view, const RoutingNeed& need) {
  const int64_t block = std::max(1, view.facts.layout.block_size);
  const double wanted = static_cast<double>((need.peak_tokens + block - 1) / block);
  const double total = std::max(1, view.blocks_total);
  return (static_cast<double>(view.blocks_expected) + wanted) / total;
}

double QueuedTokens(const WorkerView& view) { return static_cast<double>(view.queued_tokens); }

// Steps for which the tokens of the whole pool would have to stay, to come to as much.
double Remaining(const WorkerView& view) {
  const double tokens = static_cast<double>(view.blocks_total) *
                        static_cast<double>(std::max(1, view.facts.layout.block_size));
  return std::max(0.0, view.kv_remaining) / std::max(1.0, tokens);
}

// The one that has the prompt computed the soonest; by prefix alone, the one that computes the
// least of it. Among equals any, since routers that know the same would all run to the first.
const WorkerView* PickPrefillByPrefix(Candidates candidates, const RoutingNeed& need,
                                      const RoutingInput& input, std::mt19937_64* random) {
  if (candidates.empty()) return nullptr;
  std::ranges::shuffle(candidates, *random);
  const auto cost = [&](const WorkerView* view) {
    const auto missing = static_cast<double>(need.tokens - ExpectedTokens(*view, need, input));
    const double queued = QueuedTokens(*view);
    return input.routing == Routing::kScore
               ? std::pair(input.weights.queued * queued + input.weights.computed * missing, 0.0)
               : std::pair(missing, queued);
  };
  return *std::ranges::min_element(candidates, {}, cost);
}

const WorkerView* PickPrefill(const RoutingNeed& need, const WorkerView& decode,
                              const RoutingInput& input, bool never_avoided,
                              std::mt19937_64* random) {
  const auto may = [&](const WorkerView& view) {
    return MayBeAsked(view, input.now) && HasRoomForPrompt(view) &&
           CouldPrefill(view, decode, need) && !(never_avoided && IsAvoided(view, need));
  };
  const auto faults = [&](const WorkerView& view) {
    // It needs room for no more than the prompt, but older workers refuse what could not end there.
    const bool too_short = need.longest_sequence() > view.facts.max_model_len;
    const bool other_numerics = view.facts.numerics != decode.facts.numerics;
    return 8 * HasFailed(view, decode, input) + 4 * IsAvoided(view, need) + 2 * too_short +
           1 * other_numerics;
  };
  Candidates candidates = Eligible(input.prefill, random, may);
  if (ByPrefix(input.routing))
    AddHolders(WorkerKind::kPrefill, need, input, random, may, &candidates);
  KeepBest(&candidates, faults);
  const auto best_of = [&](const Candidates& views) {
    return ByPrefix(input.routing) ? PickPrefillByPrefix(views, need, input, random)
                                   : PickOfTwo(views, random, QueuedTokens);
  };
  const WorkerView* const any = best_of(candidates);
  if (any == nullptr || input.warm == nullptr) return any;
  // Those with a warm pair are looked up: of many workers, hardly any of those drawn is one.
  Candidates paired;
  std::ranges::copy_if(input.warm->With(decode), std::back_inserter(paired),
                       [&](const WorkerView* view) {
                         return view->serving && may(*view) && faults(*view) <= faults(*any);
                       });
  if (ByPrefix(input.routing) && paired.size() > kDrawn + kHolders) {
    // What each holds is not looked up for all of many: first come those found above.
    std::ranges::shuffle(paired, *random);
    std::ranges::partition(paired, [&](const WorkerView* view) {
      return std::ranges::find(candidates, view) != candidates.end();
    });
    paired.resize(kDrawn + kHolders);
  }
  const WorkerView* const warm = best_of(paired);
  if (warm == nullptr) return any;
  const auto before = [&](const WorkerView* view) {
    const int64_t held = ByPrefix(input.routing) ? ExpectedTokens(*view, need, input) : 0;
    return view->queued_tokens - held;
  };
  return before(warm) <= before(any) + need.tokens ? warm : any;
}

// A decode worker that may be picked, and what speaks for it.
struct Weighed {
  const WorkerView* view = nullptr;
  int64_t held = 0;
  double load = 0;  // the lower the better, whatever it holds
  double cost = 0;  // with what it holds
};

// By prefix too: prompts that are queued have no blocks yet, so that a worker would seem the
// emptier the more of them wait there.
double LoadOf(const WorkerView& view, const RoutingNeed& need, const RoutingInput& input) {
  const ScoreWeights& weights = input.weights;
  const double queued = input.serving_prefill.empty() ? QueuedTokens(view) : 0;
  return weights.queued * queued + weights.occupancy * Occupancy(view, need) +
         weights.remaining * Remaining(view);
}

// Of all candidates, the one of the least cost; among equals any, likewise.
struct DecodePick {
  const WorkerView* view = nullptr;
  ChosenBy by = ChosenBy::kLoad;
};
DecodePick PickByPrefix(Candidates candidates, const RoutingNeed& need, const RoutingInput& input,
                        std::mt19937_64* random) {
  std::ranges::shuffle(candidates, *random);
  const double missing =
      input.serving_prefill.empty() ? input.weights.computed : input.weights.received;
  std::vector<Weighed> all;
  for (const WorkerView* const view : candidates) {
    const int64_t held = ExpectedTokens(*view, need, input);
    const double load = LoadOf(*view, need, input);
    all.push_back({view, held, load, load + missing * static_cast<double>(need.tokens - held)});
  }
  const auto cheaper = [&](const Weighed& a, const Weighed& b) {
    if (input.routing == Routing::kScore) return a.cost < b.cost;
    return a.held != b.held ? a.held > b.held : a.load < b.load;
  };
  const Weighed& best = *std::ranges::min_element(all, cheaper);
  const Weighed& idle = *std::ranges::min_element(
      all, {}, [](const Weighed& one) { return std::pair(one.load, one.held); });
  return {best.view, best.held > idle.held ? ChosenBy::kPrefix : ChosenBy::kLoad};
}

// A decode worker that was picked, and what it lacked for a route.
struct PickedInVain {
  const WorkerView* view = nullptr;
  Lack lack = Lack::kDecode;
};

// Whether another decode worker surely lacks the same. Those alike have the same prefill workers,
// and whether the prompt needs one depends on what each of them holds only where its length
// decides. By cost it does, too, but there the wait for a prefill worker was chosen.
bool LacksTheSame(const WorkerView& view, const PickedInVain& before, const RoutingInput& input) {
  return input.local_prefill_below.value_or(0) == 0 && PairAlike(view.facts, before.view->facts) &&
         (before.lack == Lack::kPrefill || !HasRoomForPrompt(view));
}

// Whether it may be picked after `before`. For one of another model all workers are gone through.
// Blocks of one model hardly ever differ, so of these such that do are looked for among those
// drawn.
bool MayDoInstead(const WorkerView& view, const PickedInVain& before, const RoutingInput& input) {
  if (&view == before.view) return false;
  if (before.lack == Lack::kDecode) return !LacksTheSame(view, before, input);
  return input.one_model || !PairAlike(view.facts, before.view->facts);
}

// `before` is null at the first try.
DecodePick PickDecode(const RoutingNeed& need, const RoutingInput& input,
                      const PickedInVain* before, std::mt19937_64* random) {
  const bool computes =
      input.serving_prefill.empty() || need.tokens < input.local_prefill_below.value_or(0);
  const auto may = [&](const WorkerView& view) {
    return view.places_free >= 1 && MayBeAsked(view, input.now) && CouldDecode(view, need) &&
           (!computes || HasRoomForPrompt(view)) && !IsKept(view, input) &&
           (before == nullptr || MayDoInstead(view, *before, input));
  };
  const auto faults = [&](const WorkerView& view) {
    const bool may_lack_it =
        before != nullptr &&
        (before->lack == Lack::kDecode ? !HasRoomForPrompt(view)
                                       : PairAlike(view.facts, before->view->facts));
    return 4 * may_lack_it + 2 * IsCutOff(view, need, input) + 1 * IsAvoided(view, need);
  };
  Candidates candidates = Eligible(input.decode, random, may);
  if (ByPrefix(input.routing))
    AddHolders(WorkerKind::kDecode, need, input, random, may, &candidates);
  KeepBest(&candidates, faults);
  if (candidates.size() == 1) return {candidates.front(), ChosenBy::kOnly};
  if (candidates.empty()) return {};
  if (ByPrefix(input.routing)) {
    return PickByPrefix(std::move(candidates), need, input, random);
  }
  // Where one of the workers foresees nothing, all are compared by load.
  const bool foreseen =
      input.routing == Routing::kRemaining &&
      std::ranges::all_of(candidates, [](const WorkerView* v) { return v->kv_remaining >= 0; });
  const WorkerView* const picked = PickOfTwo(candidates, random, [&](const WorkerView& view) {
    return foreseen ? Remaining(view) : Occupancy(view, need);
  });
  return {picked, foreseen ? ChosenBy::kRemaining : ChosenBy::kLoad};
}

// The prefill worker that a prompt would wait for while none has a place for it: of those looked
// at, the one with the fewest tokens queued.
const WorkerView* NextPrefill(const RoutingNeed& need, const WorkerView& decode,
                              const RoutingInput& input, std::mt19937_64* random) {
  const Candidates candidates =
      Eligible(input.serving_prefill, random, [&](const WorkerView& view) {
        return input.now <= view.fresh_until && CouldPrefill(view, decode, need);
      });
  return *std::ranges::min_element(candidates, {}, &WorkerView::queued_tokens);
}

// At the most, so many times the sequences that are there come behind a prompt before the line is
// empty. That is what a line has behind it whose worker computes seven eighths of the time; near
// full load it is more, but a longer past says less of it, for it may be about to end.
constexpr int64_t kMostBehind = 8;

// A prompt delays the sequences of a decode worker, whose steps become longer by its chunks, and at
// both kinds the prompts that come behind it before the line is empty. How many these will be
// nobody knows: on the mean, as many as came since it was empty last.
PromptSide SideOf(WorkerKind kind, const WorkerView& view, const RoutingNeed& need,
                  const RoutingInput& input) {
  const int64_t behind = std::min(view.line, kMostBehind * view.sequences);
  return {.times = view.prompt_times,
          .held_tokens = HeldTokens(view, need, input),
          .queued_tokens = view.queued_tokens,
          .delayed = kind == WorkerKind::kDecode ? view.sequences + behind
                                                 : std::max(view.sequences, behind)};
}

// By cost, with `prefill`, the worker that was picked, or null if none has a place now.
SplitChoice ChooseByCost(const RoutingNeed& need, const WorkerView& decode,
                         const WorkerView* prefill, const RoutingInput& input,
                         std::mt19937_64* random) {
  if (prefill == nullptr) prefill = NextPrefill(need, decode, input, random);
  SplitChoice choice = ChooseSplit(
      {.tokens = need.tokens,
       .prefill = SideOf(WorkerKind::kPrefill, *prefill, need, input),
       .decode = SideOf(WorkerKind::kDecode, decode, need, input),
       .handoff = input.table == nullptr ? HandoffTimes() : input.table->handoff_times()});
  if (choice.local && !HasRoomForPrompt(decode)) {
    choice.local = false;
    choice.reason = SplitReason::kWait;
  }
  return choice;
}

// The route to RoutingNeed::beside, if that worker has a place that is kept for nobody else.
std::optional<Route> RouteBeside(const RoutingNeed& need, const RoutingInput& input) {
  if (!need.beside || input.table == nullptr) return std::nullopt;
  const WorkerView* const view = input.table->Find(WorkerKind::kDecode, *need.beside);
  if (view == nullptr || !view->serving || view->places_free < 1) return std::nullopt;
  if (!MayBeAsked(*view, input.now) || !CouldDecode(*view, need)) return std::nullopt;
  if (IsKept(*view, input)) return std::nullopt;
  const int64_t block = std::max(1, view->facts.layout.block_size);
  return Route{.decode = view,
               .held_tokens = (need.tokens - 1) / block * block,
               .chosen_by = ChosenBy::kPrefix,
               .split = {.local = true, .reason = SplitReason::kBeside},
               .beside = true};
}

std::variant<Route, Lack> RouteVia(const DecodePick& pick, const RoutingNeed& need,
                                   const RoutingInput& input, std::mt19937_64* random) {
  const WorkerView* const decode = pick.view;
  if (decode == nullptr) return Lack::kDecode;
  Route route{.decode = decode,
              .held_tokens = HeldTokens(*decode, need, input),
              .chosen_by = pick.by,
              .split = {.local = false, .reason = SplitReason::kLength}};
  if (!AnyCouldPrefill(*decode, need, input)) {
    route.split = {.local = true, .reason = SplitReason::kNoPrefill};
  } else {
    route.split.local = IsShort(need, route.held_tokens, input);
  }
  const auto local = [&]() -> std::variant<Route, Lack> {
    if (!HasRoomForPrompt(*decode)) return Lack::kDecode;
    return route;
  };
  if (route.split.local) return local();
  const bool by_cost = !input.local_prefill_below;
  const WorkerView* prefill = nullptr;
  if (!IsPrefillKept(*decode, input)) {
    prefill = PickPrefill(need, *decode, input, /*never_avoided=*/false, random);
  }
  if (by_cost) route.split = ChooseByCost(need, *decode, prefill, input, random);
  if (route.split.local) return local();
  if (prefill == nullptr) return Lack::kPrefill;
  route.prefill = prefill;
  route.prefill_held_tokens = HeldTokens(*prefill, need, input);
  return route;
}

}  // namespace

std::string_view RoutingName(Routing routing) {
  switch (routing) {
    case Routing::kLoad:
      return "load";
    case Routing::kPrefix:
      return "prefix";
    case Routing::kRemaining:
      return "remaining";
    case Routing::kScore:
      return "score";
  }
  return "load";
}

std::string_view ChosenByName(ChosenBy chosen_by) {
  switch (chosen_by) {
    case ChosenBy::kOnly:
      return "only";
    case ChosenBy::kLoad:
      return "load";
    case ChosenBy::kPrefix:
      return "prefix";
    case ChosenBy::kRemaining:
      return "remaining";
  }
  return "only";
}

bool CouldDecode(const WorkerView& decode, const RoutingNeed& need) {
  return need.longest_sequence() <= decode.context() && need.peak_tokens <= decode.pool_tokens() &&
         (need.fingerprint.empty() || decode.facts.fingerprint == need.fingerprint) &&
         Knows(decode.facts, need) && !IsUnfit(decode, need);
}

bool WantsAllThat(const RoutingNeed& need, const RoutingNeed& other) {
  return need.longest_sequence() <= other.longest_sequence() &&
         need.peak_tokens <= other.peak_tokens &&
         (need.fingerprint.empty() || need.fingerprint == other.fingerprint) &&
         (need.beam_tokens == 0 || other.beam_tokens > 0) &&
         std::ranges::includes(other.unfit, need.unfit);
}

bool CanPair(const WorkerFacts& prefill, const WorkerFacts& decode) {
  return prefill.fingerprint == decode.fingerprint && CanHandOver(prefill.layout, decode.layout) &&
         prefill.protocol_major == decode.protocol_major;
}

std::variant<Route, Lack> PickRoute(const RoutingNeed& need, const RoutingInput& input,
                                    std::mt19937_64* random) {
  if (const std::optional<Route> beside = RouteBeside(need, input)) return *beside;
  const DecodePick first = PickDecode(need, input, nullptr, random);
  const std::variant<Route, Lack> picked = RouteVia(first, need, input, random);
  const Lack* const lack = std::get_if<Lack>(&picked);
  if (first.view == nullptr || lack == nullptr) return picked;
  // Another one may have room for the prompt, or be of the other version that is rolled out, whose
  // prefill workers may have.
  const PickedInVain before{first.view, *lack};
  const DecodePick second = PickDecode(need, input, &before, random);
  if (second.view == nullptr || LacksTheSame(*second.view, before, input)) return picked;
  const std::variant<Route, Lack> again = RouteVia(second, need, input, random);
  // Who waits for a prefill worker holds back the fewest.
  return std::holds_alternative<Lack>(again) && *lack == Lack::kPrefill ? picked : again;
}

const WorkerView* PickOtherPrefill(const RoutingNeed& need, const WorkerView& decode,
                                   const RoutingInput& input, std::mt19937_64* random) {
  return PickPrefill(need, decode, input, /*never_avoided=*/true, random);
}

}  // namespace baton
