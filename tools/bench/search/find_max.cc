#include "tools/bench/search/find_max.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "tools/bench/search/search_point.h"

namespace baton::bench {
namespace {

constexpr double kProbeStep = 2;
// How often a look at which this program was late is repeated: what else ran on the machine then
// may be over.
constexpr int kRepetitions = 2;

class Search {
 public:
  Search(const FindMaxOptions& options, const RunPoint& run,
         const std::function<void(const SearchPoint&)>& on_point)
      : options_(options), judge_(options, run), on_point_(on_point) {}

  FindMaxResult Run() {
    if (Probe(options_.start, kProbeStep)) {
      while (!Ended() && (Bisect() || LookAgain())) {
      }
    }
    Conclude();
    return std::move(result_);
  }

 private:
  bool whole() const { return options_.variable == SearchFor::kConcurrency; }

  double Rounded(double value) const {
    value = std::clamp(value, options_.lower_limit, options_.upper_limit);
    return whole() ? std::max(1.0, std::round(value)) : value;
  }

  bool Ended() {
    if (!result_.ended.empty()) return true;
    const auto judged = std::ranges::count_if(result_.points, &SearchPoint::judged);
    if (judged >= options_.max_points) {
      result_.ended = absl::StrCat("the most points that a search may try, ", options_.max_points);
    }
    return !result_.ended.empty();
  }

  // Measures until this program was in time; null when that ended the search.
  const SearchPoint* Try(double value) {
    for (int look = 0; look <= kRepetitions; ++look) {
      const SearchPoint* tried = Look(value);
      if (tried == nullptr || !tried->client_limited) return tried;
    }
    result_.too_slow_at = value;
    result_.ended = absl::StrCat("this program was late at ", value, " in each of ",
                                 kRepetitions + 1, " looks");
    return nullptr;
  }

  // Measures and takes note; null when that ended the search.
  const SearchPoint* Look(double value) {
    if (Ended()) return nullptr;
    const SearchPoint* earlier = PointAt(value);
    const int64_t had = earlier != nullptr ? earlier->requests : 0;
    SearchPoint point = judge_.Measure(value, static_cast<int>(result_.points.size()), earlier);
    result_.requests += point.requests - had;
    if (result_.points.empty()) result_.unix_started = point.unix_started;
    if (!point.accepted && point.judged()) TakeBack(value);
    result_.points.push_back(std::move(point));
    const SearchPoint& tried = result_.points.back();
    if (on_point_) on_point_(tried);
    if (!judge_.status().ok()) {
      result_.status = judge_.status();
      result_.ended = absl::StrCat("a run could not be made: ", result_.status.message());
    } else if (tried.partial) {
      result_.interrupted = true;
      result_.ended = "interrupted";
    } else if (!tried.void_reason.empty()) {
      result_.status = absl::FailedPreconditionError(tried.void_reason);
      result_.ended = "void: " + tried.void_reason;
    }
    if (!result_.ended.empty()) return nullptr;
    Bracket();
    return &tried;
  }

  void TakeBack(double value) {
    for (SearchPoint& point : result_.points) {
      if (point.value != value || !point.accepted) continue;
      point.accepted = false;
      point.reason = "passed at first, but not a longer look";
    }
  }

  // Goes up or down in steps until a value passes and another fails.
  bool Probe(double from, double step) {
    double value = Rounded(from);
    while (!low_ || !high_) {
      const SearchPoint* tried = Try(value);
      if (tried == nullptr) return false;
      if (tried->accepted && value >= options_.upper_limit) {
        result_.ended = absl::StrCat("the upper limit, ", options_.upper_limit, ", passes");
      } else if (!tried->accepted && value <= Rounded(options_.lower_limit)) {
        result_.ended = absl::StrCat("nothing passes down to the lower limit, ", value);
      }
      result_.at_limit = !result_.ended.empty();
      if (result_.at_limit) return false;
      value = tried->accepted ? Above(value, step) : Below(value, step);
    }
    return true;
  }

