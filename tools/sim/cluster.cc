#include "tools/sim/cluster.h"

#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/bench/plan/prompt_maker.h"
#include "tools/sim/elastic_roles.h"
#include "tools/sim/fleet.h"
#include "tools/sim/request_lives.h"
#include "tools/sim/watches.h"

namespace baton::simulator {
namespace {

using bench::MakeIdPrompts;
using bench::PromptMaker;

// Without a token for so long (of virtual time) while somebody waits, something is wrong.
constexpr base::Duration kStandstill = std::chrono::hours(6);

// The processes of a cluster joined, and what they did summed up.
class Cluster final {
 public:
  Cluster(const ClusterSetup& setup, const std::vector<SimRequest>& asked,
          const PromptMaker& prompts);
  absl::StatusOr<ClusterOutcome> Run();

 private:
  void AddWorkers(WorkerKind kind, int32_t count, std::vector<FleetWorker>* to);
  void AddElasticWorkers();
  void AddRouters();
  // Each worker once.
  std::vector<const FleetWorker*> Workers() const;
  absl::Status RunUntilAllOver();
  void SumUp(double end);
  void NoteUse();
  void NoteUseOverTime();
  absl::Status CheckAllEmpty() const;
  double Since(base::Instant when) const { return base::Seconds(when - begin_); }

