#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/config/flag_set.h"
#include "common/config/options.h"
#include "nlohmann/json.hpp"
#include "tools/bench/plan/plan_builder.h"
#include "tools/sim/cluster.h"

namespace baton::simulator {

// The settings of `baton sim`, as given.
struct SimFlags {
  // The load.
  std::optional<double> rate;
  std::optional<int32_t> concurrency;
  std::string trace;
  double time_scale = 1;
  int32_t trace_block_tokens = 512;
  std::vector<std::string> eos_logs;
  double burstiness = 1;
  int32_t requests = 0;  // 0: 1000, or all of a trace
  base::Duration duration{}, warmup{};
  std::string input_tokens = "chat", output_tokens = "chat";
  int32_t shared_prefix_tokens = 0, shared_prefixes = 1;
  double shared_prefix_skew = 1;
  bool forced_lengths = false;
  int32_t max_tokens = 0;
  int32_t class_boundary = 0;
  int32_t runs = 1;
  int32_t seed = 1;

  // The cluster.
  int32_t workers = 1, prefill_workers = 0, routers = 1;
  bool elastic = false;
  std::vector<std::string> routings = {"load"};
  std::optional<int32_t> local_prefill_below = 0;
  HandoffTiming handoff_timing = HandoffTiming::kPlace;
  int32_t max_num_queued_reqs = 1024;
  double message_ms = 0.2;
  int64_t handoff_bandwidth = int64_t{10} << 30;  // bytes per second
  int64_t kv_bytes_per_token = 131072;

  // Its workers.
  std::string cost;
  int32_t max_model_len = 8192;
  int32_t max_num_seqs = 64;
  int32_t max_prefill_tokens = 2048, max_num_batched_tokens = 2048;
  int32_t kv_cache_tokens = 131072;
  int32_t swap_space_tokens = 0;
  int64_t swap_bandwidth = int64_t{20} << 30;  // bytes per second, each way
  int32_t block_size = 16;
  bool prefix_caching = true;
  bool two_steps = false;
  std::vector<std::string> policies = {"fcfs"};
  PolicySettings policy_settings;
  std::string predictor = "off";
  std::string tokenizer;  // model directory

  std::string slo;
  bool as_json = false;
  std::string plots;

  bool predictor_file() const {
    return predictor != "off" && predictor != "learnt" && predictor != "oracle";
  }
};

void BindSim(FlagSet* set, SimFlags* flags);
// Only the flags of the load.
void BindSimLoad(FlagSet* set, SimFlags* flags);

// What the flags say of the load of a run; `run` counts from 0.
absl::StatusOr<bench::PlanOptions> PlanOf(const SimFlags& flags, int32_t run);
// From when on nobody comes, since the start, where that is not said by the arrivals of the plan
// themselves: in a closed loop of a duration. Else zero.
base::Duration ArrivalsEndOf(const SimFlags& flags);
// The cluster under one of the policies. Reads the files that the flags name.
absl::StatusOr<ClusterSetup> SetupOf(const SimFlags& flags, const std::string& policy,
                                     const std::string& routing);
// All settings by name, as they would be given, so that a result says what it is of.
nlohmann::ordered_json SettingsJson(const FlagSet& set);

}  // namespace baton::simulator
