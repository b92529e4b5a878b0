#include "tools/bench/report/result_json.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/tools/bench/figures/records.h"

namespace baton::bench {
namespace {

using Json = nlohmann::ordered_json;

LoadResult SomeLoad() {
  std::vector<RequestRecord> records;
  for (int i = 0; i < 30; ++i) {
    records.push_back(RecordOf(i, i, {i + 0.25, i + 0.5, i + 1.0}));
  }
  records[3].status = absl::UnavailableError("gone");
  return LoadOf(records);
}

BenchResult SomeResult() {
  BenchResult result;
  result.command = {"baton", "bench"};
  result.endpoint_type = "baton";
  result.model_id = "demo";
  result.eos = "honor";
  result.slo = *ParseSlo("ttft=300ms", 0);
  for (int i = 0; i < 2; ++i) {
    result.runs.push_back(ComputeRun(SomeLoad(), EosMode::kHonor, {}, result.slo, 1));
    result.runs.back().rate = 1;
  }
  return result;
}

TEST(ResultJson, HasTheNamesThatReadersOfVllmBenchLookFor) {
  const Json json = ResultAsJson(SomeResult());
  for (const char* name : {"date",
                           "endpoint_type",
                           "backend",
                           "label",
                           "model_id",
                           "tokenizer_id",
                           "num_prompts",
                           "request_rate",
                           "burstiness",
                           "max_concurrency",
                           "duration",
                           "completed",
                           "failed",
                           "total_input_tokens",
                           "total_output_tokens",
                           "request_throughput",
                           "request_goodput",
                           "output_throughput",
                           "total_token_throughput",
                           "input_lens",
                           "output_lens",
                           "ttfts",
                           "itls",
                           "latencies",
                           "start_times",
                           "queue_times",
                           "errors",
                           "max_output_tokens_per_s",
                           "max_concurrent_requests"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  for (const std::string metric : {"ttft", "tpot", "itl", "e2el"}) {
    for (const std::string what :
         {"mean_", "median_", "std_", "p50_", "p90_", "p95_", "p99_", "p99.9_"}) {
      EXPECT_TRUE(json[what + metric + "_ms"].is_number()) << what << metric;
    }
  }
}

TEST(ResultJson, PoolsTheRunsOverTheWholeOfEach) {
  const Json json = ResultAsJson(SomeResult());
  EXPECT_EQ(json["num_prompts"], 60);
  EXPECT_EQ(json["completed"], 58);
  EXPECT_EQ(json["failed"], 2);
  EXPECT_EQ(json["request_rate"], 1.0);
  EXPECT_EQ(json["total_output_tokens"], 3 * 58);
  EXPECT_NEAR(json["duration"].get<double>(), 60, 1e-9);
  EXPECT_NEAR(json["output_throughput"].get<double>(), 3 * 58 / 60.0, 1e-9);
  EXPECT_NEAR(json["mean_ttft_ms"].get<double>(), 250, 1e-9);
  EXPECT_NEAR(json["median_tpot_ms"].get<double>(), 375, 1e-9);
  EXPECT_EQ(json["ttfts"].size(), 60U);
  EXPECT_NEAR(json["itls"][0][1].get<double>(), 0.5, 1e-9);
  EXPECT_EQ(json["errors"][3], "gone");
  EXPECT_EQ(json["output_lens"][3], 0);
  EXPECT_EQ(json["max_concurrent_requests"], 1);
}

TEST(ResultJson, HoldsEveryFigureOfEveryRun) {
  const Json json = ResultAsJson(SomeResult());
  ASSERT_EQ(json["runs"].size(), 2U);
  const Json& run = json["runs"][0];
  for (const FigureInfo& info : FigureTable()) {
    EXPECT_TRUE(run["figures"].contains(info.name)) << info.name;
  }
  EXPECT_EQ(run["window"]["to"], 29.0);
  EXPECT_TRUE(run["figures"]["queue_ms"].is_null());
  EXPECT_NEAR(run["figures"]["ttft_ms"]["p99"].get<double>(), 250, 1e-9);
  EXPECT_TRUE(run["figures"]["ttft_ms"]["ci95"]["p99.9"].is_array());
  EXPECT_EQ(run["client_limited"], false);
  EXPECT_EQ(json["slo"]["limits"]["ttft"], 300.0);
  EXPECT_TRUE(json["find_max"].is_null());
  EXPECT_TRUE(json["eos_compare"].is_null());
  EXPECT_EQ(json["partial"], false);
}

TEST(ResultJson, SaysWhatIsPartialVoidOrClientLimited) {
  BenchResult result = SomeResult();
  LoadResult load = SomeLoad();
  load.interrupted = true;
  load.records[0].max_tokens = 99;
  load.lag_ms.assign(load.lag_ms.size(), 20);
  result.runs.push_back(ComputeRun(load, EosMode::kMask, {}, result.slo, 1));
  const Json json = ResultAsJson(result);
  EXPECT_EQ(json["partial"], true);
  EXPECT_EQ(json["partial_reason"], "interrupted");
  EXPECT_EQ(json["client_limited"], true);
  EXPECT_NE(json["void"].get<std::string>().find("expected 99"), std::string::npos);
  EXPECT_EQ(json["runs"][2]["partial"], true);
  EXPECT_EQ(json["runs"][0]["partial"], false);
}

TEST(ResultJson, WhatNothingIsKnownOfIsNull) {
  LoadResult load = SomeLoad();
  for (RequestRecord& record : load.records) record.status = absl::UnavailableError("gone");
  BenchResult result = SomeResult();
  result.runs = {ComputeRun(load, EosMode::kHonor, {}, std::nullopt, 1)};
  const Json json = ResultAsJson(result);
  EXPECT_TRUE(json["mean_ttft_ms"].is_null());
  EXPECT_TRUE(json["p99_itl_ms"].is_null());
  EXPECT_EQ(json["completed"], 0);
  const Json& figures = json["runs"][0]["figures"];
  EXPECT_TRUE(figures["tokens_per_chunk"].is_null());
  EXPECT_EQ(figures["failed_share"], 1.0);
  EXPECT_EQ(figures["request_throughput"], 0.0) << "that is known";
}

TEST(ResultJson, SaysWhatSamplesAreTooFewFor) {
  EXPECT_EQ(SummaryAsJson(Summarize(std::vector<double>(60, 1.0), 1))["too_few_for"],
            Json({"p95", "p99", "p99.9"}));
  EXPECT_EQ(SummaryAsJson(Summarize(std::vector<double>(4000, 1.0), 1))["too_few_for"],
            Json::array());
}

TEST(ResultJson, AnInfiniteRateIsAWord) {
  BenchResult result = SomeResult();
  result.runs.front().rate = std::numeric_limits<double>::infinity();
  const Json json = ResultAsJson(result);
  EXPECT_EQ(json["runs"][0]["rate"], "inf");
  EXPECT_EQ(json["request_rate"], "inf");
}

TEST(ResultJson, ARunThatWasCutOffIsPartial) {
  LoadResult load = SomeLoad();
  load.records[5].cancelled = load.records[6].cancelled = true;
  const RunResult run = ComputeRun(load, EosMode::kHonor, {}, std::nullopt, 1);
  EXPECT_EQ(run.partial_reason, "2 requests did not end in time and were cut off");
}

TEST(ResultJson, APointThatIsVoidOrClientLimitedMarksTheResult) {
  BenchResult result = SomeResult();
  result.find_max.emplace();
  result.find_max->points.resize(2);
  EXPECT_TRUE(ResultAsJson(result)["void"].is_null());
  EXPECT_EQ(ResultAsJson(result)["client_limited"], false);
  result.find_max->points[1].void_reason = "expected 3 output tokens, found 2";
  result.find_max->points[0].client_limited = true;
  EXPECT_EQ(ResultAsJson(result)["void"], "expected 3 output tokens, found 2");
  EXPECT_EQ(ResultAsJson(result)["client_limited"], true);
}

TEST(ResultJson, CountsPromptsThatTheServerFoundOfOtherLength) {
  LoadResult load = SomeLoad();
  load.records[4].prompt_tokens = 11;  // planned as 10
  load.records[7].prompt_tokens = 12;
  load.records[8].prompt_tokens = 0;  // a server that does not say
  load.records[9].planned_prompt_tokens = -1;
  BenchResult result = SomeResult();
  EXPECT_TRUE(ResultAsJson(result)["runs"][0]["prompt_counts"]["first"].is_null());
  result.runs = {ComputeRun(load, EosMode::kHonor, {}, std::nullopt, 1)};
  EXPECT_EQ(
      ResultAsJson(result)["runs"][0]["prompt_counts"],
      Json({{"compared", 27}, {"different", 2}, {"first", {{"planned", 10}, {"counted", 11}}}}));
}

TEST(ResultJson, SaysHowRequestsArrivedAndWhatRepeatsThem) {
  BenchResult result = SomeResult();
  Json json = ResultAsJson(result);
  EXPECT_TRUE(json["arrivals"].is_null());
  EXPECT_TRUE(json["prompt_salt"].is_null());
  EXPECT_EQ(json["burstiness"], 1.0);
  result.arrivals = "constant";
  result.burstiness = std::numeric_limits<double>::infinity();
  result.prompt_salt = 77;
  json = Json::parse(ResultAsJson(result).dump());
  EXPECT_EQ(json["arrivals"], "constant");
  EXPECT_EQ(json["burstiness"], "inf");
  EXPECT_EQ(json["prompt_salt"], 77);
}

TEST(ResultJson, AClosedLoopIsNeverClientLimited) {
  LoadResult load = SomeLoad();
  load.lag_ms.assign(load.lag_ms.size(), 20);
  EXPECT_FALSE(
      ComputeRun(load, EosMode::kHonor, {.concurrency = 1}, std::nullopt, 1).client_limited);
  BenchResult result = SomeResult();
  result.runs = {ComputeRun(load, EosMode::kHonor, {.concurrency = 1}, std::nullopt, 1)};
  const Json json = ResultAsJson(result);
  EXPECT_EQ(json["request_rate"], "inf");
  EXPECT_EQ(json["max_concurrency"], 1);
}

TEST(ResultJson, PutsNaturalBesideForcedLength) {
  BenchResult result = SomeResult();
  result.eos = "both";
  LoadResult forced = SomeLoad();
  for (RequestRecord& record : forced.records) record.natural_end_step = 1;
  result.runs.push_back(ComputeRun(forced, EosMode::kMask, {}, result.slo, 1));
  result.runs.back().peak_kv_usage = 0.75;
  const Json compare = ResultAsJson(result)["eos_compare"];
  EXPECT_EQ(compare["natural"]["natural_end_share"], 0.0);
  EXPECT_EQ(compare["forced"]["natural_end_share"], 1.0);
  EXPECT_NEAR(compare["forced"]["tokens_after_natural_end_share"].get<double>(), 2.0 / 3, 1e-9);
  EXPECT_EQ(compare["forced"]["peak_kv_usage"], 0.75);
  EXPECT_TRUE(compare["natural"]["peak_kv_usage"].is_null());
}

TEST(ResultJson, AnEmptyResultIsStillOne) {
  const Json json = ResultAsJson(BenchResult{});
  EXPECT_EQ(json["num_prompts"], 0);
  EXPECT_EQ(json["completed"], 0);
  EXPECT_EQ(json["runs"].size(), 0U);
}

}  // namespace
}  // namespace baton::bench
