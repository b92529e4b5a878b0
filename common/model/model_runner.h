#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sched/step_plan.h"

namespace baton {

// Executes step plans, in the order they are submitted. One thread calls it. At most
// max_in_flight() plans are between Submit and Wait.
//
// A row may feed, and be sampled behind, the last token that an earlier step drew for its slot,
// also one whose Wait is still to come (StepRow::feeds_sampled, SampleRow::pending_output).
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  // Starts the step. Must not block on the device. The plan stays as it is until its Wait returned.
  virtual absl::Status Submit(const StepPlan& plan) = 0;
  // Waits for the oldest step that was submitted. An error is a device fault: the worker becomes
  // unhealthy, and what is submitted behind it has no result either.
  virtual absl::StatusOr<StepOutput> Wait() = 0;
  // Counts finished operations of steps: the watchdog's sign of life. Callable from any thread.
  virtual uint64_t operations_finished() const = 0;
  // 1: the step is computed inside Submit and Wait; 2: one more may be submitted meanwhile.
  virtual int32_t max_in_flight() const { return 1; }
};

}  // namespace baton
