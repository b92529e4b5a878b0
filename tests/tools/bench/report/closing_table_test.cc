#include "tools/bench/report/closing_table.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Requests of 3 tokens, one a second, each with `ttft_s` to the first and 10 ms between the others.
LoadResult SteadyLoad(int requests, double ttft_s) {
  LoadResult load;
  for (int i = 0; i < requests; ++i) {
    RequestRecord record;
    record.index = i;
    record.scheduled = record.sent = i;
    for (const double after : {0.0, 0.01, 0.02}) {
      record.chunks.push_back({.at = i + ttft_s + after, .tokens = 1});
    }
    record.ended = record.last_token();
    record.prompt_tokens = 10;
    record.output_tokens = 3;
    record.max_tokens = 3;
    record.finish_reason = "length";
    load.records.push_back(record);
    load.lag_ms.push_back(0.1);
  }
  load.duration_s = requests;
  return load;
}

RunResult RunOf(double ttft_s, EosMode eos, const std::optional<Slo>& slo) {
  RunResult run = ComputeRun(SteadyLoad(40, ttft_s), eos, {}, slo, 1);
  run.label = "run 1 of 1";
  return run;
}

// The line that starts with `name`.
std::string LineOf(const std::string& table, const std::string& name) {
  const size_t begin = table.find(name);
  if (begin == std::string::npos) return "";
  return table.substr(begin, table.find('\n', begin) - begin);
}

TEST(ClosingTable, ShowsTheMedianOfTheRuns) {
  BenchResult result;
  for (const double ttft : {0.1, 0.2, 0.4}) {
    result.runs.push_back(RunOf(ttft, EosMode::kHonor, {}));
  }
  const std::string table = ClosingTable(result);
  EXPECT_THAT(LineOf(table, "TTFT, ms"), HasSubstr("200"));
  EXPECT_THAT(LineOf(table, "TTFT, ms"), Not(HasSubstr("400")));
  EXPECT_THAT(LineOf(table, "TPOT, ms"), HasSubstr("10.0"));
  EXPECT_THAT(table, HasSubstr("120 of 120 requests completed: 120 length"));
  EXPECT_THAT(table, Not(HasSubstr("!")));
}

TEST(ClosingTable, SplitsTheTimesOfTheFirstTwoTokens) {
  LoadResult load = SteadyLoad(40, 0.1);
  for (RequestRecord& record : load.records) {
    record.timings =
        ServerTimings{.queue_ms = 5, .prefill_ms = 60, .kv_transfer_ms = 4, .ttft_ms = 90};
  }
  BenchResult result;
  result.runs.push_back(ComputeRun(std::move(load), EosMode::kHonor, {}, {}, 1));
  const std::string table = ClosingTable(result);
  EXPECT_THAT(table,
              HasSubstr("TTFT, mean ms: queue 5.00, prefill 60.0, rest 25.0, network 10.0\n"));
  EXPECT_THAT(table, HasSubstr("between first and second token, mean ms: KV transfer 4.00, "
                               "first decode 6.00\n"));
  result.runs.front() = RunOf(0.1, EosMode::kHonor, {});
  EXPECT_THAT(ClosingTable(result), Not(HasSubstr("mean ms:")));
}

TEST(ClosingTable, CountsAgainstTheSlo) {
  const auto slo = ParseSlo("ttft=150ms", 0);
  ASSERT_TRUE(slo.ok());
  BenchResult result;
  result.slo = *slo;
  result.runs.push_back(RunOf(0.1, EosMode::kHonor, *slo));
  EXPECT_THAT(ClosingTable(result), HasSubstr("ttft over 150 ms: 0 of "));
  result.runs.front() = RunOf(0.2, EosMode::kHonor, *slo);
  EXPECT_THAT(ClosingTable(result), HasSubstr("0.00 % of requests"));
}

TEST(ClosingTable, SaysWhatMakesARunWorthless) {
  BenchResult result;
  result.runs.push_back(RunOf(0.1, EosMode::kMask, {}));
  result.runs.front().void_reason = "request r1 has 2 tokens, expected 3";
  result.runs.front().partial_reason = "interrupted, 40 of 80 requests sent";
  result.runs.front().client_limited = true;
  const std::string table = ClosingTable(result);
  EXPECT_THAT(table, HasSubstr("! run 1 of 1: void, request r1 has 2 tokens, expected 3"));
  EXPECT_THAT(table, HasSubstr("! run 1 of 1: partial, interrupted, 40 of 80 requests sent"));
  EXPECT_THAT(table, HasSubstr("client_limited"));
}

TEST(ClosingTable, ComparesNaturalAndForcedEndsSideBySide) {
  BenchResult result;
  result.runs.push_back(RunOf(0.1, EosMode::kHonor, {}));
  EXPECT_EQ(EosComparison(result), "");
  result.runs.push_back(RunOf(0.2, EosMode::kMask, {}));
  const std::string comparison = EosComparison(result);
  EXPECT_THAT(LineOf(comparison, "end to end, mean ms"), HasSubstr("120"));
  EXPECT_THAT(LineOf(comparison, "end to end, mean ms"), HasSubstr("220"));
  EXPECT_THAT(LineOf(comparison, "output tokens per request"), HasSubstr("1.00"));
  EXPECT_THAT(ClosingTable(result), HasSubstr(comparison));
}

