#pragma once

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

// What one run says. Times are those of `baton bench`: TTFT and end to end from the arrival, TPOT
// the mean time of the tokens behind the first one, of requests with more than one.
struct SimFigures {
  bench::Summary ttft_ms, tpot_ms, e2e_ms;
  int64_t completed = 0, refused = 0;
  double duration_s = 0;                                 // from the first arrival to the last token
  double request_throughput = 0, output_throughput = 0;  // per second
  // With an SLO: requests that keep every limit, per second and as a share of all that came.
  std::optional<double> goodput, goodput_share;
  ClusterOutcome cluster;  // without its requests
  // Of all tokens fed, those that were computed before, or for sequences that had ended.
  double wasted_share = 0;
};

// The limits of --slo. Gaps between tokens are not simulated one by one, so ttft, tpot and e2e.
absl::StatusOr<bench::Slo> ParseSimSlo(const std::string& text);

// `warmup`: requests that arrived before are left out of what is said of requests.
SimFigures FiguresOf(ClusterOutcome outcome, base::Duration warmup,
                     const std::optional<bench::Slo>& slo);

// All runs under one policy with one predictor.
struct PolicyResult {
  std::string policy, predictor;
  std::vector<uint64_t> seeds;
  std::vector<SimFigures> runs;  // one for each seed
};

// {"schema": "baton.sim/1", "setup": .., "policies": [{"policy", "predictor", "runs": [{"seed",
//   "ttft_ms": SUMMARY, "tpot_ms", "e2e_ms", "completed", "refused", ..}]}]}
// SUMMARY {count, mean, p50, p90, p99}, null without samples.
nlohmann::ordered_json ResultJson(const nlohmann::ordered_json& setup,
                                  const std::vector<PolicyResult>& results);
// A row per policy: means over its runs, with half of a 95 % interval where there are several.
std::string ResultTable(const std::vector<PolicyResult>& results);

}  // namespace baton::simulator
