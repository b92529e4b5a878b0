#include "tools/bench/search/saturation.h"

#include <algorithm>
#include <cmath>

#include "tools/bench/figures/request_times.h"
#include "tools/bench/figures/statistics.h"

namespace baton::bench {
namespace {

constexpr size_t kLeastBatches = 6;

// One value for each batch that has one, and the middle of that batch in time.
struct Series {
  std::vector<double> at;
  std::vector<double> value;

  void Add(double t, double v) {
    at.push_back(t);
    value.push_back(v);
  }
};

Series TtftMeans(const std::vector<RequestRecord>& records, const Window& window, int batches) {
  const double span = window.seconds() / batches;
  std::vector<double> sums(static_cast<size_t>(batches));
  std::vector<int64_t> counts(static_cast<size_t>(batches));
  for (const RequestRecord& record : records) {
    if (!record.ok() || record.chunks.empty() || !window.Holds(record.scheduled)) continue;
    const auto batch = std::min(static_cast<size_t>((record.scheduled - window.from) / span),
                                static_cast<size_t>(batches - 1));
    sums[batch] += 1e3 * Ttft(record);
    ++counts[batch];
  }
  Series series;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (counts[i] == 0) continue;
    series.Add(window.from + (static_cast<double>(i) + 0.5) * span,
               sums[i] / static_cast<double>(counts[i]));
  }
  return series;
}

Series ConcurrencyMeans(const std::vector<RequestRecord>& records, const Window& window,
                        int batches) {
  const std::vector<ConcurrencyStep> steps = ConcurrencyOverTime(records);
  const double span = window.seconds() / batches;
  Series series;
  for (int i = 0; i < batches; ++i) {
    const double from = window.from + i * span;
    series.Add(from + span / 2, MeanConcurrency(steps, from, from + span));
  }
  return series;
}

// The rise of the line over the window as a share of the series' mean.
double RiseOf(const Regression& line, const Series& series, const Window& window) {
  double mean = 0;
  for (const double v : series.value) mean += v / static_cast<double>(series.value.size());
  return mean > 0 ? line.slope * window.seconds() / mean : 0;
}

}  // namespace

Saturation FindSaturation(const std::vector<RequestRecord>& records, const Window& window,
                          const SaturationOptions& options) {
  Saturation found;
  if (window.seconds() <= 0 || options.batches < 1) return found;
  const Series ttft = TtftMeans(records, window, options.batches);
  const Series concurrency = ConcurrencyMeans(records, window, options.batches);
  const Regression ttft_line = FitLine(ttft.at, ttft.value);
  const Regression concurrency_line = FitLine(concurrency.at, concurrency.value);
  found.ttft_slope_ms_per_s = ttft_line.slope;
  found.ttft_p = ttft_line.p_not_positive;
  found.concurrency_slope_per_s = concurrency_line.slope;
  found.concurrency_p = concurrency_line.p_not_positive;
  found.enough_data = ttft.at.size() >= kLeastBatches;
  found.saturated = found.enough_data && found.ttft_p < options.significance &&
                    found.concurrency_p < options.significance &&
                    RiseOf(ttft_line, ttft, window) >= options.least_rise &&
                    RiseOf(concurrency_line, concurrency, window) >= options.least_rise;
  return found;
}

}  // namespace baton::bench