TEST(ClosingTable, SaysWhenNothingEndedByItself) {
  BenchResult result;
  result.runs.push_back(RunOf(0.1, EosMode::kHonor, {}));
  result.runs.push_back(RunOf(0.2, EosMode::kMask, {}));
  EXPECT_THAT(EosComparison(result), HasSubstr("! hardly an answer ended by itself"));
  for (RequestRecord& record : result.runs.front().load.records) record.output_tokens = 2;
  result.runs.front() = ComputeRun(result.runs.front().load, EosMode::kHonor, {}, {}, 1);
  EXPECT_THAT(EosComparison(result), Not(HasSubstr("!")));
}

// A run in which every request failed.
RunResult FailedRun(EosMode eos) {
  LoadResult load = SteadyLoad(40, 0.1);
  for (RequestRecord& record : load.records) {
    record.status = absl::UnavailableError("gone");
    record.chunks.clear();
  }
  return ComputeRun(std::move(load), eos, {}, {}, 1);
}

TEST(ClosingTable, SaysNothingOfEndsWhereNoForcedAnswerCompleted) {
  BenchResult result;
  result.runs.push_back(FailedRun(EosMode::kHonor));
  result.runs.push_back(FailedRun(EosMode::kMask));
  EXPECT_THAT(EosComparison(result), Not(HasSubstr("ended by itself"))) << "nothing completed";
  result.runs.front() = RunOf(0.1, EosMode::kHonor, {});
  EXPECT_THAT(EosComparison(result), Not(HasSubstr("ended by itself"))) << "no forced one did";
}

TEST(ClosingTable, ARunInWhichNothingCompletedHasNoFigures) {
  BenchResult result;
  result.runs.push_back(FailedRun(EosMode::kHonor));
  const std::string table = ClosingTable(result);
  EXPECT_THAT(LineOf(table, "TTFT, ms"), HasSubstr("–"));
  EXPECT_THAT(table, Not(HasSubstr("0.000")));
  EXPECT_THAT(table, HasSubstr("0 of 40 requests completed"));
}

// The table of runs of so many requests, whose times to the first token differ.
std::string TableOfRunsOf(const std::vector<int>& requests) {
  BenchResult result;
  for (const int count : requests) {
    LoadResult load = SteadyLoad(count, 0.1);
    for (size_t i = 0; i < load.records.size(); ++i) {
      for (Chunk& chunk : load.records[i].chunks) {
        chunk.at += 0.001 * static_cast<double>(i % 100) + static_cast<double>(result.runs.size());
      }
    }
    result.runs.push_back(ComputeRun(std::move(load), EosMode::kHonor, {}, {}, 1));
  }
  return ClosingTable(result);
}

// The cells of a row that show nothing.
int DashesOf(const std::string& table, const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(LineOf(table, name), "–");
  return static_cast<int>(parts.size()) - 1;
}

TEST(ClosingTable, ShowsPercentilesThatSamplesCarryAndHowSureTheyAre) {
  const std::string few = TableOfRunsOf({60});
  EXPECT_EQ(DashesOf(few, "TTFT, ms"), 3) << "P95, P99 and P99.9 of 60 requests";
  EXPECT_THAT(few, HasSubstr("95 % interval"));
  const std::string enough = TableOfRunsOf({5000});
  EXPECT_THAT(enough, Not(HasSubstr(" –")));
  EXPECT_THAT(enough, Not(HasSubstr("too few")));
  EXPECT_THAT(TableOfRunsOf({60, 60, 60}), HasSubstr("lowest to highest run"));
}

TEST(ClosingTable, ShowsOfSeveralRunsWhatTheSmallestCarries) {
  EXPECT_EQ(DashesOf(TableOfRunsOf({400}), "TTFT, ms"), 1) << "P99.9";
  EXPECT_EQ(DashesOf(TableOfRunsOf({200, 200, 200}), "TTFT, ms"), 2) << "P99 and P99.9";
  EXPECT_EQ(DashesOf(TableOfRunsOf({400, 60}), "TTFT, ms"), 3) << "P95, P99 and P99.9";
}

TEST(ClosingTable, NamesThePercentilesThatAreLeftOut) {
  EXPECT_THAT(TableOfRunsOf({400}), HasSubstr("–: too few samples (p99.9 needs 3688)\n"));
  EXPECT_THAT(TableOfRunsOf({30}), HasSubstr("(p90 needs 36, p95 72, p99 368, p99.9 3688)\n"));
  EXPECT_THAT(TableOfRunsOf({400, 5}),
              HasSubstr("–: too few samples in a run (median needs 6, p90 36, p95 72,"));
}

