#pragma once

#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/metrics/decaying_rate.h"
#include "common/metrics/load_log.h"
#include "common/metrics/registry.h"
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

  // Engine figures are read at every scrape from now on; `engine` outlives the last scrape.
  void Observe(const Engine* engine);

  void SequenceAdmitted() override;
  void StepDone(const StepEvent& step) override;
  void StateChanged(SequenceState from, SequenceState to) override;
  void SequenceFinished(const FinishedEvent& event) override;
  void TokenSampled(const SampledToken& token, EosPolicy policy) override;
  void StoppedByEos(const EosSignal& signal) override;
  void ReservationGranted(base::Duration waited) override;
  void ReservationExpired() override;
  void PushDone(int64_t bytes, base::Duration sending, base::Duration committing) override;
  void PushFailed(Reason reason) override;
  void PushRefused(Reason reason) override;
  void PushFromOtherNumerics() override;
  void PushOpened(PushWay way) override;
  void PairHappened(PairEvent event) override;
  void GrantWaited(base::Duration waited) override;
  void PairBytes(int64_t bytes) override;

 private:
  void Scrape(const EngineFigures& figures);
  void ScrapeUtilization();
  void NoteWork(const StepEvent& step);
  void CountFailure(Reason reason);

  MetricsRegistry* const registry_;
  const WorkModel work_;
  const base::Clock* const clock_;
  const Engine* engine_ = nullptr;  // set once, before the first event
  base::Mutex mutex_;
  DecayingRate flops_ ABSL_GUARDED_BY(mutex_);
  DecayingRate bytes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
