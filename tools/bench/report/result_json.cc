#include "tools/bench/report/result_json.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/bench/report/closing_table.h"
#include "tools/bench/report/vllm_names.h"

namespace baton::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostSteps = 2000;

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// JSON has no infinity.
Json RateAsJson(const std::optional<double>& rate) {
  return rate && std::isinf(*rate) ? Json("inf") : OrNull(rate);
}

Json TextOrNull(std::string_view text) { return text.empty() ? Json(nullptr) : Json(text); }

Json IntervalAsJson(const Interval& interval) { return {interval.low, interval.high}; }

std::string_view EosName(EosMode eos) {
  switch (eos) {
    case EosMode::kHonor:
      return "honor";
    case EosMode::kMask:
      return "mask";
    case EosMode::kContinue:
      return "continue";
  }
  return "";
}

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPasses:
      return "passes";
    case Verdict::kFails:
      return "fails";
    case Verdict::kNeedsMore:
      return "needs_more";
  }
  return "";
}

// Percentiles that so many samples say nothing about.
Json TooFewFor(int64_t count) {
  Json names = Json::array();
  for (const auto& [name, percentile] :
       {std::pair("p50", 50.0), {"p90", 90.0}, {"p95", 95.0}, {"p99", 99.0}, {"p99.9", 99.9}}) {
    if (!Carries(count, percentile)) names.push_back(name);
  }
  return names;
}

// Whether there is anything that the number is a share or a mean of.
bool Defined(const Figures& figures, double Figures::*number) {
  if (number == &Figures::tokens_per_chunk || number == &Figures::natural_end_share ||
      number == &Figures::tokens_after_natural_end_share) {
    return figures.completed > 0;
  }
  if (number == &Figures::goodput_share || number == &Figures::failed_share) {
    return figures.completed + figures.failed > 0;
  }
  return true;
}

Json NumberAsJson(const Figures& figures, double Figures::*number) {
  return Defined(figures, number) ? Json(figures.*number) : Json(nullptr);
}

Json CountAsJson(const SloCount& count) {
  return {{"metric", SloMetricName(count.limit.metric)},
          {"limit_ms", count.limit.limit_ms},
          {"samples", count.samples},
          {"violations", count.violations}};
}

Json SloAsJson(const std::optional<Slo>& slo) {
  if (!slo) return nullptr;
  Json limits = Json::object();
  for (const SloLimit& limit : slo->limits) {
    limits[std::string(SloMetricName(limit.metric))] = limit.limit_ms;
  }
  return {{"text", SloText(*slo)},
          {"percentile", slo->percentile},
          {"reader", TextOrNull(slo->reader)},
          {"limits", limits}};
}

Json SaturationAsJson(const Saturation& saturation) {
  return {{"saturated", saturation.saturated},
          {"enough_data", saturation.enough_data},
          {"concurrency_slope_per_s", saturation.concurrency_slope_per_s},
          {"ttft_slope_ms_per_s", saturation.ttft_slope_ms_per_s},
          {"concurrency_p", saturation.concurrency_p},
          {"ttft_p", saturation.ttft_p}};
}

// The steps, thinned to kMostSteps: the last one of each stretch stands for it.
Json StepsAsJson(std::span<const RequestRecord> records) {
  const std::vector<ConcurrencyStep> steps = ConcurrencyOverTime(records);
  const size_t stride = std::max<size_t>(1, (steps.size() + kMostSteps - 1) / kMostSteps);
  Json list = Json::array();
  for (size_t i = stride - 1; i < steps.size(); i += stride) {
    list.push_back({steps[i].at, steps[i].requests});
  }
  return list;
}

Json PromptCountsAsJson(const PromptCounts& counts) {
  Json first = nullptr;
  if (counts.different > 0) first = {{"planned", counts.planned}, {"counted", counts.counted}};
  return {{"compared", counts.compared}, {"different", counts.different}, {"first", first}};
}

Json RunAsJson(const RunResult& run) {
  const Window& window = run.figures.window;
  return {{"seed", run.seed},
          {"label", run.label},
          {"eos", EosName(run.eos)},
          {"rate", RateAsJson(run.rate)},
          {"concurrency", OrNull(run.concurrency)},
          {"partial", !run.partial_reason.empty()},
          {"partial_reason", TextOrNull(run.partial_reason)},
          {"void", TextOrNull(run.void_reason)},
          {"client_limited", run.client_limited},
          {"unix_started", run.load.unix_started},
          {"duration_s", run.load.duration_s},
          {"lag_ms", SummaryAsJson(Summarize(run.load.lag_ms, run.seed))},
          {"window", {{"from", window.from}, {"to", window.to}, {"whole_run", window.whole_run}}},
          {"figures", FiguresAsJson(run.figures)},
          {"whole_run", FiguresAsJson(run.whole_run)},
          {"prompt_counts", PromptCountsAsJson(run.prompt_counts)},
          {"saturation", SaturationAsJson(run.saturation)},
          {"concurrency_over_time", StepsAsJson(run.load.records)},
          {"server_metrics", run.server_metrics}};
}

Json PointAsJson(const SearchPoint& point) {
  Json metrics = Json::array();
  for (const MetricVerdict& metric : point.metrics) {
    Json json = CountAsJson(metric.count);
    json["verdict"] = VerdictName(metric.rule.verdict);
    json["more"] = metric.rule.more;
    metrics.push_back(std::move(json));
  }
  return {{"value", point.value},
          {"accepted", point.accepted},
          {"reason", TextOrNull(point.reason)},
          {"failed_metric",
           point.failed_metric ? Json(SloMetricName(*point.failed_metric)) : Json(nullptr)},
          {"undecided", point.undecided},
          {"requests", point.requests},
          {"failed_requests", point.failed_requests},
          {"runs", point.runs},
          {"seconds", point.seconds},
          {"saturated", point.saturated},
          {"saturation", SaturationAsJson(point.saturation)},
          {"client_limited", point.client_limited},
          {"void", TextOrNull(point.void_reason)},
          {"partial", point.partial},
          {"metrics", std::move(metrics)},
          {"figures", FiguresAsJson(point.figures)}};
}