  // The next value by `step`, which is another one where only whole numbers count.
  double Above(double value, double step) const {
    return Rounded(std::max(value + (whole() ? 1 : 0), step * value));
  }
  double Below(double value, double step) const {
    return Rounded(std::min(value - (whole() ? 1 : 0), value / step));
  }

  // Beyond a value that had failed by chance: the answer is near.
  double SmallStep() const { return std::pow(options_.resolution, 4); }

  bool Close() const {
    if (whole() && *high_ - *low_ <= 1) return true;
    return *high_ / *low_ <= options_.resolution;
  }

  // Halves the bracket; false when it is narrow enough.
  bool Bisect() {
    if (!low_) return Probe(Below(*high_, SmallStep()), SmallStep());
    if (!high_) return Probe(Above(*low_, SmallStep()), SmallStep());
    if (Close()) return false;
    double middle = std::sqrt(*low_ * *high_);
    if (whole()) middle = std::clamp(std::round(middle), *low_ + 1, *high_ - 1);
    Try(middle);
    return true;
  }

  // The two values that bound the answer, each once more: what decided them may have been chance.
  // False when both stand.
  bool LookAgain() {
    for (const double value : {*high_, *low_}) {
      const SearchPoint& point = *PointAt(value);
      const bool by_chance = point.accepted || point.failed_metric || point.saturated;
      if (!by_chance || Looks(value) > 1) continue;
      return Try(value) != nullptr;
    }
    return Converged();
  }

  bool Converged() {
    result_.converged = true;
    result_.ended = whole() && *high_ - *low_ <= 1 ? "adjacent values, one passes and one fails"
                                                   : "passing and failing value within resolution";
    return false;
  }

  // The latest look at a value that was judged; null before the first.
  const SearchPoint* PointAt(double value) const {
    for (auto point = result_.points.rbegin(); point != result_.points.rend(); ++point) {
      if (point->value == value && point->judged()) return &*point;
    }
    return nullptr;
  }

  int64_t Looks(double value) const {
    return std::count_if(
        result_.points.begin(), result_.points.end(),
        [&](const SearchPoint& point) { return point.value == value && point.judged(); });
  }

  // The highest value that passes, and the lowest above it that fails, by the last look at each.
  // A value below another that passed may have failed: the search is for the highest.
  void Bracket() {
    low_.reset();
    high_.reset();
    for (const SearchPoint& point : result_.points) {
      const SearchPoint* last = PointAt(point.value);
      if (last != nullptr && last->accepted) low_ = std::max(low_.value_or(0), point.value);
    }
    for (const SearchPoint& point : result_.points) {
      const SearchPoint* last = PointAt(point.value);
      if (last == nullptr || last->accepted || point.value <= low_.value_or(0)) continue;
      high_ = high_ ? std::min(*high_, point.value) : point.value;
    }
  }

  void Conclude() {
    result_.best = low_;
    result_.first_failing = high_;
    if (!high_) return;
    const SearchPoint* bound = PointAt(*high_);
    result_.failed_metric = bound->failed_metric;
    result_.failed_because = bound->reason;
  }

  const FindMaxOptions& options_;
  PointJudge judge_;
  const std::function<void(const SearchPoint&)>& on_point_;
  FindMaxResult result_;
  std::optional<double> low_;   // the highest that passed
  std::optional<double> high_;  // the lowest above it that failed
};

}  // namespace

FindMaxResult FindMax(const FindMaxOptions& options, const RunPoint& run,
                      const std::function<void(const SearchPoint&)>& on_point) {
  BATON_CHECK(!options.slo.limits.empty() && options.start > 0 && options.resolution > 1 &&
              options.lower_limit > 0 && options.most_per_run > 0 &&
              options.lower_limit <= options.upper_limit);
  return Search(options, run, on_point).Run();
}

}  // namespace baton::bench