  const ClusterSetup& setup_;
  Timeline timeline_;
  const base::Instant begin_;
  std::vector<VirtualWorker::Request> requests_;
  Fleet fleet_;
  Ahead ahead_;
  RequestLives lives_;
  // Once the fleet is complete.
  std::optional<ElasticRoles> roles_;
  std::optional<Watches> watches_;
  bool use_noted_ = false;
  ClusterOutcome outcome_;
};

Cluster::Cluster(const ClusterSetup& setup, const std::vector<SimRequest>& asked,
                 const PromptMaker& prompts)
    : setup_(setup),
      begin_(timeline_.now()),
      requests_(asked.size()),
      ahead_(setup.handoff_timing),
      lives_(setup, asked, prompts, &timeline_, &fleet_, &ahead_, [this] { NoteUse(); }) {
  for (size_t i = 0; i < asked.size(); ++i) requests_[i].asked = &asked[i];
  if (setup.elastic) {
    AddElasticWorkers();
  } else {
    AddWorkers(WorkerKind::kDecode, setup.workers, &fleet_.decode);
    AddWorkers(WorkerKind::kPrefill, setup.prefill_workers, &fleet_.prefill);
  }
  AddRouters();
  roles_.emplace(setup, &timeline_, &fleet_);
  watches_.emplace(setup, &timeline_, &fleet_, &ahead_, &*roles_);
}

void Cluster::AddWorkers(WorkerKind kind, int32_t count, std::vector<FleetWorker>* to) {
  const bool decode = kind == WorkerKind::kDecode;
  WorkerSetup how = setup_.worker;
  how.reports_prefixes = LooksAtPrompts(setup_.routing) || setup_.local_prefill_below != 0;
  // As served, prefill workers see no ends to learn from or to decide by, and set nothing aside.
  if (!decode) {
    how.foreseer = Foreseer::kOff;
    how.baseline.reset();
    how.scheduler.policy = kFcfsPolicy;
  }
  for (int32_t i = 0; i < count; ++i) {
    const auto number = static_cast<uint32_t>(i);
    const auto hear = [this, number, decode](uint32_t request, SequenceId id,
                                             const SchedEvent& event) {
      decode ? lives_.HearDecode(number, request, id, event)
             : lives_.HearPrefill(number, request, id, event);
    };
    to->push_back({.kind = kind,
                   .address = absl::StrCat(decode ? "d" : "p", i),
                   .engine = std::make_shared<VirtualWorker>(how, &timeline_, requests_, hear)});
  }
}

// One worker stands in both lists, and hears of its sequences in both roles.
void Cluster::AddElasticWorkers() {
  const int32_t count = setup_.workers + setup_.prefill_workers;
  for (int32_t i = 0; i < count; ++i) {
    const auto number = static_cast<uint32_t>(i);
    const auto hear = [this, number](uint32_t request, SequenceId id, const SchedEvent& event) {
      lives_.HearDecode(number, request, id, event);
      lives_.HearPrefill(number, request, id, event);
    };
    const auto engine = std::make_shared<VirtualWorker>(setup_.worker, &timeline_, requests_, hear);
    fleet_.decode.push_back(
        {.kind = WorkerKind::kDecode, .address = absl::StrCat("e", i), .engine = engine});
    fleet_.prefill.push_back(
        {.kind = WorkerKind::kPrefill, .address = absl::StrCat("e", i), .engine = engine});
  }
}

std::vector<const FleetWorker*> Cluster::Workers() const {
  std::vector<const FleetWorker*> workers;
  for (const FleetWorker& worker : fleet_.decode) workers.push_back(&worker);
  if (setup_.elastic) return workers;
  for (const FleetWorker& worker : fleet_.prefill) workers.push_back(&worker);
  return workers;
}

void Cluster::AddRouters() {
  for (int32_t i = 0; i < setup_.routers; ++i) {
    const auto number = static_cast<size_t>(i);
    fleet_.routers.push_back(std::make_unique<VirtualRouter>(
        setup_, setup_.seed + number, &timeline_,
        VirtualRouter::Links{.placed =
                                 [this](uint64_t id, TakenPlace place) {
                                   lives_.Open(static_cast<uint32_t>(id), std::move(place));
                                 },
                             .refused =
                                 [this](uint64_t id, const absl::Status& why) {
                                   lives_.Refuse(static_cast<uint32_t>(id),
                                                 std::string(why.message()));
                                 },
                             .tell_demand = [this, number] { watches_->TellDemand(number); }}));
  }
}

absl::StatusOr<ClusterOutcome> Cluster::Run() {
  roles_->Begin([this] { return lives_.all_over(); });
  watches_->Begin([this] { return lives_.all_over(); });
  lives_.Begin();
  BATON_RETURN_IF_ERROR(RunUntilAllOver());
  const double end = Since(timeline_.now());
  NoteUse();
  NoteUseOverTime();
  while (timeline_.RunNext()) {
  }
  BATON_RETURN_IF_ERROR(CheckAllEmpty());
  SumUp(end);
  return std::move(outcome_);
}

absl::Status Cluster::RunUntilAllOver() {
  while (!lives_.all_over()) {
    // Workers say their status also while nobody is there, and the next request may be hours away.
    const auto still_for = [this] { return timeline_.now() - lives_.last_progress(); };
    if (timeline_.RunNext() && (!lives_.any_here() || still_for() <= kStandstill)) continue;
    const std::string still =
        absl::StrCat(lives_.num_left(), " of ", requests_.size(), " requests stand still after ",
                     Since(lives_.last_progress()), " s");
    return absl::InternalError(absl::StrCat("a defect of the simulation: ", still));
  }
  return absl::OkStatus();
}

void Cluster::SumUp(double end) {
  const RequestLives::Counts& counts = lives_.counts();
  outcome_.requests = lives_.TakeOutcomes();
  outcome_.refused = counts.refused;
  outcome_.first_refusal = counts.first_refusal;
  outcome_.full = counts.full;
  outcome_.handoffs = counts.handoffs;
  outcome_.handoff_bytes = counts.handoff_bytes;
  outcome_.role_changes = roles_->changes();
  double busy = 0, prefill_busy = 0;
  for (const FleetWorker* const worker : Workers()) {
    const WorkerTotals& totals = worker->engine->totals();
    const SchedulerFigures figures = worker->engine->scheduler().figures();
    outcome_.steps += totals.steps;
    outcome_.tokens_fed += totals.fed;
    outcome_.tokens_fed_again += totals.fed_again;
    outcome_.rows_discarded += figures.rows_discarded;
    outcome_.preemptions += figures.preemptions;
    outcome_.swaps += figures.swaps;
    outcome_.revocations += figures.revocations;
    outcome_.prefix_queries += figures.prefix_queries;
    outcome_.prefix_hits += figures.prefix_hits;
    (worker->kind == WorkerKind::kDecode ? busy : prefill_busy) += base::Seconds(totals.busy);
  }
  const auto share = [end](double time, size_t workers) {
    return end > 0 && workers > 0 ? time / (end * static_cast<double>(workers)) : 0;
  };
  outcome_.busy_share = share(busy, fleet_.decode.size());
  outcome_.prefill_busy_share = share(prefill_busy, fleet_.prefill.size());
}

absl::Status Cluster::CheckAllEmpty() const {
  for (const FleetWorker* const worker : Workers()) {
    const std::string left = worker->engine->CheckEmpty();
    if (left.empty()) continue;
    return absl::InternalError(
        absl::StrCat("a defect of the simulation: at worker ", worker->address, " ", left));
  }
  return absl::OkStatus();
}

// Sums how full the pools of decode workers were so far. Only the first call counts.
void Cluster::NoteUse() {
  if (std::exchange(use_noted_, true)) return;
  std::vector<double> all;
  for (const FleetWorker& worker : fleet_.decode) {
    const std::vector<double>& use = worker.engine->kv_use();
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

// The workers began together and are asked together, so their spans are the same.
void Cluster::NoteUseOverTime() {
  for (const FleetWorker& worker : fleet_.decode) {
    const SpanMeans& use = worker.engine->kv_use_over_time();
    const std::vector<double> means = use.Means();
    outcome_.span = use.every();
    outcome_.kv_use.resize(means.size());
    for (size_t i = 0; i < means.size(); ++i) {
      outcome_.kv_use[i] += means[i] / static_cast<double>(fleet_.decode.size());
    }
  }
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
