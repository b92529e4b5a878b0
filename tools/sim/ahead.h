#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/sched/scheduler.h"
#include "tools/sim/virtual_worker.h"

namespace baton::simulator {

// When a prompt is computed that another worker decodes.
enum class HandoffTiming {
  kPlace,     // once the decode worker has given it a seat and blocks, as served
  kExpected,  // once a place is expected to be free there when its KV arrives
  kAtOnce,    // whenever a prefill worker takes it: a bound
};

// Prompts that are computed before their decode workers have places for them, and how many more a
// worker may have.
class Ahead final {
 public:
  explicit Ahead(HandoffTiming timing) : timing_(timing) {}
  HandoffTiming timing() const { return timing_; }
  bool on() const { return timing_ != HandoffTiming::kPlace; }

  // Begins with the choice of `worker` and ends when it gives the sequence its place, or the
  // attempt is over.
  void Begin(const VirtualWorker* worker) { ++workers_[worker].prepared; }
  void End(const VirtualWorker* worker) { --workers_[worker].prepared; }
  // The KV of one could be there so long after Begin.
  void NoteTime(base::Duration took);

  // What a decode worker says of its places: those that it has, and those of prompts that are
  // computed ahead.
  int32_t Places(const VirtualWorker& worker, const SchedulerFigures& figures, base::Instant now);

 private:
  struct Counts {
    int32_t prepared = 0;
    // Without estimates: how often sequences end, over the last seconds.
    base::Instant since{};
    uint64_t ended = 0;
    double ends_per_s = 0;
  };
  double EndsSoon(const VirtualWorker& worker, const SchedulerFigures& figures, Counts* counts,
                  base::Instant now) const;

  const HandoffTiming timing_;
  std::unordered_map<const VirtualWorker*, Counts> workers_;
  double handoff_s_ = 0.1;  // the mean of late ones
};

}  // namespace baton::simulator
