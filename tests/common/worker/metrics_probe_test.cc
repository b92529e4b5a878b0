#include "common/worker/metrics_probe.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/log_text.h"

namespace baton {
namespace {

using ::testing::ContainsRegex;

TEST(MetricsProbe, CountsPushesFromOtherNumerics) {
  MetricsRegistry registry({.role = MetricRole::kDecode, .model_name = "m"});
  const base::ManualClock clock;
  MetricsProbe probe(&registry, {}, &clock);
  EXPECT_THAT(registry.Expose(),
              ContainsRegex("baton_kv_transfer_numerics_mismatch_total\\{[^}]*\\} 0\n"));
  probe.PushFromOtherNumerics();
  probe.PushFromOtherNumerics();
  EXPECT_THAT(registry.Expose(),
              ContainsRegex("baton_kv_transfer_numerics_mismatch_total\\{[^}]*\\} 2\n"));
}

TEST(MetricsProbe, TellsHandoffsThatItSentFromThoseThatItRefused) {
  MetricsRegistry registry({.role = MetricRole::kDecode, .also_prefill = true, .model_name = "m"});
  const base::ManualClock clock;
  MetricsProbe probe(&registry, {}, &clock);
  for (int i = 0; i < 3; ++i) probe.PushFailed(Reason::kPushFailed);
  probe.PushRefused(Reason::kExpired);
  const std::string page = registry.Expose();
  const auto failures = [](std::string_view reason, std::string_view side, int count) {
    return ContainsRegex(absl::StrCat("baton_kv_transfer_failures_total\\{[^}]*reason=\"",
                                      std::string(reason), "\",side=\"", std::string(side),
                                      "\"\\} ", count, "\n"));
  };
  EXPECT_THAT(page, failures("PUSH_FAILED", "sender", 3));
  EXPECT_THAT(page, failures("PUSH_FAILED", "receiver", 0));
  EXPECT_THAT(page, failures("EXPIRED", "sender", 0));
  EXPECT_THAT(page, failures("EXPIRED", "receiver", 1));
}

TEST(MetricsProbe, CountsRunawaysByWhatWasDone) {
  MetricsRegistry registry({.role = MetricRole::kDecode, .model_name = "m"});
  const base::ManualClock clock;
  MetricsProbe probe(&registry, {}, &clock);
  for (const bool ends : {false, false, true}) probe.RanAway(ends);
  const std::string page = registry.Expose();
  EXPECT_THAT(page, ContainsRegex("baton_runaway_total\\{[^}]*action=\"warn\"[^}]*\\} 2\n"));
  EXPECT_THAT(page, ContainsRegex("baton_runaway_total\\{[^}]*action=\"end\"[^}]*\\} 1\n"));
}

TEST(MetricsProbe, NamesTheSpecialTokenThatMayEndAnswers) {
  MetricsRegistry registry({.role = MetricRole::kDecode, .model_name = "m"});
  const base::ManualClock clock;
  MetricsProbe probe(&registry, {}, &clock);
  probe.WatchStopSet({{7, "<|turn_end|>"}});
  const LogText log;
  FinishedEvent event;
  event.reason = FinishReason::kLength;
  for (int i = 0; i < 20; ++i) probe.SequenceFinished(event);
  EXPECT_EQ(log.str().find("special token"), std::string::npos);
  event.passed_special = 7;
  for (int i = 0; i < 20; ++i) probe.SequenceFinished(event);
  EXPECT_THAT(log.str(), ContainsRegex("special token 7 '<.turn_end.>'"));
  EXPECT_EQ(log.str().find("special token"), log.str().rfind("special token")) << log.str();
  EXPECT_THAT(registry.Expose(),
              ContainsRegex("baton_passed_special_tokens_total\\{[^}]*\\} 20\n"));
}

// An engine that only has figures.
class FiguresOnly final : public Engine {
 public:
  absl::StatusOr<SequenceId> Admit(SequenceSpec) override {
    return absl::UnimplementedError("it runs nothing");
  }
  void CommitImport(SequenceId, SampledToken) override {}
  void Cancel(SequenceId) override {}
  void ReturnLease(SequenceId) override {}
  base::BoundedQueue<EngineEvent>& events() override { return events_; }
  EngineFigures figures() const override { return shown; }
  PrefixReport CachedSince(uint64_t) const override { return {}; }
  void Drain() override {}
  void Stop() override {}

  EngineFigures shown;

