#pragma once

#include <map>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/metrics/decaying_rate.h"
#include "common/metrics/load_log.h"
#include "common/metrics/registry.h"
#include "common/worker/stop_set_watch.h"
#include "common/worker/worker_probe.h"

namespace baton {

// What a step of this model costs and what the machine can do, for the utilization gauges.
struct WorkModel {
  double prefill_flops_per_token = 0;
  double decode_flops_per_token = 0;
  double weight_bytes = 0;  // read once per step
  double block_bytes = 0;   // a decode step reads the blocks of its sequences
  double peak_flops_per_s = 0;
  double peak_read_bytes_per_s = 0;
};

// What a worker has done and has to do, for the lines of its log.
LoadTotals LoadOf(const EngineFigures& figures);

// Feeds a worker's events into its metrics. Thread-safe.
class MetricsProbe final : public WorkerProbe {
 public:
  // `registry` and `clock` outlive the probe, which outlives the last scrape.
  MetricsProbe(MetricsRegistry* registry, const WorkModel& work, const base::Clock* clock);

  // Answers that pass special tokens, by their ids and texts, are looked at from now on; the log
  // tells of the first that seems to end answers of this model.
  void WatchStopSet(std::map<TokenId, std::string> special_tokens);

  // Engine figures are read at every scrape from now on; `engine` outlives the last scrape.
  void Observe(const Engine* engine);

  // What foresees ends in this worker; `version` is empty without a file.
  void PredictorChosen(PredictorKind kind, const std::string& version);

  void SequenceAdmitted() override;
  void StepDone(const StepEvent& step) override;
  void StateChanged(SequenceState from, SequenceState to) override;
  void SequenceFinished(const FinishedEvent& event) override;
  void TokenSampled(const SampledToken& token, EosPolicy policy) override;
  void RanAway(bool ends) override;
  void StoppedByEos(const EosSignal& signal) override;
  void ReservationGranted(base::Duration waited) override;
  void ReservationExpired() override;
  void PushDone(int64_t bytes, base::Duration sending, base::Duration committing) override;
  void PushFailed(Reason reason) override;
  void PushRefused(Reason reason) override;
  void PushFromOtherNumerics() override;
  void RoleTaken(WorkerRole role) override;
  void RoleChanged(WorkerRole to, RoleReason reason) override;
  void RoleLooked(const RoleSignals& signals) override;
  void PushOpened(PushWay way) override;
  void PairHappened(PairEvent event) override;
  void GrantWaited(base::Duration waited) override;
  void PairBytes(int64_t bytes) override;

 private:
  void ScrapeDraft(const DraftFigures& f);
  void ScrapeSwaps(const EngineFigures& figures);
  void Scrape(const EngineFigures& figures);
  void ScrapeUtilization();
  void ScrapeDecodeStep();
  void NoteWork(const StepEvent& step);
  void CountFailure(const std::string& side, Reason reason);
  void WatchSpecial(const FinishedEvent& event);
  void NoteScore(const EndScore& score);

  MetricsRegistry* const registry_;
  const WorkModel work_;
  const base::Clock* const clock_;
  const Engine* engine_ = nullptr;  // set once, before the first event
  base::Mutex mutex_;
  std::map<TokenId, std::string> special_tokens_ ABSL_GUARDED_BY(mutex_);
  StopSetWatch stop_set_ ABSL_GUARDED_BY(mutex_);
  DecayingRate flops_ ABSL_GUARDED_BY(mutex_);
  DecayingRate bytes_ ABSL_GUARDED_BY(mutex_);
  DecayingRate decode_steps_ ABSL_GUARDED_BY(mutex_);
  DecayingRate decode_seconds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
