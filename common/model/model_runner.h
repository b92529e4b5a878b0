#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sched/step_plan.h"

namespace baton {

// Executes step plans. One thread calls it. At most one plan is between Submit and Wait.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  // Starts the step. Must not block on the device.
  virtual absl::Status Submit(const StepPlan& plan) = 0;
  // Waits for the submitted step. An error is a device fault: the worker becomes unhealthy.
  virtual absl::StatusOr<StepOutput> Wait() = 0;
  // Counts finished operations of steps: the watchdog's sign of life. Callable from any thread.
  virtual uint64_t operations_finished() const = 0;
};

}  // namespace baton
