#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "tools/bench/figures/slo.h"
#include "tools/planner/worker_build.h"
#include "tools/sim/workload.h"

namespace baton::planner {

// Which roles may be planned.
enum class RolesAllowed { kAny, kUnified, kSplit };

// What a load asks of a cluster, on the mean over its requests.
struct LoadFacts {
  double rate = 0;          // requests per second; 0 in a closed loop
  int32_t concurrency = 0;  // of a closed loop
  double input_tokens = 0;
  double prompt_tokens = 0;  // that no prefix cache can know, were it boundless
  double products = 0;       // of queries with keys while a prompt is read
  double output_tokens = 0;
  double kv_tokens = 0;  // that its rows read, over all steps of an answer
  double length = 0;     // prompt and half of the answer: what a running request holds
  int32_t longest = 0;   // prompt and answer of the longest request
};
// `block_tokens` is what a hash id of a request stands for, `prefix_tokens` what all prompts share.
LoadFacts FactsOf(const std::vector<simulator::SimRequest>& requests, int32_t concurrency,
                  int32_t block_tokens, int32_t prefix_tokens);

// What is to be planned.
struct Question {
  ModelUse model;
  std::vector<WorkerBuild> builds;        // ways to make a worker, at least one
  std::vector<simulator::Workload> runs;  // of the same load, each from a seed of its own
  uint64_t first_seed = 1;
  base::Duration warmup{};        // who comes before is not judged
  base::Duration arrivals_end{};  // of a closed loop: nobody comes from then on; zero: all come
  LoadFacts facts;
  bench::Slo slo;
  int32_t max_devices = 64;
  RolesAllowed roles = RolesAllowed::kAny;
  int32_t max_model_len = 0;
  int32_t block_tokens = 512;  // of hash ids
  int32_t shared_prefix_tokens = 0;
  bool forced_lengths = false;
  bool two_steps = false;  // in flight, as on a GPU
  base::Duration message{};
  double handoff_bytes_per_s = 1.3e9;  // as gRPC reaches over loopback
};

}  // namespace baton::planner
