#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/planner/worker_build.h"

namespace baton::planner {

// How this machine is measured.
struct MeasuredOptions {
  std::string program;  // path of the `baton` binary
  std::string model_dir;
  std::vector<std::string> arguments;  // of `baton sim measure` and `baton serve`
  int32_t cores = 1;                   // that workers may use
  uint64_t seed = 1;                   // of the steps that a fit keeps aside
  // Is told what is measured.
  std::function<void(const std::string& line)> say;
};

// Workers of this machine as `baton serve` makes them: one with all cores, two with half of them
// each, and so on by doubling. Each is measured by so many processes side by side, so that the
// times hold what workers take from each other; their steps are fitted together. Memory is what is
// available here, divided among them.
absl::StatusOr<std::vector<WorkerBuild>> MeasureWorkers(const ModelUse& model,
                                                        const MeasuredOptions& options);

}  // namespace baton::planner
