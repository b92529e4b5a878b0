#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <thread>

#include "common/base/mutex.h"
#include "common/engine/command_gate.h"
#include "common/engine/engine.h"
#include "common/engine/event_sink.h"
#include "common/engine/foresight.h"
#include "common/engine/proposal_source.h"
#include "common/engine/self_test.h"
#include "common/engine/watchdog.h"
#include "common/kv/block_pool.h"
#include "common/kv/kv_cache.h"
#include "common/kv/prefix_cache.h"
#include "common/kv/prefix_journal.h"
#include "common/sched/scheduler.h"
#include "common/sched/step_times.h"

namespace baton {

// The engine's thread. It takes commands, plans a step, computes it, commits its tokens and tells
// its events, over and over. Everything below the line "Engine thread" belongs to it alone.
class EngineLoop final : public Engine {
 public:
  // Expects options that were checked: use Engine::Start.
  EngineLoop(const EngineOptions& options, const KvCache& kv, std::unique_ptr<ModelRunner> runner,
             const base::Clock* clock);
  ~EngineLoop() override;

  absl::StatusOr<SequenceId> Admit(SequenceSpec spec) override;
  void CommitImport(SequenceId sequence, SampledToken first) override;
  void Cancel(SequenceId sequence) override;
  void ReturnLease(SequenceId sequence) override;
  base::BoundedQueue<EngineEvent>& events() override { return sink_.queue(); }
  EngineFigures figures() const override;
  PrefixReport CachedSince(uint64_t version) const override { return journal_.Since(version); }
  void Drain() override;
  void Stop() override;

 private:
  void Run();
  // Waits for a command when there is nothing to compute. False when the engine is to stop.
  bool TakeCommands(bool idle);
  void Apply(Command command);
  // Hands a step to the device; its time counts from `begin` on. False when the device failed.
  bool Submit(StepPlan plan, base::Instant begin);
  // Waits for the oldest step that is on the device, and tells its events. False when the device
  // failed.
  bool FinishStep();
  // Lets the engine test itself when nothing but spoilt logits came out for a while, and stops it
  // when that was spoilt, too. `plan` is of the step that ended.
  void JudgeDevice(const StepPlan& plan);
  // Has the tokens of a step looked at, and returns how long that took.
  base::Duration Foresee(const StepPlan& plan, StepOutput* output);
  // What is known of the costs of a preemption, for the next plan.
  void TellSwapCosts();
  // Has it said what may come next, before a plan is made. True if something was computed for that,
  // and more may be left to compute.
  bool Propose();
  void AddSequence(Command command, base::Instant now);
  void EndAll();
  // Whether there was an event to tell.
  bool PublishAndEmit();
  void Emit(EngineEvent event);
  void FailStep(const StepPlan& plan, const absl::Status& why);
  void Fail(absl::Status status);
  EngineFigures Snapshot() const;
  // Of all that computes here; the watchdog asks.
  uint64_t OperationsFinished() const;

  const EngineOptions options_;
  const base::Clock* const clock_;
  const KvCache kv_;
  const std::unique_ptr<ModelRunner> runner_;
  CommandGate gate_;
  EventSink sink_;
  mutable base::Mutex figures_mutex_;
  EngineFigures figures_ ABSL_GUARDED_BY(figures_mutex_);
  std::atomic<bool> healthy_{true};
  PrefixJournal journal_;  // written by the engine's thread

  // What follows belongs to the engine's thread.
  BlockPool pool_;
  BlockPool host_pool_;  // of the swap space
  std::unique_ptr<PrefixCache> cache_;
  Scheduler scheduler_;
  const Foresight foresight_;
  SelfTest self_test_;
  std::unique_ptr<ProposalSource> own_source_;
  ProposalSource* source_;  // null: nothing is foretold
  uint64_t added_ = 0;
  uint64_t steps_ = 0;
  uint64_t steps_overlapped_ = 0;
  struct InFlight {
    StepPlan plan;
    base::Instant begin{};
  };
  std::deque<InFlight> in_flight_;
  base::Instant last_end_{};
  base::Instant planned_at_{};  // the moment of the last plan
  StepTimes step_times_;

  base::Mutex stop_mutex_;
  std::thread thread_ ABSL_GUARDED_BY(stop_mutex_);
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace baton
