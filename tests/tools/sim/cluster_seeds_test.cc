// Sweeps over random clusters and loads: what holds for every seed.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/tools/sim/small_cluster.h"

namespace baton::simulator {
namespace {

// Few seats and blocks, prompts and answers in turns, and workers that change as soon as they may:
// again and again each of two is full of requests whose prompts the other is to compute.
TEST(ClusterSeedsTest, ElasticWorkersThatWaitForEachOtherGoOn) {
  uint64_t changes = 0, sent_back = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 dice(seed);
    const auto pick = [&](int low, int high) {
      return low + static_cast<int32_t>(dice() % static_cast<uint64_t>(high - low + 1));
    };
    ClusterSetup setup = Tiny();
    setup.elastic = true;
    setup.roles = {
        .cool_down = {}, .settle = {}, .prompt_wait_s = 0.01, .decode_fill = 0.3, .others = 10};
    setup.routers = pick(1, 2);
    setup.workers = pick(1, 3);
    setup.prefill_workers = pick(1, 2);
    setup.message = std::chrono::milliseconds(pick(50, 300));
    setup.handoff_bytes_per_s = 1e5;
    setup.local_prefill_below = pick(0, 1) * pick(0, 40);
    setup.worker.num_blocks = pick(10, 24);
    setup.worker.scheduler.limits.pool_tokens = setup.worker.num_blocks * 16;
    setup.worker.scheduler.max_num_seqs = pick(1, 4);
    setup.worker.scheduler.max_steps_in_flight = pick(1, 2);
    setup.seed = seed;
    std::vector<SimRequest> requests;
    for (int i = 0; i < 50; ++i) {
      const bool prompts = i / 10 % 2 == 0;
      requests.push_back(Asked(40 * i, prompts ? pick(40, 100) : pick(1, 20),
                               prompts ? pick(1, 4) : pick(20, 50)));
    }
    const auto outcome = RunCluster(setup, requests);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->refused, 0) << outcome->first_refusal;
    changes += outcome->role_changes;
    sent_back += outcome->full;
  }
  EXPECT_GT(changes, 600U);
  EXPECT_GT(sent_back, 10U);
}

// Small pools, several routers and workers: preemptions, revocations and refused reservations.
ClusterSetup Random(uint64_t seed) {
  std::mt19937_64 dice(seed);
  const auto pick = [&](int32_t low, int32_t high) {
    return low + static_cast<int32_t>(dice() % static_cast<uint64_t>(high - low + 1));
  };
  ClusterSetup setup = Tiny();
  setup.routers = pick(1, 3);
  setup.workers = pick(1, 3);
  setup.prefill_workers = pick(0, 2);
  setup.local_prefill_below = pick(0, 1) * pick(0, 60);
  if (seed % 3 == 1) setup.local_prefill_below = std::nullopt;
  setup.concurrency = pick(0, 1) * pick(1, 20);
  setup.max_tokens = pick(0, 1) * 120;
  setup.seed = seed;
  setup.block_tokens = 16;
  WorkerSetup& worker = setup.worker;
  worker.num_blocks = pick(14, 40);
  worker.prefix_caching = pick(0, 1) == 1;
  worker.forced_lengths = pick(0, 1) == 1;
  worker.foreseer = std::vector{Foreseer::kOff, Foreseer::kLearnt, Foreseer::kOracle}[dice() % 3];
  worker.scheduler.max_num_seqs = pick(1, 12);
  worker.scheduler.max_prefill_tokens = pick(8, 64);
  worker.scheduler.max_num_batched_tokens = pick(8, 64);
  worker.scheduler.max_steps_in_flight = pick(1, 2);
  worker.scheduler.limits.pool_tokens = worker.num_blocks * 16;
  if (setup.prefill_workers > 0) {
    setup.elastic = seed % 4 == 0;
    constexpr HandoffTiming kTimings[] = {HandoffTiming::kPlace, HandoffTiming::kExpected,
                                          HandoffTiming::kAtOnce, HandoffTiming::kPlace};
    if (!setup.elastic) setup.handoff_timing = kTimings[seed % 4];
  }
  return setup;
}

std::vector<SimRequest> RandomRequests(uint64_t seed) {
  std::mt19937_64 dice(seed);
  std::vector<SimRequest> requests;
  int64_t at = 0;
  for (int i = 0; i < 60; ++i) {
    at += static_cast<int64_t>(dice() % 30);
    requests.push_back(
        Asked(at, 1 + static_cast<int32_t>(dice() % 100), 1 + static_cast<int32_t>(dice() % 100)));
    for (int32_t block = 0; block < requests.back().input_tokens / 16; ++block) {
      requests.back().hash_ids.push_back(static_cast<uint64_t>(block) + dice() % 2);
    }
  }
  return requests;
}

TEST(ClusterSeedsTest, EveryRequestEndsOnceAndEveryBlockComesBack) {
  uint64_t preemptions = 0, revocations = 0, handoffs = 0, again = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ClusterSetup setup = Random(seed);
    const std::vector<SimRequest> requests = RandomRequests(seed);
    // An error is what RunCluster finds left behind, or standing still.
    const auto outcome = RunCluster(setup, requests);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->refused, 0) << outcome->first_refusal;
    for (size_t i = 0; i < requests.size(); ++i) {
      const RequestOutcome& request = outcome->requests[i];
      EXPECT_EQ(request.output_tokens, requests[i].output_tokens) << i;
      EXPECT_LE(request.arrived, request.first_token) << i;
      EXPECT_LE(request.first_token, request.last_token) << i;
      EXPECT_GE(request.attempts, 1) << i;
    }
    preemptions += outcome->preemptions;
    revocations += outcome->revocations;
    handoffs += outcome->handoffs;
    again += outcome->tokens_fed_again;
  }
  EXPECT_GT(preemptions, 100u);
  EXPECT_GT(revocations, 10u);
  EXPECT_GT(handoffs, 1000u);
  EXPECT_GT(again, 1000u);
}

TEST(ClusterSeedsTest, EqualSeedsGiveEqualOutcomes) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<SimRequest> requests = RandomRequests(seed);
    const ClusterOutcome one = Simulate(Random(seed), requests);
    const ClusterOutcome two = Simulate(Random(seed), requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(one.requests[i].first_token, two.requests[i].first_token) << seed << " " << i;
      EXPECT_EQ(one.requests[i].last_token, two.requests[i].last_token) << seed << " " << i;
    }
    EXPECT_EQ(one.steps, two.steps);
    EXPECT_EQ(one.kv_p95, two.kv_p95);
  }
}

}  // namespace
}  // namespace baton::simulator
