#include "tools/bench/report/closing_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Requests of 3 tokens, one a second, each with `ttft_s` to the first and 10 ms between the others.
LoadResult LoadWithTtft(int requests, double ttft_s) {
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
  RunResult run = ComputeRun(LoadWithTtft(40, ttft_s), eos, {}, slo, 1);
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
  LoadResult load = LoadWithTtft(40, 0.1);
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
  const std::string table = SearchTable(search, SearchFor::kRate, *slo);
  EXPECT_LT(table.find("passes"), table.find("fails: ttft: 20 of 400 over 150 ms"));
  EXPECT_THAT(table, HasSubstr("highest requests/s that keeps the SLO: 2.00; first failing 4.00"));
  search.best.reset();
  EXPECT_THAT(SearchTable(search, SearchFor::kConcurrency, *slo),
              HasSubstr("no concurrency was found that keeps the SLO"));
}

}  // namespace
}  // namespace baton::bench
