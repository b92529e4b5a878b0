#include "tools/sim/request_lives.h"

#include <algorithm>
#include <chrono>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "router/workers/prefix_hints.h"

namespace baton::simulator {
namespace {

constexpr base::Duration kPatience = std::chrono::hours(1);

}  // namespace

RequestLives::RequestLives(const ClusterSetup& setup, const std::vector<SimRequest>& asked,
                           const bench::PromptMaker& prompts, Timeline* timeline, Fleet* fleet,
                           Ahead* ahead, std::function<void()> all_arrived)
    : setup_(setup),
      asked_(asked),
      prompts_(prompts),
      timeline_(timeline),
      fleet_(fleet),
      ahead_(ahead),
      all_arrived_(std::move(all_arrived)),
      begin_(timeline->now()),
      coming_(asked.size()),
      last_progress_(begin_),
      link_free_(static_cast<size_t>(setup.prefill_workers + (setup.elastic ? setup.workers : 0))),
      outcomes_(asked.size()) {}

void RequestLives::Begin() {
  if (setup_.concurrency == 0) {
    timeline_->At(begin_ + asked_.front().at, [this] { Arrive(); });
    return;
  }
  if (setup_.arrivals_end > base::Duration::zero()) {
    timeline_->At(begin_ + setup_.arrivals_end, [this] { EndArrivals(); });
  }
  const auto first = std::min(asked_.size(), static_cast<size_t>(setup_.concurrency));
  for (size_t i = 0; i < first; ++i) timeline_->After({}, [this] { Arrive(); });
}

RequestLives::Life* RequestLives::Find(uint32_t request) {
  const auto found = lives_.find(request);
  return found == lives_.end() ? nullptr : &found->second;
}

RequestLives::Attempt* RequestLives::Current(uint32_t request, int32_t number) {
  Life* const life = Find(request);
  const bool current = life != nullptr && life->attempt && life->attempt->number == number;
  return current ? &*life->attempt : nullptr;
}

std::vector<RequestOutcome> RequestLives::TakeOutcomes() {
  outcomes_.resize(arrived_);
  return std::move(outcomes_);
}

void RequestLives::EndArrivals() {
  coming_ = arrived_;
  all_arrived_();
}

void RequestLives::Arrive() {
  const uint32_t request = arrived_++;
  const base::Instant now = timeline_->now();
  const SimRequest& asked = asked_[request];
  if (setup_.concurrency == 0 && arrived_ < asked_.size()) {
    timeline_->At(begin_ + asked_[arrived_].at, [this] { Arrive(); });
  }
  if (arrived_ == coming_) all_arrived_();
  if (!any_here()) last_progress_ = now;
  Life& life = lives_[request];
  life.router = request % static_cast<uint32_t>(fleet_->routers.size());
  life.arrived = now;
  outcomes_[request].arrived = Since(now);
  const int64_t most = RouterOf(life).table().HealthyContext(now);
  const int64_t wanted = setup_.worker.forced_lengths ? asked.output_tokens : setup_.max_tokens;
  const int64_t fits = most - asked.input_tokens;
  life.max_tokens = static_cast<int32_t>(wanted > 0 ? wanted : std::max<int64_t>(fits, 1));
  if (life.max_tokens > fits) {
    return Refuse(request, absl::StrCat("TOO_LONG: ", asked.input_tokens, " prompt tokens and ",
                                        life.max_tokens, " more; workers take ", most,
                                        " in all: --max-model-len, --kv-cache-tokens"));
  }
  if (setup_.local_prefill_below != 0 || LooksAtPrompts(setup_.routing)) {
    const SequenceSpec spec = SpecOf(request, life, SequenceKind::kLocal);
    life.prefix = std::make_shared<const PrefixChain>(
        ChainOf("", spec.prompt, {}, setup_.worker.scheduler.block_size));
  }
  Queue(request, &life, /*is_new=*/true);
}

void RequestLives::Queue(uint32_t request, Life* life, bool is_new) {
  const int64_t prompt = asked_[request].input_tokens;
  RoutingNeed need{.tokens = prompt + life->generated,
                   .peak_tokens = prompt + life->max_tokens,
                   .fingerprint = life->generated > 0 ? kFleetModel : "",
                   .avoid = {},
                   .prefix = life->prefix};
  RouterOf(*life).Enqueue({.id = request,
                           .arrived = life->arrived,
                           .need = std::move(need),
                           .is_new = is_new,
                           .tenant = "",
                           .prompt_tokens = prompt});
}

void RequestLives::Refuse(uint32_t request, const std::string& why) {
  if (counts_.refused++ == 0) counts_.first_refusal = why;
  Over(request);
}

void RequestLives::Over(uint32_t request) {
  lives_.erase(request);
  ++over_;
  last_progress_ = timeline_->now();
  if (setup_.concurrency > 0 && arrived_ < coming_) {
    timeline_->After({}, [this] {
      if (arrived_ < coming_) Arrive();
    });
  }
}

SequenceSpec RequestLives::SpecOf(uint32_t request, const Life& life, SequenceKind kind) const {
  const SimRequest& asked = asked_[request];
  auto made =
      prompts_.Make({.index = request, .tokens = asked.input_tokens, .hash_ids = asked.hash_ids});
  BATON_CHECK(made.ok()) << std::string(made.status().message());
  SequenceSpec spec;
  spec.kind = kind;
  spec.prompt = std::get<std::vector<int32_t>>(*std::move(made));
  // What was generated before the attempt: its own first token may be known already.
  const int32_t before = life.attempt ? life.attempt->first_step - 1 : life.generated;
  for (int32_t step = 1; step <= before; ++step) {
    spec.generated.push_back(AnswerAt(asked, step, setup_.worker.forced_lengths).token);
  }
  spec.sampling.temperature = asked.sampling.temperature;
  spec.sampling.top_p = asked.sampling.top_p;
  spec.stop.max_tokens = life.max_tokens;
  if (setup_.worker.forced_lengths) spec.stop.eos_policy = EosPolicy::kIgnoreMask;
  const bool long_class = setup_.class_boundary > 0 && asked.output_tokens > setup_.class_boundary;
  spec.length_class = long_class ? "text/open/long" : "text/open/default";
  spec.waited = timeline_->now() - life.arrived;
  spec.reserve_timeout = RouterDeadlines().reserve;
  return spec;
}

void RequestLives::Open(uint32_t request, TakenPlace place) {
  Life& life = *Find(request);
  const int32_t number = ++life.attempts;
  const auto decode = NumberOf(place.decode);
  life.attempt = Attempt{.number = number,
                         .place = std::move(place),
                         .decode = decode,
                         .prefill = 0,
                         .decode_seq = {},
                         .prefill_seq = {},
                         .first_step = life.generated + 1,
                         .opened = timeline_->now(),
                         .to_push = {}};
  const bool local = life.attempt->place.local;
  if (!local) {
    life.attempt->prefill = NumberOf(life.attempt->place.prefill);
  }
  if (ahead_->on() && !local) {
    life.attempt->ahead = true;
    ahead_->Begin(fleet_->decode[decode].engine.get());
    return Prefill(request, number);
  }
  Reserve(request, number);
}

// Asks the decode worker for a place, also where it computes the prompt.
void RequestLives::Reserve(uint32_t request, int32_t number) {
  Mail([this, request, number] {
    Attempt* const attempt = Current(request, number);
    if (attempt == nullptr) return;
    const SequenceKind kind = attempt->place.local ? SequenceKind::kLocal : SequenceKind::kReserved;
    SequenceSpec spec = SpecOf(request, *Find(request), kind);
    // What is computed already waits for its place.
    if (attempt->ahead) spec.reserve_timeout = kPatience;
    attempt->decode_seq = fleet_->decode[attempt->decode].engine->Add(request, std::move(spec));
  });
}

void RequestLives::Prefill(uint32_t request, int32_t number) {
  Mail([this, request, number] {
    Attempt* const attempt = Current(request, number);
    if (attempt == nullptr) return;
    attempt->prefill_seq = fleet_->prefill[attempt->prefill].engine->Add(
        request, SpecOf(request, *Find(request), SequenceKind::kPrefill));
  });
}

void RequestLives::Reserved(uint32_t request, int32_t number, int32_t cached_blocks) {
  Attempt* const attempt = Current(request, number);
  if (attempt == nullptr) return;
  attempt->skip_blocks = cached_blocks;
  if (!attempt->ahead) return Prefill(request, number);
  attempt->granted = true;
  EndAhead(attempt);
  for (const BlocksProven& proven : std::exchange(attempt->to_push, {})) {
    Push(*attempt, request, attempt->prefill_seq, proven);
  }
}

void RequestLives::EndAhead(Attempt* attempt) {
  if (!std::exchange(attempt->ahead, false)) return;
  ahead_->End(fleet_->decode[attempt->decode].engine.get());
}

void RequestLives::FirstToken(uint32_t request, int32_t number) {
  Attempt* const attempt = Current(request, number);
  if (attempt == nullptr) return;
  Life& life = *Find(request);
  last_progress_ = timeline_->now();
  if (!std::exchange(life.first_seen, true)) {
    outcomes_[request].first_token = Since(timeline_->now());
  }
  life.generated = attempt->first_step;
  attempt->first_token_at = timeline_->now();
  RouterOf(life).PromptDone(&attempt->place);
  if (attempt->place.local) Started(request, number);
}

// The decode worker has the prompt's KV.
void RequestLives::Started(uint32_t request, int32_t number) {
  const Attempt* const attempt = Current(request, number);
  if (attempt == nullptr) return;
  const Life& life = *Find(request);
  if (!attempt->place.local) {
    const base::Instant now = timeline_->now();
    const int64_t held = int64_t{attempt->skip_blocks} * setup_.worker.scheduler.block_size;
    const int64_t all = asked_[request].input_tokens + attempt->first_step - 1;
    RouterOf(life).table().NoteHandoff(std::max<int64_t>(0, all - held),
                                       now - attempt->first_token_at.value_or(now));
  }
  if (life.prefix == nullptr) return;
  RouterOf(life).hints().Note(attempt->place.decode, *life.prefix, setup_.worker.num_blocks,
                              timeline_->now());
}

// The worker had no room after all: the request keeps its turn and tries again.
void RequestLives::NoRoom(uint32_t request, int32_t number, bool full) {
  Attempt* const attempt = Current(request, number);
  if (attempt == nullptr) return;
  if (full) ++counts_.full;
  Life& life = *Find(request);
  EndAhead(attempt);
  Attempt ended = std::move(*attempt);
  life.attempt.reset();
  RouterOf(life).MarkFull(ended.place.decode);
  RouterOf(life).GiveBack(request, &ended.place, {.output_tokens = 0, .in_vain = true});
  if (ended.prefill_seq != SequenceId()) {
    Mail([this, worker = ended.prefill, id = ended.prefill_seq] {
      fleet_->prefill[worker].engine->Cancel(id);
      fleet_->prefill[worker].engine->ReturnLease(id);
    });
  }
  Queue(request, &life, /*is_new=*/false);
}

// The prefill worker had no room: the reservation is given back, so that whoever waits for its
// place goes on.
void RequestLives::NoPromptTaken(uint32_t request, int32_t number) {
  Attempt* const attempt = Current(request, number);
  if (attempt == nullptr) return;
  ++counts_.full;
  Life& life = *Find(request);
  EndAhead(attempt);
  Attempt ended = std::move(*attempt);
  life.attempt.reset();
  RouterOf(life).MarkFull(ended.place.prefill);
  RouterOf(life).GiveBack(request, &ended.place, {.output_tokens = 0, .in_vain = true});
  Mail([this, worker = ended.decode, id = ended.decode_seq] {
    fleet_->decode[worker].engine->Cancel(id);
    fleet_->decode[worker].engine->ReturnLease(id);
  });
  Queue(request, &life, /*is_new=*/false);
}

void RequestLives::Done(uint32_t request, int32_t number, const FinishedEvent& finished,
                        bool at_prefill) {
  Attempt* const attempt = Current(request, number);
  if (attempt == nullptr) return;
  Life& life = *Find(request);
  RequestOutcome& outcome = outcomes_[request];
  outcome.last_token = Since(timeline_->now());
  if (!life.first_seen) outcome.first_token = outcome.last_token;
  outcome.output_tokens = finished.generated_tokens;
  outcome.attempts = life.attempts;
  outcome.preemptions = finished.preemptions;
  EndAhead(attempt);
  RouterOf(life).GiveBack(request, &attempt->place,
                          {.output_tokens = finished.generated_tokens, .in_vain = false});
  if (at_prefill) {
    Mail([this, worker = attempt->decode, id = attempt->decode_seq] {
      fleet_->decode[worker].engine->Cancel(id);
    });
  }
  Over(request);
}

}  // namespace baton::simulator