 private:
  base::BoundedQueue<EngineEvent> events_{1};
};

TEST(MetricsProbe, TellsWhatCameOfForetoldTokens) {
  MetricsRegistry registry({.role = MetricRole::kDecode, .model_name = "m"});
  const base::ManualClock clock;
  MetricsProbe probe(&registry, {}, &clock);
  FiguresOnly engine;
  engine.shown.rows_proposed = 3;
  engine.shown.ids_proposed = 9;
  engine.shown.ids_accepted = 4;
  engine.shown.accepted_at = {3, 1};
  probe.Observe(&engine);
  const std::string page = registry.Expose();
  EXPECT_THAT(page, ContainsRegex("baton_spec_decode_num_drafts_total\\{[^}]*\\} 3\n"));
  EXPECT_THAT(page, ContainsRegex("baton_spec_decode_num_draft_tokens_total\\{[^}]*\\} 9\n"));
  EXPECT_THAT(page, ContainsRegex("baton_spec_decode_num_accepted_tokens_total\\{[^}]*\\} 4\n"));
  const std::string at = "baton_spec_decode_num_accepted_tokens_per_pos_total\\{[^}]*position=";
  EXPECT_THAT(page, ContainsRegex(at + "\"0\"[^}]*\\} 3\n"));
  EXPECT_THAT(page, ContainsRegex(at + "\"1\"[^}]*\\} 1\n"));
  EXPECT_THAT(page, ContainsRegex(at + "\"15\"[^}]*\\} 0\n"));
}

TEST(MetricsProbe, TellsWhatADraftModelTakes) {
  MetricsRegistry registry({.role = MetricRole::kDecode, .model_name = "m"});
  const base::ManualClock clock;
  MetricsProbe probe(&registry, {}, &clock);
  FiguresOnly engine;
  engine.shown.draft = {
      .steps = 7, .tokens = 30, .seconds = 0.5, .blocks_total = 8, .blocks_used = 2, .dropped = 1};
  probe.Observe(&engine);
  const std::string page = registry.Expose();
  for (const char* line : {"steps_total\\{[^}]*\\} 7\n", "fed_tokens_total\\{[^}]*\\} 30\n",
                           "time_seconds_total\\{[^}]*\\} 0.5\n", "dropped_total\\{[^}]*\\} 1\n",
                           "kv_cache_usage_perc\\{[^}]*\\} 0.25\n"}) {
    EXPECT_THAT(page, ContainsRegex(std::string("baton_spec_decode_draft_") + line));
  }
}

TEST(LoadOf, TellsAllPromptTokensAndTheShareOfBlocksThatAreTaken) {
  EngineFigures figures;
  figures.running = 2;
  figures.waiting = 1;
  figures.reserved = 3;
  figures.blocks_total = 10;
  figures.blocks_cached = 5;
  figures.blocks_used = 2;
  figures.blocks_quarantined = 1;
  figures.prompt_tokens_computed = 100;
  figures.prompt_tokens_cached = 20;
  figures.prompt_tokens_received = 3;
  figures.generated_tokens = 7;
  figures.prefix_queries = 50;
  figures.prefix_hits = 20;
  const LoadTotals load = LoadOf(figures);
  EXPECT_EQ(load.running, 2);
  EXPECT_EQ(load.waiting, 4);
  EXPECT_EQ(load.prompt_tokens, 123u);
  EXPECT_EQ(load.generated_tokens, 7u);
  EXPECT_EQ(load.requests, std::nullopt);
  EXPECT_DOUBLE_EQ(load.cache->usage, 0.3);
  EXPECT_EQ(load.cache->queries, 50u);
  EXPECT_EQ(load.cache->hits, 20u);
}

TEST(MetricsProbe, ScoresOfEstimatesAreCountedByWhatWasSaidAndWhatHappened) {
  MetricsRegistry registry({.role = MetricRole::kDecode, .model_name = "m"});
  const base::ManualClock clock;
  MetricsProbe probe(&registry, {}, &clock);
  FinishedEvent finished;
  finished.end_scores = {{.estimate = {.expected_remaining = 9, .p_within = {0, 0.15f, 0.8f, 1, 1}},
                          .outcomes = {EndOutcome::kWentOn, EndOutcome::kWentOn, EndOutcome::kEnded,
                                       EndOutcome::kUnknown, EndOutcome::kNotJudged},
                          .remaining = 12}};
  probe.SequenceFinished(finished);
  probe.PredictorChosen(PredictorKind::kGru, "file@12");
  const std::string page = registry.Expose();
  const auto counted = [&](const std::string& horizon, const std::string& bin,
                           const std::string& outcome, int count) {
    return testing::Matches(ContainsRegex(
        "baton_end_prediction_calibration_total\\{[^}]*bin=\"" + bin + "\",horizon=\"" + horizon +
        "\"[^}]*outcome=\"" + outcome + "\"[^}]*\\} " + std::to_string(count) + "\n"))(page);
  };
  EXPECT_TRUE(counted("1", "0.1", "went_on", 1)) << page;
  EXPECT_TRUE(counted("4", "0.2", "went_on", 1));
  EXPECT_TRUE(counted("16", "0.8", "ended", 1));
  EXPECT_TRUE(counted("64", "1.0", "unknown", 1));
  for (const char* outcome : {"ended", "went_on", "unknown"}) {
    EXPECT_TRUE(counted("256", "1.0", outcome, 0)) << "not judged";
  }
  EXPECT_THAT(page, ContainsRegex("error_tokens_sum\\{[^}]*horizon=\"16\"[^}]*\\} 3\n"));
  EXPECT_THAT(page, ContainsRegex("predictor_info\\{[^}]*kind=\"gru\"[^}]*\\} 1\n"));
}

double GaugeOf(MetricsRegistry& registry, const std::string& name) {
  const std::string page = registry.Expose();
  const size_t line = page.find("\n" + name + "{");
  return line == std::string::npos ? -1 : std::stod(page.substr(page.find("} ", line) + 2));
}

TEST(MetricsProbe, UtilizationFallsWhenNothingRuns) {
  MetricsRegistry registry({.role = MetricRole::kPrefill, .model_name = "m"});
  base::ManualClock clock;
  const WorkModel work = {.prefill_flops_per_token = 1e6,
                          .weight_bytes = 5e7,
                          .peak_flops_per_s = 1e9,
                          .peak_read_bytes_per_s = 1e9};
  MetricsProbe probe(&registry, work, &clock);
  // Ten steps a second of 50 tokens: half of the peak, by both measures.
  for (int step = 0; step < 100; ++step) {
    clock.Advance(std::chrono::milliseconds(100));
    StepEvent event;
    event.prefill_tokens = 50;
    event.prefill_sequences = 1;
    probe.StepDone(event);
  }
  EXPECT_NEAR(GaugeOf(registry, "baton_model_flops_utilization"), 0.5, 0.01);
  EXPECT_NEAR(GaugeOf(registry, "baton_memory_bandwidth_utilization"), 0.5, 0.01);
  clock.Advance(std::chrono::minutes(2));
  EXPECT_LT(GaugeOf(registry, "baton_model_flops_utilization"), 1e-6);
}

TEST(MetricsProbe, TheTimeOfATokenIsThatOfLateStepsWithAnswersInThem) {
  MetricsRegistry registry({.role = MetricRole::kDecode, .model_name = "m"});
  base::ManualClock clock;
  MetricsProbe probe(&registry, {}, &clock);
  const std::string name = "baton_decode_step_seconds";
  const auto run = [&](int steps, int milliseconds, int32_t answers) {
    for (int step = 0; step < steps; ++step) {
      clock.Advance(std::chrono::milliseconds(100));
      StepEvent event;
      event.prefill_tokens = answers > 0 ? 0 : 50;
      event.prefill_sequences = answers > 0 ? 0 : 1;
      event.decode_sequences = event.decode_tokens = answers;
      event.duration = std::chrono::milliseconds(milliseconds);
      probe.StepDone(event);
    }
  };
  EXPECT_EQ(GaugeOf(registry, name), 0);
  run(50, 20, 3);
  EXPECT_NEAR(GaugeOf(registry, name), 0.020, 1e-6);
  run(50, 90, 0);
  EXPECT_NEAR(GaugeOf(registry, name), 0.020, 1e-6);
  run(600, 40, 3);
  EXPECT_NEAR(GaugeOf(registry, name), 0.040, 1e-3);
  clock.Advance(std::chrono::minutes(10));
  EXPECT_EQ(GaugeOf(registry, name), 0);
}

TEST(MetricsProbe, UtilizationOfAMachineThatWasNotMeasuredIsZero) {
  MetricsRegistry registry({.role = MetricRole::kPrefill, .model_name = "m"});
  base::ManualClock clock;
  MetricsProbe probe(&registry, {.prefill_flops_per_token = 1e6, .weight_bytes = 5e7}, &clock);
  clock.Advance(std::chrono::milliseconds(100));
  StepEvent event;
  event.prefill_tokens = 50;
  event.prefill_sequences = 1;
  probe.StepDone(event);
  EXPECT_EQ(GaugeOf(registry, "baton_model_flops_utilization"), 0);
  EXPECT_EQ(GaugeOf(registry, "baton_memory_bandwidth_utilization"), 0);
}

}  // namespace
}  // namespace baton
