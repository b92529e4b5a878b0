#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace baton::bench {

// A 95 % interval of a statistic.
struct Interval {
  double low = 0;
  double high = 0;
};

// What is said of a set of samples; all of it is zero without samples. Percentiles interpolate
// linearly between order statistics, as numpy does by default (and vLLM with it); `std` divides by
// n, likewise.
struct Summary {
  int64_t count = 0;
  double mean = 0;
  double std = 0;
  double min = 0;
  double max = 0;
  double p50 = 0;
  double p90 = 0;
  double p95 = 0;
  double p99 = 0;
  double p999 = 0;
  // 95 % percentile-bootstrap intervals; {0, 0} with fewer than two samples.
  Interval mean_ci;
  Interval p50_ci;
  Interval p90_ci;
  Interval p95_ci;
  Interval p99_ci;
  Interval p999_ci;
};

// Sorts `samples` and says what there is to say.
//
// The bootstrap draws 1000 times from `seed`, at a cost that does not grow with the sample beyond
// the sort: the p-th percentile of a resample of n sorted values is the value whose rank is n times
// an order statistic of n uniforms, which is drawn directly (a beta variate) instead of by drawing
// n values; the mean is resampled value by value up to 1000 samples and, beyond, drawn from the
// normal law that it has there. Samples count as independent: the gaps of one request are not, so
// intervals of pooled gaps are narrower than the truth, and several runs show by how much.
Summary Summarize(std::vector<double> samples, uint64_t seed);

// The fewest samples that say something about a percentile strictly between 0 and 100: whatever
// their distribution, the largest of them is then the upper end of a 95 % interval (percentile/100
// to the power of their number is at most 0.025). 36 at P90, 72 at P95, 368 at P99, 3688 at P99.9.
int64_t SamplesNeededFor(double percentile);
// Whether there are that many.
bool Carries(int64_t count, double percentile);

// The percentile, between 0 and 100, of ascending values by linear interpolation; 0 when there are
// none.
double PercentileOfSorted(std::span<const double> sorted, double percentile);

// I_x(a, b), the regularized incomplete beta function; a, b > 0, x in [0, 1].
double IncompleteBeta(double a, double b, double x);
// P(T <= t) of Student's t with `degrees` of freedom.
double StudentTCdf(double t, double degrees);

// A straight line fitted by least squares, and how sure its slope is.
struct Regression {
  double slope = 0;
  double t = 0;                 // slope over its standard error
  double p_not_positive = 1.0;  // one-sided p value of "the slope is not positive"
};

// Fits a line through points, `x` and `y` being of one length. With fewer than three points, or
// when all x are equal, the slope is 0 and p is 1.
Regression FitLine(std::span<const double> x, std::span<const double> y);

}  // namespace baton::bench