TEST(ClosingTable, SaysHowOftenThePeakOfAGaugeWasRead) {
  BenchResult result;
  result.runs.push_back(RunOf(0.1, EosMode::kHonor, {}));
  result.runs.front().server_metrics = {{"interval_s", 1.0},
                                        {"targets",
                                         {{{"role", "decode"},
                                           {"scrapes", 5},
                                           {"failed_scrapes", 1},
                                           {"peaks", {{"kv_usage", 0.0}}}}}}};
  EXPECT_THAT(ClosingTable(result),
              HasSubstr("decode peak KV use 0.0 % (in 4 readings, 1 s apart)"));
}

TEST(ClosingTable, TellsATargetThatNeverAnsweredFromOneThatStopped) {
  BenchResult result;
  result.runs.push_back(RunOf(0.1, EosMode::kHonor, {}));
  const auto target = [](const char* address, int scrapes, int failed) {
    return nlohmann::ordered_json{{"address", address},
                                  {"answering", false},
                                  {"scrapes", scrapes},
                                  {"failed_scrapes", failed}};
  };
  result.runs.front().server_metrics["targets"] = {target("h:1", 5, 5), target("h:2", 5, 2)};
  const std::string table = ClosingTable(result);
  EXPECT_THAT(table, HasSubstr("server: h:1 (never answered)"));
  EXPECT_THAT(table, HasSubstr("server: h:2 (no longer answers)"));
}

TEST(SearchTable, SaysWhyAPointWasNotJudged) {
  SearchPoint point;
  point.partial = true;
  point.reason = "the run ended early: 50 requests in a row failed";
  EXPECT_EQ(PointText(point), "not judged: the run ended early: 50 requests in a row failed");
}

TEST(SearchTable, ListsPointsByValueAndTheAnswer) {
  const auto slo = ParseSlo("ttft=150ms", 0);
  ASSERT_TRUE(slo.ok());
  FindMaxResult search;
  SearchPoint low;
  low.value = 2;
  low.accepted = true;
  SearchPoint high;
  high.value = 4;
  high.reason = "ttft: 20 of 400 over 150 ms";
  search.points = {high, low};
  search.best = 2;
  search.first_failing = 4;
  search.failed_because = high.reason;
  search.converged = true;
  const std::string table = SearchTable(search, SearchFor::kRate, *slo);
  EXPECT_LT(table.find("passes"), table.find("fails: ttft: 20 of 400 over 150 ms"));
  EXPECT_THAT(table, HasSubstr("highest requests/s that keeps the SLO: 2.00; first failing 4.00"));
  search.best.reset();
  EXPECT_THAT(SearchTable(search, SearchFor::kConcurrency, *slo),
              HasSubstr("no concurrency was found that keeps the SLO"));
}

TEST(SearchTable, ShowsThePercentilesThatWereJudged) {
  FindMaxResult search;
  SearchPoint point;
  point.value = 2;
  point.figures.ttft_ms = {.count = 400, .p90 = 123, .p99 = 456};
  point.figures.itl_ms = {.count = 20, .p90 = 78};
  search.points = {point};
  const auto slo = ParseSlo("ttft=150ms,itl=90ms,percentile=90", 0);
  ASSERT_TRUE(slo.ok());
  const std::string table = SearchTable(search, SearchFor::kRate, *slo);
  EXPECT_THAT(table, HasSubstr("ttft p90     itl p90"));
  EXPECT_THAT(LineOf(table, "2.00"), HasSubstr("123"));
  EXPECT_THAT(LineOf(table, "2.00"), Not(HasSubstr("456")));
  EXPECT_THAT(LineOf(table, "2.00"), HasSubstr("–")) << "P90 of 20 gaps";
}

TEST(SearchTable, SaysOnlyWhatASearchThatEndedEarlyKnows) {
  const auto slo = ParseSlo("ttft=150ms", 0);
  ASSERT_TRUE(slo.ok());
  FindMaxResult search;
  search.best = 14.7;
  search.interrupted = true;
  search.ended = "interrupted";
  const std::string interrupted = SearchTable(search, SearchFor::kRate, *slo);
  EXPECT_THAT(interrupted,
              HasSubstr("requests/s that keeps the SLO: at least 14.7; interrupted\n"));
  EXPECT_THAT(interrupted, Not(HasSubstr("highest")));
  search.interrupted = false;
  search.too_slow_at = 29.4;
  const std::string slow = SearchTable(search, SearchFor::kRate, *slo);
  EXPECT_THAT(slow, HasSubstr("at least 14.7; above that, at 29.4, this program was too slow\n"));
  EXPECT_THAT(slow, HasSubstr("Give this program a core")) << "and what to do about it";
  search.best.reset();
  EXPECT_EQ(SearchAnswer(search, SearchFor::kRate),
            "no requests/s was found that keeps the SLO; at 29.4 this program was too slow");
}

TEST(SearchTable, ALatePointIsNoFailure) {
  SearchPoint point;
  point.client_limited = true;
  point.reason = "this program was late";
  EXPECT_EQ(PointText(point), "not judged: this program was late");
}

}  // namespace
}  // namespace baton::bench
