#include "tools/sim/cluster.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace baton::simulator {
namespace {

using std::chrono::milliseconds;

// Sanitizers look at the code that runs, not at rare orders of events: one seed in five is enough
// for them, and each takes them ten times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kSeedStep = 5;
#else
constexpr uint64_t kSeedStep = 1;
#endif

// Costs that are easily added up: a step takes 10 ms, a row 1 ms, a prompt token 0.1 ms.
ClusterSetup Tiny() {
  ClusterSetup setup;
  setup.message = milliseconds(1);
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

SimRequest Asked(int64_t at_ms, int32_t input, int32_t output) {
  return {.at = milliseconds(at_ms),
          .input_tokens = input,
          .output_tokens = output,
          .hash_ids = {},
          .recorded = nullptr};
}

ClusterOutcome Simulate(const ClusterSetup& setup, const std::vector<SimRequest>& requests) {
  auto outcome = RunCluster(setup, requests);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return outcome.ok() ? *std::move(outcome) : ClusterOutcome();
}

TEST(ClusterTest, TimesOfAUnifiedWorkerAreThoseAddedUpByHand) {
  // The first reaches the worker at 1 ms; its prompt takes 11 ms. The second reaches it at 6 ms and
  // joins the step that begins at 12 ms: 10 + 1 + 20 * 0.1 ms. Then both have a row: 12 ms.
  const ClusterOutcome outcome = Simulate(Tiny(), {Asked(0, 10, 3), Asked(5, 20, 2)});
  EXPECT_NEAR(outcome.requests[0].first_token, 0.013, 1e-9);
  EXPECT_NEAR(outcome.requests[0].last_token, 0.038, 1e-9);
  EXPECT_NEAR(outcome.requests[1].arrived, 0.005, 1e-9);
  EXPECT_NEAR(outcome.requests[1].first_token, 0.026, 1e-9);
  EXPECT_NEAR(outcome.requests[1].last_token, 0.038, 1e-9);
  EXPECT_EQ(outcome.steps, 3u);
  EXPECT_EQ(outcome.tokens_fed, 10u + 20u + 2u + 1u);
  EXPECT_EQ(outcome.tokens_fed_again, 0u);
}

TEST(ClusterTest, TimesOfAHandoffAreThoseAddedUpByHand) {
  // Reserved at 1 ms, heard at 2, at the prefill worker at 3, computed at 14, told at 15. One block
  // of 16 tokens goes in 16 ms and is committed 1 ms later, at 31; two steps of 11 ms follow.
  ClusterSetup setup = Tiny();
  setup.prefill_workers = 1;
  const ClusterOutcome outcome = Simulate(setup, {Asked(0, 10, 3)});
  EXPECT_NEAR(outcome.requests[0].first_token, 0.015, 1e-9);
  EXPECT_NEAR(outcome.requests[0].last_token, 0.054, 1e-9);
  EXPECT_EQ(outcome.handoffs, 1u);
  EXPECT_EQ(outcome.handoff_bytes, 16'000);
}

TEST(ClusterTest, PrefillWorkersAreFirstComeFirstServedUnderEveryPolicy) {
  ClusterSetup setup = Tiny();
  setup.prefill_workers = 1;
  setup.workers = 8;
  setup.worker.scheduler.max_num_seqs = 2;
  std::vector<SimRequest> requests;
  for (int i = 0; i < 12; ++i) requests.push_back(Asked(i, 40, 1));
  const ClusterOutcome by_age = Simulate(setup, requests);
  Policy& policy = setup.worker.scheduler.policy;
  policy.chooses = true;
  policy.starts_before = [](const SequenceView& a, const SequenceView& b, const PolicyMoment&) {
    return CameBefore(b, a);
  };
  const ClusterOutcome youngest_first = Simulate(setup, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(youngest_first.requests[i].first_token, by_age.requests[i].first_token) << i;
  }
}

TEST(ClusterTest, APromptAheadOfItsPlaceIsComputedWhileOthersDecode) {
  // At the prefill worker at 1 ms, computed at 12, told at 13. The place is asked for at 12, given
  // at 13 and heard of at 14; a block goes in 16 ms and is committed at 31, as when it is the other
  // way round. With one seat the second prompt waits for no place, but its KV does.
  ClusterSetup setup = Tiny();
  setup.prefill_workers = 1;
  setup.worker.scheduler.max_num_seqs = 1;
  const std::vector<SimRequest> requests = {Asked(0, 10, 30), Asked(0, 10, 30)};
  const ClusterOutcome served = Simulate(setup, requests);
  setup.handoff_timing = HandoffTiming::kAtOnce;
  const ClusterOutcome at_once = Simulate(setup, requests);
  EXPECT_NEAR(at_once.requests[0].first_token, 0.013, 1e-9);
  EXPECT_NEAR(at_once.requests[0].last_token, served.requests[0].last_token, 1e-9);
  EXPECT_LT(at_once.requests[1].first_token, 0.05);
  EXPECT_GT(at_once.requests[1].last_token, at_once.requests[0].last_token + 0.3);
  EXPECT_LT(at_once.requests[1].last_token, served.requests[1].last_token - 0.01);

  setup.handoff_timing = HandoffTiming::kExpected;
  setup.worker.foreseer = Foreseer::kOracle;
  const ClusterOutcome expected = Simulate(setup, requests);
  EXPECT_GT(expected.requests[1].first_token, at_once.requests[1].first_token);
  EXPECT_LT(expected.requests[1].first_token, served.requests[1].first_token);
  EXPECT_LT(expected.requests[1].last_token, served.requests[1].last_token);
}

TEST(ClusterTest, ElasticWorkersTakeTheRoleThatIsShort) {
  // Twenty seconds of prompts, which only prefill workers have to do with, then as long of answers.
  ClusterSetup setup = Tiny();
  setup.handoff_bytes_per_s = 1e9;
  setup.workers = setup.prefill_workers = 2;
  setup.worker.num_blocks = 1024;
  setup.worker.scheduler.limits.pool_tokens = 16 * 1024;
  std::vector<SimRequest> requests;
  for (int i = 0; i < 1000; ++i) requests.push_back(Asked(20 * i, 400, 2));
  for (int i = 0; i < 200; ++i) requests.push_back(Asked(20'000 + 100 * i, 10, 200));
  const auto late = [&](const ClusterOutcome& outcome) {
    double sum = 0;
    for (const RequestOutcome& request : outcome.requests) {
      sum += request.last_token - request.arrived;
    }
    return sum / static_cast<double>(outcome.requests.size());
  };
  const ClusterOutcome fixed = Simulate(setup, requests);
  EXPECT_EQ(fixed.role_changes, 0U);
  setup.elastic = true;
  const ClusterOutcome elastic = Simulate(setup, requests);
  EXPECT_GE(elastic.role_changes, 1U);
  EXPECT_LE(elastic.role_changes, 10U);
  EXPECT_LT(late(elastic), 0.8 * late(fixed));
}

// Few seats and blocks, prompts and answers in turns, and workers that change as soon as they may:
// again and again each of two is full of requests whose prompts the other is to compute.
TEST(ClusterTest, ElasticWorkersThatWaitForEachOtherGoOn) {
  uint64_t changes = 0, sent_back = 0;
  for (uint64_t seed = 1; seed <= 600; seed += kSeedStep) {
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
    setup.message = milliseconds(pick(50, 300));
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
  EXPECT_GT(changes, 600U / kSeedStep);
  EXPECT_GT(sent_back, 10U / kSeedStep);
}

// One prefill worker and two decode workers; 1000 requests with prompts of 100 tokens.
class ByCostTest : public ::testing::Test {
 protected:
  ByCostTest() {
    setup_.handoff_bytes_per_s = 1e9;
    setup_.workers = 2;
    setup_.prefill_workers = 1;
    setup_.worker.num_blocks = 512;
    setup_.worker.scheduler.max_num_seqs = 64;
    setup_.worker.scheduler.limits.pool_tokens = 16 * 512;
  }

  // `below` as --local-prefill-below has it, empty for auto.
  ClusterOutcome Run(int64_t every_ms, int32_t output, std::optional<int32_t> below) {
    std::vector<SimRequest> requests;
    for (int i = 0; i < 1000; ++i) requests.push_back(Asked(every_ms * i, 100, output));
    setup_.local_prefill_below = below;
    return Simulate(setup_, requests);
  }

  double MeanSeconds(int64_t every_ms, int32_t output, std::optional<int32_t> below) {
    const ClusterOutcome outcome = Run(every_ms, output, below);
    double sum = 0;
    for (const RequestOutcome& one : outcome.requests) sum += one.last_token - one.arrived;
    return sum / static_cast<double>(outcome.requests.size());
  }

  static constexpr std::optional<int32_t> kAuto = std::nullopt, kNever = 0, kAlways = 1000;

 private:
  ClusterSetup setup_ = Tiny();
};

TEST_F(ByCostTest, AnIdlePrefillWorkerGetsAllPrompts) {
  EXPECT_EQ(Run(100, 20, kAuto).handoffs, 1000U);
  EXPECT_LE(MeanSeconds(40, 5, kAuto), MeanSeconds(40, 5, kNever));
}

TEST_F(ByCostTest, ABusyPrefillWorkerLeavesPromptsToDecodeWorkers) {
  // It takes 11 ms or more for each of them, batches or not. Both kinds together can do it.
  const ClusterOutcome outcome = Run(10, 5, kAuto);
  EXPECT_GT(outcome.handoffs, 300U);
  EXPECT_LT(outcome.handoffs, 700U);
  const double by_cost = MeanSeconds(10, 5, kAuto);
  EXPECT_LT(by_cost, 0.3 * MeanSeconds(10, 5, kNever));
  EXPECT_LT(by_cost, 0.8 * MeanSeconds(10, 5, kAlways));
}

TEST_F(ByCostTest, BusyDecodeWorkersGetFewPrompts) {
  // They decode for 23 of every 24 ms, the prefill worker computes for 11 of 12. Nothing that can
  // be left to the others is gained here; the choice costs up to a quarter.
  EXPECT_GT(Run(12, 20, kAuto).handoffs, 800U);
  const double by_cost = MeanSeconds(12, 20, kAuto);
  EXPECT_LT(by_cost, 1.3 * MeanSeconds(12, 20, kNever));
  EXPECT_LT(by_cost, 0.4 * MeanSeconds(12, 20, kAlways));
}

TEST(ClusterTest, AnAnswerOfOneTokenEndsAtThePrefillWorker) {
  ClusterSetup setup = Tiny();
  setup.prefill_workers = 1;
  const ClusterOutcome outcome = Simulate(setup, {Asked(0, 40, 1), Asked(0, 10, 1)});
  EXPECT_EQ(outcome.handoffs, 0u);
  EXPECT_EQ(outcome.requests[0].output_tokens, 1);
  EXPECT_EQ(outcome.requests[1].output_tokens, 1);
}

TEST(ClusterTest, WhatFitsNoWorkerIsRefused) {
  const ClusterOutcome outcome = Simulate(Tiny(), {Asked(0, 2000, 3), Asked(0, 10, 3)});
  EXPECT_EQ(outcome.refused, 1);
  EXPECT_EQ(outcome.requests[0].output_tokens, 0);
  EXPECT_EQ(outcome.requests[1].output_tokens, 3);
  EXPECT_NE(outcome.first_refusal.find("2000 prompt tokens"), std::string::npos)
      << outcome.first_refusal;
}

TEST(ClusterTest, AFullQueueRefuses) {
  ClusterSetup setup = Tiny();
  setup.worker.scheduler.max_num_seqs = 1;
  setup.max_num_queued_reqs = 2;
  std::vector<SimRequest> requests;
  for (int i = 0; i < 10; ++i) requests.push_back(Asked(0, 10, 100));
  const ClusterOutcome outcome = Simulate(setup, requests);
  EXPECT_GE(outcome.refused, 5);
  EXPECT_LT(outcome.refused, 10);
}

TEST(ClusterTest, AClosedLoopKeepsItsRequestsUnderWay) {
  ClusterSetup setup = Tiny();
  setup.concurrency = 2;
  std::vector<SimRequest> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(Asked(0, 10, 5));
  const ClusterOutcome outcome = Simulate(setup, requests);
  EXPECT_EQ(outcome.requests[0].arrived, 0);
  EXPECT_EQ(outcome.requests[1].arrived, 0);
  EXPECT_EQ(outcome.requests[2].arrived, outcome.requests[0].last_token);
}

TEST(ClusterTest, PlacesLentToDifferentRoutersMeet) {
  // One of three routers is lent the only place of the prefill worker, others are lent those of the
  // decode workers. Nothing runs whose end would move a turn.
  for (const int32_t decode_workers : {1, 2}) {
    ClusterSetup setup = Tiny();
    setup.routers = 3;
    setup.workers = decode_workers;
    setup.prefill_workers = 1;
    setup.worker.scheduler.max_num_seqs = 1;
    std::vector<SimRequest> requests;
    for (int i = 0; i < 60; ++i) requests.push_back(Asked(0, 10 + i % 7, 2 + i % 5));
    const ClusterOutcome outcome = Simulate(setup, requests);
    ASSERT_EQ(outcome.requests.size(), requests.size());
    for (const RequestOutcome& request : outcome.requests) {
      EXPECT_GT(request.output_tokens, 0);
      // Nobody waits for a deadline: each request ahead costs a round of turns at most.
      EXPECT_LT(request.last_token, 60);
    }
  }
}

TEST(ClusterTest, SharedPrefixesAreFoundInTheCache) {
  ClusterSetup setup = Tiny();
  setup.worker.prefix_caching = true;
  setup.block_tokens = 32;
  std::vector<SimRequest> requests = {Asked(0, 40, 2), Asked(100, 40, 2)};
  requests[0].hash_ids = {7};
  requests[1].hash_ids = {7};
  const ClusterOutcome outcome = Simulate(setup, requests);
  EXPECT_EQ(outcome.prefix_hits, 32u);
  EXPECT_EQ(outcome.tokens_fed, 40u + 8u + 2u);
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

TEST(ClusterTest, EveryRequestEndsOnceAndEveryBlockComesBack) {
  uint64_t preemptions = 0, revocations = 0, handoffs = 0, again = 0;
  for (uint64_t seed = 1; seed <= 300; seed += kSeedStep) {
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
  EXPECT_GT(preemptions, 100u / kSeedStep);
  EXPECT_GT(revocations, 10u / kSeedStep);
  EXPECT_GT(handoffs, 1000u / kSeedStep);
  EXPECT_GT(again, 1000u / kSeedStep);
}

TEST(ClusterTest, EqualSeedsGiveEqualOutcomes) {
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
