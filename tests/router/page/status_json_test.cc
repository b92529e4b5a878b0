#include "router/page/status_json.h"

#include "common/sample/presets.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

TEST(StatusJson, ShowsAtMostSoManyWorkersAndThoseInTroubleFirst) {
  RouterStatus status;
  for (int i = 0; i < 1000; ++i) {
    status.workers.push_back({.address = std::to_string(i), .healthy = i != 999});
  }
  const auto json = nlohmann::json::parse(StatusJson(status));
  EXPECT_EQ(json["workers_total"], 1000);
  ASSERT_EQ(json["workers"].size(), kWorkersShown);
  EXPECT_EQ(json["workers"][0]["address"], "999");
  EXPECT_EQ(json["workers"][0]["state"], "unreachable");
}

TEST(StatusJson, AnElasticWorkerCountsInTheRoleThatItTakesAndIsInNoTrouble) {
  RouterStatus status;
  const WorkerLoad load{.foreseen = 2, .expected_tokens = 3};
  status.workers = {{.address = "a", .other_role = true, .load = load},
                    {.address = "a", .healthy = true, .load = load},
                    {.address = "b"}};
  const auto json = nlohmann::json::parse(StatusJson(status));
  EXPECT_EQ(json["foreseen"]["tokens"], 3);
  EXPECT_EQ(json["workers"][0]["state"], "unreachable");
  EXPECT_EQ(json["workers"][1]["state"], "other_role");
  EXPECT_EQ(json["workers"][2]["state"], "serving");
}

TEST(StatusJson, SumsWhatIsForeseenOverAllWorkersAlsoOverThoseThatAreNotShown) {
  RouterStatus status;
  for (int i = 0; i < 200; ++i) {
    status.workers.push_back({.load = {.foreseen = 2, .expected_tokens = 1.5}});
  }
  const auto json = nlohmann::json::parse(StatusJson(status));
  EXPECT_EQ(json["foreseen"]["sequences"], 400);
  EXPECT_EQ(json["foreseen"]["tokens"], 300);
}

TEST(StatusJson, CountsAllRequestsByStageAndShowsTheOldest) {
  RouterStatus status;
  for (int i = 0; i < 1000; ++i) {
    status.requests.push_back({.id = std::to_string(i),
                               .stage = i < 10 ? RequestStage::kReserving : RequestStage::kDecoding,
                               .age = std::chrono::seconds((7 * i) % 1000)});
  }
  const auto json = nlohmann::json::parse(StatusJson(status));
  EXPECT_EQ(json["requests"]["queued"], 0);
  EXPECT_EQ(json["requests"]["reserving"], 10);
  EXPECT_EQ(json["requests"]["decoding"], 990);
  ASSERT_EQ(json["oldest"].size(), kRequestsShown);
  EXPECT_EQ(json["oldest"][0]["age_s"], 999);
  EXPECT_EQ(json["oldest"][19]["age_s"], 980);
  EXPECT_TRUE(json["oldest"][0]["foreseen"].is_null());
}

TEST(StatusJson, SaysWhatIsForeseenOfARequest) {
  RouterStatus status;
  status.requests = {
      {.id = "r", .tokens = 3, .foreseen = {{.expected_remaining = 2.5f, .p50 = 2, .p90 = 4}}}};
  const auto oldest = nlohmann::json::parse(StatusJson(status))["oldest"][0];
  EXPECT_EQ(oldest["tokens"], 3);
  EXPECT_EQ(oldest["foreseen"]["expected_remaining"], 2.5);
  EXPECT_EQ(oldest["foreseen"]["p90"], 4);
}

TEST(StatusJson, StaysSmallWhateverIsShown) {
  RouterStatus status;
  const std::string id(10'000, '"');
  for (int i = 0; i < 5000; ++i) {
    status.workers.push_back({.address = "worker-" + std::to_string(i)});
    status.requests.push_back({.id = id});
  }
  for (size_t i = 0; i < EosFigures::kAnswers; ++i) {
    EosFigures::RecentAnswer answer{.request_id = id};
    for (int step = 0; step < 100; ++step) answer.trace.Add(1.0f / 3e-7f * 1e-14f);
    status.eos.answers.push_back(answer);
  }
  status.recent.resize(RecentFigures::kPoints, {.requests = 1234.567});
  EXPECT_LT(StatusJson(status).size(), size_t{64} << 10);
}

TEST(StatusJson, SaysWhereHttpIsServed) {
  EXPECT_TRUE(nlohmann::json::parse(StatusJson({}))["http"].is_null());
  const auto http =
      nlohmann::json::parse(StatusJson({.http = HttpFacts{8000, true, false}}))["http"];
  EXPECT_EQ(http["port"], 8000);
  EXPECT_EQ(http["tls"], true);
  EXPECT_EQ(http["keys"], false);
  EXPECT_EQ(http["presets"].size(), SamplingPresets().size());
}

TEST(StatusJson, IsJsonWhateverBytesANameHas) {
  const auto json = nlohmann::json::parse(StatusJson({.model = "a\xff<b>\"", .workers = {}}));
  EXPECT_EQ(json["model"], "a\xEF\xBF\xBD<b>\"");
  EXPECT_TRUE(json["workers"].empty());
}

}  // namespace
}  // namespace baton
