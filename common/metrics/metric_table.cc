#include "common/metrics/metric_table.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/metrics/metric.h"

namespace baton {
namespace {

std::vector<MetricInfo> BuildTable() {
  std::vector<MetricInfo> table;
  for (auto* rows : {&RequestMetrics, &LoadMetrics, &KvMetrics, &RouterMetrics, &TenantMetrics,
                     &EosMetrics, &ProcessMetrics}) {
    for (MetricInfo& row : (*rows)()) table.push_back(std::move(row));
  }
  for (MetricInfo& row : table) {
    if (row.precreated.empty()) row.precreated = AllCombinations(row.labels);
  }
  std::sort(table.begin(), table.end(),
            [](const MetricInfo& a, const MetricInfo& b) { return a.id < b.id; });
  return table;
}

}  // namespace

MetricInfo Row(Metric id, MetricType type, uint8_t owners, std::string name, std::string help,
               std::vector<MetricLabel> labels) {
  return {.id = id,
          .name = std::move(name),
          .type = type,
          .owners = owners,
          .labels = std::move(labels),
          .buckets = {},
          .help = std::move(help),
          .precreated = {}};
}

MetricInfo RouterHistogram(Metric id, std::string name, std::vector<double> buckets,
                           std::string help) {
  MetricInfo row = Row(id, MetricType::kHistogram, kRouterOwns, std::move(name), std::move(help));
  row.buckets = std::move(buckets);
  return row;
}

MetricInfo WorkerHistogram(Metric id, std::string name, std::vector<double> buckets,
                           std::string help, std::vector<MetricLabel> labels) {
  MetricInfo row = Row(id, MetricType::kHistogram, kWorkersOwn, std::move(name), std::move(help),
                       std::move(labels));
  row.buckets = std::move(buckets);
  return row;
}

std::vector<std::vector<std::string>> AllCombinations(const std::vector<MetricLabel>& labels) {
  std::vector<std::vector<std::string>> result = {{}};
  for (const MetricLabel& label : labels) {
    std::vector<std::vector<std::string>> longer;
    for (const auto& prefix : result) {
      for (const std::string& value : label.values) {
        longer.push_back(prefix);
        longer.back().push_back(value);
      }
    }
    result = std::move(longer);
  }
  return result;  // none as soon as one label is open
}

const std::vector<MetricInfo>& MetricTable() {
  static const auto* const kTable = new std::vector<MetricInfo>(BuildTable());
  return *kTable;
}

const MetricInfo& InfoOf(Metric metric) {
  const auto index = static_cast<size_t>(metric);
  BATON_CHECK(index < MetricTable().size() && MetricTable()[index].id == metric) << index;
  return MetricTable()[index];
}

std::string_view MetricTypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "";
}

std::string_view MetricRoleName(MetricRole role) {
  switch (role) {
    case MetricRole::kRouter:
      return "router";
    case MetricRole::kPrefill:
      return "prefill";
    case MetricRole::kDecode:
      return "decode";
  }
  return "";
}

std::vector<double> OneTwoFive(double max) {
  std::vector<double> buckets;
  for (double decade = 1; decade <= max; decade *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * decade <= max) buckets.push_back(factor * decade);
    }
  }
  return buckets;
}

}  // namespace baton
