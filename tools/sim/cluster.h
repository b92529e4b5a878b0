#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/roles/role_rule.h"
#include "tools/sim/ahead.h"
#include "tools/sim/answers.h"
#include "tools/sim/sim_routing.h"
#include "tools/sim/virtual_worker.h"

namespace baton::simulator {

// A cluster and how it is asked.
struct ClusterSetup {
  int32_t routers = 1;          // requests go to one after the other
  int32_t workers = 1;          // decode workers
  int32_t prefill_workers = 0;  // 0: decode workers compute prompts
  bool elastic = false;         // both counts are what workers begin as: each may change its role
  RoleRuleOptions roles;        // how they change it
  WorkerSetup worker;           // of both kinds
  base::Duration message = std::chrono::microseconds(200);  // between two processes, one way
  // How fast one prefill worker sends, and what a token's K and V take of that.
  double handoff_bytes_per_s = 10e9;
  double kv_bytes_per_token = 131072;
  SimRouting routing = Routing::kLoad;
  std::optional<int32_t> local_prefill_below = 0;  // empty: by estimated cost
  HandoffTiming handoff_timing = HandoffTiming::kPlace;
  int32_t max_num_queued_reqs = 1024;
  int32_t concurrency = 0;  // closed loop; 0: as the requests say
  // From when on nobody comes to a closed loop, since the start; zero: until all have come.
  base::Duration arrivals_end{};
  int32_t max_tokens = 0;  // of every request; 0: as many as fit
  // Requests with longer answers are of another length class; 0: all are of one.
  int32_t class_boundary = 0;
  int32_t shared_prefix_tokens = 0;
  int32_t block_tokens = 512;  // of a hash id
  uint64_t seed = 1;           // of the routing and the prompts
};

// What became of one request, in seconds since the start.
struct RequestOutcome {
  double arrived = 0;
  double first_token = 0, last_token = 0;  // at the router
  int32_t output_tokens = 0;               // 0: it was refused
  int32_t attempts = 0;
  int32_t preemptions = 0;
};

struct ClusterOutcome {
  // Of those that came, in the order in which they were given.
  std::vector<RequestOutcome> requests;
  int64_t refused = 0;
  std::string first_refusal;  // why
  // Over all workers.
  uint64_t steps = 0;
  uint64_t tokens_fed = 0, tokens_fed_again = 0, rows_discarded = 0;
  uint64_t preemptions = 0, revocations = 0, full = 0;
  uint64_t swaps = 0;                            // of the preemptions
  uint64_t prefix_queries = 0, prefix_hits = 0;  // tokens
  uint64_t handoffs = 0;
  double handoff_bytes = 0;
  uint64_t role_changes = 0;
  double busy_share = 0;          // of decode workers' time until the last answer
  double prefill_busy_share = 0;  // likewise of prefill workers'; 0 without any
  // Of decode workers' pools, over their time until the last arrival.
  double kv_p50 = 0, kv_p95 = 0;
  // The same over time until the last answer: means over spans of `span`.
  base::Duration span{};
  std::vector<double> kv_use;
};

// Runs until every request that comes is over and everything that was held is given back.
// Everything follows from the setup and the requests. The error is a defect: a request that stands
// still, or blocks that were not given back.
absl::StatusOr<ClusterOutcome> RunCluster(const ClusterSetup& setup,
                                          const std::vector<SimRequest>& requests);

}  // namespace baton::simulator
