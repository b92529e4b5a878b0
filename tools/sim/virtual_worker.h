#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/eos_signal.h"
#include "common/base/ids.h"
#include "common/engine/foresight.h"
#include "common/eos/predict/end_predictor.h"
#include "common/kv/block_pool.h"
#include "common/kv/prefix_cache.h"
#include "common/kv/prefix_journal.h"
#include "common/sched/place_shares.h"
#include "common/sched/scheduler.h"
#include "common/sched/step_times.h"
#include "router/workers/split_cost.h"
#include "tools/sim/answers.h"
#include "tools/sim/baselines.h"
#include "tools/sim/span_means.h"
#include "tools/sim/step_cost.h"
#include "tools/sim/timeline.h"

namespace baton::simulator {

// Who says when answers end.
enum class Foreseer {
  kOff,
  kLearnt,  // survival, learnt while serving
  kFile,    // a predictor file, by recorded signals
  kOracle,  // the truth: a bound on what prediction can give
};

struct WorkerSetup {
  SchedulerOptions scheduler;
  int32_t num_blocks = 0;
  bool prefix_caching = true;
  bool reports_prefixes = false;  // routers ask what the prefix cache holds
  StepCost cost;
  int32_t swap_blocks = 0;  // of a swap space on the host
  double swap_block_s = 0;  // what a step takes longer for each block that it copies there or back
  Foreseer foreseer = Foreseer::kOff;
  // Whose policy the scheduler has, if it is one. With anything but kForeseen the foreseer is kOff.
  std::optional<Baseline> baseline;
  std::string predictor_file;             // with kFile; it was read once without an error
  std::vector<uint8_t> token_boundaries;  // by id
  bool forced_lengths = false;
};

// What a worker did, in tokens.
struct WorkerTotals {
  uint64_t steps = 0;
  uint64_t fed = 0;        // over all rows
  uint64_t fed_again = 0;  // at positions that were computed for the request before, by whomever
  base::Duration busy{};
};

// A worker without threads, device or network: the scheduler, block pool, prefix cache and
// predictor that are served, run as EngineLoop runs them, with steps that take the time that their
// cost says. What other processes ask for is taken between steps.
class VirtualWorker final {
 public:
  // A request, and how many of its positions were computed so far, by any worker.
  struct Request {
    const SimRequest* asked = nullptr;
    int32_t computed = 0;
  };
  // Is told everything that happens to a request's sequence, at the time when it happens.
  using Hear = std::function<void(uint32_t request, SequenceId sequence, const SchedEvent& event)>;

  // `requests`, all there are, may change and stay where they are.
  VirtualWorker(const WorkerSetup& setup, Timeline* timeline, std::span<Request> requests,
                Hear hear);
  VirtualWorker(const VirtualWorker&) = delete;
  VirtualWorker& operator=(const VirtualWorker&) = delete;

  // The id is known at once, as CommandGate gives it.
  SequenceId Add(uint32_t request, SequenceSpec spec);
  // `first` is the token of output step `step`.
  void CommitImport(SequenceId sequence, int32_t step, SampledToken first);
  void Cancel(SequenceId sequence);
  void ReturnLease(SequenceId sequence);

  const Scheduler& scheduler() const { return scheduler_; }
  const BlockPool& pool() const { return pool_; }
  // What its prefix cache holds, for who knows `version` of it; empty if it does not report.
  PrefixReport CachedSince(uint64_t version) const {
    return journal_ == nullptr ? PrefixReport() : journal_->Since(version);
  }
  const WorkerTotals& totals() const { return totals_; }
  // Whether somebody foresees ends here.
  bool foresees() const { return setup_.foreseer != Foreseer::kOff; }
  // How many of the sequences that decode are expected to end in so many seconds of such steps as
  // were computed lately.
  double EndsWithin(double seconds) const;
  // What it tells of its steps.
  PromptTimes prompt_times() const;
  // How full it is as a decode worker, as FillOf says.
  double fill(const SchedulerFigures& figures) const;
  // What it has to lend.
  PlaceCapacity capacity(const SchedulerFigures& figures) const;
  // Of all time until now, per mille of the pool in use: milliseconds by bin. Cached blocks that
  // nobody uses are free.
  const std::vector<double>& kv_use();
  // The share of the pool in use over time, until now.
  const SpanMeans& kv_use_over_time();
  // Empty when nothing is left behind: no sequence, no block in use.
  std::string CheckEmpty() const;

 private:
  struct Command {
    enum class Kind { kAdd, kCommit, kCancel, kReturnLease } kind = Kind::kAdd;
    SequenceId sequence;
    SequenceSpec spec;
    int32_t step = 0;  // of `first`
    SampledToken first;
  };
  struct InFlight {
    StepPlan plan;
    base::Instant done{};
    base::Duration took{};
  };

  void Send(Command command);
  // A turn of the engine's loop: commands, then steps until it waits for one or for a command.
  void Turn();
  void Apply(Command command);
  void TellSwapCosts();
  void Submit(StepPlan plan);
  void FinishStep();
  StepOutput OutputOf(const StepPlan& plan);
  // What is believed of an end behind `step` by who is no predictor.
  std::optional<EndEstimate> EndBehind(const SimRequest& asked, int32_t step) const;
  void CountFed(const StepPlan& plan);
  void TellEvents();
  Request& Of(SequenceId sequence) { return requests_[request_of_[sequence.value() - 1]]; }
  void NoteUse();
  void WakeAt(base::Instant when);

  const WorkerSetup setup_;
  Timeline* const timeline_;
  const std::span<Request> requests_;
  const Hear hear_;
  std::unique_ptr<EndPredictor> predictor_;
  const Foresight foresight_;
  std::optional<Reserve> reserve_;  // of a baseline
  BlockPool pool_;
  BlockPool host_pool_;
  std::unique_ptr<PrefixJournal> journal_;
  std::unique_ptr<PrefixCache> cache_;
  Scheduler scheduler_;
  std::vector<uint32_t> request_of_;  // by sequence id - 1
  std::deque<Command> commands_;
  std::deque<InFlight> in_flight_;
  base::Instant device_free_{};
  double step_s_ = 0;  // the mean of late steps
  StepTimes step_times_;
  bool waits_for_step_ = false;
  base::Instant wake_{base::kNever};
  WorkerTotals totals_;
  std::vector<double> kv_use_;
  SpanMeans kv_use_over_time_;
  base::Instant use_noted_;
};

}  // namespace baton::simulator
