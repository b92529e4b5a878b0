#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::bench {

// One line of a metrics page. Buckets, sums and counts of histograms are samples of their own:
// "x_bucket", "x_sum", "x_count".
struct MetricSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;  // may be NaN or infinite
};

// Reads the Prometheus text exposition format, version 0.0.4: comments and timestamps are skipped,
// label values unescaped. INVALID_ARGUMENT names the line, what was found and what was expected.
absl::StatusOr<std::vector<MetricSample>> ParsePrometheusText(std::string_view page);

}  // namespace baton::bench
