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

// Estimates whose chance of an end lay in one bin.
struct EndBin {
  double estimates = 0, said = 0, ended = 0;  // how many, sum of their chances, how many were so
  double unknown = 0;                         // and of how many nobody knows

  void Add(const EndBin& more);
};
constexpr size_t kEndBins = 10;  // of equal width, of predicted chances
using EndCalibration = std::array<std::array<EndBin, kEndBins>, kEndHorizons.size()>;

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
  struct Ending {
    FinishReason reason = FinishReason::kNone;
    std::optional<int32_t> natural_end_step;  // from 1: where one that ignores EOS would have ended
    int32_t max_tokens = 0;
  };
  // The request is over.
  void End(const std::string& request_id, const Ending& ending);

  static constexpr int32_t kScoredEvery = 16;  // steps

 private:
  friend class EosFigures;
  WatchedAnswer(EosFigures* figures, int32_t min_tokens)
      : figures_(figures), min_tokens_(min_tokens) {}
  void Count(const std::optional<EndScore>& score);

  EosFigures* const figures_;
  const int32_t min_tokens_;
  EosTrace trace_;
  // Those of which a horizon is not over yet: at most 256 / kScoredEvery + 1.
  std::deque<EndEstimate> awaited_;
  // Sums, not estimates, so that those of a long answer all count and none is favoured.
  EndCalibration counted_{};
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

  // Null while enough are watched. `asked`: signals come anyway. Estimates from before an answer
  // has `min_tokens` do not count: that it goes on until then is certain. This outlives what it
  // returns.
  std::unique_ptr<WatchedAnswer> Watch(bool asked, int32_t min_tokens = 0);

  struct RecentAnswer {
    std::string request_id;
    FinishReason reason = FinishReason::kNone;
    EosTrace trace;
  };
  struct Figures {
    size_t watched = 0;                 // now
    std::vector<RecentAnswer> answers;  // the newest first
    EndCalibration calibration{};       // older answers count less: the last thousand or so
  };
  Figures Get() const;

 private:
  friend class WatchedAnswer;
  void Leave();
  void Add(RecentAnswer answer, const EndCalibration& counted);

  mutable base::Mutex mutex_;
  size_t watched_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<RecentAnswer> answers_ ABSL_GUARDED_BY(mutex_);
  EndCalibration calibration_ ABSL_GUARDED_BY(mutex_){};
};

}  // namespace baton
