// Predictions at the engine: they change nothing, and survive what sequences survive.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <future>
#include <string>

#include "common/eos/predict/end_predictor.h"
#include "nlohmann/json.hpp"
#include "tests/common/engine/harness.h"

namespace baton {
namespace {

std::unique_ptr<EndPredictor> PredictorOf(const std::string& kind) {
  if (kind == "learnt") return std::make_unique<EndPredictor>(nullptr, std::vector<uint8_t>());
  std::ifstream in(std::string(BATON_SOURCE_DIR) + "/tests/common/eos/predict/vectors/" + kind +
                   ".json");
  auto file = ParsePredictorFile(nlohmann::json::parse(in)["predictor"].get<std::string>());
  EXPECT_TRUE(file.ok()) << file.status();
  std::vector<uint8_t> boundaries(1000);
  for (size_t id = 0; id < boundaries.size(); ++id) boundaries[id] = id % 11 == 0 ? 2 : 0;
  return std::make_unique<EndPredictor>(std::make_unique<PredictorFile>(*std::move(file)),
                                        std::move(boundaries));
}

// Tokens, signals and ends of many requests on an engine that is short of blocks.
struct ManyRequests {
  std::vector<Seen> seen;
  uint64_t preemptions = 0;
  size_t estimates = 0;
};

SequenceSpec RequestOf(int32_t i) {
  SequenceSpec spec = MakeSpec(1 + i % 30, 5 + i % 60, i);
  spec.length_class = i % 3 == 0 ? "a" : "b";
  spec.sampling.temperature = i % 4 == 0 ? 0 : 1;
  if (i % 7 == 0) spec.stop.eos_policy = EosPolicy::kIgnoreContinue;
  if (i % 7 == 1) spec.stop.eos_policy = EosPolicy::kIgnoreMask;
  if (i % 5 == 0) spec.stop.min_tokens = 3;
  if (i % 9 == 0) {
    for (int32_t k = 0; k < i % 5; ++k) spec.generated.push_back(20 + k);
  }
  return spec;
}

ManyRequests RunAll(EndPredictor* predictor, bool overlap) {
  auto options = Defaults();
  options.engine.predictor = predictor;
  options.engine.overlap = overlap;
  options.engine.max_num_queued_reqs = 1000;
  options.num_blocks = 40;
  options.model.eos_permille = 20;
  EngineHarness harness(options);
  harness.control().Pause();
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < 120; ++i) ids.push_back(harness.Admit(RequestOf(i)));
  harness.control().Resume();
  ManyRequests run;
  for (const SequenceId id : ids) {
    EXPECT_TRUE(harness.RunUntilOver(id));
    run.seen.push_back(harness.seen(id));
    for (const SampledToken& token : run.seen.back().samples) run.estimates += token.end ? 1 : 0;
  }
  run.preemptions = harness.figures().preemptions;
  EXPECT_TRUE(harness.AllBlocksBack());
  EXPECT_TRUE(predictor == nullptr || predictor->live() == 0);
  return run;
}

void ExpectSame(const ManyRequests& on, const ManyRequests& off) {
  ASSERT_EQ(on.seen.size(), off.seen.size());
  for (size_t i = 0; i < on.seen.size(); ++i) {
    EXPECT_EQ(on.seen[i].tokens, off.seen[i].tokens) << i;
    EXPECT_EQ(on.seen[i].finished->reason, off.seen[i].finished->reason) << i;
    EXPECT_EQ(on.seen[i].finished->natural_end_step, off.seen[i].finished->natural_end_step) << i;
    EXPECT_EQ(on.seen[i].finished->stop_token, off.seen[i].finished->stop_token) << i;
    for (size_t t = 0; t < on.seen[i].samples.size(); ++t) {
      const SampledToken &a = on.seen[i].samples[t], &b = off.seen[i].samples[t];
      EXPECT_EQ(a.eos.eos_logprob, b.eos.eos_logprob) << i << " at " << t;
      EXPECT_EQ(a.natural_end, b.natural_end) << i << " at " << t;
    }
  }
}

TEST(EnginePredictorTest, OnOrOffTokensAndEndsAreTheSame) {
  for (const bool overlap : {false, true}) {
    const ManyRequests off = RunAll(nullptr, overlap);
    EXPECT_GT(off.preemptions, 0u);
    EXPECT_EQ(off.estimates, 0u);
    for (const char* kind : {"learnt", "survival", "logistic", "trees", "mlp", "gru", "sum"}) {
      SCOPED_TRACE(kind);
      const auto predictor = PredictorOf(kind);
      const ManyRequests on = RunAll(predictor.get(), overlap);
      EXPECT_GT(on.preemptions, 0u);
      EXPECT_GT(on.estimates, 0u);
      ExpectSame(on, off);
    }
  }
}

TEST(EnginePredictorTest, EveryTokenThatIsNoEndHasItsOwnEstimate) {
  for (const bool overlap : {false, true}) {
    const auto predictor = PredictorOf("gru");
    const ManyRequests run = RunAll(predictor.get(), overlap);
    for (const Seen& seen : run.seen) {
      if (seen.last_index + 1 != static_cast<int32_t>(seen.tokens.size())) continue;  // a replay
      const auto natural = seen.finished->natural_end_step;
      const bool ended = seen.finished->reason != FinishReason::kNone;
      for (size_t t = 0; t < seen.samples.size(); ++t) {
        const auto step = static_cast<int32_t>(t) + 1;
        const bool last = ended && t + 1 == seen.samples.size();
        const bool behind = natural && step >= *natural;
        ASSERT_EQ(seen.samples[t].end.has_value(), !last && !behind) << step;
        EXPECT_EQ(seen.samples[t].end.value_or(EndEstimate{.at_step = step}).at_step, step);
      }
    }
  }
}

TEST(EnginePredictorTest, EndsThatAreIgnoredAreLearntAndScored) {
  for (const bool overlap : {false, true}) {
    for (const EosPolicy policy : {EosPolicy::kIgnoreContinue, EosPolicy::kIgnoreMask}) {
      const auto predictor = PredictorOf("survival");
      auto options = Defaults();
      options.engine.predictor = predictor.get();
      options.engine.overlap = overlap;
      options.model.eos_permille = 50;
      EngineHarness harness(options);
      uint64_t ended_before_the_limit = 0;
      for (int32_t i = 0; i < 10; ++i) {
        SequenceSpec spec = MakeSpec(10, 100, i);
        spec.stop.eos_policy = policy;
        const SequenceId id = harness.Admit(spec);
        ASSERT_TRUE(harness.RunUntilOver(id));
        const FinishedEvent& finished = *harness.seen(id).finished;
        ASSERT_EQ(finished.generated_tokens, 100);
        if (!finished.natural_end_step || *finished.natural_end_step < 3) continue;
        ++ended_before_the_limit;
        ASSERT_FALSE(finished.end_scores.empty());
        EXPECT_EQ(finished.end_scores[0].remaining, *finished.natural_end_step - 1);
        EXPECT_NE(finished.end_scores[0].outcomes[3], EndOutcome::kNotJudged);
        EXPECT_EQ(finished.end_scores[0].outcomes[4], EndOutcome::kNotJudged) << "256 of 100";
      }
      EXPECT_GT(ended_before_the_limit, 3u);
      EXPECT_EQ(predictor->survival().ends(), 10u) << "all of them were watched";
    }
  }
}

// A word that was asked for, or what is drawn behind a prompt that is to be scored.
TEST(EnginePredictorTest, NothingIsLearntOfRequestsForOneToken) {
  const auto predictor = PredictorOf("learnt");
  auto options = Defaults();
  options.engine.predictor = predictor.get();
  options.model.eos_permille = 1000;
  EngineHarness harness(options);
  for (int32_t i = 0; i < 10; ++i) harness.Generate(MakeSpec(5, 1, i));
  EXPECT_EQ(predictor->survival().ends(), 0u);
  harness.Generate(MakeSpec(5, 2));
  EXPECT_EQ(predictor->survival().ends(), 1u);
}

// The estimates of a request do not depend on what ran beside it, on preemption or on the engine's
// way of planning.
TEST(EnginePredictorTest, EstimatesAreThoseOfTheRequestAlone) {
  const auto busy = PredictorOf("gru"), overlapped = PredictorOf("gru");
  const ManyRequests one = RunAll(busy.get(), false), two = RunAll(overlapped.get(), true);
  for (size_t i = 0; i < one.seen.size(); ++i) {
    if (one.seen[i].last_index + 1 != static_cast<int32_t>(one.seen[i].tokens.size())) continue;
    for (size_t t = 0; t < one.seen[i].samples.size(); ++t) {
      EXPECT_EQ(one.seen[i].samples[t].end, two.seen[i].samples[t].end) << i << " at " << t;
    }
  }
}

TEST(EnginePredictorTest, TheFirstSignalTravelsWithTheHandoff) {
  const auto whole_predictor = PredictorOf("gru"), at_prefill = PredictorOf("gru"),
             at_decode = PredictorOf("gru");
  auto options = Defaults();
  options.engine.predictor = whole_predictor.get();
  EngineHarness whole(options);
  const SequenceId alone = whole.Admit(MakeSpec(30, 40));
  ASSERT_TRUE(whole.RunUntilOver(alone));

  options.engine.predictor = at_prefill.get();
  EngineHarness prefill(options);
  options.engine.predictor = at_decode.get();
  EngineHarness decode(options);
  const SequenceId d = decode.Admit(MakeSpec(30, 40, 0, SequenceKind::kReserved));
  ASSERT_TRUE(decode.RunUntil([&] { return decode.seen(d).reserved.has_value(); }));
  const SequenceId p = prefill.Admit(MakeSpec(30, 40, 0, SequenceKind::kPrefill));
  ASSERT_TRUE(prefill.RunUntilOver(p));
  CopyBlocks(prefill.seen(p), decode.seen(d));
  decode.engine().CommitImport(d, prefill.seen(p).samples.at(0));
  prefill.engine().ReturnLease(p);
  ASSERT_TRUE(decode.RunUntilOver(d));
  EXPECT_EQ(prefill.seen(p).samples[0].end, whole.seen(alone).samples[0].end);
  ASSERT_EQ(decode.seen(d).samples.size(), 39u);
  for (size_t t = 1; t < 40; ++t) {
    EXPECT_EQ(decode.seen(d).samples[t - 1].end, whole.seen(alone).samples[t].end) << t;
  }
  EXPECT_EQ(at_prefill->survival().ends(), 0u) << "its end was not seen there";
  EXPECT_EQ(at_decode->survival().ends(), 1u);
}

TEST(EnginePredictorTest, AReplayGoesOnAtItsStepAndWarmsUp) {
  const auto predictor = PredictorOf("gru");
  auto options = Defaults();
  options.engine.predictor = predictor.get();
  options.model.eos_permille = 100;
  EngineHarness harness(options);
  // Survival has to have seen ends.
  for (int32_t i = 0; i < 40; ++i) harness.Generate(MakeSpec(3, 100, i));
  SequenceSpec spec = MakeSpec(10, 80, 7);
  spec.stop.min_tokens = 79;
  const auto whole = harness.Generate(spec);
  ASSERT_GE(whole.size(), 79u);
  spec.generated.assign(whole.begin(), whole.begin() + 20);
  const SequenceId id = harness.Admit(spec);
  ASSERT_TRUE(harness.RunUntilOver(id));
  const Seen& seen = harness.seen(id);
  ASSERT_EQ(seen.tokens.size(), whole.size() - 20);
  for (size_t row = 0; row + 1 < seen.samples.size(); ++row) {
    const auto& end = seen.samples[row].end;
    if (row < 31) {
      ASSERT_TRUE(end.has_value()) << row;
      EXPECT_EQ(end->kind, PredictorKind::kLearnt) << row;
    } else {
      ASSERT_TRUE(end.has_value()) << row;
      EXPECT_EQ(end->kind, PredictorKind::kGru) << row;
    }
    EXPECT_EQ(end->at_step, static_cast<int32_t>(21 + row));
  }
}

TEST(EnginePredictorTest, FiguresAndScoresAreTold) {
  const auto predictor = PredictorOf("survival");
  auto options = Defaults();
  options.engine.predictor = predictor.get();
  EngineHarness harness(options);
  // The engine stands still once it has drawn some tokens.
  std::promise<void> looked;
  harness.control().set_on_step([go_on = looked.get_future().share()](const StepPlan& plan) {
    if (plan.step == 5) go_on.wait_for(std::chrono::seconds(20));
  });
  const SequenceId id = harness.Admit(MakeSpec(10, 200));
  EXPECT_TRUE(
      harness.PollUntil([](const EngineFigures& figures) { return figures.foreseen == 1; }));
  const EngineFigures figures = harness.figures();
  EXPECT_EQ(figures.running, 1);
  EXPECT_GT(figures.expected_tokens, 0);
  EXPECT_GT(figures.expected_kv_tokens, figures.expected_tokens);
  looked.set_value();
  ASSERT_TRUE(harness.RunUntilOver(id));
  EXPECT_EQ(harness.seen(id).finished->end_scores.size(), 13u) << "steps 1, 17, …, 193 of 200";
  EXPECT_EQ(harness.seen(id).finished->generated_tokens, 200);
}

TEST(EnginePredictorTest, ProductsGoOutWithTheTokensUnlessTheyAreNotTold) {
  for (const bool tells : {true, false}) {
    auto options = Defaults();
    options.engine.tells_products = tells;
    options.model.probe_dims = 3;
    EngineHarness harness(options);
    const SequenceId id = harness.Admit(MakeSpec(10, 5));
    ASSERT_TRUE(harness.RunUntilOver(id));
    ASSERT_EQ(harness.seen(id).samples.size(), 5u);
    for (const SampledToken& token : harness.seen(id).samples) {
      EXPECT_EQ(token.probe.size(), tells ? 3u : 0u);
    }
  }
}

TEST(EnginePredictorTest, ASequenceThatIsCancelledIsForgotten) {
  const auto predictor = PredictorOf("gru");
  auto options = Defaults();
  options.engine.predictor = predictor.get();
  EngineHarness harness(options);
  const SequenceId id = harness.Admit(MakeSpec(10, 200));
  ASSERT_TRUE(harness.RunUntil([&] { return harness.seen(id).tokens.size() > 3; }));
  harness.engine().Cancel(id);
  ASSERT_TRUE(harness.RunUntilOver(id));
  ASSERT_TRUE(harness.AllBlocksBack());
  harness.engine().Stop();
  EXPECT_EQ(predictor->live(), 0u);
}

}  // namespace
}  // namespace baton
