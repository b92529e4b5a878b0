#include "common/metrics/metric_table.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "common/metrics/metric.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

std::string TextOf(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The words of an enum's text that start with a k and a capital.
std::vector<std::string> EnumeratorsOf(const std::string& text) {
  std::vector<std::string> names;
  for (size_t at = 0; at + 1 < text.size(); ++at) {
    const bool inside = at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0;
    const bool begins = text[at] == 'k' && std::isupper(static_cast<unsigned char>(text[at + 1]));
    if (inside || !begins) continue;
    size_t end = at;
    while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[end])) != 0) ++end;
    names.push_back(text.substr(at, end - at));
  }
  return names;
}

bool HoldsAll(const std::vector<double>& buckets, const std::vector<double>& expected) {
  return std::includes(buckets.begin(), buckets.end(), expected.begin(), expected.end());
}

TEST(MetricTable, EveryMetricStandsOnceAtItsPlace) {
  const auto& table = MetricTable();
  ASSERT_EQ(table.size(), static_cast<size_t>(Metric::kProcessStartTime) + 1);
  std::set<std::string> names;
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(table[i].id), i) << table[i].name;
    EXPECT_TRUE(names.insert(table[i].name).second) << table[i].name;
  }
}

TEST(MetricTable, NamesFollowPrometheus) {
  for (const MetricInfo& info : MetricTable()) {
    EXPECT_TRUE(info.name.starts_with("baton_") || info.name.starts_with("process_")) << info.name;
    EXPECT_EQ(info.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"),
              std::string::npos)
        << info.name;
    EXPECT_EQ(info.type == MetricType::kCounter, info.name.ends_with("_total")) << info.name;
    EXPECT_TRUE(info.help.ends_with(".")) << info.name;
    EXPECT_NE(info.owners, 0) << info.name;
  }
}

TEST(MetricTable, NoLabelShadowsABaseLabel) {
  const std::set<std::string> base = {"model_name", "engine", "role"};
  for (const MetricInfo& info : MetricTable()) {
    for (const MetricLabel& label : info.labels) {
      EXPECT_FALSE(base.contains(label.name)) << info.name;
    }
  }
}

TEST(MetricTable, HistogramsHaveRisingBucketsAndOthersNone) {
  for (const MetricInfo& info : MetricTable()) {
    EXPECT_EQ(info.type == MetricType::kHistogram, !info.buckets.empty()) << info.name;
    EXPECT_TRUE(std::is_sorted(info.buckets.begin(), info.buckets.end())) << info.name;
    EXPECT_EQ(std::adjacent_find(info.buckets.begin(), info.buckets.end()), info.buckets.end());
  }
}

TEST(MetricTable, PrecreatedValuesAreInTheirSets) {
  for (const MetricInfo& info : MetricTable()) {
    for (const auto& values : info.precreated) {
      ASSERT_EQ(values.size(), info.labels.size()) << info.name;
      for (size_t i = 0; i < values.size(); ++i) {
        const auto& allowed = info.labels[i].values;
        EXPECT_NE(std::find(allowed.begin(), allowed.end(), values[i]), allowed.end())
            << info.name << " " << values[i];
      }
    }
  }
}

TEST(MetricTable, EveryFinishedReasonAndStopCauseExistsFromTheStart) {
  std::set<std::string> reasons, causes;
  for (const auto& values : InfoOf(Metric::kRequestSuccess).precreated) {
    reasons.insert(values[0]);
    causes.insert(values[1]);
  }
  EXPECT_THAT(reasons, UnorderedElementsAre("stop", "length"));
  EXPECT_THAT(causes, UnorderedElementsAre("eos", "token", "string", "grammar", "runaway", "none"));
  std::set<std::string> failures;
  for (const auto& values : InfoOf(Metric::kRequestFailure).precreated) failures.insert(values[0]);
  EXPECT_THAT(failures, UnorderedElementsAre("abort", "deadline", "error", "rejected"));
}

// The lists of vLLM v1 (metrics/loggers.py): dashboards compare quantiles across engines.
TEST(MetricTable, KeepsTheBoundariesOfVllm) {
  EXPECT_TRUE(HoldsAll(InfoOf(Metric::kTimeToFirstToken).buckets,
                       {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                        1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560}));
  EXPECT_TRUE(HoldsAll(
      InfoOf(Metric::kInterTokenLatency).buckets,
      {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}));
  EXPECT_TRUE(HoldsAll(
      InfoOf(Metric::kE2eRequestLatency).buckets,
      {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}));
  EXPECT_TRUE(HoldsAll(InfoOf(Metric::kIterationTokens).buckets,
                       {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}));
}

// A series that nobody writes is a lie. The names stand in metric.h in the order of the table.
TEST(MetricTable, EveryMetricIsWrittenSomewhere) {
  const std::string root = BATON_SOURCE_DIR;
  std::string code =
      TextOf(root + "/common/metrics/process.cc") + TextOf(root + "/common/metrics/registry.cc");
  for (const char* folder :
       {"/router", "/prefill_worker", "/decode_worker", "/common/worker", "/common/trace"}) {
    for (const auto& entry : std::filesystem::directory_iterator(root + folder)) {
      if (entry.path().extension() == ".cc") code += TextOf(entry.path());
    }
  }
  std::string header = TextOf(root + "/common/metrics/metric.h");
  header = header.substr(header.find("enum class Metric {"));
  header = header.substr(0, header.find("};"));
  size_t count = 0;
  for (const std::string& name : EnumeratorsOf(header)) {
    const std::string use = "Metric::" + name;
    const bool used =
        code.find(use + ",") != std::string::npos || code.find(use + ")") != std::string::npos;
    EXPECT_TRUE(used) << use;
    ++count;
  }
  EXPECT_EQ(count, MetricTable().size());
}

TEST(OneTwoFive, EndsAtTheLastBoundThatIsNotBeyondTheMaximum) {
  EXPECT_THAT(OneTwoFive(1), ElementsAre(1));
  EXPECT_THAT(OneTwoFive(50), ElementsAre(1, 2, 5, 10, 20, 50));
  EXPECT_THAT(OneTwoFive(64), ElementsAre(1, 2, 5, 10, 20, 50));
}

TEST(AllCombinations, IsTheProductAndEmptyForOpenLabels) {
  EXPECT_THAT(AllCombinations({}), ElementsAre(std::vector<std::string>{}));
  EXPECT_EQ(AllCombinations({{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}}).size(), 6u);
  EXPECT_TRUE(AllCombinations({{"a", {"1", "2"}}, {"b", {}}}).empty());
}

}  // namespace
}  // namespace baton
