#include "tools/bench/search_point.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton::bench {
namespace {

// Of the violations that the percentile allows, the share at which the first look still passes.
constexpr double kFirstLookShare = 0.6;
constexpr int64_t kMostOverFirst = 8;
constexpr int64_t kSecondLook = 3;
// A look so short is enough to see that a point is far out: this many times the allowed violations.
constexpr double kGross = 10;

double LimitSeconds(const Slo& slo) {
  double ttft = 0;
  double end_to_end = 0;
  for (const SloLimit& limit : slo.limits) {
    if (limit.metric == SloMetric::kTtft) ttft = limit.limit_ms / 1e3;
    if (limit.metric == SloMetric::kE2e) end_to_end = limit.limit_ms / 1e3;
  }
  return ttft > 0 ? ttft : end_to_end;
}

// What a judged metric says of itself.
std::string Describe(const MetricVerdict& metric, double percentile) {
  const SloCount& count = metric.count;
  return absl::StrFormat("%s: %d of %d over %g ms, and P%g allows %.1f",
                         std::string(SloMetricName(count.limit.metric)), count.violations,
                         count.samples, count.limit.limit_ms, percentile,
                         static_cast<double>(count.samples) * (1 - percentile / 100));
}

bool Grossly(const SloCount& count, double percentile) {
  return static_cast<double>(count.violations) >
         kGross * (1 - percentile / 100) * static_cast<double>(count.samples);
}

}  // namespace

int64_t DefaultRequests(const Slo& slo, double confidence) {
  const double q = 1 - slo.percentile / 100;
  int64_t violations = 0;
  int64_t n = RequestsNeeded(0, slo.percentile, confidence);
  while (static_cast<double>(violations) < kFirstLookShare * q * static_cast<double>(n)) {
    n = RequestsNeeded(++violations, slo.percentile, confidence);
  }
  return n;
}

WindowOptions PointJudge::WindowOf(double value) const {
  const bool closed = options_.variable == SearchFor::kConcurrency;
  return {.warmup_s = options_.warmup_s, .concurrency = closed ? static_cast<int32_t>(value) : 0};
}

PointJudge::Budget PointJudge::BudgetOf(double value, int64_t had) const {
  int64_t first = options_.first_requests > 0 ? options_.first_requests
                                              : DefaultRequests(options_.slo, options_.confidence);
  if (options_.variable == SearchFor::kRate) {
    const double needed = options_.least_limits * LimitSeconds(options_.slo) * value;
    first = std::max(first, static_cast<int64_t>(std::ceil(needed)));
  }
  const int64_t most = options_.most_requests > 0 ? options_.most_requests : kMostOverFirst * first;
  if (had > 0) first *= kSecondLook;
  return {first, std::max(had + first, most)};
}

void PointJudge::Count(const LoadResult& load, const Window& window, SearchPoint* point) const {
  for (const RequestRecord& record : load.records) {
    // One that the end of the drain cut off would have been late, and must not be left out.
    const bool cut_off = record.cancelled && !load.interrupted;
    if (!record.status.ok() || cut_off) ++point->failed_requests;
    if (!record.ok() || !window.Holds(record.scheduled)) continue;
    ++point->requests;
    for (MetricVerdict& metric : point->metrics) CountAgainst(record, &metric.count);
  }
}

bool PointJudge::RunOnce(int64_t requests, SearchPoint* point) {
  const PointRequest request{.value = point->value,
                             .requests = requests,
                             .seed = options_.seed + 1'000'003ULL * static_cast<uint64_t>(index_) +
                                     static_cast<uint64_t>(point->runs),
                             .point = index_,
                             .run = point->runs};
  absl::StatusOr<LoadResult> load = run_(request);
  if (!load.ok()) {
    status_ = load.status();
    point->partial = true;
    point->reason = absl::StrCat("the run failed: ", status_.message());
    return false;
  }
  if (point->runs == 0) point->unix_started = load->unix_started;
  ++point->runs;
  point->seconds += load->duration_s;
  const Window window = MeasuredWindow(*load, WindowOf(point->value));
  Count(*load, window, point);
  if (!point->saturated) {
    point->saturation = FindSaturation(load->records, window, options_.saturation);
    point->saturated = point->saturation.saturated;
  }
  if (options_.variable == SearchFor::kRate && ClientLimited(load->lag_ms)) {
    point->client_limited = true;
  }
  if (point->void_reason.empty()) point->void_reason = VoidReason(load->records, options_.eos);
  if (requests > largest_) {
    largest_ = requests;
    point->figures = ComputeFigures(*load, window, options_.slo, request.seed);
    point->longest_s = window.seconds();
    point->mean_e2e_s = point->figures.e2el_ms.mean / 1e3;
  }
  if (load->interrupted) {
    point->partial = true;
    point->reason = "interrupted before it was judged";
  } else if (!load->gave_up.ok()) {
    status_ = load->gave_up;
    point->partial = true;
    point->reason = absl::StrCat("the run ended early: ", status_.message());
  }
  return !point->partial;
}

