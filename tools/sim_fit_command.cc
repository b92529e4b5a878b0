#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/exit_code.h"
#include "common/config/flag_types.h"
#include "tools/commands.h"
#include "tools/sim/fit_cost.h"

namespace baton {
namespace {

// Beyond it, what is simulated says little.
constexpr double kFair = 0.10;

std::string ReportText(const simulator::FitReport& report) {
  std::string text = absl::StrFormat(
      "%d steps fitted, %.1f %% off on the mean; %d kept aside, %.1f %% off, at worst %.1f %% "
      "(%s)\n",
      report.fitted, 100 * report.fitted_error, report.kept_aside, 100 * report.aside_error,
      100 * report.aside_worst, report.worst_where);
  if (report.aside_error >= kFair) {
    absl::StrAppend(&text,
                    "Times of simulations with this file are as wrong. Measure on a machine that "
                    "does nothing else,\nand sizes of step as the load has them.\n");
  }
  return text;
}

}  // namespace

int SimFitCommand(const Invocation& call) {
  std::vector<std::string> files;
  int32_t seed = 1;
  FlagSet set(
      "baton sim fit", "sim",
      "Fits the times of steps, for baton sim --step-cost, to measured ones: what bench_model "
      "--json printed,\nand metrics pages of a worker under changing load, in the order in "
      "which they were read. The costs\ngo to standard output; how far they are off, on "
      "steps that they were not fitted to, to standard error.");
  Flag positional = Valued(TextListFlag("measured", &files), "FILE…");
  positional.help = "output of bench_model --json, or a worker's /metrics";
  positional.positional = true;
  positional.required = true;
  set.Add(std::move(positional));
  set.Add(With(IntFlag("seed", &seed, {.min = 0, .max = INT32_MAX}), "Fit",
               "seed of the choice of steps that are kept aside"));
  if (const auto exit = call.Read(&set)) return *exit;
  const auto steps = simulator::ReadMeasuredSteps(files);
  const auto report = steps.ok() ? simulator::FitAndCheck(*steps, static_cast<uint64_t>(seed))
                                 : absl::StatusOr<simulator::FitReport>(steps.status());
  if (!report.ok()) {
    const bool usage = absl::IsInvalidArgument(report.status());
    return ReportFatal(set.program(),
                       FatalOf(report.status(), usage ? ExitCode::kUsage : ExitCode::kResources,
                               "cannot fit", "baton sim fit --help"));
  }
  const std::string text = ReportText(*report);
  std::fputs(text.c_str(), stderr);
  Print(simulator::CostJson(
      report->cost, absl::StrFormat("%d measured steps, %.1f %% off on %d others", report->fitted,
                                    100 * report->aside_error, report->kept_aside)));
  return ToInt(ExitCode::kOk);
}

}  // namespace baton
