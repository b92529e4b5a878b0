#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tools/bench/figures/slo.h"
#include "tools/bench/figures/statistics.h"
#include "tools/sim/cluster.h"

namespace baton::simulator {

// The shares of requests at which the distribution of a latency is told.
inline constexpr std::array kShares = {0.0,  0.01, 0.02, 0.05, 0.1,  0.15, 0.2,   0.25,  0.3,
                                       0.35, 0.4,  0.45, 0.5,  0.55, 0.6,  0.65,  0.7,   0.75,
                                       0.8,  0.85, 0.9,  0.95, 0.98, 0.99, 0.995, 0.999, 1.0};

// What one run says. Times are those of `baton bench`: TTFT and end to end from the arrival, TPOT
// the mean time of the tokens behind the first one, of requests with more than one.
struct SimFigures {
  bench::Summary ttft_ms, tpot_ms, e2e_ms;
  // What so many of the requests were at most, share by share of kShares; empty without samples.
  std::vector<double> ttft_at_ms, tpot_at_ms, e2e_at_ms;
  int64_t completed = 0, refused = 0;
  double duration_s = 0;                                 // from the first arrival to the last token
  double request_throughput = 0, output_throughput = 0;  // per second
  // With an SLO: requests that keep every limit, per second and as a share of all that came.
  std::optional<double> goodput, goodput_share;
  ClusterOutcome cluster;  // without its requests
  // Requests that came and have no first token yet, over time: means over spans of cluster.span.
  // Without those that are refused.
  std::vector<double> waiting;
  // Of all tokens fed, those that were computed before, or for sequences that had ended.
  double wasted_share = 0;
  // Of the prompt tokens that workers looked up in their prefix caches, those that were there. A
  // prompt that is handed over is looked up at both workers.
  double cached_share = 0;
};

// The limits of --slo. Gaps between tokens are not simulated one by one, so ttft, tpot and e2e.
absl::StatusOr<bench::Slo> ParseSimSlo(const std::string& text);

// `warmup`: requests that arrived before are left out of what is said of requests.
SimFigures FiguresOf(ClusterOutcome outcome, base::Duration warmup,
                     const std::optional<bench::Slo>& slo);

// Whether anybody came after the warm-up: of a run without there is nothing to say.
inline bool AnyCounted(const SimFigures& run) { return run.completed + run.refused > 0; }
// The usage error of a load in which nobody does.
absl::Status NobodyCounted();

// All runs under one policy and routing with one predictor.
struct PolicyResult {
  std::string policy, routing, predictor;
  std::vector<uint64_t> seeds;
  std::vector<SimFigures> runs;  // one for each seed
};

// With "shares": kShares, in each SUMMARY "at": a number for each of these, and in each run
// "over_time": {"every_s", "kv_use": [..], "waiting": [..]}:
// {"schema": "baton.sim/1", "setup": .., "policies": [{"policy", "predictor", "runs": [{"seed",
//   "ttft_ms": SUMMARY, "tpot_ms", "e2e_ms", "completed", "refused", ..}]}]}
// SUMMARY {count, mean, p50, p90, p99, max}, null without samples.
nlohmann::ordered_json ResultJson(const nlohmann::ordered_json& setup,
                                  const std::vector<PolicyResult>& results);
// A row per policy: means over those of its runs that measured it, with half of a 95 %
// interval where there are several; a dash where there are none.
std::string ResultTable(const std::vector<PolicyResult>& results);

}  // namespace baton::simulator
