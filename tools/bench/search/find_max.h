#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/bench/figures/figures.h"
#include "tools/bench/figures/slo.h"
#include "tools/bench/load/load_generator.h"
#include "tools/bench/search/early_stopping.h"
#include "tools/bench/search/saturation.h"

namespace baton::bench {

// What is raised until the SLO breaks. The two have different answers: the highest rate of arrivals
// (open loop) and the largest number of users who each wait for their answer (closed loop).
enum class SearchFor { kRate, kConcurrency };

struct FindMaxOptions {
  SearchFor variable = SearchFor::kRate;
  Slo slo;
  EosMode eos = EosMode::kHonor;  // forced lengths: a void run ends the search
  double start = 1;               // first value; > 0
  double lower_limit = 0.01;      // a search that comes down to it gives up
  double upper_limit = 1e5;       // and one that gets up to it is content
  double resolution = 1.02;       // done when the first failing value over the best is no more
  int max_points = 40;            // that are judged
  double warmup_s = 0;            // of each run
  double confidence = 0.99;       // of the rule, each time that it is asked
  // Requests of a point, all runs together: the first look and the most that are spent on it. 0:
  // DefaultRequests(slo) and eight times the first look.
  int64_t first_requests = 0;
  int64_t most_requests = 0;
  // Requests that one run can make; a point that needs more is spread over several.
  int64_t most_per_run = std::numeric_limits<int64_t>::max();
  // The runs of an open-loop point last together at least this many times the SLO's TTFT (or else
  // E2E) limit, since a queue that grows by 1 % of the arrivals needs 100 limits of time to break
  // the limit.
  double least_limits = 100;
  // And one of its runs at least this many times a request's mean time: a queue near saturation is
  // slow to fill.
  double least_requests_long = 50;
  SaturationOptions saturation;
  uint64_t seed = 1;
};

// The first look at a point: enough that the rule passes at three fifths of the violations that
// the percentile allows.
int64_t DefaultRequests(const Slo& slo, double confidence = 0.99);

// One run at one value, which the search asks its caller to make. A point that needs more requests
// asks for another, independent run.
struct PointRequest {
  double value = 0;  // requests per second, or requests under way
  // Requests to send: in an open loop those after the warm-up, which come on top; in a closed loop
  // all of them.
  int64_t requests = 0;
  uint64_t seed = 0;
  int point = 0;  // counts from 0
  int run = 0;    // of this point, counts from 0
};
// An error ends the search with what was measured; so does a result that was interrupted.
using RunPoint = std::function<absl::StatusOr<LoadResult>(const PointRequest&)>;

struct MetricVerdict {
  SloCount count;
  EarlyStop rule;
};

// One value that was tried, all of its runs together.
struct SearchPoint {
  double value = 0;
  bool accepted = false;  // taken back when a second look at the value fails
  std::string reason;     // why not, in words; "" when accepted
  // The metric that broke the SLO; absent when something else kept the point from passing.
  std::optional<SloMetric> failed_metric;
  bool undecided = false;  // the most requests were spent and the rule neither passed nor failed
  std::vector<MetricVerdict> metrics;  // in the order of the SLO
  int64_t requests = 0;                // counted, inside the windows
  int64_t failed_requests = 0;
  int runs = 0;
  double unix_started = 0;  // of the first run
  double seconds = 0;       // of load, all runs
  bool saturated = false;
  Saturation saturation;  // of the run that was, else of the last
  bool client_limited = false;
  std::string void_reason;
  bool partial = false;   // interrupted: measured, but not judged
  double longest_s = 0;   // of the windows
  double mean_e2e_s = 0;  // of the longest
  Figures figures;        // of the largest run

  // Whether it says anything about the server. A point at which this program was late says only
  // that.
  bool judged() const { return !partial && !client_limited; }
};

struct FindMaxResult {
  std::vector<SearchPoint> points;         // in the order in which they were tried
  std::optional<double> best;              // the highest accepted value
  std::optional<double> first_failing;     // the lowest value above it that failed
  std::optional<SloMetric> failed_metric;  // of that point
  std::string failed_because;              // its reason
  bool converged = false;  // first_failing / best is within the resolution, or adjacent integers
  bool at_limit = false;   // of the values that may be tried: the upper passes, or the lower fails
  bool interrupted = false;
  // The value at which this program was late each time; it ended the search.
  std::optional<double> too_slow_at;
  absl::Status status;      // of the callback
  std::string ended;        // why the search ended, one sentence
  int64_t requests = 0;     // spent, all points
  double unix_started = 0;  // of the first run

  // Whether the search went on until it knew; else `best` is a value that passed, not the highest.
  bool complete() const { return converged || at_limit; }
};

// Finds the highest value at which the SLO holds: from `start` by doubling (or halving) to the
// first change, then by bisection. A point passes when every metric passes JudgePercentile, no run
// is saturated or void, and every request was answered; near the knee it is given more requests
// until the rule decides or `most_requests` are spent, which does not pass. A point with a run that
// was client-limited neither passes nor fails: it is repeated, and the second repetition that is
// late, too, ends the search.
// One whose requests take so long that no run is `least_requests_long` gets up to eight times as
// many. What passes or fails may do so by chance, and a search ends where chance helped: so the
// passing and the failing value that bound the answer are each looked at once more, three times as
// long and together with what was seen before, and the search goes on if that turns them.
FindMaxResult FindMax(const FindMaxOptions& options, const RunPoint& run,
                      const std::function<void(const SearchPoint&)>& on_point = {});

}  // namespace baton::bench
