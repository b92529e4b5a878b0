#pragma once

#include "tools/bench/search/find_max.h"

namespace baton::bench {

// One point of a search: runs it, pools its runs and judges them.
class PointJudge final {
 public:
  PointJudge(const FindMaxOptions& options, const RunPoint& run) : options_(options), run_(run) {}

  // Runs at `value` until it is decided. `point` numbers it, which sets its seeds. `earlier`, which
  // may be null, is the last look at the same value that was judged: its samples count, and this
  // look is kSecondLook times as long as a first one. A run in which this program was late is the
  // last of its point.
  SearchPoint Measure(double value, int point, const SearchPoint* earlier);

  // What the callback answered last; after an error, Measure is not called again.
  const absl::Status& status() const { return status_; }

 private:
  // How many requests may count: in the first look at a value, and at most.
  struct Budget {
    int64_t first = 0;
    int64_t most = 0;
  };
  Budget BudgetOf(double value, int64_t had) const;
  // Makes as many runs as it takes until `counted` more requests count; false when the point cannot
  // be judged.
  bool Spend(int64_t counted, SearchPoint* point);
  bool RunOnce(int64_t requests, SearchPoint* point);
  // How many requests a run has beside those that count: its warm-up, and the first of each user.
  int64_t Beside(double value) const;
  // How many requests would let the rule pass every metric, if violations go on as before.
  int64_t RequestsWanted(const SearchPoint& point) const;
  void Take(const LoadResult& load, const PointRequest& request, SearchPoint* point);
  void Count(const LoadResult& load, const Window& window, SearchPoint* point) const;
  // Asks the rule about every metric; the first that fails is the point's reason.
  void JudgeMetrics(SearchPoint* point) const;
  // Whether anything that has nothing to do with the rule, or a metric, keeps it from passing.
  bool Refused(SearchPoint* point) const;
  bool Decided(int64_t most, SearchPoint* point) const;
  bool LongEnough(const SearchPoint& point) const;
  WindowOptions WindowOf(double value) const;

  const FindMaxOptions& options_;
  const RunPoint& run_;
  absl::Status status_;
  int index_ = 0;
  int64_t largest_ = 0;  // requests of the run that the point's figures are of
  // Requests per second of the latest run: how many a closed loop answers in a warm-up.
  double pace_ = 0;
  int all_warmup_ = 0;  // runs of this point in a row that were over before their warm-up
};

}  // namespace baton::bench
