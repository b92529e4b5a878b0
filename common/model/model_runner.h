#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sched/step_plan.h"

namespace baton {

// Computes step plans in the order in which they are submitted. One thread calls it. At most
// max_in_flight() plans are between Submit and Wait.
//
// A row of a plan may feed the last token that an earlier step drew for its slot, and be sampled
// behind it, even if that step's Wait is still to come (see StepRow::feeds_sampled and
// SampleRow::pending_output).
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  // Starts the step and does not wait for the device. The plan must stay as it is until its Wait
  // has returned.
  virtual absl::Status Submit(const StepPlan& plan) = 0;
  // Waits for the oldest step that was submitted. An error is a device fault: the worker turns
  // unhealthy, and steps submitted after this one have no result either.
  virtual absl::StatusOr<StepOutput> Wait() = 0;
  // How many operations of steps have finished, by which the watchdog sees that the runner is
  // alive. Any thread may ask.
  virtual uint64_t operations_finished() const = 0;
  // 1 where a step is computed inside Submit and Wait, 2 where one more may be submitted meanwhile.
  virtual int32_t max_in_flight() const { return 1; }
};

}  // namespace baton
