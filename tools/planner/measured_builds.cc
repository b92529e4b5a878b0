#include "tools/planner/measured_builds.h"

#include <chrono>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/footprint.h"
#include "common/model/host_limits.h"
#include "common/model/kv_arena.h"
#include "common/model/load_memory.h"
#include "tools/planner/child_runs.h"
#include "tools/planner/service_cost.h"
#include "tools/sim/fit_cost.h"

namespace baton::planner {
namespace {

constexpr base::Duration kMostTime = std::chrono::minutes(10);
// Of the memory that is available, for all workers.
constexpr double kMemoryShare = 0.8;

// Measures with so many workers side by side, and fits.
absl::StatusOr<simulator::FitReport> MeasureTogether(const MeasuredOptions& options,
                                                     int32_t workers, int32_t threads) {
  std::vector<std::string> arguments = {"sim", "measure", options.model_dir,
                                        absl::StrCat("--threads=", threads)};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  BATON_ASSIGN_OR_RETURN(const auto said,
                         RunTogether(options.program, arguments, workers, kMostTime));
  BATON_ASSIGN_OR_RETURN(const ScratchFolder folder, ScratchFolder::Make());
  std::vector<std::string> paths;
  for (const std::vector<std::string>& lines : said) {
    paths.push_back(folder.File(absl::StrCat("steps", paths.size())));
    std::ofstream(paths.back()) << absl::StrJoin(lines, "\n");
  }
  BATON_ASSIGN_OR_RETURN(const auto steps, simulator::ReadMeasuredSteps(paths));
  return simulator::FitAndCheck(steps, options.seed);
}

}  // namespace

absl::StatusOr<std::vector<WorkerBuild>> MeasureWorkers(const ModelUse& model,
                                                        const MeasuredOptions& options) {
  BATON_ASSIGN_OR_RETURN(const LocalShape shape, LocalShape::Of(model.config, 0, 1));
  const MemoryNeed need =
      MemoryNeed::Of(model.config, shape, 1, model.compute_dtype, model.quantization,
                     {.max_tokens = std::max(model.max_num_batched_tokens, kMostSequences),
                      .max_samples = kMostSequences});
  const auto kv_token = static_cast<double>(
      KvLayoutOf(model.config, shape, model.kv_dtype, model.block_size).bytes_per_token());
  const auto available = static_cast<double>(AvailableMemoryBytes());
  std::vector<WorkerBuild> builds;
  for (int32_t workers = 1; workers <= options.cores; ++workers) {
    // Otherwise some have a core more than others.
    if (options.cores % workers != 0) continue;
    const int32_t threads = options.cores / workers;
    WorkerBuild build{.ranks = 1, .devices = 0, .threads = threads, .cost = {}};
    build.only_workers = workers;
    build.weight_bytes = need.weights;
    build.activation_bytes = need.activations;
    build.kv_bytes_per_token = build.handoff_bytes_per_token = kv_token;
    build.kv_bytes_most = kMemoryShare * available / workers - need.weights - need.activations;
    if (build.kv_bytes_most < kv_token * model.block_size) {
      if (workers > 1) break;
      return absl::ResourceExhaustedError(absl::StrFormat(
          "the model needs %.2f GB beside its KV cache; this machine has %.2f GB available",
          (need.weights + need.activations) / 1e9, available / 1e9));
    }
    options.say(absl::StrFormat("measuring %d %s of %d %s", workers,
                                workers == 1 ? "worker" : "workers side by side", threads,
                                threads == 1 ? "thread" : "threads"));
    BATON_ASSIGN_OR_RETURN(const simulator::FitReport report,
                           MeasureTogether(options, workers, threads));
    build.cost = report.cost;
    build.cost_error = report.aside_error;
    BATON_RETURN_IF_ERROR(AddServiceCost(model,
                                         {.program = options.program,
                                          .model_dir = options.model_dir,
                                          .engine_flags = options.arguments},
                                         &build));
    builds.push_back(build);
  }
  return builds;
}

}  // namespace baton::planner
