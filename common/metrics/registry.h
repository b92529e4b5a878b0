#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "common/metrics/metric.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace baton {

struct MetricsOptions {
  MetricRole role = MetricRole::kRouter;
  std::string model_name;     // as served
  std::string engine = "0";   // index among engines of one process
  int64_t max_model_len = 0;  // cuts the buckets of lengths; 0 = unknown
};

// The metrics that one process owns, of the table in metric.h. Thread-safe.
//
// Series with closed labels exist from the start. References stay valid as long as the registry,
// except those of series given to Remove: look a series up once and keep it.
class MetricsRegistry {
 public:
  using Labels = std::vector<std::string>;  // values in the table's order

  explicit MetricsRegistry(MetricsOptions options);

  // The metric must be of that type and owned by this role.
  prometheus::Counter& counter(Metric metric, const Labels& values = {});
  prometheus::Gauge& gauge(Metric metric, const Labels& values = {});
  prometheus::Histogram& histogram(Metric metric, const Labels& values = {});

  // Takes a series with an open label out, e.g. of a worker that is gone.
  void Remove(Metric metric, const Labels& values);

  // `update` runs before every exposition, in the thread of the scrape, never two at a time; there
  // it sets gauges, and counters by AdvanceTo.
  void OnScrape(std::function<void()> update);

  // For counts kept elsewhere: raises the counter to `total`. Only from OnScrape.
  static void AdvanceTo(prometheus::Counter* counter, double total);

  // 1 for `state` of baton_server_state, 0 for its other values.
  void SetServerState(std::string_view state);

  // Text exposition format, version 0.0.4.
  std::string Expose();

  MetricRole role() const { return options_.role; }

  // Series beyond this many of a metric with open labels are counted under "other".
  static constexpr size_t kMaxOpenSeries = 64;

 private:
  struct Entry {
    const MetricInfo* info = nullptr;
    prometheus::Family<prometheus::Counter>* counters = nullptr;
    prometheus::Family<prometheus::Gauge>* gauges = nullptr;
    prometheus::Family<prometheus::Histogram>* histograms = nullptr;
    std::vector<double> buckets;
    std::map<Labels, void*> series;  // the prometheus object, of the type in `info`
  };

  void AddFamily(const MetricInfo& info);
  Entry& EntryOf(Metric metric, MetricType type);
  void* Series(Metric metric, MetricType type, const Labels& values);
  Labels Normalized(const Entry& entry, const Labels& values) const;
  void* Create(Entry* entry, const Labels& values);

  const MetricsOptions options_;
  prometheus::Registry registry_;
  base::Mutex mutex_;
  std::map<Metric, Entry> entries_;  // the map is fixed by the constructor; series under mutex_
  base::Mutex scrape_mutex_;
  std::vector<std::function<void()>> updates_ ABSL_GUARDED_BY(scrape_mutex_);
};

}  // namespace baton
