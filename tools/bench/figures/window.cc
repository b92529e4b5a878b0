#include <algorithm>
#include <cmath>

#include "tools/bench/figures/figures.h"
#include "tools/bench/figures/request_times.h"
#include "tools/bench/figures/statistics.h"

namespace baton::bench {
namespace {

constexpr double kRampShare = 0.1;   // of an open loop, at most
constexpr double kLeastShare = 0.5;  // of the requests after the warm-up, in the window
// Streams of a closed loop may run in step. A window then holds the ends of one wave more than it
// holds waves, and its rates are that much too high.
constexpr double kLeastWaves = 5;

double MedianEndToEnd(const std::vector<RequestRecord>& records) {
  std::vector<double> times;
  for (const RequestRecord& record : records) {
    if (record.ok()) times.push_back(EndToEnd(record));
  }
  std::sort(times.begin(), times.end());
  return PercentileOfSorted(times, 50);
}

}  // namespace

Window WholeRun(const LoadResult& load) {
  double end = load.duration_s;
  for (const RequestRecord& record : load.records) {
    end = std::max({end, record.ended, record.scheduled});
  }
  return {.from = 0, .to = end, .whole_run = true};
}

Window MeasuredWindow(const LoadResult& load, const WindowOptions& options) {
  const std::vector<RequestRecord>& records = load.records;
  Window window{.from = options.warmup_s};
  for (const RequestRecord& record : records) window.to = std::max(window.to, record.scheduled);
  if (options.concurrency == 0) {
    window.from = std::max(window.from, std::min(MedianEndToEnd(records), kRampShare * window.to));
  } else if (records.size() > static_cast<size_t>(options.concurrency)) {
    window.from =
        std::max(window.from, records[static_cast<size_t>(options.concurrency)].scheduled);
  } else {
    return WholeRun(load);
  }
  if (options.concurrency > 0 && window.seconds() < kLeastWaves * MedianEndToEnd(records)) {
    return WholeRun(load);
  }
  int64_t inside = 0;
  int64_t after_warmup = 0;
  for (const RequestRecord& record : records) {
    inside += window.Holds(record.scheduled) ? 1 : 0;
    after_warmup += record.scheduled >= options.warmup_s ? 1 : 0;
  }
  const auto least = kLeastShare * static_cast<double>(after_warmup);
  if (window.seconds() <= 0 || static_cast<double>(inside) < least) return WholeRun(load);
  return window;
}

std::vector<ConcurrencyStep> ConcurrencyOverTime(std::span<const RequestRecord> records) {
  std::vector<std::pair<double, int>> events;
  events.reserve(2 * records.size());
  for (const RequestRecord& record : records) {
    events.emplace_back(record.sent, 1);
    events.emplace_back(std::max(record.sent, record.ended), -1);
  }
  // An end comes before a start of the same moment: spans are half-open.
  std::sort(events.begin(), events.end());
  std::vector<ConcurrencyStep> steps;
  int32_t requests = 0;
  for (const auto& [at, change] : events) {
    requests += change;
    if (!steps.empty() && steps.back().at == at) {
      steps.back().requests = requests;
    } else {
      steps.push_back({at, requests});
    }
  }
  return steps;
}

double MeanConcurrency(std::span<const ConcurrencyStep> steps, double from, double to) {
  if (to <= from) return 0;
  double area = 0;
  // The step that is under way at `from`, if any has begun.
  auto step = std::upper_bound(steps.begin(), steps.end(), from,
                               [](double at, const ConcurrencyStep& s) { return at < s.at; });
  if (step != steps.begin()) --step;
  for (; step != steps.end() && step->at < to; ++step) {
    const double end = std::next(step) == steps.end() ? to : std::min(to, std::next(step)->at);
    area += step->requests * std::max(0.0, end - std::max(from, step->at));
  }
  return area / (to - from);
}

}  // namespace baton::bench
