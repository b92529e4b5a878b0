#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/end_estimate.h"
#include "common/base/eos_signal.h"
#include "common/base/mutex.h"
#include "common/sample/params.h"
#include "router/page/eos_trace.h"

namespace baton {

class EosFigures;

// One answer under way whose EOS signals and predictions are kept for the page. Whoever runs the
// request calls it; it tells EosFigures at its end only, so that a token waits for nobody.
class WatchedAnswer final {
 public:
  ~WatchedAnswer();
  WatchedAnswer(const WatchedAnswer&) = delete;
  WatchedAnswer& operator=(const WatchedAnswer&) = delete;

  void Token(const EosSignal& signal);
  // Estimates come in the order of their steps; one in kScoredEvery counts.
  void Foresee(const EndEstimate& estimate);
  // The request is over. `natural_end_step`, counted from 1: where one that ignores EOS would have
  // ended.
  void End(const std::string& request_id, FinishReason reason,
           std::optional<int32_t> natural_end_step);

  static constexpr int32_t kScoredEvery = 16;  // steps
  static constexpr size_t kScoresKept = 64;    // of those whose horizons are all over

 private:
  friend class EosFigures;
  explicit WatchedAnswer(EosFigures* figures) : figures_(figures) {}

  EosFigures* const figures_;
  EosTrace trace_;
  // Those of which a horizon is not over yet: at most 256 / kScoredEvery + 1.
  std::deque<EndEstimate> awaited_;
  std::vector<EndScore> scores_;
};

// What a router has lately seen of the ends of answers. No EOS log is needed for it: the router
// asks workers for signals and estimates of some requests in flight, a sample that does not depend
// on how long answers become, because it is drawn when they begin. Thread-safe.
class EosFigures final {
 public:
  // So many answers are watched at a time that did not ask for signals themselves…
  static constexpr size_t kSample = 64;
  // …and so many at all.
  static constexpr size_t kMost = 256;
  static constexpr size_t kAnswers = 32;  // that are remembered
  static constexpr size_t kBins = 10;     // of equal width, of predicted chances

  // Null while enough are watched. `asked`: signals come anyway. This outlives what it returns.
  std::unique_ptr<WatchedAnswer> Watch(bool asked);

  struct RecentAnswer {
    std::string request_id;
    FinishReason reason = FinishReason::kNone;
    EosTrace trace;
  };
  // Estimates whose chance of an end lay in one bin. Older ones count less: the last thousand
  // answers or so.
  struct Bin {
    double estimates = 0, said = 0, ended = 0;  // how many, sum of their chances, how many were so
  };
  using Calibration = std::array<std::array<Bin, kBins>, kEndHorizons.size()>;
  struct Figures {
    size_t watched = 0;                 // now
    std::vector<RecentAnswer> answers;  // the newest first
    Calibration calibration{};
  };
  Figures Get() const;

 private:
  friend class WatchedAnswer;
  void Leave();
  void Add(RecentAnswer answer, const std::vector<EndScore>& scores);

  mutable base::Mutex mutex_;
  size_t watched_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<RecentAnswer> answers_ ABSL_GUARDED_BY(mutex_);
  Calibration calibration_ ABSL_GUARDED_BY(mutex_){};
};

}  // namespace baton