std::span<const SearchPoint> PointsOf(const BenchResult& result) {
  if (!result.find_max) return {};
  return result.find_max->points;
}

Json SearchAsJson(const BenchResult& result) {
  if (!result.find_max) return nullptr;
  const FindMaxResult& search = *result.find_max;
  const SearchFor variable = result.find_max_variable.value_or(SearchFor::kRate);
  const absl::string_view error = search.status.message();
  return {{"variable", variable == SearchFor::kRate ? "rate" : "concurrency"},
          {"answer", SearchAnswer(search, variable)},
          {"best", OrNull(search.best)},
          {"first_failing", OrNull(search.first_failing)},
          {"failed_metric",
           search.failed_metric ? Json(SloMetricName(*search.failed_metric)) : Json(nullptr)},
          {"failed_because", search.failed_because},
          {"converged", search.converged},
          {"complete", search.complete()},
          {"interrupted", search.interrupted},
          {"too_slow_at", OrNull(search.too_slow_at)},
          {"ended", search.ended},
          {"error", TextOrNull({error.data(), error.size()})},
          {"requests", search.requests}};
}

std::string FirstVoidReason(const BenchResult& result) {
  for (const RunResult& run : result.runs) {
    if (!run.void_reason.empty()) return run.void_reason;
  }
  for (const SearchPoint& point : PointsOf(result)) {
    if (!point.void_reason.empty()) return point.void_reason;
  }
  return "";
}

bool AnyClientLimited(const BenchResult& result) {
  const auto limited = [](const auto& measured) { return measured.client_limited; };
  const auto points = PointsOf(result);
  return std::any_of(result.runs.begin(), result.runs.end(), limited) ||
         std::any_of(points.begin(), points.end(), limited);
}

std::string PartialReason(const BenchResult& result) {
  if (!result.partial_reason.empty()) return result.partial_reason;
  if (result.find_max && !result.find_max->complete()) {
    return SearchAnswer(*result.find_max, result.find_max_variable.value_or(SearchFor::kRate));
  }
  for (const RunResult& run : result.runs) {
    if (!run.partial_reason.empty()) return run.partial_reason;
  }
  return "";
}

}  // namespace

Json SummaryAsJson(const Summary& summary) {
  if (summary.count == 0) return nullptr;
  return {{"count", summary.count},
          {"mean", summary.mean},
          {"std", summary.std},
          {"min", summary.min},
          {"max", summary.max},
          {"p50", summary.p50},
          {"p90", summary.p90},
          {"p95", summary.p95},
          {"p99", summary.p99},
          {"p99.9", summary.p999},
          {"too_few_for", TooFewFor(summary.count)},
          {"ci95",
           {{"mean", IntervalAsJson(summary.mean_ci)},
            {"p50", IntervalAsJson(summary.p50_ci)},
            {"p90", IntervalAsJson(summary.p90_ci)},
            {"p95", IntervalAsJson(summary.p95_ci)},
            {"p99", IntervalAsJson(summary.p99_ci)},
            {"p99.9", IntervalAsJson(summary.p999_ci)}}}};
}

Json FiguresAsJson(const Figures& figures) {
  Json slo = Json::array();
  for (const SloCount& count : figures.slo) slo.push_back(CountAsJson(count));
  Json json = {{"requests", figures.requests},
               {"completed", figures.completed},
               {"failed", figures.failed},
               {"cancelled", figures.cancelled},
               {"prompt_tokens", figures.prompt_tokens},
               {"cached_tokens", figures.cached_tokens},
               {"output_tokens", figures.output_tokens},
               {"extra_attempts", figures.extra_attempts},
               {"finish_reasons", figures.finish_reasons},
               {"errors", figures.errors},
               {"slo", std::move(slo)}};
  for (const FigureInfo& info : FigureTable()) {
    json[std::string(info.name)] = info.distribution != nullptr
                                       ? SummaryAsJson(figures.*info.distribution)
                                       : NumberAsJson(figures, info.number);
  }
  return json;
}

Json ResultAsJson(const BenchResult& result) {
  Json json = VllmResult(result);
  const std::string partial = PartialReason(result);
  json["schema"] = "baton.bench/1";
  json["command"] = result.command;
  json["arrivals"] = TextOrNull(result.arrivals);
  json["prompt_salt"] = OrNull(result.prompt_salt);
  json["server"] = result.server;
  json["eos"] = result.eos;
  json["slo"] = SloAsJson(result.slo);
  json["partial"] = !partial.empty();
  json["partial_reason"] = TextOrNull(partial);
  json["void"] = TextOrNull(FirstVoidReason(result));
  json["client_limited"] = AnyClientLimited(result);
  json["runs"] = Json::array();
  for (const RunResult& run : result.runs) json["runs"].push_back(RunAsJson(run));
  json["find_max"] = SearchAsJson(result);
  json["points"] = Json::array();
  for (const SearchPoint& point : PointsOf(result)) json["points"].push_back(PointAsJson(point));
  json["eos_compare"] = EosCompareAsJson(result.runs);
  return json;
}

}  // namespace baton::bench
