#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/sim/measured_steps.h"
#include "tools/sim/step_cost.h"

namespace baton::simulator {

// The costs of at least one step, none below zero, whose squared relative errors add up to the
// least. Where rows bend is chosen among round numbers that samples lie on both sides of; a bend
// has to take more off the errors than a term that says nothing would, and there are at most two,
// one for each dozen of samples.
StepCost FitCost(const std::vector<MeasuredStep>& steps);

struct FitReport {
  StepCost cost;  // from `fitted` steps
  int64_t fitted = 0, kept_aside = 0;
  double fitted_error = 0;                  // mean of |predicted / measured - 1|
  double aside_error = 0, aside_worst = 0;  // of those that it was not fitted to
  std::string worst_where;
};

// Fits to three of four steps, drawn from `seed`, and looks how the others are met. Fewer than 8
// steps are refused.
absl::StatusOr<FitReport> FitAndCheck(const std::vector<MeasuredStep>& steps, uint64_t seed);

}  // namespace baton::simulator
