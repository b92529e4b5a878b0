// Requests of every kind whose answers mostly repeat their prompts, run over the fake model with
// and without proposals.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/engine/proposal_source.h"
#include "common/eos/predict/end_predictor.h"
#include "nlohmann/json.hpp"
#include "tests/common/engine/harness.h"

namespace baton {

enum class StepsOf { kOneAtATime, kOwnThread, kEagerDevice, kLazyDevice };

inline constexpr StepsOf kAllSteps[] = {StepsOf::kOneAtATime, StepsOf::kOwnThread,
                                        StepsOf::kEagerDevice, StepsOf::kLazyDevice};

inline std::string NameOf(StepsOf steps) {
  switch (steps) {
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
}

// Text that mostly repeats its prompt. The request's seed says where it departs from that, and then
// anything may come, an end too.
inline std::optional<TokenId> Echo(const kernels::SampleRow& row) {
  const size_t step = row.output.size();
  if ((row.seed + step * 5) % 9 == 0) return std::nullopt;
  return row.prompt[(step + row.seed) % row.prompt.size()];
}

// Every way to draw and to end.
inline SequenceSpec EchoSpec(int32_t i) {
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

inline FakeModelOptions EchoModel() {
  FakeModelOptions model;
  model.vocab_size = EngineHarness::DefaultEngine().vocab_size;
  model.eos_permille = 100;
  model.force = Echo;
  return model;
}

struct EchoRun {
  std::vector<Seen> seen;
  EngineFigures figures;
  size_t steps = 0;
};

inline std::unique_ptr<EndPredictor> Gru() {
  std::ifstream in(std::string(BATON_SOURCE_DIR) + "/tests/common/eos/predict/vectors/gru.json");
  auto file = ParsePredictorFile(nlohmann::json::parse(in)["predictor"].get<std::string>());
  EXPECT_TRUE(file.ok()) << file.status();
  return std::make_unique<EndPredictor>(std::make_unique<PredictorFile>(*std::move(file)),
                                        std::vector<uint8_t>());
}

inline EchoRun RunEcho(int32_t most, StepsOf runner, int32_t num_blocks, bool caching,
                       ProposalSource* source = nullptr) {
  constexpr int32_t kSpecs = 60;
  auto options = Defaults();
  options.engine.overlap = runner != StepsOf::kOneAtATime;
  const bool device = runner == StepsOf::kEagerDevice || runner == StepsOf::kLazyDevice;
  options.model = EchoModel();
  options.model.max_in_flight = device ? 2 : 1;
  options.model.lazy = runner == StepsOf::kLazyDevice;
  options.num_blocks = num_blocks;
  options.engine.enable_prefix_caching = caching;
  options.engine.max_prefill_tokens = 9;
  options.engine.proposals = {.most = most, .batch = 40};
  options.engine.proposals_from = source;
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

inline void ExpectSameSample(const SampledToken& a, const SampledToken& b) {
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

inline void ExpectSameRun(const EchoRun& run, const EchoRun& plain) {
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

}  // namespace baton
