#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/sim/step_cost.h"

namespace baton::simulator {

// Steps that were measured: what one of them held, on the mean, and how long it took.
struct MeasuredStep {
  StepWork work;
  double microseconds = 0;
  std::string where;  // for messages: "bench.json: decode 3"
};

// Reads measured steps from files, each of one of two kinds:
//
//   - what `bench_model --json` prints, or only the last line of it: each size is a step;
//   - a metrics page of a worker (its admin port's /metrics). The steps between two pages that
//     stand next to each other in `paths` make one sample: their mean. Pages tell tokens and rows,
//     not how long contexts were, so the terms of attention stay 0 where only pages are given.
//
// An error names the file, what was found and what was expected.
absl::StatusOr<std::vector<MeasuredStep>> ReadMeasuredSteps(const std::vector<std::string>& paths);

}  // namespace baton::simulator
