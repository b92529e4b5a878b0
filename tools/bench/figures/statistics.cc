#include "tools/bench/figures/statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "common/base/check.h"

namespace baton::bench {
namespace {

constexpr int kResamples = 1000;
constexpr size_t kExactMeanMax = 1000;  // beyond, the mean of a resample is normal for our purposes

// The continued fraction of the incomplete beta function by Lentz's method (Numerical Recipes 6.4);
// converges in O(sqrt(max(a, b))) steps for x < (a + 1) / (a + b + 2).
double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  constexpr double kPrecise = 1e-15;
  const auto away_from_zero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1;
  double d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int m = 1; m <= 100'000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    fraction *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    fraction *= d * c;
    if (std::abs(d * c - 1) < kPrecise) break;
  }
  return fraction;
}

// The logarithm of the gamma function, without the global sign that std::lgamma writes.
double LogGamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

Interval MiddleOf(std::vector<double>* statistics) {
  std::sort(statistics->begin(), statistics->end());
  return {PercentileOfSorted(*statistics, 2.5), PercentileOfSorted(*statistics, 97.5)};
}

Interval MeanInterval(std::span<const double> sorted, double mean, double std,
                      std::mt19937_64* random) {
  const size_t n = sorted.size();
  std::vector<double> means(kResamples);
  if (n > kExactMeanMax) {
    std::normal_distribution<double> law(mean, std / std::sqrt(static_cast<double>(n)));
    for (double& value : means) value = law(*random);
    return MiddleOf(&means);
  }
  // Each draw of 64 bits picks two; n is far below 2^32, so that the bias is, too.
  const auto pick = [&](uint64_t half) { return sorted[(half & 0xffffffffU) * n >> 32]; };
  for (double& value : means) {
    double sum = 0;
    for (size_t i = 0; i < n; i += 2) {
      const uint64_t bits = (*random)();
      sum += pick(bits) + (i + 1 < n ? pick(bits >> 32) : 0);
    }
    value = sum / static_cast<double>(n);
  }
  return MiddleOf(&means);
}

double Beta(double a, double b, std::mt19937_64* random) {
  const double x = std::gamma_distribution<double>(a, 1)(*random);
  const double y = std::gamma_distribution<double>(b, 1)(*random);
  return x / (x + y);
}

// A resample's k-th smallest value is sorted[floor(n U)] with U the k-th smallest of n uniforms,
// and its neighbour follows from U: 1 - U' = (1 - U) V^(1 / values left above).
Interval PercentileInterval(std::span<const double> sorted, double percentile,
                            std::mt19937_64* random) {
  const size_t n = sorted.size();
  const auto count = static_cast<double>(n);
  const double rank = (count - 1) * percentile / 100;
  const double k = std::floor(rank);
  const double fraction = rank - k;
  const auto at = [&](double u) { return sorted[std::min(n - 1, static_cast<size_t>(count * u))]; };
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<double> values(kResamples);
  for (double& value : values) {
    const double u = Beta(k + 1, count - k, random);
    value = at(u);
    if (fraction > 0) {
      const double next = 1 - (1 - u) * std::pow(uniform(*random), 1 / (count - k - 1));
      value += fraction * (at(next) - value);
    }
  }
  return MiddleOf(&values);
}

void AddIntervals(std::span<const double> sorted, uint64_t seed, Summary* summary) {
  std::mt19937_64 random(seed);
  summary->mean_ci = MeanInterval(sorted, summary->mean, summary->std, &random);
  summary->p50_ci = PercentileInterval(sorted, 50, &random);
  summary->p90_ci = PercentileInterval(sorted, 90, &random);
  summary->p95_ci = PercentileInterval(sorted, 95, &random);
  summary->p99_ci = PercentileInterval(sorted, 99, &random);
  summary->p999_ci = PercentileInterval(sorted, 99.9, &random);
}

}  // namespace

int64_t SamplesNeededFor(double percentile) {
  constexpr double kBeyond = 0.025;
  return static_cast<int64_t>(std::ceil(std::log(kBeyond) / std::log(percentile / 100)));
}

bool Carries(int64_t count, double percentile) { return count >= SamplesNeededFor(percentile); }

double PercentileOfSorted(std::span<const double> sorted, double percentile) {
  if (sorted.empty()) return 0;
  const double rank = static_cast<double>(sorted.size() - 1) * percentile / 100;
  const auto below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (rank - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Summary Summarize(std::vector<double> samples, uint64_t seed) {
  Summary summary;
  if (samples.empty()) return summary;
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  summary.count = static_cast<int64_t>(samples.size());
  double sum = 0;
  for (const double value : samples) sum += value;
  summary.mean = sum / n;
  double squares = 0;
  for (const double value : samples) {
    squares += (value - summary.mean) * (value - summary.mean);
  }
  summary.std = std::sqrt(squares / n);
  summary.min = samples.front();
  summary.max = samples.back();
  summary.p50 = PercentileOfSorted(samples, 50);
  summary.p90 = PercentileOfSorted(samples, 90);
  summary.p95 = PercentileOfSorted(samples, 95);
  summary.p99 = PercentileOfSorted(samples, 99);
  summary.p999 = PercentileOfSorted(samples, 99.9);
  if (samples.size() > 1) AddIntervals(samples, seed, &summary);
  return summary;
}

double IncompleteBeta(double a, double b, double x) {
  BATON_CHECK(a > 0 && b > 0);
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double log_front =
      LogGamma(a + b) - LogGamma(a) - LogGamma(b) + a * std::log(x) + b * std::log1p(-x);
  if (x < (a + 1) / (a + b + 2)) return std::exp(log_front) * BetaFraction(a, b, x) / a;
  return 1 - std::exp(log_front) * BetaFraction(b, a, 1 - x) / b;
}

double StudentTCdf(double t, double degrees) {
  if (std::isinf(t)) return t > 0 ? 1 : 0;
  const double tail = IncompleteBeta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2;
  return t > 0 ? 1 - tail : tail;
}

Regression FitLine(std::span<const double> x, std::span<const double> y) {
  BATON_CHECK(x.size() == y.size());
  Regression line;
  if (x.size() < 3) return line;
  const auto n = static_cast<double>(x.size());
  double mean_x = 0;
  double mean_y = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / n;
    mean_y += y[i] / n;
  }
  double xx = 0;
  double xy = 0;
  double yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
  }
  if (xx <= 0) return line;
  line.slope = xy / xx;
  const double residual = std::max(0.0, yy - line.slope * xy);
  const double error = std::sqrt(residual / (n - 2) / xx);
  if (error > 0) {
    line.t = line.slope / error;
  } else if (line.slope != 0) {
    line.t = std::copysign(std::numeric_limits<double>::infinity(), line.slope);
  }
  line.p_not_positive = 1 - StudentTCdf(line.t, n - 2);
  return line;
}

}  // namespace baton::bench
