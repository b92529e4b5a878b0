#include "tools/sim/cluster.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/worker/timeouts.h"
#include "router/workers/prefix_hints.h"
#include "router/workers/status_interval.h"
#include "tools/bench/plan/prompt_maker.h"
#include "tools/sim/virtual_router.h"

namespace baton::simulator {
namespace {

using bench::MakeIdPrompts;
using bench::PromptMaker;

constexpr char kModel[] = "model";
// Without a token for so long (of virtual time) something is wrong.
constexpr base::Duration kStandstill = std::chrono::hours(6);
// How often a router tells workers what it could use, as WorkerConnections does.
constexpr base::Duration kTellEvery = std::chrono::milliseconds(50);

class Cluster final {
 public:
  Cluster(const ClusterSetup& setup, const std::vector<SimRequest>& asked,
          const PromptMaker& prompts);
  absl::StatusOr<ClusterOutcome> Run();

 private:
  // One attempt to serve a request.
  struct Attempt {
    int32_t number = 0;
    TakenPlace place;
    uint32_t decode = 0, prefill = 0;    // numbers of the workers
    SequenceId decode_seq, prefill_seq;  // once they are there
    int32_t skip_blocks = 0;             // of the push
    int32_t first_step = 1;              // the output step that it draws first
  };
  // A request that is under way.
  struct Life {
    uint32_t router = 0;
    base::Instant arrived{};
    int32_t attempts = 0;
    int32_t generated = 0;  // accepted from attempts that broke
    int32_t max_tokens = 0;
    bool first_seen = false;
    std::optional<Attempt> attempt;
    std::shared_ptr<const PrefixChain> prefix;
  };
  struct Worker {
    WorkerKind kind;
    std::string address;
    PlaceShares shares;
    std::unique_ptr<VirtualWorker> engine = nullptr;
    std::vector<PlaceShares::RouterId> seats = {};  // of each router
    std::vector<WorkerLoad> told = {};              // to each router
    std::vector<base::Instant> told_at = {};        // likewise
    std::vector<WorkerDemand> demand = {};          // of each router, as it said last
    std::vector<base::Instant> demand_at = {};
    base::Instant link_free{};  // of a prefill worker, for what it sends
  };

  void AddWorkers(WorkerKind kind, int32_t count, std::vector<std::unique_ptr<Worker>>* to);
  void AddRouters();
  void Arrive(uint32_t request);
  void Queue(uint32_t request, Life* life, bool is_new);
  void Refuse(uint32_t request, const std::string& why);
  void Over(uint32_t request);

  // What a router does for a request, in the order of a request's way.
  void Open(uint32_t request, TakenPlace place);
  void Reserved(uint32_t request, int32_t number, int32_t cached_blocks);
  void FirstToken(uint32_t request, int32_t number);
  void Started(uint32_t request, int32_t number);
  void NoRoom(uint32_t request, int32_t number, bool full);
  void Done(uint32_t request, int32_t number, const FinishedEvent& finished, bool at_prefill);

  // What workers say.
  void HearDecode(uint32_t worker, uint32_t request, SequenceId id, const SchedEvent& event);
  void HearPrefill(uint32_t worker, uint32_t request, SequenceId id, const SchedEvent& event);
  void Push(const Attempt& attempt, uint32_t request, SequenceId id, const BlocksProven& proven);

  void Tick(Worker* worker);
  void Say(Worker* worker, size_t router);
  void TellDemand(size_t router);
  void TellDemandTo(Worker* worker, size_t router);

  Life* Find(uint32_t request);
  // The request's attempt, if it is still that one.
  Attempt* Current(uint32_t request, int32_t number);
  VirtualRouter& RouterOf(const Life& life) { return *routers_[life.router]; }
  SequenceSpec SpecOf(uint32_t request, const Life& life, SequenceKind kind) const;
  template <typename Message>
  void Mail(Message message) {
    timeline_.After(setup_.message, std::move(message));
  }
  double Since(base::Instant when) const { return base::Seconds(when - begin_); }
  void NoteUse();
  absl::Status CheckAllEmpty() const;

