#include "tools/bench/search/search_point.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton::bench {
namespace {

// The share of the violations that the percentile allows, at which the first look still passes.
constexpr double kFirstLookShare = 0.6;
constexpr int64_t kMostOverFirst = 8;
constexpr int64_t kSecondLook = 3;
// How many times the requests that are to count are asked for: the ramp and chance take some.
constexpr double kReserve = 1.12;
// The first run of a closed loop does not know how many requests its warm-up takes; the next do.
constexpr int kMostAllWarmup = 3;

double LimitSeconds(const Slo& slo) {
  double ttft = 0;
  double end_to_end = 0;
  for (const SloLimit& limit : slo.limits) {
    if (limit.metric == SloMetric::kTtft) ttft = limit.limit_ms / 1e3;
    if (limit.metric == SloMetric::kE2e) end_to_end = limit.limit_ms / 1e3;
  }
  return ttft > 0 ? ttft : end_to_end;
}

// What is said of a metric that was judged.
std::string Describe(const MetricVerdict& metric, double percentile) {
  const SloCount& count = metric.count;
  return absl::StrFormat("%s: %d of %d over %g ms, and P%g allows %.1f",
                         std::string(SloMetricName(count.limit.metric)), count.violations,
                         count.samples, count.limit.limit_ms, percentile,
                         static_cast<double>(count.samples) * (1 - percentile / 100));
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
  } else {
    // Else the first request of each user would be more than those that count.
    first = std::max(first, static_cast<int64_t>(value));
  }
  const int64_t most = options_.most_requests > 0 ? options_.most_requests : kMostOverFirst * first;
  if (had > 0) first *= kSecondLook;
  return {first, std::max(had + first, most)};
}

int64_t PointJudge::Beside(double value) const {
  if (options_.variable == SearchFor::kRate) {
    return static_cast<int64_t>(std::ceil(options_.warmup_s * value));
  }
  return static_cast<int64_t>(value + std::ceil(options_.warmup_s * pace_));
}

bool PointJudge::Spend(int64_t counted, SearchPoint* point) {
  const int64_t beside = Beside(point->value);
  const auto wanted = static_cast<int64_t>(std::ceil(kReserve * static_cast<double>(counted)));
  // Where there is no room, one run: its plan says why it cannot be made.
  const int64_t room = options_.most_per_run > beside ? options_.most_per_run - beside : wanted;
  const int64_t runs = 1 + (wanted - 1) / room;
  // An open loop's plan has the requests of the warm-up by itself.
  const int64_t added = options_.variable == SearchFor::kRate ? 0 : beside;
  for (int64_t run = 0; run < runs; ++run) {
    if (!RunOnce(added + (wanted + runs - 1) / runs, point)) return false;
  }
  return true;
}

void PointJudge::Count(const LoadResult& load, const Window& window, SearchPoint* point) const {
  for (const RequestRecord& record : load.records) {
    // One that the end of the drain cut off would have been late, and must not be left out.
    const bool cut_off = record.cancelled && !load.interrupted;
    if (!record.status.ok() || cut_off) ++point->failed_requests;
    if (!record.ok() || !window.Holds(record.scheduled) || all_warmup_ > 0) continue;
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
  if (load->duration_s > 0) pace_ = static_cast<double>(load->records.size()) / load->duration_s;
  Take(*load, request, point);
  if (load->interrupted) {
    point->partial = true;
    point->reason = "interrupted";
  } else if (!load->gave_up.ok()) {
    status_ = load->gave_up;
    point->partial = true;
    point->reason = std::string(status_.message());
  }
  return point->judged();
}

void PointJudge::Take(const LoadResult& load, const PointRequest& request, SearchPoint* point) {
  const Window window = MeasuredWindow(load, WindowOf(point->value));
  all_warmup_ = options_.warmup_s > 0 && window.whole_run ? all_warmup_ + 1 : 0;
  Count(load, window, point);
  if (!point->saturated && all_warmup_ == 0) {
    point->saturation = FindSaturation(load.records, window, options_.saturation);
    point->saturated = point->saturation.saturated;
  }
  if (options_.variable == SearchFor::kRate && ClientLimited(load.lag_ms)) {
    point->client_limited = true;
    point->reason = absl::StrFormat(
        "this program was late (P99 of its lag %.1f ms, over %g ms), which says nothing of the "
        "server",
        LagP99(load.lag_ms), kClientLimitedLagMs);
  }
  if (point->void_reason.empty()) point->void_reason = VoidReason(load.records, options_.eos);
  if (request.requests <= largest_ || (all_warmup_ > 0 && largest_ > 0)) return;
  if (all_warmup_ == 0) largest_ = request.requests;
  point->figures = ComputeFigures(load, window, options_.slo, request.seed);
  point->longest_s = window.seconds();
  point->mean_e2e_s = point->figures.e2el_ms.mean / 1e3;
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
  const bool in_vain = all_warmup_ >= kMostAllWarmup;
  if (!in_vain && point->requests < (all_pass ? kMostOverFirst * most : most)) return false;
  point->undecided = true;
  if (in_vain) {
    point->reason = absl::StrFormat("undecided: the runs were over within the warm-up of %g s",
                                    options_.warmup_s);
  } else if (all_pass) {
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

int64_t PointJudge::RequestsWanted(const SearchPoint& point) const {
  double wanted = 0;
  for (const MetricVerdict& metric : point.metrics) {
    // The rule counts samples, of which a request has one or, of gaps, many.
    const auto samples = static_cast<double>(metric.count.samples);
    const double each = samples > 0 ? samples / static_cast<double>(point.requests) : 1;
    wanted = std::max(wanted, static_cast<double>(metric.rule.more) / each);
  }
  // At a rate of violations that is allowed but not passed, twice as many tell more.
  return wanted > 0 ? static_cast<int64_t>(std::ceil(wanted)) : point.requests;
}

SearchPoint PointJudge::Measure(double value, int point_index, const SearchPoint* earlier) {
  SearchPoint point;
  point.value = value;
  for (const SloLimit& limit : options_.slo.limits) {
    point.metrics.push_back({.count = {.limit = limit}, .rule = {}});
  }
  if (earlier != nullptr) {
    point.metrics = earlier->metrics;
    point.requests = earlier->requests;
  }
  index_ = point_index;
  largest_ = 0;
  all_warmup_ = 0;
  const Budget budget = BudgetOf(value, point.requests);
  if (!Spend(budget.first, &point)) return point;
  while (!Decided(budget.most, &point)) {
    const int64_t least = budget.first / 2;
    int64_t more =
        std::clamp(RequestsWanted(point), least, std::max(least, budget.most - point.requests));
    if (!LongEnough(point)) {
      const double seconds = options_.least_requests_long * point.mean_e2e_s;
      more = std::max(more, static_cast<int64_t>(std::ceil(seconds * value)));
    }
    if (!Spend(more, &point)) return point;
  }
  return point;
}

}  // namespace baton::bench
