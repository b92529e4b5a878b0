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
  bool also_prefill = false;  // it owns what prefill workers own, too
  std::string model_name;     // as served
  std::string engine = "0";   // index among engines of one process
  int64_t max_model_len = 0;  // cuts the buckets of lengths; 0 = unknown
};

// The metrics of the table in metric.h that one process owns. Thread-safe.
//
// Series with closed labels exist from the start. A reference stays valid as long as the registry,
// unless its series is given to Remove: look a series up once and keep the reference.
class MetricsRegistry {
 public:
  using Labels = std::vector<std::string>;  // the labels' values, in the table's order

  explicit MetricsRegistry(MetricsOptions options);

  // The metric must be of that type and owned by this role.
  prometheus::Counter& counter(Metric metric, const Labels& values = {});
  prometheus::Gauge& gauge(Metric metric, const Labels& values = {});
  prometheus::Histogram& histogram(Metric metric, const Labels& values = {});

  // Takes the series with these values of an open label out, as those of a worker that is gone.
  void Remove(Metric metric, const Labels& values);

  // `update` runs before every exposition, in the thread of the scrape, never two at a time; there
  // it sets gauges, and counters by AdvanceTo.
  void OnScrape(std::function<void()> update);

  // Raises a counter to `total`, for counts that are kept elsewhere. Only updates of OnScrape call
  // it.
  static void AdvanceTo(prometheus::Counter* counter, double total);

  // Sets baton_server_state to 1 for `state` and to 0 for the other states.
  void SetServerState(std::string_view state);

  // The page of /metrics, in Prometheus' text exposition format, version 0.0.4.
  std::string Expose();

  MetricRole role() const { return options_.role; }

  // Series beyond this many of a metric with open labels are counted under "other", but for those
  // that are `listed`.
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
