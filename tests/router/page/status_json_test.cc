#include "router/page/status_json.h"

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

TEST(StatusJson, SumsWhatIsForeseenOverAllWorkersAlsoOverThoseThatAreNotShown) {
  RouterStatus status;
  for (int i = 0; i < 200; ++i) {
    status.workers.push_back({.load = {.foreseen = 2, .expected_tokens = 1.5}});
  }
  const auto json = nlohmann::json::parse(StatusJson(status));
  EXPECT_EQ(json["foreseen"]["sequences"], 400);
  EXPECT_EQ(json["foreseen"]["tokens"], 300);
}

TEST(StatusJson, IsJsonWhateverBytesANameHas) {
  const auto json = nlohmann::json::parse(StatusJson({.model = "a\xff<b>\"", .workers = {}}));
  EXPECT_EQ(json["model"], "a\xEF\xBF\xBD<b>\"");
  EXPECT_TRUE(json["workers"].empty());
}

}  // namespace
}  // namespace baton
