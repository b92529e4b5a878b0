#include "tools/sim/virtual_router.h"

#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tools/sim/baseline_routing.h"

namespace baton::simulator {
namespace {

// As Admission: a queue that cannot move is looked at again without being told.
constexpr base::Duration kLookAgain = std::chrono::milliseconds(50);

}  // namespace

VirtualRouter::VirtualRouter(const ClusterSetup& setup, uint64_t seed, Timeline* timeline,
                             Links links)
    : local_prefill_below_(setup.local_prefill_below),
      routing_(setup.routing),
      timeline_(timeline),
      links_(std::move(links)),
      queue_(setup.max_num_queued_reqs),
      table_({.status_fresh = deadlines_.status_fresh, .full_backoff = deadlines_.full_backoff}),
      random_(seed) {}

void VirtualRouter::Enqueue(RequestQueue::Waiting waiting) {
  if (const auto displaced = queue_.MakeRoomFor(waiting)) {
    links_.refused(displaced->id, absl::ResourceExhaustedError("the queue is full"));
  }
  const uint64_t id = waiting.id;
  const absl::Status added = queue_.Add(std::move(waiting));
  if (!added.ok()) return links_.refused(id, added);
  Wake();
}

void VirtualRouter::Wake() {
  if (pump_due_) return;
  pump_due_ = true;
  timeline_->After({}, [this] { Pump(); });
}

PlacementView VirtualRouter::view() const {
  return {.workers = table_,
          .failed_pairs = no_failed_pairs_,
          .routing = std::holds_alternative<Routing>(routing_) ? std::get<Routing>(routing_)
                                                               : Routing::kLoad,
          .hints = &hints_,
          .local_prefill_below = local_prefill_below_,
          .now = timeline_->now()};
}

void VirtualRouter::Pump() {
  pump_due_ = false;
  const base::Instant now = timeline_->now();
  table_.Advance(now);
  RequestQueue::Passage passage = PassageOf(view());
  passage.place = [&](const RequestQueue::Waiting& waiting, const RequestQueue::Ahead& ahead) {
    return Place(waiting, ahead);
  };
  passage.hopeless = [&](const RequestQueue::Waiting& waiting, base::Instant since) {
    if (now - since < deadlines_.no_worker) return false;
    links_.refused(waiting.id, absl::UnavailableError("no worker could ever take it"));
    return true;
  };
  queue_.Pass(now, passage);
  if (queue_.wanted() != told_) {
    told_ = queue_.wanted();
    links_.tell_demand();
  }
  if (!queue_.empty() && look_again_ <= now) {
    look_again_ = now + kLookAgain;
    timeline_->At(look_again_, [this] { Wake(); });
  }
}

RequestQueue::Try VirtualRouter::Choose(const RoutingNeed& need, const RequestQueue::Ahead& ahead,
                                        ChosenPlace* chosen) {
  if (const auto* const baseline = std::get_if<BaselineRouting>(&routing_)) {
    return ChooseByBaseline(*baseline, view(), need, ahead, &random_, chosen);
  }
  return ChoosePlace(view(), need, ahead, &random_, chosen);
}

RequestQueue::Try VirtualRouter::Place(const RequestQueue::Waiting& waiting,
                                       const RequestQueue::Ahead& ahead) {
  ChosenPlace chosen;
  const RequestQueue::Try outcome = Choose(waiting.need, ahead, &chosen);
  if (outcome != RequestQueue::Try::kPlaced) return outcome;
  TakenPlace place{.decode = chosen.route.decode->key(),
                   .prefill = {},
                   .local = chosen.route.prefill == nullptr,
                   .decode_claim = chosen.decode,
                   .prefill_claim = chosen.prefill};
  const bool by_prefix = ByPrefix(view().routing) && waiting.need.prefix != nullptr;
  if (by_prefix) hints_.Expect(place.decode, *waiting.need.prefix, timeline_->now());
  if (!place.local) {
    place.prefill = chosen.route.prefill->key();
    if (by_prefix) hints_.Expect(place.prefill, *waiting.need.prefix, timeline_->now());
    table_.Take(WorkerKind::kPrefill, place.prefill, place.prefill_claim);
  }
  table_.Take(WorkerKind::kDecode, place.decode, place.decode_claim);
  links_.placed(waiting.id, std::move(place));
  return outcome;
}

void VirtualRouter::PromptDone(TakenPlace* place) {
  if (std::exchange(place->prompt_done, true)) return;
  if (place->local) {
    table_.PromptDone(WorkerKind::kDecode, place->decode, place->decode_claim);
  } else {
    table_.PromptDone(WorkerKind::kPrefill, place->prefill, place->prefill_claim);
  }
  Wake();
}

void VirtualRouter::GiveBack(uint64_t id, TakenPlace* place, const TokensServed& served) {
  PromptDone(place);
  if (!place->local) table_.Return(WorkerKind::kPrefill, place->prefill, place->prefill_claim);
  table_.Return(WorkerKind::kDecode, place->decode, place->decode_claim);
  queue_.Ended(id, served);
  Wake();
}

void VirtualRouter::MarkFull(const WorkerKey& decode) {
  const base::Instant until = table_.MarkFull(decode, timeline_->now());
  timeline_->At(until, [this] { Wake(); });
}

}  // namespace baton::simulator
