#include "router/page/eos_figures.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/eos/predict/end_score.h"

namespace baton {
namespace {

constexpr double kKept = 0.999;  // of the calibration, with each further answer

}  // namespace

void EndBin::Add(const EndBin& more) {
  estimates += more.estimates;
  said += more.said;
  ended += more.ended;
  unknown += more.unknown;
}

WatchedAnswer::~WatchedAnswer() { figures_->Leave(); }

void WatchedAnswer::Token(const EosSignal& signal) { trace_.Add(std::exp(signal.eos_logprob)); }

void WatchedAnswer::Count(const std::optional<EndScore>& score) {
  if (!score) return;
  for (size_t i = 0; i < kEndHorizons.size(); ++i) {
    const EndOutcome outcome = score->outcomes[i];
    if (outcome == EndOutcome::kNotJudged) continue;
    const double said = score->estimate.p_within[i];
    const auto at = static_cast<size_t>(std::clamp(said, 0.0, 1.0) * kEndBins);
    counted_[i][std::min(at, kEndBins - 1)].Add(
        {.estimates = 1,
         .said = said,
         .ended = outcome == EndOutcome::kEnded ? 1.0 : 0.0,
         .unknown = outcome == EndOutcome::kUnknown ? 1.0 : 0.0});
  }
}

void WatchedAnswer::Foresee(const EndEstimate& estimate) {
  if (estimate.at_step % kScoredEvery != 1 || estimate.at_step < min_tokens_) return;
  while (!awaited_.empty() && estimate.at_step - awaited_.front().at_step >= kEndHorizons.back()) {
    Count(ScoreOf(awaited_.front(), {.seen = estimate.at_step, .limit = estimate.at_step}));
    awaited_.pop_front();
  }
  const bool later = awaited_.empty() || estimate.at_step > awaited_.back().at_step;
  if (later) awaited_.push_back(estimate);
}

void WatchedAnswer::End(const std::string& request_id, const Ending& ending) {
  if (trace_.steps() == 0) return;
  AnswerSpan answer = {
      .natural = ending.natural_end_step, .seen = trace_.steps(), .limit = ending.max_tokens};
  if (ending.reason == FinishReason::kStopEos) answer.natural = trace_.steps();
  for (const EndEstimate& estimate : awaited_) Count(ScoreOf(estimate, answer));
  awaited_.clear();
  figures_->Add({.request_id = request_id, .reason = ending.reason, .trace = std::move(trace_)},
                counted_);
}

std::unique_ptr<WatchedAnswer> EosFigures::Watch(bool asked, int32_t min_tokens) {
  base::MutexLock lock(&mutex_);
  if (watched_ >= (asked ? kMost : kSample)) return nullptr;
  ++watched_;
  return std::unique_ptr<WatchedAnswer>(new WatchedAnswer(this, min_tokens));
}

void EosFigures::Leave() {
  base::MutexLock lock(&mutex_);
  --watched_;
}

void EosFigures::Add(RecentAnswer answer, const EndCalibration& counted) {
  base::MutexLock lock(&mutex_);
  answers_.push_front(std::move(answer));
  if (answers_.size() > kAnswers) answers_.pop_back();
  for (size_t i = 0; i < kEndHorizons.size(); ++i) {
    for (size_t at = 0; at < kEndBins; ++at) {
      EndBin& bin = calibration_[i][at];
      bin.estimates *= kKept;
      bin.said *= kKept;
      bin.ended *= kKept;
      bin.unknown *= kKept;
      bin.Add(counted[i][at]);
    }
  }
}

EosFigures::Figures EosFigures::Get() const {
  base::MutexLock lock(&mutex_);
  return {.watched = watched_,
          .answers = {answers_.begin(), answers_.end()},
          .calibration = calibration_};
}

}  // namespace baton
