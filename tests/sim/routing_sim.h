#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/sched/place_shares.h"
#include "router/placement/request_queue.h"
#include "router/workers/worker_table.h"
#include "tests/sim/sim_worker.h"

namespace baton::sim {

// Requests of one tenant that come at random, whatever happens to those before.
struct SimTenant {
  std::string name;
  double per_tick = 0;  // arrivals, on the mean
  TenantRule rule;
  int32_t output_tokens = 0;  // 0: as those of all
};

struct RoutingSimOptions {
  int32_t routers = 1;
  int32_t workers = 1;
  int32_t seats = 8;            // of each worker
  int32_t num_blocks = 400;     // of each worker, of 4 tokens
  Policy policy = kFcfsPolicy;  // of each worker
  // Requests that each router's clients keep under way, and how many each router gets in all.
  std::vector<int32_t> concurrency;
  int32_t requests = 100;
  // Instead of those clients, for one router: it runs until as many requests of the first tenant
  // are served.
  std::vector<SimTenant> tenants;
  int32_t prompt_tokens = 8;
  int32_t output_tokens = 20;
  // Every so many requests one has a prompt of that length; 0: none.
  int32_t long_every = 0;
  int32_t long_prompt_tokens = 0;
  int32_t ticks_per_status = 10;  // between two statuses of a worker, and two demands of a router
  uint64_t seed = 1;
};

// What became of one request.
struct Served {
  int32_t router = 0;
  int32_t arrival = 0;  // its number among those of its router, in order of arrival
  bool is_long = false;
  std::string tenant;
  int32_t tokens = 0;  // of prompt and output, as tenants are charged for them
  base::Instant arrived{}, first_token{};
};

// A cluster of routers and decode workers without threads or network, for the way from a router's
// queue to a first token: real queues, tables, routing and shares at the routers, real schedulers
// at the workers. Messages and steps take a tick of 5 ms.
// Everything follows from the seed.
class RoutingSim {
 public:
  explicit RoutingSim(const RoutingSimOptions& options);
  ~RoutingSim();

  // Runs until all requests are served. Returns what was wrong, or nothing.
  std::string Run();

  const std::vector<Served>& served() const { return served_; }
  int32_t refusals() const { return refusals_; }  // FULL, said by workers
  int32_t longest_line() const { return longest_line_; }
  // Of all placements, those that a worker refused or kept in its line for longer than this.
  double Overspent(base::Duration in_line) const;
  // Of all seats, those in use while each router had somebody in its queue.
  double seats_used() const;
  double MeanWaitMs(int32_t router) const;
  // The time to first token of that part of a tenant's requests.
  double WaitOfTenantMs(const std::string& tenant, double part) const;
  // Of all tokens that were served, those of a tenant.
  double ShareOfTenant(const std::string& tenant) const;
  int32_t MostOvertaken() const;

 private:
  struct Router;
  struct Worker;
  struct Request;

  void Arrive(Router* router);
  void ArriveByTenants(Router* router);
  // A request comes; false when the queue refuses it.
  bool AddRequest(Router* router, const std::string& tenant, int32_t output_tokens);
  void Place(Router* router);
  void StepWorker(Worker* worker);
  void Hear(Worker* worker, const SchedEvent& event);
  void SendStatus(Worker* worker);
  void Deliver();
  void Count();

  const RoutingSimOptions options_;
  std::mt19937_64 random_;
  base::Instant now_{std::chrono::hours(1)};
  int32_t tick_ = 0;
  std::vector<std::unique_ptr<Router>> routers_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::deque<Request> requests_;
  std::multimap<int32_t, std::function<void()>> mail_;  // by the tick of its arrival
  std::vector<Served> served_;
  std::vector<base::Duration> in_line_;  // how long each placement stood in its worker's line
  std::string broken_;                   // the first invariant of a worker that did not hold
  int32_t refusals_ = 0, longest_line_ = 0;
  int64_t seat_ticks_ = 0, used_seat_ticks_ = 0;
};

}  // namespace baton::sim
