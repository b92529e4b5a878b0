#include "common/metrics/queries.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/metrics/metric.h"
#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

std::vector<std::smatch> Matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

// The metric that a series belongs to; those of a histogram have endings of their own.
const MetricInfo* MetricOf(const std::string& series) {
  for (const MetricInfo& info : MetricTable()) {
    if (info.type == MetricType::kHistogram ? series == info.name + "_bucket"
                                            : series == info.name) {
      return &info;
    }
  }
  return nullptr;
}

const MetricLabel* LabelOf(const MetricInfo& info, const std::string& name) {
  const auto label = std::find_if(info.labels.begin(), info.labels.end(),
                                  [&](const MetricLabel& each) { return each.name == name; });
  return label == info.labels.end() ? nullptr : &*label;
}

std::string RolesOf(const MetricInfo& info) {
  std::string roles;
  for (const MetricRole role : {MetricRole::kRouter, MetricRole::kPrefill, MetricRole::kDecode}) {
    if (info.OwnedBy(role)) roles += std::string(MetricRoleName(role)) + " ";
  }
  return roles;
}

TEST(MetricQueries, NameSeriesWithTheirLabelsAndValues) {
  static const std::regex kSelector(R"((baton_[a-z_]+)(\{([^}]*)\})?)");
  static const std::regex kMatcher(R"(([a-z_]+)=~?"([^"]*)\")");
  for (const MetricQuery& each : MetricQueries()) {
    const std::string query(each.query);
    SCOPED_TRACE(query);
    const auto selectors = Matches(query, kSelector);
    ASSERT_FALSE(selectors.empty());
    for (const std::smatch& selector : selectors) {
      const MetricInfo* info = MetricOf(selector[1]);
      ASSERT_NE(info, nullptr) << selector[1];
      const bool of_router = info->OwnedBy(MetricRole::kRouter);
      const std::string matchers = selector[3];
      if (matchers.find("role=") == matchers.npos) {
        EXPECT_EQ(each.by == "router", of_router) << RolesOf(*info);
      }
      for (const std::smatch& matcher : Matches(matchers, kMatcher)) {
        const MetricLabel* label = LabelOf(*info, matcher[1]);
        for (const std::string& value :
             std::vector<std::string>(absl::StrSplit(std::string(matcher[2]), '|'))) {
          if (matcher[1] == "role") {
            EXPECT_NE(RolesOf(*info).find(value), std::string::npos) << value;
            continue;
          }
          ASSERT_NE(label, nullptr) << matcher[1];
          EXPECT_EQ(std::count(label->values.begin(), label->values.end(), value), 1) << value;
        }
      }
    }
  }
}

TEST(MetricQueries, GroupByLabelsOfTheirSeries) {
  static const std::regex kSum(R"(by \(([a-z_, ]+)\) \((rate\()?(baton_[a-z_]+))");
  for (const MetricQuery& each : MetricQueries()) {
    const std::string query(each.query);
    SCOPED_TRACE(query);
    const auto sums = Matches(query, kSum);
    EXPECT_EQ(sums.size(), Matches(query, std::regex(R"(\bby\b)")).size());
    for (const std::smatch& sum : sums) {
      const MetricInfo* info = MetricOf(sum[3]);
      ASSERT_NE(info, nullptr);
      for (const std::string& label :
           std::vector<std::string>(absl::StrSplit(std::string(sum[1]), ", "))) {
        if (label == "role") continue;
        if (label == "le") {
          EXPECT_EQ(info->type, MetricType::kHistogram);
          continue;
        }
        EXPECT_NE(LabelOf(*info, label), nullptr) << label;
      }
    }
  }
}

TEST(MetricQueries, ArePrometheusQueries) {
  const ScratchFolder folder;
  const std::string path = folder / "queries.yml";
  std::ofstream rules(path);
  rules << "groups:\n- name: page\n  rules:\n";
  int number = 0;
  for (const MetricQuery& each : MetricQueries()) {
    rules << "  - record: query_" << number++ << "\n    expr: '" << each.query << "'\n";
  }
  rules.close();
  EXPECT_EQ(std::system(("promtool check rules " + path + " >&2").c_str()), 0)
      << "promtool is in the Debian package prometheus";
}

}  // namespace
}  // namespace baton
