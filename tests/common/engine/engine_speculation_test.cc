// Proposals looked up in prompt and answer: tokens, signals, estimates and ends are those of one
// token at a time, over the fake model and every kind of runner.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/eos/predict/end_predictor.h"
#include "nlohmann/json.hpp"
#include "tests/common/engine/harness.h"

namespace baton {
namespace {

enum class StepsOf { kOneAtATime, kOwnThread, kEagerDevice, kLazyDevice };

// Text that mostly repeats its prompt. The request's seed says where it departs from that, and then
// anything may come, an end too.
std::optional<TokenId> Echo(const kernels::SampleRow& row) {
  const size_t step = row.output.size();
  if ((row.seed + step * 5) % 9 == 0) return std::nullopt;
  return row.prompt[(step + row.seed) % row.prompt.size()];
}

// Every way to draw and to end.
SequenceSpec EchoSpec(int32_t i) {
  SequenceSpec spec = MakeSpec(4 + i % 17, 40, i);
  spec.sampling.temperature = i % 3 == 0 ? 0.0f : 1.0f;
  if (i % 4 == 1) spec.sampling.repetition_penalty = 1.3f;
  if (i % 5 == 2) spec.sampling.frequency_penalty = 0.4f;
  if (i % 6 == 3) spec.sampling.no_repeat_ngram_size = 2;
  spec.sampling.num_top_logprobs = i % 3;
  spec.stop.min_tokens = i % 7;
  if (i % 8 == 4) spec.stop.eos_policy = EosPolicy::kIgnoreContinue;
  if (i % 8 == 5) spec.stop.eos_policy = EosPolicy::kIgnoreMask;
  if (i % 8 == 7) spec.stop.length_control = {.target = 12, .strength = 5};
  if (i % 8 == 6) spec.stop.stop_token_ids = {spec.prompt[3]};
  if (i % 10 == 9) spec.stop.max_tokens = spec.stop.min_tokens + 1 + i % 3;
  return spec;
}

struct EchoRun {
  std::vector<Seen> seen;
  EngineFigures figures;
  size_t steps = 0;
};

std::unique_ptr<EndPredictor> Gru() {
  std::ifstream in(std::string(BATON_SOURCE_DIR) + "/tests/common/eos/predict/vectors/gru.json");
  auto file = ParsePredictorFile(nlohmann::json::parse(in)["predictor"].get<std::string>());
  EXPECT_TRUE(file.ok()) << file.status();
  return std::make_unique<EndPredictor>(std::make_unique<PredictorFile>(*std::move(file)),
                                        std::vector<uint8_t>());
}

EchoRun RunEcho(int32_t most, StepsOf runner, int32_t num_blocks, bool caching) {
  constexpr int32_t kSpecs = 60;
  auto options = Defaults();
  options.engine.overlap = runner != StepsOf::kOneAtATime;
  const bool device = runner == StepsOf::kEagerDevice || runner == StepsOf::kLazyDevice;
  options.model.max_in_flight = device ? 2 : 1;
  options.model.lazy = runner == StepsOf::kLazyDevice;
  options.model.eos_permille = 100;
  options.model.force = Echo;
  options.num_blocks = num_blocks;
  options.engine.enable_prefix_caching = caching;
  options.engine.max_prefill_tokens = 9;
  options.engine.proposals = {.most = most, .batch = 40};
  const auto predictor = Gru();
  options.engine.predictor = predictor.get();
  EngineHarness harness(options);
  harness.control().Pause();
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < kSpecs; ++i) ids.push_back(harness.Admit(EchoSpec(i)));
  harness.control().Resume();
  EchoRun run;
  for (const SequenceId id : ids) {
    EXPECT_TRUE(harness.RunUntilOver(id));
    run.seen.push_back(harness.seen(id));
  }
  EXPECT_TRUE(harness.AllBlocksBack());
  EXPECT_EQ(predictor->live(), 0u);
  run.figures = harness.figures();
  run.steps = run.figures.steps;
  return run;
}

void ExpectSameSample(const SampledToken& a, const SampledToken& b) {
  EXPECT_EQ(a.token, b.token);
  EXPECT_EQ(a.logprob, b.logprob);
  EXPECT_EQ(a.top_logprobs.size(), b.top_logprobs.size());
  EXPECT_EQ(a.natural_end, b.natural_end);
  EXPECT_EQ(a.end_chance, b.end_chance);
  EXPECT_EQ(a.eos.eos_logprob, b.eos.eos_logprob);
  EXPECT_EQ(a.eos.eos_prob_sampling, b.eos.eos_prob_sampling);
  ASSERT_EQ(a.end.has_value(), b.end.has_value());
  if (!a.end) return;
  EXPECT_EQ(a.end->at_step, b.end->at_step);
  EXPECT_EQ(a.end->expected_remaining, b.end->expected_remaining);
}

void ExpectSameRun(const EchoRun& run, const EchoRun& plain) {
  for (size_t i = 0; i < plain.seen.size(); ++i) {
    SCOPED_TRACE(i);
    const Seen &a = run.seen[i], &b = plain.seen[i];
    ASSERT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.finished->reason, b.finished->reason);
    EXPECT_EQ(a.finished->stop_token, b.finished->stop_token);
    EXPECT_EQ(a.finished->natural_end_step, b.finished->natural_end_step);
    EXPECT_EQ(a.finished->generated_tokens, b.finished->generated_tokens);
    ASSERT_EQ(a.finished->end_scores.size(), b.finished->end_scores.size());
    for (size_t step = 0; step < a.samples.size(); ++step) {
      SCOPED_TRACE(step);
      ExpectSameSample(a.samples[step], b.samples[step]);
    }
  }
}

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

INSTANTIATE_TEST_SUITE_P(Runners, EngineSpeculationTest,
                         testing::Values(StepsOf::kOneAtATime, StepsOf::kOwnThread,
                                         StepsOf::kEagerDevice, StepsOf::kLazyDevice),
                         [](const auto& test) -> std::string {
                           switch (test.param) {
                             case StepsOf::kOneAtATime:
                               return "one_step_at_a_time";
                             case StepsOf::kOwnThread:
                               return "own_thread";
                             case StepsOf::kEagerDevice:
                               return "eager_device";
                             case StepsOf::kLazyDevice:
                               break;
                           }
                           return "lazy_device";
                         });

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
