#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/exit_code.h"
#include "tools/bench/report/plots.h"
#include "tools/bench/report/result_json.h"
#include "tools/commands.h"
#include "tools/sim/recorded_sampling.h"
#include "tools/sim/sim_figures.h"
#include "tools/sim/sim_flags.h"
#include "tools/sim/workload.h"

namespace baton {
namespace {

using simulator::PolicyResult;
using simulator::SimFlags;
using simulator::Workload;

absl::StatusOr<Workload> LoadOfRun(const SimFlags& flags, int32_t run,
                                   const std::optional<simulator::RecordedAnswers>& recorded) {
  BATON_ASSIGN_OR_RETURN(const bench::PlanOptions plan, simulator::PlanOf(flags, run));
  BATON_ASSIGN_OR_RETURN(Workload load, recorded ? simulator::RecordedWorkload(plan, *recorded)
                                                 : simulator::PlannedWorkload(plan));
  // With limits of their own, requests that are too long are refused instead.
  if (recorded && !flags.forced_lengths && flags.max_tokens == 0) {
    load.shortened = simulator::CutByLength(load.requests, flags.max_model_len);
  }
  if (flags.shared_prefixes > 1) {
    simulator::SharePrefixes({flags.shared_prefixes, flags.shared_prefix_skew}, plan.seed,
                             &load.requests);
  }
  return load;
}

void WarnOfLoad(const FlagSet& set, const SimFlags& flags, const Workload& load) {
  if (load.shortened > 0) {
    std::fprintf(stderr, "%s: %lld requests are shortened to --max-model-len %d\n",
                 set.program().c_str(), static_cast<long long>(load.shortened),
                 flags.max_model_len);
  }
  if (load.filled_by_prefix > 0) {
    const auto requests = static_cast<int64_t>(load.requests.size());
    const std::string note =
        bench::FilledByPrefix(load.filled_by_prefix, requests, flags.shared_prefix_tokens);
    std::fprintf(stderr, "%s: %s\n", set.program().c_str(), note.c_str());
  }
}

// Says once that a run ended before its time.
void WarnOfEnd(const FlagSet& set, const Workload& load, const simulator::ClusterOutcome& outcome,
               bool* warned) {
  if (!load.may_run_out || outcome.requests.size() < load.requests.size()) return;
  if (std::exchange(*warned, true)) return;
  std::fprintf(stderr,
               "%s: all %zu requests that were planned came before --duration was over; a greater "
               "number of --requests plans more\n",
               set.program().c_str(), load.requests.size());
}

absl::StatusOr<std::vector<PolicyResult>> Simulate(const FlagSet& set, const SimFlags& flags) {
  std::optional<bench::Slo> slo;
  if (!flags.slo.empty()) {
    BATON_ASSIGN_OR_RETURN(slo, simulator::ParseSimSlo(flags.slo));
  }
  std::optional<simulator::RecordedAnswers> recorded;
  if (!flags.eos_logs.empty()) {
    BATON_ASSIGN_OR_RETURN(recorded, simulator::ReadRecordedAnswers(flags.eos_logs));
    if (recorded->censored > 0) {
      std::fprintf(stderr, "%s: %lld answers that did not end by themselves are left out\n",
                   set.program().c_str(), static_cast<long long>(recorded->censored));
    }
    if (flags.predictor_file()) {
      BATON_RETURN_IF_ERROR(simulator::CheckSampling(flags.predictor, recorded->sampling_unknown,
                                                     recorded->requests.size()));
    }
  }
  std::vector<PolicyResult> results;
  bool warned_of_end = false;
  for (const std::string& policy : flags.policies) {
    for (const std::string& routing : flags.routings) {
      BATON_ASSIGN_OR_RETURN(simulator::ClusterSetup setup,
                             simulator::SetupOf(flags, policy, routing));
      PolicyResult result{.policy = policy,
                          .routing = routing,
                          .predictor = flags.predictor,
                          .seeds = {},
                          .runs = {}};
      for (int32_t run = 0; run < flags.runs; ++run) {
        setup.seed = static_cast<uint64_t>(flags.seed + run);
        BATON_ASSIGN_OR_RETURN(const Workload load, LoadOfRun(flags, run, recorded));
        if (results.empty() && run == 0) WarnOfLoad(set, flags, load);
        BATON_ASSIGN_OR_RETURN(auto outcome, simulator::RunCluster(setup, load.requests));
        WarnOfEnd(set, load, outcome, &warned_of_end);
        result.seeds.push_back(setup.seed);
        result.runs.push_back(simulator::FiguresOf(std::move(outcome), flags.warmup, slo));
      }
      results.push_back(std::move(result));
    }
  }
  return results;
}

// The results, if there is anything in them.
absl::StatusOr<std::vector<PolicyResult>> Counted(absl::StatusOr<std::vector<PolicyResult>> found) {
  if (!found.ok()) return found;
  for (const PolicyResult& result : *found) {
    for (const simulator::SimFigures& run : result.runs) {
      if (!simulator::AnyCounted(run)) return simulator::NobodyCounted();
    }
  }
  return found;
}

// What --plots needs, looked for before minutes are simulated.
absl::StatusOr<std::optional<bench::Plotter>> PreparePlots(const std::string& folder) {
  if (folder.empty()) return std::nullopt;
  BATON_ASSIGN_OR_RETURN(bench::Plotter plotter, bench::Plotter::Find("sim_plots"));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return UsageError("--plots " + folder, error.message(), "another folder");
  return plotter;
}

absl::Status DrawPlots(const bench::Plotter& plotter, const nlohmann::ordered_json& result,
                       const std::string& folder) {
  const std::string file = folder + "/result.json";
  BATON_RETURN_IF_ERROR(bench::WriteResult(file, result));
  return plotter.Draw({file}, folder);
}

}  // namespace

int SimCommand(const Invocation& call) {
  SimFlags flags;
  FlagSet set("baton sim", "sim",
              "Simulates a cluster under a load: the queue, placement, scheduler, block pool and "
              "prefix cache\nthat are served, under a virtual clock, with steps that take what "
              "--step-cost says. Equal settings give\nequal figures. Lengths: " +
                  bench::LengthForms());
  simulator::BindSim(&set, &flags);
  if (const auto exit = call.Read(&set)) return *exit;
  const auto plotter = PreparePlots(flags.plots);
  if (!plotter.ok()) {
    return ReportFatal(set.program(),
                       FatalOf(plotter.status(), ExitCode::kUsage, "nothing was simulated"));
  }
  const auto results = Counted(Simulate(set, flags));
  if (!results.ok()) {
    const bool usage = absl::IsInvalidArgument(results.status());
    return ReportFatal(set.program(),
                       FatalOf(results.status(), usage ? ExitCode::kUsage : ExitCode::kResources,
                               "cannot simulate", "baton sim --help"));
  }
  const auto json = simulator::ResultJson(simulator::SettingsJson(set), *results);
  Print(flags.as_json ? json.dump(1) + "\n" : simulator::ResultTable(*results));
  for (const PolicyResult& result : *results) {
    const simulator::SimFigures& first = result.runs.front();
    if (first.refused == 0) continue;
    std::fprintf(stderr, "%s: %s: %lld of %lld requests were refused, the first because: %s\n",
                 set.program().c_str(), result.policy.c_str(),
                 static_cast<long long>(first.refused),
                 static_cast<long long>(first.refused + first.completed),
                 first.cluster.first_refusal.c_str());
  }
  if (!plotter->has_value()) return ToInt(ExitCode::kOk);
  const absl::Status drawn = DrawPlots(**plotter, json, flags.plots);
  if (drawn.ok()) return ToInt(ExitCode::kOk);
  return ReportFatal(set.program(),
                     FatalOf(drawn, ExitCode::kResources, "the figures are not drawn"));
}

}  // namespace baton
