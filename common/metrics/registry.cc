#include "common/metrics/registry.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "prometheus/text_serializer.h"

namespace baton {
namespace {

// Series named process_* carry no labels of ours, as is the custom of all Prometheus clients.
bool HasBaseLabels(const MetricInfo& info) { return info.name.starts_with("baton_"); }

bool Contains(const std::vector<std::string>& values, std::string_view value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Whether whoever sends requests could make series without end.
bool NeedsBound(const MetricInfo& info) {
  return !info.listed && std::any_of(info.labels.begin(), info.labels.end(),
                                     [](const MetricLabel& label) { return label.values.empty(); });
}

// Buckets of lengths end at the context length, beyond which none can occur.
std::vector<double> BucketsFor(const MetricInfo& info, int64_t max_model_len) {
  std::vector<double> buckets = info.buckets;
  const bool is_length = info.name.ends_with("_tokens") && info.id != Metric::kIterationTokens;
  if (!is_length || max_model_len <= 0) return buckets;
  return OneTwoFive(static_cast<double>(max_model_len));
}

}  // namespace

MetricsRegistry::MetricsRegistry(MetricsOptions options) : options_(std::move(options)) {
  for (const MetricInfo& info : MetricTable()) {
    const bool also = options_.also_prefill && info.OwnedBy(MetricRole::kPrefill);
    if (info.OwnedBy(options_.role) || also) AddFamily(info);
  }
}

void MetricsRegistry::AddFamily(const MetricInfo& info) {
  prometheus::Labels base;
  if (HasBaseLabels(info)) {
    base = {{"model_name", options_.model_name},
            {"engine", options_.engine},
            {"role", std::string(MetricRoleName(options_.role))}};
  }
  Entry& entry = entries_[info.id];
  entry.info = &info;
  const auto build = [&](auto builder) {
    return &builder.Name(info.name).Help(info.help).Labels(base).Register(registry_);
  };
  switch (info.type) {
    case MetricType::kCounter:
      entry.counters = build(prometheus::BuildCounter());
      break;
    case MetricType::kGauge:
      entry.gauges = build(prometheus::BuildGauge());
      break;
    case MetricType::kHistogram:
      entry.buckets = BucketsFor(info, options_.max_model_len);
      entry.histograms = build(prometheus::BuildHistogram());
      break;
  }
  for (const Labels& values : info.precreated) Create(&entry, values);
}

void* MetricsRegistry::Create(Entry* entry, const Labels& values) {
  prometheus::Labels labels;
  for (size_t i = 0; i < values.size(); ++i) labels[entry->info->labels[i].name] = values[i];
  void* series = nullptr;
  if (entry->counters != nullptr) series = &entry->counters->Add(labels);
  if (entry->gauges != nullptr) series = &entry->gauges->Add(labels);
  if (entry->histograms != nullptr) series = &entry->histograms->Add(labels, entry->buckets);
  entry->series[values] = series;
  return series;
}

MetricsRegistry::Entry& MetricsRegistry::EntryOf(Metric metric, MetricType type) {
  const auto found = entries_.find(metric);
  BATON_CHECK(found != entries_.end())
      << InfoOf(metric).name << " is not the " << MetricRoleName(options_.role) << "'s";
  BATON_CHECK(found->second.info->type == type)
      << found->second.info->name << " is no " << MetricTypeName(type);
  return found->second;
}

MetricsRegistry::Labels MetricsRegistry::Normalized(const Entry& entry,
                                                    const Labels& values) const {
  const MetricInfo& info = *entry.info;
  BATON_CHECK(values.size() == info.labels.size())
      << info.name << " has " << info.labels.size() << " labels, not " << values.size();
  Labels result = values;
  for (size_t i = 0; i < values.size(); ++i) {
    const MetricLabel& label = info.labels[i];
    if (label.values.empty() || Contains(label.values, values[i])) continue;
    BATON_CHECK(Contains(label.values, "other"))
        << info.name << "{" << label.name << "=\"" << values[i] << "\"} is not in the table";
    result[i] = "other";
  }
  const bool full = NeedsBound(info) && entry.series.size() >= kMaxOpenSeries;
  if (!full || entry.series.contains(result)) return result;
  for (size_t i = 0; i < result.size(); ++i) {
    if (info.labels[i].values.empty()) result[i] = "other";
  }
  return result;
}

void* MetricsRegistry::Series(Metric metric, MetricType type, const Labels& values) {
  base::MutexLock lock(&mutex_);
  Entry& entry = EntryOf(metric, type);
  const Labels normalized = Normalized(entry, values);
  const auto found = entry.series.find(normalized);
  return found != entry.series.end() ? found->second : Create(&entry, normalized);
}

prometheus::Counter& MetricsRegistry::counter(Metric metric, const Labels& values) {
  return *static_cast<prometheus::Counter*>(Series(metric, MetricType::kCounter, values));
}

prometheus::Gauge& MetricsRegistry::gauge(Metric metric, const Labels& values) {
  return *static_cast<prometheus::Gauge*>(Series(metric, MetricType::kGauge, values));
}

prometheus::Histogram& MetricsRegistry::histogram(Metric metric, const Labels& values) {
  return *static_cast<prometheus::Histogram*>(Series(metric, MetricType::kHistogram, values));
}

void MetricsRegistry::Remove(Metric metric, const Labels& values) {
  base::MutexLock lock(&mutex_);
  Entry& entry = EntryOf(metric, MetricType::kGauge);
  const auto found = entry.series.find(values);
  if (found == entry.series.end()) return;
  entry.gauges->Remove(static_cast<prometheus::Gauge*>(found->second));
  entry.series.erase(found);
}

void MetricsRegistry::OnScrape(std::function<void()> update) {
  base::MutexLock lock(&scrape_mutex_);
  updates_.push_back(std::move(update));
}

void MetricsRegistry::AdvanceTo(prometheus::Counter* counter, double total) {
  counter->Increment(std::max(0.0, total - counter->Value()));
}

void MetricsRegistry::SetServerState(std::string_view state) {
  const std::vector<std::string>& states = InfoOf(Metric::kServerState).labels[0].values;
  BATON_CHECK(Contains(states, state)) << state;
  for (const std::string& each : states) {
    gauge(Metric::kServerState, {each}).Set(each == state ? 1 : 0);
  }
}

std::string MetricsRegistry::Expose() {
  base::MutexLock lock(&scrape_mutex_);
  for (const auto& update : updates_) update();
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

}  // namespace baton
