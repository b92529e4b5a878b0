#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/cores.h"
#include "common/base/status.h"
#include "common/config/exit_code.h"
#include "common/formats/model_config.h"
#include "common/model/model_options.h"
#include "tools/commands.h"
#include "tools/planner/measured_builds.h"
#include "tools/planner/plan_flags.h"
#include "tools/planner/plan_report.h"
#include "tools/planner/search.h"

namespace baton {
namespace {

using planner::PlanFlags;
using planner::Question;
using planner::WorkerBuild;

// Ways to make a worker, and what is no way.
struct Builds {
  std::optional<planner::Hardware> hardware;
  std::vector<WorkerBuild> builds;
  std::vector<std::string> left_out;
  int32_t cores = 0;
};

absl::StatusOr<Builds> BuildsByFile(const PlanFlags& flags, const planner::ModelUse& model) {
  Builds made;
  BATON_ASSIGN_OR_RETURN(made.hardware, planner::ReadHardware(flags.hardware));
  BATON_RETURN_IF_ERROR(ResolveKvDType(model.kv_dtype, model.compute_dtype, model.config,
                                       made.hardware->device == "cpu" ? kernels::Device::kCpu
                                                                      : kernels::Device::kCuda)
                            .status());
  for (int32_t ranks = 1; ranks <= made.hardware->devices; ranks *= 2) {
    if (flags.tensor_parallel_size > 0 && flags.tensor_parallel_size != ranks) continue;
    auto build = planner::ReckonWorker(model, *made.hardware, ranks);
    if (build.ok()) {
      made.builds.push_back(*std::move(build));
    } else if (absl::IsInvalidArgument(build.status())) {
      return build.status();
    } else {
      made.left_out.push_back(std::string(build.status().message()));
    }
  }
  if (made.builds.empty() && made.left_out.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tensor-parallel-size is ", flags.tensor_parallel_size,
                     "; expected a power of two within one machine, and a machine has ",
                     made.hardware->devices));
  }
  return made;
}

absl::StatusOr<Builds> BuildsMeasured(const PlanFlags& flags, const planner::ModelUse& model,
                                      const std::string& program) {
  Builds made;
  BATON_RETURN_IF_ERROR(
      ResolveKvDType(model.kv_dtype, model.compute_dtype, model.config, kernels::Device::kCpu)
          .status());
  made.cores = base::UsableCores(base::CpusOfThisThread());
  std::error_code ignored;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  planner::MeasuredOptions options{
      .program = self,
      .model_dir = flags.model_dir,
      .arguments = {absl::StrCat("--dtype=", std::string(kernels::Name(model.compute_dtype))),
                    absl::StrCat("--kv-dtype=", std::string(kernels::Name(model.kv_dtype))),
                    absl::StrCat("--block-size=", model.block_size),
                    absl::StrCat("--max-prefill-tokens=", model.max_prefill_tokens)},
      .cores = made.cores,
      .seed = static_cast<uint64_t>(flags.load.seed),
      .say = [program](const std::string& line) {
        std::fprintf(stderr, "%s: %s\n", program.c_str(), line.c_str());
      }};
  BATON_ASSIGN_OR_RETURN(made.builds, planner::MeasureWorkers(model, options));
  return made;
}

// The question with its builds; those that reckoning excludes are said.
absl::StatusOr<Question> Ask(const PlanFlags& flags, const planner::ModelUse& model,
                             Builds* builds) {
  BATON_ASSIGN_OR_RETURN(Question question, planner::QuestionOf(flags, model));
  question.builds = builds->builds;
  if (builds->hardware) {
    question.handoff_bytes_per_s = builds->hardware->handoff_bytes_per_s;
    question.two_steps = builds->hardware->device == "cuda";
  }
  return question;
}

void SayImpossible(const planner::Plan& plan, std::vector<std::string>* left_out) {
  for (const planner::BuildBounds& build : plan.builds) {
    if (build.bounds.impossible.empty()) continue;
    const WorkerBuild& worker = *build.build;
    left_out->push_back(absl::StrCat(
        worker.threads > 0
            ? absl::StrCat("workers of ", worker.threads, " threads")
            : absl::StrCat("workers of ", worker.ranks, worker.ranks == 1 ? " device" : " devices"),
        ": ", build.bounds.impossible));
  }
}

void WarnOfPlannedLoad(const std::string& program, const Question& question) {
  const simulator::Workload& load = question.runs.front();
  if (load.shortened > 0) {
    std::fprintf(stderr, "%s: %lld requests are shortened to %d tokens, which is --max-model-len\n",
                 program.c_str(), static_cast<long long>(load.shortened), question.max_model_len);
  }
  if (load.filled_by_prefix > 0) {
    const auto requests = static_cast<int64_t>(load.requests.size());
    const std::string note =
        bench::FilledByPrefix(load.filled_by_prefix, requests, question.shared_prefix_tokens);
    std::fprintf(stderr, "%s: %s\n", program.c_str(), note.c_str());
  }
}

absl::StatusOr<int> MakePlan(const std::string& program, const PlanFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(flags.model_dir));
  const planner::ModelUse model = planner::ModelUseOf(flags, config);
  BATON_RETURN_IF_ERROR(CheckQuantizedOnce(config, flags.quantization));
  // What is wrong with the load shows before anything is measured.
  BATON_RETURN_IF_ERROR(planner::QuestionOf(flags, model).status());
  BATON_ASSIGN_OR_RETURN(Builds builds, flags.measured() ? BuildsMeasured(flags, model, program)
                                                         : BuildsByFile(flags, model));
  BATON_ASSIGN_OR_RETURN(const Question question, Ask(flags, model, &builds));
  WarnOfPlannedLoad(program, question);
  BATON_ASSIGN_OR_RETURN(const planner::Plan plan, planner::Search(question));
  SayImpossible(plan, &builds.left_out);
  const planner::PlanReport report{.flags = flags,
                                   .question = question,
                                   .plan = plan,
                                   .hardware = builds.hardware,
                                   .cores = builds.cores,
                                   .left_out = builds.left_out};
  Print(flags.as_json ? planner::PlanJson(report).dump(1) + "\n" : planner::PlanText(report));
  return ToInt(plan.best ? ExitCode::kOk : ExitCode::kRequestFailed);
}

}  // namespace

int PlanCommand(const Invocation& call) {
  PlanFlags flags;
  FlagSet set("baton plan", "plan",
              "How many workers of which kind serve a model to a load within limits, found by "
              "reckoning and simulation.\nThe directory needs no more than a config.json. Ends "
              "with 1 when nothing keeps the limits. Lengths:\n" +
                  bench::LengthForms());
  planner::BindPlan(&set, &flags);
  if (const auto exit = call.Read(&set)) return *exit;
  if (const auto config = LoadModelConfig(flags.model_dir); !config.ok()) {
    return ReportFatal(
        set.program(),
        FatalOf(config.status(), ExitCode::kModel, "cannot read the model in " + flags.model_dir,
                "a Hugging Face directory with a config.json of " + SupportedArchitectures()));
  }
  const auto exit = MakePlan(set.program(), flags);
  if (exit.ok()) return *exit;
  const bool usage = absl::IsInvalidArgument(exit.status());
  return ReportFatal(set.program(),
                     FatalOf(exit.status(), usage ? ExitCode::kUsage : ExitCode::kResources,
                             "cannot plan", "baton plan --help"));
}

}  // namespace baton
