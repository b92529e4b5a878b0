#include "tools/sim/watches.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/worker/timeouts.h"
#include "router/workers/status_interval.h"
#include "tools/sim/virtual_router.h"

namespace baton::simulator {
namespace {

// How often a router tells workers what it could use, as WorkerConnections does.
constexpr base::Duration kTellEvery = std::chrono::milliseconds(50);

}  // namespace

Watches::Watches(const ClusterSetup& setup, Timeline* timeline, Fleet* fleet, Ahead* ahead,
                 ElasticRoles* roles)
    : setup_(setup),
      timeline_(timeline),
      fleet_(fleet),
      ahead_(ahead),
      roles_(roles),
      begin_(timeline->now()) {
  const size_t workers = fleet->decode.size() + fleet->prefill.size();
  interval_ = std::max(WorkerTimeouts().status_min,
                       StatusInterval(workers, RouterDeadlines().status_fresh));
  tell_every_ = std::max(kTellEvery, interval_ - kTellEvery);
  const auto watch = [&](const std::vector<FleetWorker>& workers_of_kind, LoanTurns turns) {
    std::vector<Watched> watched;
    for (const FleetWorker& worker : workers_of_kind) {
      watched.push_back({.worker = &worker,
                         .number = watched.size(),
                         .incarnation = 0,
                         .shares = PlaceShares(turns),
                         .prompt_load = {},
                         .by_router = {}});
    }
    return watched;
  };
  decode_ = watch(fleet->decode, LoanTurns::kQuick);
  prefill_ = watch(fleet->prefill, LoanTurns::kSlow);
}

void Watches::Begin(std::function<bool()> over) {
  over_ = std::move(over);
  for (auto* const group : {&decode_, &prefill_}) {
    for (size_t i = 0; i < group->size(); ++i) {
      Watched* const watched = &(*group)[i];
      Introduce(watched, IncarnationOf(i, group == &prefill_ && !roles_->on()));
      for (size_t router = 0; router < fleet_->routers.size(); ++router) Say(watched, router);
      // Not all in one moment.
      const base::Duration offset =
          interval_ * static_cast<int64_t>(i + 1) / static_cast<int64_t>(group->size() + 1);
      timeline_->After(offset, [this, watched] { Tick(watched); });
    }
  }
}

void Watches::Introduce(Watched* watched, uint64_t incarnation) {
  const FleetWorker& worker = *watched->worker;
  watched->incarnation = incarnation;
  for (const auto& router : fleet_->routers) {
    router->table().Add(worker.kind, worker.address, nullptr);
    router->table().Learn(
        worker.kind, worker.address,
        {.incarnation = incarnation,
         .kinds = roles_->on() ? std::set{WorkerKind::kPrefill, WorkerKind::kDecode}
                               : std::set{worker.kind},
         .fingerprint = kFleetModel,
         .layout = {.dtype = "bfloat16",
                    .block_size = setup_.worker.scheduler.block_size,
                    .layers = 1,
                    .kv_heads = 1,
                    .head_dim = 1},
         .max_model_len = setup_.worker.scheduler.limits.max_model_len},
        /*accepted=*/true);
    watched->by_router.push_back({.seat = watched->shares.Join()});
  }
}

void Watches::Tick(Watched* watched) {
  if (over_()) return;
  for (size_t router = 0; router < fleet_->routers.size(); ++router) Say(watched, router);
  timeline_->After(interval_, [this, watched] { Tick(watched); });
}

// A worker's status to a router, unless it says what the last one said a moment ago.
void Watches::Say(Watched* watched, size_t router) {
  const VirtualWorker& engine = *watched->worker->engine;
  Watch& watch = watched->by_router[router];
  const SchedulerFigures figures = engine.scheduler().figures();
  const BlockPool& pool = engine.pool();
  const base::Instant now = timeline_->now();
  const PlaceShares::Share share = watched->shares.Of(watch.seat, CapacityOf(*watched), now);
  const bool serves = roles_->Serves(watched->worker->kind, watched->number);
  WorkerLoad load{.takes_new = serves,
                  .other_role = !serves,
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
                  .expected_tokens = figures.expected_tokens,
                  .expected_kv_tokens = figures.expected_kv_tokens,
                  .prompt_times = engine.prompt_times(),
                  .fill = engine.fill(figures),
                  .prompt_load = watched->prompt_load.Note(figures.prompt_tokens_computed,
                                                           engine.prompt_times().token_s, now)};
  PrefixReport cached = engine.CachedSince(watch.told_cached);
  const WorkerLoad& told = watch.told;
  const bool same = told.takes_new == load.takes_new && told.share &&
                    told.share->places == share.places &&
                    told.share->prompt_tokens == share.prompt_tokens &&
                    told.queued_prompt_tokens == load.queued_prompt_tokens &&
                    told.blocks_in_use == load.blocks_in_use && told.running == load.running &&
                    told.waiting == load.waiting && told.foreseen == load.foreseen &&
                    told.expected_tokens == load.expected_tokens &&
                    told.prompt_load == load.prompt_load && cached.empty();
  if (same && now - watch.told_at < WorkerTimeouts().status_max) return;
  watch.told = load;
  watch.told_at = now;
  watch.told_cached = cached.version;
  const auto deliver = [this, watched, router, load, cached = std::move(cached)] {
    VirtualRouter& to = *fleet_->routers[router];
    const FleetWorker& worker = *watched->worker;
    to.table().Update(worker.kind, worker.address, load, timeline_->now());
    to.hints().Report({worker.address, watched->incarnation}, cached, timeline_->now());
    TellDemandTo(watched, router);
    to.Wake();
  };
  // Routers know the workers before the first request comes.
  now == begin_ ? deliver() : timeline_->After(setup_.message, deliver);
}

PlaceCapacity Watches::CapacityOf(const Watched& watched) const {
  const VirtualWorker& engine = *watched.worker->engine;
  const SchedulerFigures figures = engine.scheduler().figures();
  PlaceCapacity capacity = engine.capacity(figures);
  const bool decodes = watched.worker->kind == WorkerKind::kDecode;
  if (decodes) capacity.places = ahead_->Places(engine, figures, timeline_->now());
  if (!roles_->on()) return capacity;
  // As WorkerCore lends them: what requests of the other role leave.
  const int64_t others = (decodes ? prefill_ : decode_)[watched.number].shares.held();
  capacity.places = static_cast<int32_t>(std::max<int64_t>(0, capacity.places - others));
  return capacity;
}

std::optional<ClusterView> Watches::ClusterFor(const Watched& watched, size_t router) const {
  if (!roles_->on() || watched.worker->kind != WorkerKind::kDecode) return std::nullopt;
  VirtualRouter& from = *fleet_->routers[router];
  ClusterView cluster = from.table().ClusterOf(kFleetModel, timeline_->now());
  cluster.waiting_prompt_tokens = from.wanted().tokens;
  return cluster;
}

void Watches::TellDemand(size_t router) {
  for (auto* const group : {&decode_, &prefill_}) {
    for (Watched& watched : *group) TellDemandTo(&watched, router);
  }
}

// What a router has at a worker and could use, unless the worker knows it or heard of it a moment
// ago. Every status is an occasion, so nothing stays untold.
void Watches::TellDemandTo(Watched* watched, size_t router) {
  const FleetWorker& worker = *watched->worker;
  VirtualRouter& from = *fleet_->routers[router];
  Watch& watch = watched->by_router[router];
  const base::Instant now = timeline_->now();
  const RequestQueue::Wanted wanted = from.wanted();
  const WorkerDemand demand =
      from.table().DemandOf(worker.kind, worker.address, wanted.requests, wanted.tokens);
  if (now - watch.demand_at < tell_every_) return;
  const std::optional<ClusterView> cluster = ClusterFor(*watched, router);
  if (demand == watch.demand && (!cluster || *cluster == watch.cluster)) return;
  watch.demand = demand;
  watch.demand_at = now;
  if (cluster) {
    watch.cluster = *cluster;
    timeline_->After(setup_.message, [this, number = watched->number, router, view = *cluster] {
      roles_->Hear(number, router, view);
    });
  }
  timeline_->After(setup_.message, [watched, seat = watch.seat, demand] {
    watched->shares.SetDemand(
        seat, {.places = {demand.places_held, demand.places_wanted},
               .prompt_tokens = {demand.prompt_tokens_held, demand.prompt_tokens_wanted}});
  });
}

}  // namespace baton::simulator
