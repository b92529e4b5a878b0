#include "tools/bench/figures/figures.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/tools/bench/figures/records.h"

namespace baton::bench {
namespace {

Figures Whole(const LoadResult& load, const std::optional<Slo>& slo = std::nullopt) {
  return ComputeFigures(load, WholeRun(load), slo, 1);
}

// Scheduled at 1 s, sent 0.1 s late, tokens at 1.5, 1.6, 1.9 and 2.1 s; 20 prompt tokens.
RequestRecord Example() {
  RequestRecord record = RecordOf(0, 1.0, {1.5, 1.6, 1.9, 2.1}, 20);
  record.sent = 1.1;
  record.ended = 2.2;  // the closing message
  return record;
}

TEST(Figures, EachFormulaOfOneRequest) {
  const Figures figures = Whole(LoadOf({Example()}));
  EXPECT_NEAR(figures.ttft_ms.mean, 500, 1e-9);
  EXPECT_NEAR(figures.ttft_from_sent_ms.mean, 400, 1e-9);
  EXPECT_NEAR(figures.client_queue_ms.mean, 100, 1e-9);
  EXPECT_NEAR(figures.ttft_per_prompt_token_ms.mean, 25, 1e-9);
  EXPECT_NEAR(figures.e2el_ms.mean, 1100, 1e-9);
  EXPECT_NEAR(figures.tpot_ms.mean, 200, 1e-9);
  EXPECT_NEAR(figures.ntpot_ms.mean, 275, 1e-9);
  EXPECT_NEAR(figures.tokens_per_s_per_user.mean, 5, 1e-9);
  EXPECT_NEAR(figures.prefill_tokens_per_s.mean, 40, 1e-9);
  EXPECT_NEAR(figures.decode_tokens_per_s.mean, 4 / 0.6, 1e-9);
  EXPECT_NEAR(figures.decode_tokens_per_s_n1.mean, 3 / 0.6, 1e-9);
  EXPECT_EQ(figures.itl_ms.count, 3);
  EXPECT_NEAR(figures.itl_ms.p50, 200, 1e-9);
  EXPECT_NEAR(figures.max_gap_ms.max, 300, 1e-9);
  EXPECT_NEAR(figures.duration_s, 2.2, 1e-9);
  EXPECT_NEAR(figures.output_throughput, 4 / 2.2, 1e-9);
  EXPECT_NEAR(figures.total_token_throughput, 24 / 2.2, 1e-9);
  EXPECT_NEAR(figures.request_throughput, 1 / 2.2, 1e-9);
  EXPECT_NEAR(figures.mean_concurrency, 1.1 / 2.2, 1e-9);
  EXPECT_EQ(figures.finish_reasons.at("length"), 1);
}

TEST(Figures, SplitTheServersTimeToFirstToken) {
  RequestRecord record = Example();
  record.cached_tokens = 4;
  record.timings =
      ServerTimings{.queue_ms = 50, .prefill_ms = 200, .kv_transfer_ms = 30, .ttft_ms = 300};
  const Figures figures = Whole(LoadOf({record}));
  EXPECT_NEAR(figures.queue_ms.mean, 50, 1e-9);
  EXPECT_NEAR(figures.prefill_ms.mean, 200, 1e-9);
  EXPECT_NEAR(figures.ttft_rest_ms.mean, 50, 1e-9);
  EXPECT_NEAR(figures.network_ms.mean, 100, 1e-9);
  EXPECT_NEAR(figures.queue_ms.mean + figures.prefill_ms.mean + figures.ttft_rest_ms.mean +
                  figures.network_ms.mean + figures.client_queue_ms.mean,
              figures.ttft_ms.mean, 1e-9);
  EXPECT_NEAR(figures.server_prefill_tokens_per_s.mean, 16 / 0.2, 1e-9);
  EXPECT_EQ(Whole(LoadOf({Example()})).queue_ms.count, 0) << "absent where nothing was said";
}

// The first token is delivered before the KV cache is where decoding goes on.
TEST(Figures, TheHandoffLiesBetweenTheFirstAndTheSecondToken) {
  RequestRecord record = Example();  // 100 ms between its first two tokens
  record.timings =
      ServerTimings{.queue_ms = 50, .prefill_ms = 200, .kv_transfer_ms = 30, .ttft_ms = 300};
  const Figures split = Whole(LoadOf({record}));
  EXPECT_NEAR(split.kv_transfer_ms.mean, 30, 1e-9);
  EXPECT_NEAR(split.first_decode_ms.mean, 70, 1e-9);

  record.timings->kv_transfer_ms = 0;
  EXPECT_NEAR(Whole(LoadOf({record})).first_decode_ms.mean, 100, 1e-9) << "one worker does both";
  record.timings->kv_transfer_ms = 130;
  EXPECT_EQ(Whole(LoadOf({record})).first_decode_ms.max, 0) << "never negative";
  record.chunks[0].tokens = 2;
  EXPECT_EQ(Whole(LoadOf({record})).first_decode_ms.count, 0) << "nobody saw the second one come";
  record.chunks.resize(1);
  record.chunks[0].tokens = record.output_tokens = 1;
  EXPECT_EQ(Whole(LoadOf({record})).first_decode_ms.count, 0) << "there is no second one";
}

TEST(Figures, OneTokenHasNoPace) {
  const Figures figures = Whole(LoadOf({RecordOf(0, 0, {0.5})}));
  EXPECT_EQ(figures.tpot_ms.count, 0);
  EXPECT_EQ(figures.itl_ms.count, 0);
  EXPECT_EQ(figures.decode_tokens_per_s.count, 0);
  EXPECT_EQ(figures.ttft_ms.count, 1);
}

TEST(Figures, AnswersThatCameAtOnceHaveNoSpeed) {
  const Figures figures =
      Whole(LoadOf({RecordOf(0, 0, {0.1, 0.1 + 1e-6}), RecordOf(1, 0, {1, 2})}));
  EXPECT_EQ(figures.tpot_ms.count, 2);
  EXPECT_EQ(figures.tokens_per_s_per_user.count, 1);
  EXPECT_NEAR(figures.decode_tokens_per_s.max, 2, 1e-9);
}

TEST(Figures, AMessageOfManyTokensIsOneGap) {
  RequestRecord record = RecordOf(0, 0, {1, 2});
  record.chunks[1].tokens = 4;
  record.output_tokens = 5;
  const Figures figures = Whole(LoadOf({record}));
  EXPECT_EQ(figures.itl_ms.count, 1);
  EXPECT_NEAR(figures.tpot_ms.mean, 250, 1e-9);
  EXPECT_NEAR(figures.tokens_per_chunk, 2.5, 1e-9);
  EXPECT_NEAR(figures.peak_output_tokens_per_s, 4, 1e-9);
}

TEST(Figures, AStallShowsFromTheScheduledArrival) {
  // One per 10 ms, answered in 5 ms; the server stands still from 1 s to 3 s.
  std::vector<RequestRecord> records;
  for (int i = 0; i < 1000; ++i) {
    const double at = 0.01 * i;
    const double answered = (at >= 1 && at < 3 ? 3 : at) + 0.005;
    records.push_back(RecordOf(i, at, {answered, answered + 0.001}));
  }
  const Figures figures = Whole(LoadOf(records));
  EXPECT_NEAR(figures.ttft_ms.p50, 5, 1);
  EXPECT_GT(figures.ttft_ms.p99, 1800);
  EXPECT_NEAR(figures.ttft_ms.max, 2005, 1);
  EXPECT_GE(figures.peak_concurrency, 199);
}

TEST(Figures, FailedAndCancelledRequestsAreCountedApart) {
  RequestRecord failed = RecordOf(1, 0, {});
  failed.status = absl::UnavailableError("gone");
  failed.ended = 9;
  RequestRecord cancelled = RecordOf(2, 0, {0.1, 0.2});
  cancelled.cancelled = true;
  const Figures figures = Whole(LoadOf({RecordOf(0, 0, {1, 2}), failed, cancelled}));
  EXPECT_EQ(figures.requests, 3);
  EXPECT_EQ(figures.completed, 1);
  EXPECT_EQ(figures.failed, 1);
  EXPECT_EQ(figures.cancelled, 1);
  EXPECT_EQ(figures.ttft_ms.count, 1);
  EXPECT_DOUBLE_EQ(figures.failed_share, 0.5);
  EXPECT_EQ(figures.errors.at("UNAVAILABLE: gone"), 1);
}

TEST(Figures, NaturalEndsUnderIgnoredEos) {
  RequestRecord early = RecordOf(0, 0, {1, 2, 3, 4});
  early.natural_end_step = 1;
  const Figures figures = Whole(LoadOf({early, RecordOf(1, 0, {1, 2, 3, 4})}));
  EXPECT_DOUBLE_EQ(figures.natural_end_share, 0.5);
  EXPECT_DOUBLE_EQ(figures.tokens_after_natural_end_share, 3.0 / 8);
  EXPECT_DOUBLE_EQ(figures.natural_end_step.mean, 1);
}

TEST(Figures, GoodputCountsFailuresAsNotGood) {
  RequestRecord failed = RecordOf(2, 0, {});
  failed.status = absl::UnavailableError("gone");
  const Figures figures = Whole(LoadOf({RecordOf(0, 0, {0.1, 2}), RecordOf(1, 0, {1, 2}), failed}),
                                *ParseSlo("ttft=500ms", 0));
  EXPECT_DOUBLE_EQ(figures.request_goodput, 0.5);
  EXPECT_DOUBLE_EQ(figures.goodput_share, 1.0 / 3);
  ASSERT_EQ(figures.slo.size(), 1U);
  EXPECT_EQ(figures.slo[0].violations, 1);
}

TEST(Figures, AnEmptyRunHasNone) {
  const Figures figures = Whole(LoadOf({}));
  EXPECT_EQ(figures.requests, 0);
  EXPECT_DOUBLE_EQ(figures.output_throughput, 0);
}

// Open loop, one request a second that takes two.
LoadResult OpenLoop(int requests) {
  std::vector<RequestRecord> records;
  for (int i = 0; i < requests; ++i) records.push_back(RecordOf(i, i, {i + 1.0, i + 2.0}));
  return LoadOf(records);
}

TEST(Window, OfAnOpenLoopLeavesOutRampAndDrain) {
  const LoadResult load = OpenLoop(101);
  const Window window = MeasuredWindow(load, {});
  EXPECT_DOUBLE_EQ(window.from, 2) << "the time of one request";
  EXPECT_DOUBLE_EQ(window.to, 100) << "the last arrival";
  const Figures figures = ComputeFigures(load, window, std::nullopt, 1);
  EXPECT_EQ(figures.requests, 99);
  EXPECT_NEAR(figures.mean_concurrency, 2, 1e-9) << "1 a second for 2 s each";
  EXPECT_LT(Whole(load).mean_concurrency, 1.99);
  EXPECT_DOUBLE_EQ(MeasuredWindow(load, {.warmup_s = 30}).from, 30);
}

TEST(Window, KeepsRequestsThatEndAfterIt) {
  LoadResult load = OpenLoop(100);
  load.records.back().chunks = {{150, 1}, {151, 1}};
  load.records.back().ended = 151;
  EXPECT_NEAR(ComputeFigures(load, MeasuredWindow(load, {}), std::nullopt, 1).ttft_ms.max, 51e3,
              1e-6);
}

// Ten come in a second, and each takes two seconds longer than the one before.
TEST(Window, GoodputIsARateOfEndsAsThroughputIs) {
  std::vector<RequestRecord> records;
  for (int i = 0; i <= 100; ++i) {
    const double at = 0.1 * i;
    const double end = at + 0.5 + 0.2 * i;
    records.push_back(RecordOf(i, at, {at + 0.1, end}));
  }
  const LoadResult load = LoadOf(records);
  const Window window = MeasuredWindow(load, {.warmup_s = 1});
  ASSERT_DOUBLE_EQ(window.to, 10);
  const Figures all = ComputeFigures(load, window, *ParseSlo("e2e=1h", 0), 1);
  EXPECT_GT(all.request_throughput, 2);
  EXPECT_LT(all.request_throughput, 5);
  EXPECT_DOUBLE_EQ(all.request_goodput, all.request_throughput);
  EXPECT_DOUBLE_EQ(all.goodput_share, 1) << "of those that were scheduled in the window";
  const Figures few = ComputeFigures(load, window, *ParseSlo("e2e=3600ms", 0), 1);
  // Request i takes 0.5 + 0.2 i and ends at 0.5 + 0.3 i: the third to the sixteenth, of which six
  // were scheduled in the window.
  EXPECT_NEAR(few.request_goodput * few.duration_s, 14, 1e-9);
}

TEST(Window, OfAClosedLoopBeginsAfterTheFirstWave) {
  std::vector<RequestRecord> records;
  for (int i = 0; i < 40; ++i) {
    const double at = i / 4;  // NOLINT: waves of four
    records.push_back(RecordOf(i, at, {at + 0.5, at + 1}));
  }
  const Window window = MeasuredWindow(LoadOf(records), {.concurrency = 4});
  EXPECT_DOUBLE_EQ(window.from, 1);
  EXPECT_DOUBLE_EQ(window.to, 9);
}

// Two waves in step: from the second to the last sending is an instant that holds all the ends.
TEST(Window, OfAClosedLoopThatRunsInStepIsNotTheInstantBetweenWaves) {
  for (const int waves : {2, 5}) {
    std::vector<RequestRecord> records;
    for (int i = 0; i < 8 * waves; ++i) {
      const double at = i / 8 + 0.001 * (i % 8);  // NOLINT: waves of eight
      records.push_back(RecordOf(i, at, {at + 0.5, at + 0.999}));
    }
    const LoadResult load = LoadOf(records);
    const Window window = MeasuredWindow(load, {.concurrency = 8});
    EXPECT_TRUE(window.whole_run) << waves;
    EXPECT_NEAR(ComputeFigures(load, window, std::nullopt, 1).request_throughput, 8, 0.1);
  }
}

TEST(Window, LeavesOutAWarmUpThatIsMostOfTheRun) {
  const Window window = MeasuredWindow(OpenLoop(20), {.warmup_s = 15});
  EXPECT_FALSE(window.whole_run);
  EXPECT_DOUBLE_EQ(window.from, 15);
}

TEST(Window, IsTheWholeRunWhenTooLittleWouldBeLeft) {
  EXPECT_TRUE(MeasuredWindow(OpenLoop(20), {.warmup_s = 19.5}).whole_run);
  EXPECT_TRUE(MeasuredWindow(OpenLoop(1), {}).whole_run);
  EXPECT_TRUE(MeasuredWindow(OpenLoop(4), {.concurrency = 4}).whole_run);
  EXPECT_TRUE(MeasuredWindow(LoadOf({}), {}).whole_run);
}

TEST(Concurrency, IsAStepFunction) {
  const LoadResult load = LoadOf({RecordOf(0, 0, {2}), RecordOf(1, 1, {3}), RecordOf(2, 3, {4})});
  const std::vector<ConcurrencyStep> steps = ConcurrencyOverTime(load.records);
  ASSERT_EQ(steps.size(), 5U);
  EXPECT_EQ(steps[1].requests, 2);
  EXPECT_EQ(steps[3].requests, 1) << "one ends as another starts: never two";
  EXPECT_DOUBLE_EQ(MeanConcurrency(steps, 0, 4), 5.0 / 4);
  EXPECT_DOUBLE_EQ(MeanConcurrency(steps, 1.5, 2.5), 1.5);
  EXPECT_DOUBLE_EQ(MeanConcurrency(steps, 5, 6), 0);
}

TEST(ForcedLengths, OneOtherLengthVoidsTheRun) {
  RequestRecord bad = RecordOf(7, 0, {1, 2});
  bad.max_tokens = 3;
  bad.finish_reason = "stop_eos";
  const std::vector<RequestRecord> records = {RecordOf(6, 0, {1, 2}), bad};
  EXPECT_EQ(VoidReason(records, EosMode::kHonor), "");
  const std::string reason = VoidReason(records, EosMode::kMask);
  EXPECT_NE(reason.find("request 7 (r7): expected 3 output tokens, found 2"), std::string::npos)
      << reason;
}

TEST(ForcedLengths, FailedAndCancelledRequestsVoidNothing) {
  RequestRecord failed = RecordOf(0, 0, {1});
  failed.max_tokens = 5;
  failed.status = absl::UnavailableError("gone");
  RequestRecord cancelled = failed;
  cancelled.status = absl::OkStatus();
  cancelled.cancelled = true;
  const std::vector<RequestRecord> records = {failed, cancelled, RecordOf(1, 0, {1})};
  EXPECT_EQ(VoidReason(records, EosMode::kContinue), "");
}

TEST(ClientLimited, LooksAtTheNinetyNinthPercentile) {
  std::vector<double> lag(1000, 1.0);
  EXPECT_FALSE(ClientLimited(lag));
  std::fill_n(lag.begin(), 5, 50.0);
  EXPECT_FALSE(ClientLimited(lag));
  std::fill_n(lag.begin(), 20, 50.0);
  EXPECT_TRUE(ClientLimited(lag));
  EXPECT_FALSE(ClientLimited({}));
}

TEST(FigureTable, NamesEachFigureOnceAndPointsAtOneMember) {
  std::set<std::string_view> names;
  for (const FigureInfo& info : FigureTable()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_NE(info.distribution == nullptr, info.number == nullptr) << info.name;
    EXPECT_FALSE(info.formula.empty() || info.purpose.empty() || info.unit.empty()) << info.name;
    EXPECT_NE(ExplainFigures().find(info.formula), std::string::npos);
  }
  EXPECT_GE(names.size(), 30U);
}

}  // namespace
}  // namespace baton::bench
