#include "tools/sim/baselines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tools/sim/cluster.h"

namespace baton::simulator {
namespace {

using std::chrono::milliseconds;

Baseline Named(const std::string& name) {
  const auto found = BaselineNamed(name);
  EXPECT_TRUE(found.ok() && found->has_value()) << name;
  return **found;
}

SequenceView View(int32_t prompt, int32_t generated, int32_t left) {
  SequenceView view;
  view.prompt_tokens = prompt;
  view.generated_tokens = generated;
  view.tokens_left = left;
  return view;
}

bool LetsIn(const Baseline& baseline, const SequenceView& candidate,
            const std::vector<SequenceView>& beside, int64_t pool_tokens) {
  return baseline.policy.admits(candidate, {beside, pool_tokens}, {});
}

TEST(BaselinesTest, ReserveMaxKeepsRoomUpToEveryLimit) {
  const Baseline baseline = Named("reserve-max");
  // 100 + 50 + 250 beside 30 + 70.
  EXPECT_TRUE(LetsIn(baseline, View(30, 0, 70), {View(100, 50, 250)}, 500));
  EXPECT_FALSE(LetsIn(baseline, View(30, 0, 70), {View(100, 50, 250)}, 499));
}

TEST(BaselinesTest, ReserveExpectedKeepsWhatIsForeseenWithinTheLimit) {
  const Baseline baseline = Named("reserve-expected");
  SequenceView running = View(100, 50, 250);
  running.end = EndEstimate{.expected_remaining = 9.5F};
  EXPECT_TRUE(LetsIn(baseline, View(30, 0, 70), {running}, 260));
  EXPECT_FALSE(LetsIn(baseline, View(30, 0, 70), {running}, 259));
  running.end->expected_remaining = 1000;
  EXPECT_TRUE(LetsIn(baseline, View(30, 0, 70), {running}, 500));
}

TEST(BaselinesTest, NobodyJoinsABatchThatGenerates) {
  const Baseline baseline = Named("static-batch");
  EXPECT_TRUE(LetsIn(baseline, View(10, 0, 10), {View(10, 0, 10), View(20, 0, 10)}, 1000));
  EXPECT_FALSE(LetsIn(baseline, View(10, 0, 10), {View(10, 0, 10), View(20, 1, 9)}, 1000));
  EXPECT_FALSE(LetsIn(baseline, View(10, 0, 10), {View(10, 0, 10)}, 39));
}

TEST(BaselinesTest, AReserveOfANumberShrinksToTheLastToken) {
  const Reserve reserve(ReserveBy::kNumber, 100);
  EXPECT_EQ(reserve.Behind(0)->expected_remaining, 100);
  EXPECT_EQ(reserve.Behind(97)->expected_remaining, 3);
  EXPECT_EQ(reserve.Behind(97)->p_within[0], 0);
  EXPECT_EQ(reserve.Behind(97)->p_within[1], 1);
  EXPECT_EQ(reserve.Behind(500)->expected_remaining, 1);
}

TEST(BaselinesTest, AnAverageMovesWithTheAnswersThatEnded) {
  Reserve reserve(ReserveBy::kAverage, 2);
  EXPECT_FALSE(reserve.Behind(0).has_value());
  reserve.Ended(100);
  EXPECT_EQ(reserve.Behind(0)->expected_remaining, 200);
  reserve.Ended(200);  // the average is 105
  EXPECT_EQ(reserve.Behind(10)->expected_remaining, 200);
  for (int i = 0; i < 1000; ++i) reserve.Ended(50);
  EXPECT_NEAR(reserve.Behind(0)->expected_remaining, 100, 0.01);
}

TEST(BaselinesTest, NamesThatAreNoneAndNumbersThatAreWrong) {
  EXPECT_FALSE(BaselineNamed("fcfs")->has_value());
  EXPECT_FALSE(BaselineNamed("reserve-maximum")->has_value());
  for (const char* const bad :
       {"ema", "ema:", "ema:x", "ema:0", "ema:nan", "static-reserve:0", "static-reserve:1e9"}) {
    EXPECT_THAT(BaselineNamed(bad).status().ToString(), ::testing::HasSubstr(bad));
  }
  EXPECT_EQ(Named("static-reserve:256").number, 256);
  EXPECT_EQ(Named("ema:1.1").reserve, ReserveBy::kAverage);
}

// A pool of 640 tokens, in which eight requests of 40 + 60 tokens fit one after the other only.
ClusterOutcome Simulate(const std::string& name, Foreseer foreseer, int32_t prefill_workers = 0) {
  ClusterSetup setup;
  setup.prefill_workers = prefill_workers;
  setup.max_tokens = 200;
  WorkerSetup& worker = setup.worker;
  worker.cost = {.step = 1000, .row = 10, .prompt_token = 1};
  worker.num_blocks = 40;
  worker.prefix_caching = false;
  worker.foreseer = foreseer;
  worker.baseline = Named(name);
  worker.scheduler.policy = worker.baseline->policy;
  worker.scheduler.limits = {.max_model_len = 640, .pool_tokens = 640, .vocab_size = kVocabulary};
  worker.scheduler.eos_ids = {kEosToken};
  std::vector<SimRequest> requests;
  for (int i = 0; i < 40; ++i) {
    requests.push_back({.at = milliseconds(i),
                        .input_tokens = 40,
                        .output_tokens = 60 + i % 3,
                        .hash_ids = {},
                        .recorded = nullptr});
  }
  auto outcome = RunCluster(setup, requests);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  if (!outcome.ok()) return {};
  EXPECT_EQ(outcome->refused, 0);
  return *std::move(outcome);
}

TEST(BaselinesTest, WhatIsSetAsideDecidesHowManyRunAndWhoIsPreempted) {
  const ClusterOutcome most = Simulate("reserve-max", Foreseer::kOff);
  const ClusterOutcome known = Simulate("reserve-expected", Foreseer::kOracle);
  const ClusterOutcome little = Simulate("static-reserve:1", Foreseer::kOff);
  const ClusterOutcome average = Simulate("ema:1.1", Foreseer::kOff);
  EXPECT_EQ(most.preemptions, 0u);
  EXPECT_EQ(known.preemptions, 0u);
  EXPECT_GT(little.preemptions, 0u);
  EXPECT_EQ(average.preemptions, 0u);
  const auto end = [](const ClusterOutcome& outcome) { return outcome.requests.back().last_token; };
  EXPECT_LT(end(known), 0.7 * end(most));
  EXPECT_LT(end(average), 0.7 * end(most));
}

TEST(BaselinesTest, ClassesTellKindsOfAnswersApart) {
  // Half of the answers have 20 tokens and half 300. What is learnt of both together sets too much
  // aside for the ones and too little for the others.
  const auto steps = [](int32_t class_boundary) {
    ClusterSetup setup;
    setup.class_boundary = class_boundary;
    WorkerSetup& worker = setup.worker;
    worker.cost = {.step = 1000, .row = 10, .prompt_token = 1};
    worker.num_blocks = 100;
    worker.foreseer = Foreseer::kLearnt;
    worker.baseline = Named("reserve-expected");
    worker.scheduler.policy = worker.baseline->policy;
    worker.scheduler.limits = {
        .max_model_len = 1600, .pool_tokens = 1600, .vocab_size = kVocabulary};
    worker.scheduler.eos_ids = {kEosToken};
    std::vector<SimRequest> requests;
    for (int i = 0; i < 600; ++i) {
      requests.push_back({.at = milliseconds(4 * i),
                          .input_tokens = 20,
                          .output_tokens = i % 2 == 0 ? 20 : 300,
                          .hash_ids = {},
                          .recorded = nullptr});
    }
    const auto outcome = RunCluster(setup, requests);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? outcome->steps : 0;
  };
  EXPECT_NE(steps(100), steps(0));
  EXPECT_EQ(steps(1000), steps(0));  // nobody is above
}

TEST(BaselinesTest, BatchesRunOneAfterTheOther) {
  const ClusterOutcome outcome = Simulate("static-batch", Foreseer::kOff);
  // Two have room up to their limits: 2 * (40 + 200) of 640 tokens.
  int64_t running = 0;
  for (const RequestOutcome& other : outcome.requests) {
    const double at = outcome.requests[20].first_token;
    if (other.first_token <= at && at < other.last_token) ++running;
  }
  EXPECT_EQ(running, 2);
  EXPECT_EQ(outcome.preemptions, 0u);
}

TEST(BaselinesTest, PrefillWorkersSetNothingAside) {
  const ClusterOutcome outcome = Simulate("static-batch", Foreseer::kOff, /*prefill_workers=*/1);
  EXPECT_GT(outcome.handoffs, 0u);
  EXPECT_EQ(outcome.preemptions, 0u);
}

}  // namespace
}  // namespace baton::simulator
