#include "tools/sim/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/tools/sim/small_cluster.h"

namespace baton::simulator {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr int64_t kHourMs = 3'600'000;

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

TEST(ClusterTest, NobodyComesToAClosedLoopWhoseTimeIsOver) {
  ClusterSetup setup = Tiny();
  setup.concurrency = 2;
  setup.arrivals_end = std::chrono::seconds(1);
  const std::vector<SimRequest> requests(1000, Asked(0, 10, 5));
  const ClusterOutcome outcome = Simulate(setup, requests);
  ASSERT_LT(outcome.requests.size(), 100U);
  double last = 0;
  for (const RequestOutcome& request : outcome.requests) {
    EXPECT_EQ(request.output_tokens, 5);
    last = std::max(last, request.arrived);
  }
  EXPECT_LT(last, 1);
  EXPECT_GT(last, 0.9);
  // Requests that end first are all that come.
  setup.arrivals_end = std::chrono::hours(1);
  EXPECT_EQ(Simulate(setup, {Asked(0, 10, 5), Asked(0, 10, 5), Asked(0, 10, 5)}).requests.size(),
            3U);
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

// What is swapped is not fed again, and the copies take their time.
TEST(ClusterTest, VictimsAreSwappedWhereThatIsCheaper) {
  const auto simulate = [](int32_t swap_blocks, double block_s) {
    ClusterSetup setup = Tiny();
    setup.worker.num_blocks = 20;
    setup.worker.scheduler.limits.pool_tokens = 320;
    setup.worker.scheduler.limits.max_model_len = 320;
    setup.worker.cost = {.step = 1000, .row = 10, .prompt_token = 1000};
    setup.worker.swap_blocks = swap_blocks;
    setup.worker.swap_block_s = block_s;
    std::vector<SimRequest> requests;
    for (int i = 0; i < 6; ++i) requests.push_back(Asked(i, 40, 100));
    return Simulate(setup, requests);
  };
  const ClusterOutcome computed = simulate(0, 0);
  const ClusterOutcome swapped = simulate(40, 1e-3);
  const ClusterOutcome dear = simulate(40, 1);
  EXPECT_GT(computed.preemptions, 0u);
  EXPECT_EQ(computed.swaps, 0u);
  EXPECT_GT(swapped.preemptions, 0u);
  EXPECT_EQ(swapped.swaps, swapped.preemptions);
  EXPECT_LT(swapped.tokens_fed_again, computed.tokens_fed_again / 10);
  EXPECT_EQ(dear.swaps, 0u) << "a block of 16 tokens is computed in 16 ms";
  EXPECT_EQ(dear.tokens_fed_again, computed.tokens_fed_again);
  const auto end = [](const ClusterOutcome& outcome) {
    double last = 0;
    for (const RequestOutcome& request : outcome.requests)
      last = std::max(last, request.last_token);
    return last;
  };
  EXPECT_LT(end(swapped), end(computed));
}

TEST(ClusterTest, ANightInWhichNobodyComesIsNoStandstill) {
  const ClusterOutcome outcome = Simulate(Tiny(), {Asked(0, 10, 3), Asked(8 * kHourMs, 10, 3)});
  ASSERT_EQ(outcome.requests.size(), 2U);
  EXPECT_NEAR(outcome.requests[1].first_token, 8 * 3600 + 0.013, 1e-6);
  EXPECT_EQ(outcome.requests[1].output_tokens, 3);
}

TEST(ClusterTest, ARequestThatNobodyServesIsAStandstillAlsoAfterANight) {
  // A step that takes longer than the time after which something must be wrong. The first request
  // is refused, so that nobody is there in the night.
  ClusterSetup setup = Tiny();
  setup.worker.cost.step = 9 * 3600e6;
  const auto outcome = RunCluster(setup, {Asked(0, 2000, 3), Asked(8 * kHourMs, 10, 3)});
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(outcome.status().message()),
              HasSubstr("1 of 2 requests stand still after 28800 s"));
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

}  // namespace
}  // namespace baton::simulator
