#pragma once

#include <span>
#include <string_view>

namespace baton {

// A question that an operator has, with the Prometheus query that answers it.
struct MetricQuery {
  std::string_view question;
  std::string_view by;  // whose series: "router", "workers"
  std::string_view query;
  std::string_view note;  // how to read the answer; may be empty
};

// What docs/metrics.md opens with.
std::span<const MetricQuery> MetricQueries();

}  // namespace baton
