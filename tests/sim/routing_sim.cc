#include "tests/sim/routing_sim.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "router/placement/choose_place.h"

namespace baton::sim {
namespace {

constexpr auto kTick = std::chrono::milliseconds(5);
constexpr int32_t kBlockSize = 4;
constexpr int32_t kMaxTicks = 200'000;
constexpr auto kDecode = WorkerKind::kDecode;

WorkerOptions OptionsOf(const RoutingSimOptions& options) {
  WorkerOptions worker;
  worker.num_blocks = options.num_blocks;
  worker.prefix_caching = false;
  worker.scheduler.block_size = kBlockSize;
  worker.scheduler.max_num_seqs = options.seats;
  worker.scheduler.policy = options.policy;
  worker.scheduler.max_prefill_tokens = 256;
  worker.scheduler.max_num_batched_tokens = 256 + options.seats;
  worker.scheduler.limits = {
      .max_model_len = 4096, .pool_tokens = options.num_blocks * kBlockSize, .vocab_size = 500};
  return worker;
}

}  // namespace

struct RoutingSim::Request {
  int32_t router = 0;
  int32_t arrival = 0;
  bool is_long = false;
  std::string tenant;
  base::Instant arrived{};
  base::Instant reached{};  // its worker
  SequenceSpec spec;
  std::string worker;
  WorkerClaim claim;
  bool started = false;
};

struct RoutingSim::Router {
  Router(int32_t number, TenantRules rules)
      : index(number),
        queue(1 << 20, std::move(rules)),
        table({.status_fresh = std::chrono::seconds(2)}) {}
  const int32_t index;
  RequestQueue queue;
  WorkerTable table;
  int32_t arrived = 0, under_way = 0, done = 0;
  int32_t first_tokens = 0;
};

struct RoutingSim::Worker {
  Worker(std::string name, const WorkerOptions& options)
      : address(std::move(name)), engine(options, {.vocab_size = 500}) {}
  const std::string address;
  SimWorker engine;
  PlaceShares shares{LoanTurns::kQuick};
  std::vector<PlaceShares::RouterId> routers;
  std::map<SequenceId, size_t> request_of;
};

RoutingSim::RoutingSim(const RoutingSimOptions& options)
    : options_(options), random_(options.seed) {
  for (int32_t i = 0; i < options_.workers; ++i) {
    workers_.push_back(std::make_unique<Worker>(absl::StrCat("w", i), OptionsOf(options_)));
  }
  TenantRules rules;
  for (const SimTenant& tenant : options_.tenants) rules.named[tenant.name] = tenant.rule;
  for (int32_t i = 0; i < options_.routers; ++i) {
    routers_.push_back(std::make_unique<Router>(i, rules));
    for (const auto& worker : workers_) {
      routers_.back()->table.Add(kDecode, worker->address, nullptr);
      routers_.back()->table.Learn(kDecode, worker->address,
                                   {.incarnation = 1,
                                    .fingerprint = "m",
                                    .layout = {.block_size = kBlockSize},
                                    .max_model_len = 4096},
                                   /*accepted=*/true);
      worker->routers.push_back(worker->shares.Join());
    }
  }
}

RoutingSim::~RoutingSim() = default;

std::string RoutingSim::Run() {
  const auto all_done = [&] {
    return std::ranges::all_of(
        routers_, [&](const auto& router) { return router->done >= options_.requests; });
  };
  while (!all_done()) {
    if (++tick_ > kMaxTicks) return "no end: some request stands still";
    now_ += kTick;
    Deliver();
    for (const auto& router : routers_) {
      options_.tenants.empty() ? Arrive(router.get()) : ArriveByTenants(router.get());
      Place(router.get());
    }
    for (const auto& worker : workers_) StepWorker(worker.get());
    if (!broken_.empty()) return broken_;
    Count();
  }
  return "";
}

// A client sends its next request as soon as one of its own is done, as closed loops do.
void RoutingSim::Arrive(Router* router) {
  const auto most = options_.concurrency[static_cast<size_t>(router->index)];
  while (router->under_way < most && router->arrived < options_.requests) {
    if (!AddRequest(router, "", options_.output_tokens)) return;
  }
}

void RoutingSim::ArriveByTenants(Router* router) {
  for (const SimTenant& tenant : options_.tenants) {
    std::poisson_distribution<int32_t> arrivals(tenant.per_tick);
    const int32_t tokens = tenant.output_tokens > 0 ? tenant.output_tokens : options_.output_tokens;
    for (int32_t left = arrivals(random_); left > 0; --left) {
      AddRequest(router, tenant.name, tokens);
    }
  }
}

bool RoutingSim::AddRequest(Router* router, const std::string& tenant, int32_t output_tokens) {
  Request request{.router = router->index, .arrival = router->arrived++};
  request.tenant = tenant;
  request.arrived = now_ + std::chrono::nanoseconds(router->arrived);  // an order of their own
  request.is_long = options_.long_every > 0 && request.arrival % options_.long_every == 0;
  const int32_t prompt = request.is_long ? options_.long_prompt_tokens : options_.prompt_tokens;
  request.spec.prompt.assign(static_cast<size_t>(prompt), request.arrival % 400 + 10);
  const int32_t spread = output_tokens / 2;
  request.spec.stop.max_tokens =
      output_tokens - spread / 2 +
      static_cast<int32_t>(random_() % static_cast<uint64_t>(spread + 1));
  request.claim = {.tokens = prompt,
                   .growth_tokens = request.spec.stop.max_tokens,
                   .computes = true,
                   .decodes = true};
  ++router->under_way;
  const RoutingNeed need{.tokens = prompt, .peak_tokens = prompt + request.spec.stop.max_tokens};
  const uint64_t id = requests_.size();
  const base::Instant arrived = request.arrived;
  requests_.push_back(std::move(request));
  return router->queue
      .Add({.id = id, .arrived = arrived, .need = need, .tenant = tenant, .prompt_tokens = prompt})
      .ok();
}

void RoutingSim::Place(Router* router) {
  static const PairSet kNone;
  WorkerTable& table = router->table;
  const auto open = [&] { return table.WithPlace(kDecode); };
  const auto place = [&](const RequestQueue::Waiting& waiting, const RequestQueue::Ahead& ahead) {
    const RoutingInput input{.decode = open(),
                             .prefill = {},
                             .serving_prefill = {},
                             .failed_pairs = kNone,
                             .now = now_,
                             .ahead = ahead.needs,
                             .prefill_kept_for = ahead.prefill};
    const auto picked = PickRoute(waiting.need, input, &random_);
    const Route* const route = std::get_if<Route>(&picked);
    if (route == nullptr) return RequestQueue::Try::kNoDecode;
    const size_t id = waiting.id;
    const std::string address = route->decode->address;
    requests_[id].worker = address;
    table.Take(kDecode, {address, 1}, requests_[id].claim);
    mail_.emplace(tick_ + 1, [this, id, address] {
      for (const auto& worker : workers_) {
        if (worker->address != address) continue;
        SequenceSpec spec = requests_[id].spec;
        spec.waited = now_ - requests_[id].arrived;
        requests_[id].reached = now_;
        worker->request_of[worker->engine.Add(std::move(spec), now_)] = id;
      }
    });
    return RequestQueue::Try::kPlaced;
  };
  RequestQueue::Passage passage = PassageOf({.workers = table, .failed_pairs = kNone, .now = now_});
  passage.place = place;
  passage.hopeless = [](const auto&, base::Instant) { return false; };
  router->queue.Pass(now_, passage);
  if (tick_ % options_.ticks_per_status != router->index % options_.ticks_per_status) return;
  const RequestQueue::Wanted& wanted = router->queue.wanted();
  for (const auto& worker : workers_) {
    const WorkerDemand told =
        table.DemandOf(kDecode, worker->address, wanted.requests, wanted.tokens);
    mail_.emplace(tick_ + 1, [worker = worker.get(), router, told] {
      worker->shares.SetDemand(
          worker->routers[static_cast<size_t>(router->index)],
          {.places = {told.places_held, told.places_wanted},
           .prompt_tokens = {told.prompt_tokens_held, told.prompt_tokens_wanted}});
    });
  }
}

void RoutingSim::StepWorker(Worker* worker) {
  if (broken_.empty()) broken_ = worker->engine.BeginStep(now_);
  for (const SchedEvent& event : worker->engine.TakeEvents()) Hear(worker, event);
  if (broken_.empty()) broken_ = worker->engine.FinishStep(now_);
  for (const SchedEvent& event : worker->engine.TakeEvents()) Hear(worker, event);
  if (tick_ % options_.ticks_per_status == 1) SendStatus(worker);
  const SchedulerFigures figures = worker->engine.scheduler().figures();
  longest_line_ = std::max(longest_line_, figures.waiting);
}

void RoutingSim::Hear(Worker* worker, const SchedEvent& event) {
  const auto found = worker->request_of.find(event.sequence);
  if (found == worker->request_of.end()) return;
  const size_t id = found->second;
  if (std::holds_alternative<RefusedEvent>(event.what)) ++refusals_;
  const auto* const state = std::get_if<StateEvent>(&event.what);
  if (state != nullptr && state->from == SequenceState::kQueued) {
    in_line_.push_back(now_ - requests_[id].reached);
  }
  const bool first = std::holds_alternative<TokenEvent>(event.what) && !requests_[id].started;
  const bool over = std::holds_alternative<FinishedEvent>(event.what);
  if (!first && !over) return;
  if (over) worker->request_of.erase(found);
  mail_.emplace(tick_ + 1, [this, id, over] {
    Request& request = requests_[id];
    Router& router = *routers_[static_cast<size_t>(request.router)];
    if (!std::exchange(request.started, true)) {
      router.table.PromptDone(kDecode, {request.worker, 1}, request.claim);
      served_.push_back({.router = request.router,
                         .arrival = request.arrival,
                         .is_long = request.is_long,
                         .tenant = request.tenant,
                         .tokens = static_cast<int32_t>(request.spec.prompt.size()) +
                                   2 * request.spec.stop.max_tokens,
                         .arrived = request.arrived,
                         .first_token = now_});
    }
    if (!over) return;
    router.table.Return(kDecode, {request.worker, 1}, request.claim);
    router.queue.Ended(id, {.output_tokens = request.spec.stop.max_tokens});
    --router.under_way;
    if (options_.tenants.empty() || request.tenant == options_.tenants.front().name) ++router.done;
  });
}

void RoutingSim::SendStatus(Worker* worker) {
  const SchedulerFigures figures = worker->engine.scheduler().figures();
  const PlaceCapacity capacity{.places = figures.places,
                               .short_of_blocks = figures.short_of_blocks,
                               .seats = options_.seats,
                               .ended = figures.ended,
                               .step_prompt_tokens = 256};
  for (const auto& router : routers_) {
    const auto share =
        worker->shares.Of(worker->routers[static_cast<size_t>(router->index)], capacity, now_);
    const WorkerLoad load{.takes_new = true,
                          .queued_prompt_tokens = figures.queued_prompt_tokens,
                          .blocks_total = options_.num_blocks,
                          .blocks_in_use = worker->engine.pool().num_used(),
                          .share = WorkerShare{share.places, share.prompt_tokens}};
    mail_.emplace(tick_ + 1, [this, worker, router = router.get(), load] {
      router->table.Update(kDecode, worker->address, load, now_);
    });
  }
}

void RoutingSim::Deliver() {
  while (!mail_.empty() && mail_.begin()->first <= tick_) {
    const auto open = mail_.extract(mail_.begin());
    open.mapped()();
  }
}

void RoutingSim::Count() {
  const bool all_wait =
      std::ranges::all_of(routers_, [](const auto& router) { return !router->queue.empty(); });
  if (!all_wait) return;
  for (const auto& worker : workers_) {
    seat_ticks_ += options_.seats;
    used_seat_ticks_ += worker->engine.scheduler().figures().running;
  }
}

double RoutingSim::seats_used() const {
  return static_cast<double>(used_seat_ticks_) /
         static_cast<double>(std::max<int64_t>(1, seat_ticks_));
}

double RoutingSim::Overspent(base::Duration in_line) const {
  const auto late =
      std::ranges::count_if(in_line_, [&](base::Duration stood) { return stood > in_line; });
  return static_cast<double>(late + refusals_) /
         static_cast<double>(std::max<size_t>(1, in_line_.size() + static_cast<size_t>(refusals_)));
}

double RoutingSim::MeanWaitMs(int32_t router) const {
  double sum = 0;
  int32_t count = 0;
  for (const Served& served : served_) {
    if (served.router != router) continue;
    sum += base::Milliseconds(served.first_token - served.arrived);
    ++count;
  }
  return sum / std::max(1, count);
}

double RoutingSim::WaitOfTenantMs(const std::string& tenant, double part) const {
  std::vector<double> waits;
  for (const Served& served : served_) {
    if (served.tenant == tenant) {
      waits.push_back(base::Milliseconds(served.first_token - served.arrived));
    }
  }
  if (waits.empty()) return 0;
  std::ranges::sort(waits);
  return waits[static_cast<size_t>(part * static_cast<double>(waits.size() - 1))];
}

double RoutingSim::ShareOfTenant(const std::string& tenant) const {
  double all = 0, own = 0;
  for (const Served& served : served_) {
    all += served.tokens;
    if (served.tenant == tenant) own += served.tokens;
  }
  return own / std::max(1.0, all);
}

int32_t RoutingSim::MostOvertaken() const {
  int32_t most = 0;
  for (const Served& served : served_) {
    const auto overtaken = std::ranges::count_if(served_, [&](const Served& other) {
      return other.router == served.router && other.arrived > served.arrived &&
             other.first_token < served.first_token;
    });
    most = std::max(most, static_cast<int32_t>(overtaken));
  }
  return most;
}

}  // namespace baton::sim
