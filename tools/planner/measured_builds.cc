#include "tools/planner/measured_builds.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/footprint.h"
#include "common/model/host_limits.h"
#include "common/model/kv_arena.h"
#include "common/model/load_memory.h"
#include "tools/serve/child_process.h"
#include "tools/serve/line_reader.h"
#include "tools/sim/fit_cost.h"

namespace baton::planner {
namespace {

constexpr base::Duration kMostTime = std::chrono::minutes(10);
// Of the memory that is available, for all workers.
constexpr double kMemoryShare = 0.8;

// Files that are removed with it.
class ScratchFolder final {
 public:
  static absl::StatusOr<ScratchFolder> Make() {
    std::string path = (std::filesystem::temp_directory_path() / "baton-plan-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot make the folder ", path, "; set TMPDIR to one that can be written"));
    }
    return ScratchFolder(path);
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// One process that measures.
struct Measuring {
  ChildProcess process;
  LineReader out, err;
  std::vector<std::string> lines, complaints;
  bool out_over = false, err_over = false;
};

// Like this process's, but that libgomp's threads do not spin where workers share cores.
std::vector<std::string> MeasuringEnvironment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  if (getenv("GOMP_SPINCOUNT") == nullptr) environment.emplace_back("GOMP_SPINCOUNT=1000");
  return environment;
}

void TakeLines(int fd, LineReader* reader, std::vector<std::string>* lines, bool* over) {
  if (*over) return;
  for (std::string& line : reader->Read(fd, over)) lines->push_back(std::move(line));
}

absl::Status WaitForAll(std::vector<Measuring>* all) {
  const base::SteadyClock clock;
  const base::Instant give_up = clock.Now() + kMostTime;
  for (Measuring& one : *all) {
    while (!one.out_over || !one.err_over) {
      if (clock.Now() > give_up) {
        return absl::DeadlineExceededError("steps were not measured within ten minutes");
      }
      pollfd files[] = {{one.process.out(), POLLIN, 0}, {one.process.err(), POLLIN, 0}};
      if (one.out_over) files[0].fd = -1;
      if (one.err_over) files[1].fd = -1;
      poll(files, 2, 100);
      TakeLines(one.process.out(), &one.out, &one.lines, &one.out_over);
      TakeLines(one.process.err(), &one.err, &one.complaints, &one.err_over);
    }
    std::optional<int> code;
    while (!(code = one.process.Reap())) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (*code != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("steps could not be measured: ", absl::StrJoin(one.complaints, "; ")));
    }
  }
  return absl::OkStatus();
}

// Measures with so many workers side by side, and fits.
absl::StatusOr<simulator::FitReport> MeasureTogether(const MeasuredOptions& options,
                                                     int32_t workers, int32_t threads) {
  std::vector<std::string> arguments = {"sim", "measure", options.model_dir,
                                        absl::StrCat("--threads=", threads)};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<Measuring> all;
  for (int32_t i = 0; i < workers; ++i) {
    BATON_ASSIGN_OR_RETURN(ChildProcess process,
                           ChildProcess::Start({.program = options.program,
                                                .arguments = arguments,
                                                .environment = MeasuringEnvironment()}));
    all.push_back({.process = std::move(process)});
  }
  BATON_RETURN_IF_ERROR(WaitForAll(&all));
  BATON_ASSIGN_OR_RETURN(const ScratchFolder folder, ScratchFolder::Make());
  std::vector<std::string> paths;
  for (const Measuring& one : all) {
    paths.push_back(absl::StrCat(folder.path(), "/", paths.size()));
    std::ofstream(paths.back()) << absl::StrJoin(one.lines, "\n");
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
  for (int32_t workers = 1; workers <= options.cores; workers *= 2) {
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
    builds.push_back(build);
  }
  return builds;
}

}  // namespace baton::planner