  const ClusterSetup& setup_;
  const std::vector<SimRequest>& asked_;
  const PromptMaker& prompts_;
  Timeline timeline_;
  const base::Instant begin_;
  base::Duration interval_{};    // between two statuses of one worker
  base::Duration tell_every_{};  // between two demands of one router
  std::vector<VirtualWorker::Request> requests_;
  std::vector<std::unique_ptr<VirtualRouter>> routers_;
  std::vector<std::unique_ptr<Worker>> decode_, prefill_;
  std::unordered_map<uint32_t, Life> lives_;
  uint32_t arrived_ = 0, over_ = 0;
  bool use_noted_ = false;
  base::Instant last_progress_;
  ClusterOutcome outcome_;
};

Cluster::Cluster(const ClusterSetup& setup, const std::vector<SimRequest>& asked,
                 const PromptMaker& prompts)
    : setup_(setup), asked_(asked), prompts_(prompts), begin_(timeline_.now()) {
  last_progress_ = begin_;
  requests_.resize(asked.size());
  for (size_t i = 0; i < asked.size(); ++i) requests_[i].asked = &asked[i];
  outcome_.requests.resize(asked.size());
  AddWorkers(WorkerKind::kDecode, setup.workers, &decode_);
  AddWorkers(WorkerKind::kPrefill, setup.prefill_workers, &prefill_);
  AddRouters();
}

void Cluster::AddWorkers(WorkerKind kind, int32_t count, std::vector<std::unique_ptr<Worker>>* to) {
  for (int32_t i = 0; i < count; ++i) {
    const bool decode = kind == WorkerKind::kDecode;
    const auto number = static_cast<uint32_t>(i);
    auto worker = std::make_unique<Worker>(
        Worker{.kind = kind,
               .address = absl::StrCat(decode ? "d" : "p", i),
               .shares = PlaceShares(decode ? LoanTurns::kQuick : LoanTurns::kSlow)});
    WorkerSetup how = setup_.worker;
    // Prefill workers see no ends to learn from.
    if (kind == WorkerKind::kPrefill) how.foreseer = Foreseer::kOff;
    const auto hear = [this, number, kind](uint32_t request, SequenceId id,
                                           const SchedEvent& event) {
      kind == WorkerKind::kDecode ? HearDecode(number, request, id, event)
                                  : HearPrefill(number, request, id, event);
    };
    worker->engine = std::make_unique<VirtualWorker>(how, &timeline_, requests_, hear);
    to->push_back(std::move(worker));
  }
}

void Cluster::AddRouters() {
  const auto workers = static_cast<size_t>(setup_.workers) + prefill_.size();
  const WorkerTimeouts timeouts;
  interval_ =
      std::max(timeouts.status_min, StatusInterval(workers, RouterDeadlines().status_fresh));
  tell_every_ = std::max(kTellEvery, interval_ - kTellEvery);
  for (int32_t i = 0; i < setup_.routers; ++i) {
    const auto number = static_cast<size_t>(i);
    routers_.push_back(std::make_unique<VirtualRouter>(
        setup_.max_num_queued_reqs, setup_.local_prefill_below, setup_.seed + number, &timeline_,
        VirtualRouter::Links{.placed =
                                 [this](uint64_t id, TakenPlace place) {
                                   Open(static_cast<uint32_t>(id), std::move(place));
                                 },
                             .refused =
                                 [this](uint64_t id, const absl::Status& why) {
                                   Refuse(static_cast<uint32_t>(id), std::string(why.message()));
                                 },
                             .tell_demand = [this, number] { TellDemand(number); }}));
  }
  for (auto* const group : {&decode_, &prefill_}) {
    for (size_t i = 0; i < group->size(); ++i) {
      Worker* const worker = (*group)[i].get();
      for (const auto& router : routers_) {
        router->table().Add(worker->kind, worker->address, nullptr);
        router->table().Learn(worker->kind, worker->address,
                              {.incarnation = i + 1,
                               .kinds = {worker->kind},
                               .fingerprint = kModel,
                               .layout = {.dtype = "bfloat16",
                                          .block_size = setup_.worker.scheduler.block_size,
                                          .layers = 1,
                                          .kv_heads = 1,
                                          .head_dim = 1},
                               .max_model_len = setup_.worker.scheduler.limits.max_model_len},
                              /*accepted=*/true);
        worker->seats.push_back(worker->shares.Join());
      }
      worker->told.resize(routers_.size());
      worker->told_at.resize(routers_.size());
      worker->demand.resize(routers_.size());
      worker->demand_at.resize(routers_.size());
      for (size_t router = 0; router < routers_.size(); ++router) Say(worker, router);
      // Not all in one moment.
      const base::Duration offset =
          interval_ * static_cast<int64_t>(i + 1) / static_cast<int64_t>(group->size() + 1);
      timeline_.After(offset, [this, worker] { Tick(worker); });
    }
  }
}

absl::StatusOr<ClusterOutcome> Cluster::Run() {
  const auto total = static_cast<uint32_t>(asked_.size());
  if (setup_.concurrency > 0) {
    const auto first = std::min(total, static_cast<uint32_t>(setup_.concurrency));
    for (uint32_t i = 0; i < first; ++i) timeline_.After({}, [this] { Arrive(arrived_++); });
  } else {
    timeline_.At(begin_ + asked_.front().at, [this] { Arrive(arrived_++); });
  }
  while (over_ < total) {
    if (!timeline_.RunNext() || timeline_.now() - last_progress_ > kStandstill) {
      return absl::InternalError(absl::StrCat("a defect of the simulation: ", total - over_, " of ",
                                              total, " requests stand still after ",
                                              Since(last_progress_), " s"));
    }
  }
  const double end = Since(timeline_.now());
  NoteUse();
  while (timeline_.RunNext()) {
  }
  BATON_RETURN_IF_ERROR(CheckAllEmpty());
  double busy = 0;
  for (const auto* const group : {&decode_, &prefill_}) {
    for (const auto& worker : *group) {
      const WorkerTotals& totals = worker->engine->totals();
      const SchedulerFigures figures = worker->engine->scheduler().figures();
      outcome_.steps += totals.steps;
      outcome_.tokens_fed += totals.fed;
      outcome_.tokens_fed_again += totals.fed_again;
      outcome_.rows_discarded += figures.rows_discarded;
      outcome_.preemptions += figures.preemptions;
      outcome_.revocations += figures.revocations;
      outcome_.prefix_queries += figures.prefix_queries;
      outcome_.prefix_hits += figures.prefix_hits;
      if (worker->kind == WorkerKind::kDecode) busy += base::Seconds(totals.busy);
    }
  }
  outcome_.busy_share = end > 0 ? busy / (end * static_cast<double>(decode_.size())) : 0;
  return std::move(outcome_);
}

absl::Status Cluster::CheckAllEmpty() const {
  for (const auto* const group : {&decode_, &prefill_}) {
    for (const auto& worker : *group) {
      const std::string left = worker->engine->CheckEmpty();
      if (left.empty()) continue;
      return absl::InternalError(
          absl::StrCat("a defect of the simulation: at worker ", worker->address, " ", left));
    }
  }
  return absl::OkStatus();
}

Cluster::Life* Cluster::Find(uint32_t request) {
  const auto found = lives_.find(request);
  return found == lives_.end() ? nullptr : &found->second;
}

Cluster::Attempt* Cluster::Current(uint32_t request, int32_t number) {
  Life* const life = Find(request);
  const bool current = life != nullptr && life->attempt && life->attempt->number == number;
  return current ? &*life->attempt : nullptr;
}

// --- Requests come and go. ---

void Cluster::Arrive(uint32_t request) {
  const base::Instant now = timeline_.now();
  const SimRequest& asked = asked_[request];
  if (setup_.concurrency == 0 && arrived_ < asked_.size()) {
    timeline_.At(begin_ + asked_[arrived_].at, [this] { Arrive(arrived_++); });
  }
  if (arrived_ == asked_.size()) NoteUse();
  Life& life = lives_[request];
  life.router = request % static_cast<uint32_t>(routers_.size());
  life.arrived = now;
  outcome_.requests[request].arrived = Since(now);
  const int64_t most = RouterOf(life).table().HealthyContext(now);
  const int64_t wanted = setup_.worker.forced_lengths ? asked.output_tokens : setup_.max_tokens;
  const int64_t fits = most - asked.input_tokens;
  life.max_tokens = static_cast<int32_t>(wanted > 0 ? wanted : std::max<int64_t>(fits, 1));
  if (life.max_tokens > fits) {
    return Refuse(request, absl::StrCat("TOO_LONG: ", asked.input_tokens, " prompt tokens and ",
                                        life.max_tokens, " more; workers take ", most,
                                        " in all: --max-model-len, --kv-cache-tokens"));
  }
  if (setup_.local_prefill_below > 0) {
    const SequenceSpec spec = SpecOf(request, life, SequenceKind::kLocal);
    life.prefix = std::make_shared<const PrefixChain>(
        ChainOf("", spec.prompt, {}, setup_.worker.scheduler.block_size));
  }
  Queue(request, &life, /*is_new=*/true);
}

void Cluster::Queue(uint32_t request, Life* life, bool is_new) {
  const int64_t prompt = asked_[request].input_tokens;
  RoutingNeed need{.tokens = prompt + life->generated,
                   .peak_tokens = prompt + life->max_tokens,
                   .fingerprint = life->generated > 0 ? kModel : "",
                   .avoid = {},
                   .prefix = life->prefix};
  RouterOf(*life).Enqueue({.id = request,
                           .arrived = life->arrived,
                           .need = std::move(need),
                           .is_new = is_new,
                           .tenant = "",
                           .prompt_tokens = prompt});
}

void Cluster::Refuse(uint32_t request, const std::string& why) {
  if (outcome_.refused++ == 0) outcome_.first_refusal = why;
  Over(request);
}

void Cluster::Over(uint32_t request) {
  lives_.erase(request);
  ++over_;
  last_progress_ = timeline_.now();
  if (setup_.concurrency > 0 && arrived_ < asked_.size()) {
    timeline_.After({}, [this] {
      if (arrived_ < asked_.size()) Arrive(arrived_++);
    });
  }
}

// --- An attempt, as its router sees it. ---

SequenceSpec Cluster::SpecOf(uint32_t request, const Life& life, SequenceKind kind) const {
  const SimRequest& asked = asked_[request];
  auto made =
      prompts_.Make({.index = request, .tokens = asked.input_tokens, .hash_ids = asked.hash_ids});
  BATON_CHECK(made.ok()) << std::string(made.status().message());
  SequenceSpec spec;
  spec.kind = kind;
  spec.prompt = std::get<std::vector<int32_t>>(*std::move(made));
  for (int32_t step = 1; step <= life.generated; ++step) {
    spec.generated.push_back(AnswerAt(asked, step, setup_.worker.forced_lengths).token);
  }
  spec.stop.max_tokens = life.max_tokens;
  if (setup_.worker.forced_lengths) spec.stop.eos_policy = EosPolicy::kIgnoreMask;
  spec.length_class = "text/open/default";
  spec.waited = timeline_.now() - life.arrived;
  spec.reserve_timeout = RouterDeadlines().reserve;
  return spec;
}

void Cluster::Open(uint32_t request, TakenPlace place) {
  Life& life = *Find(request);
  const int32_t number = ++life.attempts;
  const auto decode = static_cast<uint32_t>(place.decode.incarnation - 1);
  life.attempt = Attempt{.number = number,
                         .place = std::move(place),
                         .decode = decode,
                         .prefill = 0,
                         .decode_seq = {},
                         .prefill_seq = {},
                         .first_step = life.generated + 1};
  if (!life.attempt->place.local) {
    life.attempt->prefill = static_cast<uint32_t>(life.attempt->place.prefill.incarnation - 1);
  }
  Mail([this, request, number] {
    Attempt* const attempt = Current(request, number);
    if (attempt == nullptr) return;
    const SequenceKind kind = attempt->place.local ? SequenceKind::kLocal : SequenceKind::kReserved;
    attempt->decode_seq =
        decode_[attempt->decode]->engine->Add(request, SpecOf(request, *Find(request), kind));
  });
}

void Cluster::Reserved(uint32_t request, int32_t number, int32_t cached_blocks) {
  Attempt* const attempt = Current(request, number);
  if (attempt == nullptr) return;
  attempt->skip_blocks = cached_blocks;
  Mail([this, request, number] {
    Attempt* const now = Current(request, number);
    if (now == nullptr) return;
    now->prefill_seq = prefill_[now->prefill]->engine->Add(
        request, SpecOf(request, *Find(request), SequenceKind::kPrefill));
  });
}

void Cluster::FirstToken(uint32_t request, int32_t number) {
  Attempt* const attempt = Current(request, number);
  if (attempt == nullptr) return;
  Life& life = *Find(request);
  last_progress_ = timeline_.now();
  if (!std::exchange(life.first_seen, true)) {
    outcome_.requests[request].first_token = Since(timeline_.now());
  }
  life.generated = attempt->first_step;
  RouterOf(life).PromptDone(&attempt->place);
  if (attempt->place.local) Started(request, number);
}

// The decode worker has the prompt's KV.
void Cluster::Started(uint32_t request, int32_t number) {
  const Attempt* const attempt = Current(request, number);
  if (attempt == nullptr) return;
  const Life& life = *Find(request);
  if (life.prefix == nullptr) return;
  RouterOf(life).hints().Note(attempt->place.decode, *life.prefix, setup_.worker.num_blocks,
                              timeline_.now());
}

// The worker had no room after all: the request keeps its turn and tries again.
void Cluster::NoRoom(uint32_t request, int32_t number, bool full) {
  Attempt* const attempt = Current(request, number);
  if (attempt == nullptr) return;
  if (full) ++outcome_.full;
  Life& life = *Find(request);
  Attempt ended = std::move(*attempt);
  life.attempt.reset();
  RouterOf(life).MarkFull(ended.place.decode);
  RouterOf(life).GiveBack(request, &ended.place, {.output_tokens = 0, .in_vain = true});
  if (ended.prefill_seq != SequenceId()) {
    Mail([this, worker = ended.prefill, id = ended.prefill_seq] {
      prefill_[worker]->engine->Cancel(id);
      prefill_[worker]->engine->ReturnLease(id);
    });
  }
  Queue(request, &life, /*is_new=*/false);
}

void Cluster::Done(uint32_t request, int32_t number, const FinishedEvent& finished,
                   bool at_prefill) {
  Attempt* const attempt = Current(request, number);
  if (attempt == nullptr) return;
  Life& life = *Find(request);
  RequestOutcome& outcome = outcome_.requests[request];
  outcome.last_token = Since(timeline_.now());
  if (!life.first_seen) outcome.first_token = outcome.last_token;
  outcome.output_tokens = finished.generated_tokens;
  outcome.attempts = life.attempts;
  outcome.preemptions = finished.preemptions;
  RouterOf(life).GiveBack(request, &attempt->place,
                          {.output_tokens = finished.generated_tokens, .in_vain = false});
  if (at_prefill) {
    Mail([this, worker = attempt->decode, id = attempt->decode_seq] {
      decode_[worker]->engine->Cancel(id);
    });
  }
  Over(request);
}

// --- What workers say, at the time when they do. ---

void Cluster::HearDecode(uint32_t worker, uint32_t request, SequenceId id,
                         const SchedEvent& event) {
  // Nobody writes to blocks whose push has ended.
  if (std::holds_alternative<DetachEvent>(event.what)) decode_[worker]->engine->ReturnLease(id);
  const Life* const life = Find(request);
  if (life == nullptr || !life->attempt || life->attempt->decode != worker ||
      life->attempt->decode_seq != id) {
    return;
  }
  const int32_t number = life->attempt->number;
  if (const auto* token = std::get_if<TokenEvent>(&event.what)) {
    const bool first = life->attempt->place.local && token->index + 1 == life->attempt->first_step;
    if (first) Mail([this, request, number] { FirstToken(request, number); });
  } else if (const auto* granted = std::get_if<BlocksGranted>(&event.what)) {
    Mail([this, request, number, cached = granted->cached_blocks] {
      Reserved(request, number, cached);
    });
  } else if (const auto* state = std::get_if<StateEvent>(&event.what)) {
    if (state->from != SequenceState::kReserved || state->to != SequenceState::kDecoding) return;
    Mail([this, request, number] { Started(request, number); });
  } else if (std::holds_alternative<RefusedEvent>(event.what) ||
             std::holds_alternative<RevokedEvent>(event.what)) {
    const bool full = std::holds_alternative<RefusedEvent>(event.what);
    Mail([this, request, number, full] { NoRoom(request, number, full); });
  } else if (const auto* finished = std::get_if<FinishedEvent>(&event.what)) {
    if (finished->reason == FinishReason::kAborted) return;
    Mail([this, request, number, end = *finished] { Done(request, number, end, false); });
  }
}

void Cluster::HearPrefill(uint32_t worker, uint32_t request, SequenceId id,
                          const SchedEvent& event) {
  VirtualWorker& engine = *prefill_[worker]->engine;
  const auto* const finished = std::get_if<FinishedEvent>(&event.what);
  // Nothing is to be committed after an end, so nobody reads the blocks any more.
  const bool ended = finished != nullptr && finished->reason != FinishReason::kNone;
  if (ended || std::holds_alternative<DetachEvent>(event.what)) engine.ReturnLease(id);
  const Life* const life = Find(request);
  if (life == nullptr || !life->attempt || life->attempt->prefill_seq != id ||
      life->attempt->prefill != worker) {
    return;
  }
  const int32_t number = life->attempt->number;
  if (const auto* proven = std::get_if<BlocksProven>(&event.what)) {
    Push(*life->attempt, request, id, *proven);
  } else if (std::holds_alternative<TokenEvent>(event.what)) {
    Mail([this, request, number] { FirstToken(request, number); });
  } else if (ended && finished->reason != FinishReason::kAborted) {
    Mail([this, request, number, end = *finished] { Done(request, number, end, true); });
  }
}

// Blocks leave one after the other, as fast as the worker sends.
void Cluster::Push(const Attempt& attempt, uint32_t request, SequenceId id,
                   const BlocksProven& proven) {
  Worker& from = *prefill_[attempt.prefill];
  const auto blocks = std::ranges::count_if(
      proven.blocks, [&](const BlockAt& block) { return block.ordinal >= attempt.skip_blocks; });
  const double bytes =
      static_cast<double>(blocks) * setup_.worker.scheduler.block_size * setup_.kv_bytes_per_token;
  const auto takes = std::chrono::duration_cast<base::Duration>(
      std::chrono::duration<double>(bytes / setup_.handoff_bytes_per_s));
  from.link_free = std::max(from.link_free, timeline_.now()) + takes;
  outcome_.handoff_bytes += bytes;
  if (!proven.last) return;
  ++outcome_.handoffs;
  const int32_t number = attempt.number;
  const uint32_t prefill = attempt.prefill;
  timeline_.At(from.link_free + setup_.message, [this, request, number, prefill, id] {
    if (const Attempt* const now = Current(request, number)) {
      SampledToken first = AnswerAt(asked_[request], now->first_step, setup_.worker.forced_lengths);
      first.end = OracleEnd(asked_[request], now->first_step);
      decode_[now->decode]->engine->CommitImport(now->decode_seq, std::move(first));
    }
    Mail([this, prefill, id] { prefill_[prefill]->engine->ReturnLease(id); });
  });
}

// --- What workers and routers tell each other now and then. ---

void Cluster::Tick(Worker* worker) {
  if (over_ == asked_.size()) return;
  for (size_t router = 0; router < routers_.size(); ++router) Say(worker, router);
  timeline_.After(interval_, [this, worker] { Tick(worker); });
}

// A worker's status to a router, unless it says what the last one said a moment ago.
void Cluster::Say(Worker* worker, size_t router) {
  const SchedulerFigures figures = worker->engine->scheduler().figures();
  const BlockPool& pool = worker->engine->pool();
  const PlaceShares::Share share =
      worker->shares.Of(worker->seats[router], worker->engine->capacity(figures), timeline_.now());
  WorkerLoad load{.takes_new = true,
                  .prefill_places_free = std::max(
                      0, figures.places - figures.running - figures.reserved - figures.waiting),
                  .queued_prompt_tokens = figures.queued_prompt_tokens,
                  .blocks_total = pool.total(),
                  .blocks_in_use = pool.num_used() + pool.num_quarantined(),
                  .warm_pairs = {},
                  .share = WorkerShare{share.places, share.prompt_tokens},
                  .running = figures.running,
                  .waiting = figures.waiting,
                  .foreseen = figures.foreseen,
                  .expected_tokens = figures.expected_tokens};
  WorkerLoad& told = worker->told[router];
  const bool same = told.share && told.share->places == share.places &&
                    told.share->prompt_tokens == share.prompt_tokens &&
                    told.queued_prompt_tokens == load.queued_prompt_tokens &&
                    told.blocks_in_use == load.blocks_in_use && told.running == load.running &&
                    told.waiting == load.waiting && told.foreseen == load.foreseen &&
                    told.expected_tokens == load.expected_tokens;
  const base::Instant now = timeline_.now();
  if (same && now - worker->told_at[router] < WorkerTimeouts().status_max) return;
  told = load;
  worker->told_at[router] = now;
  const auto deliver = [this, worker, router, load] {
    routers_[router]->table().Update(worker->kind, worker->address, load, timeline_.now());
    TellDemandTo(worker, router);
    routers_[router]->Wake();
  };
  // Routers know the workers before the first request comes.
  now == begin_ ? deliver() : Mail(deliver);
}

void Cluster::TellDemand(size_t router) {
  for (auto* const group : {&decode_, &prefill_}) {
    for (const auto& worker : *group) TellDemandTo(worker.get(), router);
  }
}

// What a router has at a worker and could use, unless the worker knows it or heard of it a moment
// ago. Every status is an occasion, so nothing stays untold.
void Cluster::TellDemandTo(Worker* worker, size_t router) {
  const base::Instant now = timeline_.now();
  const RequestQueue::Wanted wanted = routers_[router]->wanted();
  const WorkerDemand demand = routers_[router]->table().DemandOf(worker->kind, worker->address,
                                                                 wanted.requests, wanted.tokens);
  if (demand == worker->demand[router] || now - worker->demand_at[router] < tell_every_) return;
  worker->demand[router] = demand;
  worker->demand_at[router] = now;
  Mail([worker, router, demand] {
    worker->shares.SetDemand(
        worker->seats[router],
        {.places = {demand.places_held, demand.places_wanted},
         .prompt_tokens = {demand.prompt_tokens_held, demand.prompt_tokens_wanted}});
  });
}

// Sums how full the pools of decode workers were so far. Only the first call counts.
void Cluster::NoteUse() {
  if (std::exchange(use_noted_, true)) return;
  std::vector<double> all;
  for (const auto& worker : decode_) {
    const std::vector<double>& use = worker->engine->kv_use();
    all.resize(use.size());
    for (size_t i = 0; i < use.size(); ++i) all[i] += use[i];
  }
  const double total = std::accumulate(all.begin(), all.end(), 0.0);
  const auto quantile = [&](double part) {
    double sum = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      sum += all[i];
      if (sum >= part * total) return static_cast<double>(i) / 1000;
    }
    return 1.0;
  };
  outcome_.kv_p50 = total > 0 ? quantile(0.5) : 0;
  outcome_.kv_p95 = total > 0 ? quantile(0.95) : 0;
}

}  // namespace

absl::StatusOr<ClusterOutcome> RunCluster(const ClusterSetup& setup,
                                          const std::vector<SimRequest>& requests) {
  if (requests.empty()) return absl::InvalidArgumentError("no requests; expected at least one");
  const bench::PromptSharing sharing = {.prefix_tokens = setup.shared_prefix_tokens,
                                        .block_tokens = setup.block_tokens};
  BATON_ASSIGN_OR_RETURN(
      const auto prompts,
      MakeIdPrompts({.vocab_size = kVocabulary, .excluded = {}}, nullptr, setup.seed, sharing));
  return Cluster(setup, requests, *prompts).Run();
}

}  // namespace baton::simulator
