// Proposals looked up in prompt and answer: tokens, signals, estimates and ends are those of one
// token at a time, over the fake model and every kind of runner.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/common/engine/echo_run.h"

namespace baton {
namespace {

class EngineSpeculationTest : public testing::TestWithParam<StepsOf> {};

TEST_P(EngineSpeculationTest, EverythingIsAsWithoutProposals) {
  const EchoRun plain = RunEcho(0, StepsOf::kOneAtATime, 400, false);
  EXPECT_EQ(plain.figures.rows_proposed, 0u);
  for (const int32_t most : {1, 5}) {
    const EchoRun run = RunEcho(most, GetParam(), 400, false);
    ExpectSameRun(run, plain);
    EXPECT_GT(run.figures.ids_accepted, 100u);
    EXPECT_GT(run.figures.ids_proposed, run.figures.ids_accepted + 20);
    EXPECT_EQ(run.figures.generated_tokens, plain.figures.generated_tokens);
    uint64_t accepted = 0;
    for (const uint64_t at : run.figures.accepted_at) accepted += at;
    EXPECT_EQ(accepted, run.figures.ids_accepted);
    if (GetParam() == StepsOf::kOneAtATime) {
      EXPECT_LT(run.steps, plain.steps);
    }
  }
}

TEST_P(EngineSpeculationTest, AlsoWhereBlocksAreShort) {
  const EchoRun plain = RunEcho(0, StepsOf::kOneAtATime, 400, false);
  for (const bool caching : {false, true}) {
    const EchoRun run = RunEcho(5, GetParam(), 30, caching);
    ExpectSameRun(run, plain);
    EXPECT_GT(run.figures.preemptions, 0u);
    EXPECT_GT(run.figures.ids_accepted, 20u);
  }
}

INSTANTIATE_TEST_SUITE_P(Runners, EngineSpeculationTest, testing::ValuesIn(kAllSteps),
                         [](const auto& test) { return NameOf(test.param); });

TEST(EngineSpeculationOptionsTest, WhatNoProposalCanBeIsRefused) {
  const auto start = [](ProposalLimits proposals, NgramLengths ngrams) {
    FakeArena arena(8);
    EngineOptions options = EngineHarness::DefaultEngine();
    options.proposals = proposals;
    options.proposal_ngrams = ngrams;
    const base::SteadyClock clock;
    const auto engine = Engine::Start(
        options, arena.kv(), std::make_unique<FakeRunner>(arena.kv(), FakeModelOptions()), &clock);
    return std::string(engine.status().message());
  };
  EXPECT_EQ(start({.most = kMaxProposals + 1, .batch = 1}, {}),
            "proposals of 17 ids; expected 0 to 16");
  EXPECT_EQ(start({.most = 1, .batch = 0}, {}),
            "proposals for steps of 0 sequences and ids; expected at least 1");
  EXPECT_EQ(
      start({.most = 1, .batch = 1}, {.shortest = 3, .longest = 2}),
      "proposals by n-grams of 3 to 2 ids; expected at least 1, and no more than the longest");
}

}  // namespace
}  // namespace baton
