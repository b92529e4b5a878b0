#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "tools/sim/cluster.h"

namespace baton::simulator {

// Costs that are easily added up: a step takes 10 ms, a row 1 ms, a prompt token 0.1 ms.
inline ClusterSetup Tiny() {
  ClusterSetup setup;
  setup.message = std::chrono::milliseconds(1);
  setup.handoff_bytes_per_s = 1e6;
  setup.kv_bytes_per_token = 1000;
  WorkerSetup& worker = setup.worker;
  worker.cost = {.step = 10'000, .row = 1000, .prompt_token = 100};
  worker.num_blocks = 64;
  worker.prefix_caching = false;
  worker.scheduler.block_size = 16;
  worker.scheduler.max_num_seqs = 8;
  worker.scheduler.limits = {.max_model_len = 1024, .pool_tokens = 1024, .vocab_size = kVocabulary};
  worker.scheduler.eos_ids = {kEosToken};
  return setup;
}

inline SimRequest Asked(int64_t at_ms, int32_t input, int32_t output) {
  return {.at = std::chrono::milliseconds(at_ms),
          .input_tokens = input,
          .output_tokens = output,
          .hash_ids = {},
          .recorded = nullptr};
}

// A simulation that has to succeed.
inline ClusterOutcome Simulate(const ClusterSetup& setup, const std::vector<SimRequest>& requests) {
  auto outcome = RunCluster(setup, requests);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return outcome.ok() ? *std::move(outcome) : ClusterOutcome();
}

}  // namespace baton::simulator