bool PointJudge::LongEnough(const SearchPoint& point) const {
  return options_.variable == SearchFor::kConcurrency ||
         point.longest_s >= options_.least_requests_long * point.mean_e2e_s;
}

void PointJudge::JudgeMetrics(SearchPoint* point) const {
  point->failed_metric.reset();
  for (MetricVerdict& metric : point->metrics) {
    metric.rule = JudgePercentile(metric.count.samples, metric.count.violations,
                                  options_.slo.percentile, options_.confidence);
    if (metric.rule.verdict != Verdict::kFails || point->failed_metric) continue;
    point->failed_metric = metric.count.limit.metric;
    point->reason = Describe(metric, options_.slo.percentile);
  }
}

bool PointJudge::Refused(SearchPoint* point) const {
  if (!point->void_reason.empty()) {
    point->reason = "void: " + point->void_reason;
  } else if (point->client_limited) {
    point->failed_metric.reset();
    point->reason =
        "the load generator was late (P99 of its lag over 5 ms): not the server's limit";
  } else if (point->failed_requests > 0) {
    point->reason = absl::StrCat(point->failed_requests, " requests failed or did not end in time",
                                 point->reason.empty() ? "" : "; ", point->reason);
  } else if (point->reason.empty() && point->saturated) {
    point->reason = absl::StrFormat(
        "saturated: requests under way rise by %.3g per s and TTFT by %.3g ms per s, for as long "
        "as the load lasts",
        point->saturation.concurrency_slope_per_s, point->saturation.ttft_slope_ms_per_s);
  }
  return !point->reason.empty();
}

bool PointJudge::Decided(int64_t most, SearchPoint* point) const {
  JudgeMetrics(point);
  if (Refused(point)) return true;
  const auto waits = std::find_if(
      point->metrics.begin(), point->metrics.end(),
      [](const MetricVerdict& metric) { return metric.rule.verdict == Verdict::kNeedsMore; });
  const bool all_pass = waits == point->metrics.end();
  point->accepted = all_pass && LongEnough(*point);
  if (point->accepted) return true;
  if (point->requests < (all_pass ? kMostOverFirst * most : most)) return false;
  point->undecided = true;
  if (all_pass) {
    point->reason = absl::StrFormat(
        "undecided: a request takes %.3g s, and no run lasted %g times that, after %d requests",
        point->mean_e2e_s, options_.least_requests_long, point->requests);
  } else {
    point->failed_metric = waits->count.limit.metric;
    point->reason = absl::StrCat("undecided: ", Describe(*waits, options_.slo.percentile),
                                 ", after ", point->requests, " requests");
  }
  return true;
}

SearchPoint PointJudge::Measure(double value, int point_index, const SearchPoint* earlier) {
  SearchPoint point;
  point.value = value;
  for (const SloLimit& limit : options_.slo.limits) {
    point.metrics.push_back({.count = {.limit = limit}, .rule = {}});
  }
  if (earlier != nullptr && !earlier->client_limited) {
    point.metrics = earlier->metrics;
    point.requests = earlier->requests;
  }
  index_ = point_index;
  largest_ = 0;
  const Budget budget = BudgetOf(value, point.requests);
  // Requests that a run makes beside those that its window holds.
  const int64_t ramp = options_.variable == SearchFor::kConcurrency
                           ? static_cast<int64_t>(value)
                           : static_cast<int64_t>(std::ceil(options_.warmup_s * value));
  const auto asked = [&](int64_t counted) {
    return ramp + static_cast<int64_t>(std::ceil(1.12 * static_cast<double>(counted)));
  };
  const int64_t each = (budget.first + options_.runs - 1) / options_.runs;
  for (int run = 0; run < options_.runs; ++run) {
    if (!RunOnce(asked(each), &point)) return point;
    const bool far_out = std::any_of(
        point.metrics.begin(), point.metrics.end(),
        [&](const MetricVerdict& m) { return Grossly(m.count, options_.slo.percentile); });
    if (far_out) break;
  }
  while (!Decided(budget.most, &point)) {
    int64_t more = 0;
    for (const MetricVerdict& metric : point.metrics) more = std::max(more, metric.rule.more);
    // At a rate of violations that is allowed but not passed, twice as many tell more.
    if (more == 0) more = point.requests;
    more = std::clamp(more, each / 2, std::max(each / 2, budget.most - point.requests));
    if (!LongEnough(point)) {
      const double seconds = options_.least_requests_long * point.mean_e2e_s;
      more = std::max(more, static_cast<int64_t>(std::ceil(seconds * value)));
    }
    if (!RunOnce(asked(more), &point)) return point;
  }
  return point;
}

}  // namespace baton::bench
