#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/eos/predict/end_bins.h"

namespace baton {

// How one request ended, as far as survival counts it.
struct LearntEnd {
  std::string_view length_class;
  // The steps at which it might have ended and was watched are in (from, to]: from the tokens that
  // earlier attempts drew, or that it had to have, to the last token that was drawn here.
  int32_t from = 0, to = 0;
  bool natural = false;  // the model ended it at step `to`; else it was cut off behind that
};

// Survival per class of requests (Kaplan and Meier's), learnt from the requests that a worker has
// served: how many were still going at each step, and how many ended there. Every end makes the
// ones before it count a little less, so that it follows what is asked. Thread-safe; the engine's
// thread alone adds and asks, another one saves.
class LearntSurvival final {
 public:
  // Classes beyond the first kMostClasses share one, in which all requests count.
  static constexpr size_t kMostClasses = 64;
  static constexpr size_t kMostNameBytes = 256;
  // Ends by the model before which a class knows nothing.
  static constexpr double kFewestEnds = 8;

  LearntSurvival();

  void Add(const LearntEnd& end);
  // What the class says behind `step`: of all requests while it has seen few ends, and empty while
  // these are few, too.
  std::optional<EndChances> ChancesAfter(std::string_view length_class, int32_t step) const;

  // Everything that was learnt, as the body of a state file.
  std::string ToJson(std::string_view model_fingerprint) const;
  // Replaces what was learnt. An error says what is wrong and changes nothing.
  absl::Status FromJson(std::string_view body, std::string_view model_fingerprint);
  // Counts changes, so that what did not change need not be saved.
  uint64_t ends() const;

 private:
  struct Curve {
    std::vector<double> at_risk, ended;  // [cells]: steps watched, ends among them
    double ends = 0;
    std::vector<double> hazard_sums;    // [cells]: of all steps up to the end of each cell
    std::vector<double> log_survivals;  // [cells]: per step
  };
  static void AddTo(const LearntEnd& end, Curve* curve);
  static void Renew(Curve* curve);
  static double HazardUpTo(const Curve& curve, int64_t step);
  const Curve* CurveFor(std::string_view length_class) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable base::Mutex mutex_;
  Curve all_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Curve, std::less<>> classes_ ABSL_GUARDED_BY(mutex_);
  uint64_t ends_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace baton
