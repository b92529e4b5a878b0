#include "common/metrics/catalogue.h"

#include <fstream>
#include <sstream>

#include "common/metrics/metric.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(MetricsAsMarkdown, IsTheCommittedDocument) {
  std::ifstream file(BATON_SOURCE_DIR "/docs/metrics.md");
  ASSERT_TRUE(file.good());
  std::ostringstream committed;
  committed << file.rdbuf();
  EXPECT_EQ(committed.str(), MetricsAsMarkdown())
      << "type: baton metrics list --markdown > docs/metrics.md";
}

TEST(MetricsAsJson, ListsEveryMetricWithItsLabels) {
  const auto json = nlohmann::json::parse(MetricsAsJson());
  ASSERT_EQ(json.size(), MetricTable().size());
  EXPECT_EQ(json[0]["name"], "baton_request_success_total");
  EXPECT_EQ(json[0]["type"], "counter");
  EXPECT_EQ(json[0]["owners"], nlohmann::json({"router"}));
  EXPECT_EQ(json[0]["labels"]["finished_reason"].size(), 2u);
}

TEST(MetricsAsText, SaysWhatElasticWorkersHaveOfPrefill) {
  const std::string text = MetricsAsText();
  EXPECT_THAT(text, HasSubstr("baton_kv_pushes_total  counter  (prefill, elastic)"));
  EXPECT_THAT(text, HasSubstr("baton_kv_transfer_bytes  histogram  (prefill, elastic)"));
  EXPECT_THAT(text, HasSubstr("baton_kv_transfer_failures_total  counter  (prefill, decode)"));
}

TEST(MetricsAsText, NamesEveryMetric) {
  const std::string text = MetricsAsText();
  for (const MetricInfo& info : MetricTable()) EXPECT_THAT(text, HasSubstr(info.name));
}

}  // namespace
}  // namespace baton
