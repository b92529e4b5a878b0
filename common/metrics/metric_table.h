#pragma once

#include <string>
#include <vector>

#include "common/metrics/metric.h"

// The parts of the table, each in a file of its own, and what their rows are made of.
namespace baton {

std::vector<MetricInfo> RequestMetrics();
std::vector<MetricInfo> LoadMetrics();
std::vector<MetricInfo> KvMetrics();
std::vector<MetricInfo> RouterMetrics();
std::vector<MetricInfo> TenantMetrics();
std::vector<MetricInfo> EosMetrics();
std::vector<MetricInfo> ProcessMetrics();

constexpr uint8_t kRouterOwns = static_cast<uint8_t>(MetricRole::kRouter);
constexpr uint8_t kPrefillOwns = static_cast<uint8_t>(MetricRole::kPrefill);
constexpr uint8_t kDecodeOwns = static_cast<uint8_t>(MetricRole::kDecode);
constexpr uint8_t kWorkersOwn = kPrefillOwns | kDecodeOwns;
constexpr uint8_t kAllOwn = kWorkersOwn | kRouterOwns;

// A row without buckets. What else it needs is set on it.
MetricInfo Row(Metric id, MetricType type, uint8_t owners, std::string name, std::string help,
               std::vector<MetricLabel> labels = {});

MetricInfo RouterHistogram(Metric id, std::string name, std::vector<double> buckets,
                           std::string help);
MetricInfo WorkerHistogram(Metric id, std::string name, std::vector<double> buckets,
                           std::string help, std::vector<MetricLabel> labels = {});

// Every combination of the labels' values; none when a label is open.
std::vector<std::vector<std::string>> AllCombinations(const std::vector<MetricLabel>& labels);

// The bucket bounds of histograms. Each list keeps every bound that vLLM has for such values, so
// that quantiles on its dashboards can be compared, and adds finer ones below.
std::vector<double> FirstTokenBuckets();  // seconds
std::vector<double> InterTokenBuckets();  // seconds
std::vector<double> RequestBuckets();     // seconds
std::vector<double> IterationTokenBuckets();
// Bounds of lengths in tokens. A registry cuts them off at the model's context length.
std::vector<double> LengthBuckets();
std::vector<double> ShortTimeBuckets();    // seconds, of steps, transfers and decisions
std::vector<double> ProbabilityBuckets();  // 1e-6 to 1

}  // namespace baton
