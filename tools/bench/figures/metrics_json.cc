#include <algorithm>
#include <cmath>
#include <string>

#include "tools/bench/figures/server_metrics.h"

namespace baton::bench {
namespace {

using Json = nlohmann::ordered_json;

Json SeriesAsJson(const TargetMetrics::Series& series, base::Instant started) {
  constexpr size_t kMost = 2000;
  const size_t stride = (series.size() + kMost - 1) / kMost;
  Json points = Json::array();
  for (size_t i = 0; i < series.size(); i += std::max<size_t>(stride, 1)) {
    // Milliseconds are fine enough for readings of every second.
    const double at = std::round(1e3 * base::Seconds(series[i].first - started)) / 1e3;
    points.push_back({at, series[i].second});
  }
  return points;
}

Json TargetAsJson(const TargetMetrics& target, base::Instant started) {
  Json json = {{"address", target.address}, {"role", target.role}};
  json["scrapes"] = target.scrapes;
  json["failed_scrapes"] = target.failed_scrapes;
  json["answering"] = target.answering;
  json["last_error"] = target.last_error.empty() ? Json(nullptr) : Json(target.last_error);
  json["peaks"] = target.peaks;
  json["start"] = target.start;
  json["end"] = target.end;
  json["increase"] = target.increase;
  Json series = Json::object();
  for (const auto& [name, points] : target.gauges) series[name] = SeriesAsJson(points, started);
  json["series"] = std::move(series);
  return json;
}

Json OrNull(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

// The increases of all counters named "prefix.X", by their X.
Json ByLabel(const ServerMetrics& metrics, const std::string& prefix) {
  Json json = Json::object();
  for (const TargetMetrics& target : metrics.targets) {
    for (const auto& [name, value] : target.increase) {
      if (!name.starts_with(prefix + ".")) continue;
      const std::string label = name.substr(prefix.size() + 1);
      json[label] = json.value(label, 0.0) + value;
    }
  }
  return json;
}

// Tokens over the time of the steps that made them, or null when there were none.
Json PerBusySecond(std::optional<double> tokens, double seconds) {
  return tokens && seconds > 0 ? Json(*tokens / seconds) : Json(nullptr);
}

Json PeaksByAddress(const ServerMetrics& metrics, const std::string& gauge) {
  Json json = Json::object();
  for (const TargetMetrics& target : metrics.targets) {
    if (const auto peak = target.peaks.find(gauge); peak != target.peaks.end()) {
      json[target.address] = peak->second;
    }
  }
  return json;
}

}  // namespace

std::optional<double> ServerMetrics::PeakKvUsage() const {
  std::optional<double> decode, any;
  for (const TargetMetrics& target : targets) {
    const auto peak = target.peaks.find("kv_usage");
    if (peak == target.peaks.end()) continue;
    any = std::max(any.value_or(0), peak->second);
    if (target.role == "decode") decode = std::max(decode.value_or(0), peak->second);
  }
  return decode ? decode : any;
}

std::optional<double> ServerMetrics::Increase(const std::string& counter) const {
  std::optional<double> sum;
  for (const TargetMetrics& target : targets) {
    const auto increase = target.increase.find(counter);
    if (increase != target.increase.end()) sum = sum.value_or(0) + increase->second;
  }
  return sum;
}

nlohmann::ordered_json MetricsAsJson(const ServerMetrics& metrics, base::Instant started) {
  const auto busy = [&](const std::string& phase) {
    return metrics.Increase("step_s." + phase).value_or(0) +
           metrics.Increase("step_s.mixed").value_or(0);
  };
  const auto computed = metrics.Increase("prompt_tokens.local_compute");
  const auto generated = metrics.Increase("generation_tokens");
  const auto first = metrics.Increase("first_tokens");
  Json json = {{"interval_s", metrics.interval_s},
               {"peak_kv_usage", OrNull(metrics.PeakKvUsage())}};
  json["preemptions"] = OrNull(metrics.Increase("preemptions"));
  json["attempts"] = ByLabel(metrics, "attempts");
  json["peak_resident_bytes"] = PeaksByAddress(metrics, "resident_bytes");
  json["prompt_tokens_by_source"] = ByLabel(metrics, "prompt_tokens");
  // A step that holds both phases counts for both: with such steps these are lower bounds. The
  // first token of a request is made by a step of prefill.
  json["prefill_tokens_per_busy_s"] = PerBusySecond(computed, busy("prefill"));
  json["decode_tokens_per_busy_s"] =
      generated && first ? PerBusySecond(std::max(0.0, *generated - *first), busy("decode"))
                         : Json(nullptr);
  json["step_s"] = ByLabel(metrics, "step_s");
  json["targets"] = Json::array();
  for (const TargetMetrics& target : metrics.targets) {
    json["targets"].push_back(TargetAsJson(target, started));
  }
  return json;
}

}  // namespace baton::bench
