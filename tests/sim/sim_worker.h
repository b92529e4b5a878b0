#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/kv/block_pool.h"
#include "common/kv/kv_cache.h"
#include "common/kv/prefix_cache.h"
#include "common/sched/scheduler.h"
#include "tests/fakes/fake_runner.h"

namespace baton::sim {

// Everything random comes from one generator per schedule.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int32_t Int(int32_t low, int32_t high) {  // inclusive
    return low + static_cast<int32_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Chance(int32_t percent) { return Int(1, 100) <= percent; }

 private:
  std::mt19937_64 engine_;
};

// What is said of ends. None of it has to do with what will happen.
enum class Forecast {
  kNoise,  // anything, and now and then nothing
  kSoon,   // the next token, always
  kLate,   // a million tokens, always
};

struct WorkerOptions {
  SchedulerOptions scheduler;
  Forecast forecast = Forecast::kNoise;
  int32_t num_blocks = 16;
  bool prefix_caching = true;
  bool lazy_device = false;  // computes as late as it may
  int32_t host_blocks = 0;   // of a second arena
  SwapCosts swap_costs;
};
WorkerOptions RandomWorker(Dice* dice);

// One worker without threads: scheduler, pool, arena and the fake model with up to two steps in
// flight, and the checks that hold after every step.
class SimWorker {
 public:
  SimWorker(const WorkerOptions& options, const FakeModelOptions& model);

  SequenceId Add(SequenceSpec spec, base::Instant now);
  // Plans and submits; the caller may send commands before a step is committed. Returns the first
  // broken invariant.
  std::string BeginStep(base::Instant now);
  std::string FinishStep(base::Instant now);

  Scheduler& scheduler() { return scheduler_; }
  const SequenceLimits& limits() const { return options_.scheduler.limits; }
  const KvCache& kv() const { return kv_; }
  const BlockPool& pool() const { return pool_; }
  std::vector<SchedEvent> TakeEvents();
  uint64_t steps() const { return steps_; }
  const BlockPool& host_pool() const { return host_pool_; }
  bool busy() const { return !in_flight_.empty(); }
  // Victims that sat out a step first, and sequences that were ended with two rows out.
  uint64_t held_back() const { return held_back_; }
  uint64_t ended_behind_two() const { return ended_behind_two_; }

 private:
  std::optional<EndEstimate> Foretell(uint64_t salt) const;
  // Proposes what comes next, with a wrong id now and then.
  void Propose();
  std::vector<TokenId> Guess(const LiveSequence& sequence, int32_t count) const;
  std::string CheckInFlight() const;
  std::string CheckPlan(const StepPlan& plan) const;
  std::string CheckVictims(std::optional<SequenceId> oldest, const StepPlan& plan);
  std::string CheckBlocks() const;
  std::string CheckHostBlocks() const;
  std::string CheckGrant(const BlocksGranted& granted, const StepPlan& plan) const;
  std::string CheckProgress(const StepPlan& plan, base::Instant now) const;

  const WorkerOptions options_;
  const FakeModelOptions model_;
  FakeArena arena_;
  FakeArena host_arena_;
  KvCache kv_;
  BlockPool pool_;
  BlockPool host_pool_;
  std::unique_ptr<PrefixCache> cache_;
  Scheduler scheduler_;
  FakeRunner runner_;
  uint64_t last_id_ = 0;
  uint64_t steps_ = 0;
  uint64_t held_back_ = 0, ended_behind_two_ = 0;
  bool planned_ = false;            // in the last BeginStep
  std::deque<StepPlan> in_flight_;  // submitted, not committed
  std::vector<SchedEvent> events_;
};

}  // namespace baton::sim
