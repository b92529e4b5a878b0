#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/planner/hardware.h"
#include "tools/planner/plan_flags.h"
#include "tools/planner/search.h"

namespace baton::planner {

// A plan with all that it was made from.
struct PlanReport {
  const PlanFlags& flags;
  const Question& question;
  const Plan& plan;
  std::optional<Hardware> hardware;   // absent: this machine
  int32_t cores = 0;                  // of this machine
  std::vector<std::string> left_out;  // sizes of workers that cannot be, and why
};

// For people: the plan, what is expected of it, why it is this one, and what checks it. Without a
// plan: what fails, by how much, and what would do.
std::string PlanText(const PlanReport& report);

// {"schema": "baton.plan/1", "question": {flag: value, ..}, "hardware": NAME, "plan": CLUSTER,
//  "cheaper": CLUSTER, "nearest": CLUSTER, "left_out": [..], "simulated": N, "complete": bool,
//  "devices_needed": N, "bearable_share": X, "serve": COMMAND, "bench": COMMAND}
// where what there is not is null. A CLUSTER is {"mode", "prefill", "decode", "devices",
// "tensor_parallel_size", "threads", "max_num_seqs", "kv_cache_bytes", "kv_cache_tokens",
// "weight_bytes", "activation_bytes", "library_bytes", "step_cost_us": {..}, "keeps",
// "worst_good_share", "limits": [{"metric", "limit_ms", "at_percentile_ms", "share"}], "expected":
// {"ttft_ms": {"mean", "p50", "p99"}, "tpot_ms", "e2e_ms", "goodput", "goodput_share",
// "request_throughput", "output_throughput", "busy_share", "prefill_busy_share", "kv_use_p95",
// "preemptions", "joules_per_output_token", "price_per_million_output_tokens"}}, figures being
// means over the runs.
nlohmann::ordered_json PlanJson(const PlanReport& report);

// The commands that start the cluster on one machine, and that check it; "" where one machine does
// not hold it.
std::string ServeCommandOf(const PlanReport& report, const Trial& trial);
std::string BenchCommandOf(const PlanReport& report);

// What a cluster serves per second while the load lasts. A simulated run goes on for a while after
// its last arrival, so that its own throughput is somewhat less.
struct Served {
  double requests = 0, good_requests = 0, output_tokens = 0;
};
Served ServedBy(const PlanReport& report, const Trial& trial);
// Whether requests come faster than they are served.
bool IsOverloaded(const PlanReport& report, const Trial& trial);

// Of all devices, by how busy they are; empty where the device's power is not known.
std::optional<double> JoulesPerToken(const PlanReport& report, const Trial& trial);
std::optional<double> PricePerMillionTokens(const PlanReport& report, const Trial& trial);

}  // namespace baton::planner
