#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/planner/worker_build.h"

namespace baton::planner {

// How the service around the workers is measured.
struct ServiceMeasurement {
  std::string program;  // path of the `baton` binary
  std::string model_dir;
  std::vector<std::string> engine_flags;  // of `baton serve`
};

// Adds to the costs of `build` what measured steps leave out: what router, network and the work for
// tokens that go out take of the machine. Serves the model with `build`'s workers, asks for answers
// in two closed loops, of one request and of sixteen for each worker, and simulates the same. What
// the tokens of the first take longer than simulated is the step's, what those of the second take
// beyond that is the rows'; what the first token of a lone request takes longer is the way of two
// messages.
absl::Status AddServiceCost(const ModelUse& model, const ServiceMeasurement& how,
                            WorkerBuild* build);

}  // namespace baton::planner
