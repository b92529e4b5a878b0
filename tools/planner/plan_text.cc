#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/config/units.h"
#include "tools/planner/plan_report.h"

namespace baton::planner {
namespace {

using simulator::SimFigures;

std::string Count(int32_t number, const char* what) {
  return absl::StrFormat("%d %s%s", number, what, number == 1 ? "" : "s");
}

// Milliseconds in four digits, or in as many as whole ones have.
std::string Ms(double ms) {
  return ms >= 1000 ? absl::StrFormat("%.0f", ms) : absl::StrFormat("%.4g", ms);
}

std::string MetricText(bench::SloMetric metric) {
  if (metric == bench::SloMetric::kTtft) return "TTFT";
  return metric == bench::SloMetric::kTpot ? "TPOT" : "end to end";
}

// "2 devices: 1 prefill and 1 decode worker"
std::string ClusterText(const PlanReport& report, const Trial& trial) {
  const Candidate& candidate = trial.candidate;
  const WorkerBuild& build = *candidate.build;
  std::string workers = candidate.unified()
                            ? Count(candidate.decode, "unified worker")
                            : absl::StrCat(candidate.prefill, " prefill and ",
                                           Count(candidate.decode, "decode worker"));
  if (build.ranks > 1) absl::StrAppend(&workers, ", each of ", build.ranks, " ranks");
  if (build.threads > 0) absl::StrAppend(&workers, ", ", Count(build.threads, "thread"), " each");
  const std::string where =
      report.hardware ? Count(candidate.devices(), "device") : std::string("this machine");
  return absl::StrCat(where, ": ", workers, ", --max-num-seqs ", candidate.max_num_seqs);
}

std::string TightestText(const PlanReport& report, const LimitKept& kept) {
  return absl::StrFormat("%s at P%g is %s ms where %s ms are allowed",
                         MetricText(kept.limit.metric), report.question.slo.percentile,
                         Ms(kept.at_percentile_ms), Ms(kept.limit.limit_ms));
}

std::string LoadText(const PlanReport& report) {
  const simulator::SimFlags& load = report.flags.load;
  const LoadFacts& facts = report.question.facts;
  std::string text;
  if (load.rate) {
    text = absl::StrFormat("%g requests/s", *load.rate);
  } else if (load.concurrency) {
    text = absl::StrFormat("%d under way at all times", *load.concurrency);
  } else {
    text = absl::StrFormat("%s, %.3g requests/s", load.trace, facts.rate);
  }
  if (load.trace.empty()) {
    absl::StrAppend(&text, ", input ", load.input_tokens, ", output ", load.output_tokens);
  }
  absl::StrAppendFormat(&text, ": on the mean %.0f prompt and %.0f answer tokens, ",
                        facts.input_tokens, facts.output_tokens);
  // What is planned for such a loop is a bound that no cluster is meant to reach.
  const simulator::Workload& first = report.question.runs.front();
  if (first.may_run_out) return absl::StrCat(text, "for ", FormatDuration(load.duration));
  absl::StrAppendFormat(&text, "%s%d requests", load.trace.empty() ? "" : "its first ",
                        first.requests.size());
  return text;
}

using Times = bench::Summary SimFigures::*;

void AddTimes(const Trial& trial, const char* name, Times times, bench::SloMetric metric,
              std::string* text) {
  double mean = 0, p50 = 0, p99 = 0;
  const auto runs = static_cast<double>(trial.runs.size());
  for (const SimFigures& run : trial.runs) {
    mean += (run.*times).mean / runs;
    p50 += (run.*times).p50 / runs;
    p99 += (run.*times).p99 / runs;
  }
  absl::StrAppendFormat(text, "%-15s %9s %9s %9s", name, Ms(mean), Ms(p50), Ms(p99));
  for (const LimitKept& kept : trial.limits) {
    if (kept.limit.metric == metric) absl::StrAppendFormat(text, " %9s", Ms(kept.limit.limit_ms));
  }
  absl::StrAppend(text, "\n");
}

void AddMemory(const PlanReport& report, const Trial& trial, std::string* text) {
  const WorkerBuild& build = *trial.candidate.build;
  const double kv_p95 = trial.Mean([](const SimFigures& run) { return run.cluster.kv_p95; });
  absl::StrAppendFormat(text, "%-15s %.4g GB, %d tokens a worker; at P95 %.0f %% in use\n",
                        "KV cache", trial.kv_bytes / 1e9, trial.kv_tokens, 100 * kv_p95);
  if (report.hardware) {
    absl::StrAppendFormat(
        text,
        "%-15s %.1f GB a device: weights %.2f, activations %.2f, libraries %.2f, KV cache %.2f, "
        "left free %.2f\n",
        "memory", report.hardware->memory_bytes / 1e9, build.weight_bytes / 1e9,
        build.activation_bytes / 1e9, build.library_bytes / 1e9, trial.kv_bytes / build.ranks / 1e9,
        build.kept_free_bytes / 1e9);
    return;
  }
  const double all =
      trial.candidate.workers() * (build.weight_bytes + build.activation_bytes + trial.kv_bytes);
  absl::StrAppendFormat(text,
                        "%-15s %.3g GB in all; a worker: weights %.3g, activations %.3g, KV cache "
                        "%.3g\n",
                        "memory", all / 1e9, build.weight_bytes / 1e9, build.activation_bytes / 1e9,
                        trial.kv_bytes / 1e9);
}

std::string ExpectedText(const PlanReport& report, const Trial& trial) {
  const Served served = ServedBy(report, trial);
  std::string text =
      absl::StrFormat("%-15s %9s %9s %9s %9s\n", "expected", "mean", "P50", "P99", "limit");
  AddTimes(trial, "TTFT, ms", &SimFigures::ttft_ms, bench::SloMetric::kTtft, &text);
  AddTimes(trial, "TPOT, ms", &SimFigures::tpot_ms, bench::SloMetric::kTpot, &text);
  AddTimes(trial, "end to end, ms", &SimFigures::e2e_ms, bench::SloMetric::kE2e, &text);
  absl::StrAppendFormat(
      &text, "%-15s %.4g requests/s; in the worst of %s %.2f %% of requests keep the SLO\n",
      "goodput", served.good_requests, Count(static_cast<int32_t>(trial.runs.size()), "run"),
      100 * trial.good_share);
  absl::StrAppendFormat(&text, "%-15s %.4g tokens/s\n", "output", served.output_tokens);
  absl::StrAppendFormat(
      &text, "%-15s %.0f %% of the time", "busy",
      100 * trial.Mean([](const SimFigures& run) { return run.cluster.busy_share; }));
  if (!trial.candidate.unified()) {
    absl::StrAppendFormat(
        &text, ", prefill workers %.0f %%",
        100 * trial.Mean([](const SimFigures& run) { return run.cluster.prefill_busy_share; }));
  }
  absl::StrAppend(&text, "\n");
  AddMemory(report, trial, &text);
  if (const auto joules = JoulesPerToken(report, trial)) {
    absl::StrAppendFormat(&text, "%-15s %.3g J per output token\n", "energy", *joules);
  }
  if (const auto price = PricePerMillionTokens(report, trial)) {
    absl::StrAppendFormat(&text, "%-15s %.3g per million output tokens\n", "price", *price);
  }
  return text;
}

// What would be short first if there were more load.
std::string BoundText(const PlanReport& report, const Trial& trial) {
  const LimitKept& tightest = trial.tightest();
  std::string text = absl::StrFormat("%s (%.0f %% of the limit)", TightestText(report, tightest),
                                     100 * tightest.used());
  const double kv = trial.Mean([](const SimFigures& run) { return run.cluster.kv_p95; });
  if (kv > 0.9)
    absl::StrAppendFormat(&text, "; the KV cache is full at times (P95 %.0f %%)", 100 * kv);
  return text;
}

// "--a x --b y" with a break before a flag where a line gets long.
std::string Wrapped(const std::string& command) {
  // A quoted word may hold what looks like a flag.
  if (command.find('\'') != std::string::npos) return absl::StrCat("  ", command, "\n");
  std::string text = "  ";
  size_t width = 2;
  for (size_t begin = 0; begin < command.size();) {
    const size_t end = std::min(command.find(" --", begin + 1), command.size());
    if (width > 2 && width + end - begin > 110) {
      absl::StrAppend(&text, " \\\n     ");
      width = 5;
    }
    text.append(command, begin, end - begin);
    width += end - begin;
    begin = end;
  }
  return text + "\n";
}

std::string CommandsText(const PlanReport& report) {
  std::string text;
  const std::string serve = ServeCommandOf(report, *report.plan.best);
  if (!serve.empty()) {
    absl::StrAppend(&text, report.hardware ? "Start it, on one such machine:\n" : "Start it:\n",
                    Wrapped(serve));
  } else {
    absl::StrAppend(&text, "It takes more than one machine of ", report.hardware->devices,
                    " devices: docs/deploy-kubernetes.md says how to start workers there.\n");
  }
  return absl::StrCat(text, "Check it:\n", Wrapped(BenchCommandOf(report)));
}

std::string WhyText(const PlanReport& report) {
  const Plan& plan = report.plan;
  std::string text;
  if (report.hardware) {
    absl::StrAppend(
        &text,
        "Why: of the clusters tried, none of fewer devices keeps the SLO, and none of as "
        "many leaves more room (",
        plan.simulated, " simulated).\n");
  } else {
    absl::StrAppend(&text, "Why: of the ways to divide this machine it leaves the most room (",
                    plan.simulated, " simulated; the fit of its steps is off by ",
                    absl::StrFormat("%.0f", 100 * plan.best->candidate.build->cost_error),
                    " %).\n");
  }
  absl::StrAppend(&text, "What bounds it: ", BoundText(report, *plan.best), ".\n");
  if (plan.cheaper) {
    absl::StrAppendFormat(&text, "Next cheaper: %s: %.2f %% of requests keep the SLO; %s.\n",
                          ClusterText(report, *plan.cheaper), 100 * plan.cheaper->good_share,
                          TightestText(report, plan.cheaper->tightest()));
  } else if (report.hardware && plan.best->candidate.devices() > 1) {
    absl::StrAppend(&text, "Next cheaper: reckoning leaves none to simulate.\n");
  }
  return text;
}

std::string NoPlanText(const PlanReport& report) {
  const Plan& plan = report.plan;
  std::string text = "No plan keeps the SLO.\n";
  if (plan.devices_needed > 0) {
    absl::StrAppend(&text, "The load needs at least ", plan.devices_needed,
                    " devices; there may be ", report.question.max_devices, " (--max-devices).\n");
  }
  if (!plan.nearest) {
    const bool fits = !plan.builds.empty();
    return absl::StrCat(text, "What would do: ",
                        fits ? "the limits that stand below, or a faster device.\n"
                             : "devices with more memory, or more of them in one machine; or fewer "
                               "bytes per weight (--dtype, --quantization).\n");
  }
  const Trial& nearest = *plan.nearest;
  absl::StrAppendFormat(&text, "Nearest: %s: %.2f %% of requests keep it; %s.\n\n%s\n",
                        ClusterText(report, nearest), 100 * nearest.good_share,
                        TightestText(report, nearest.tightest()), ExpectedText(report, nearest));
  std::vector<std::string> would;
  // Beyond its capacity a cluster's times say how long the load lasted, and nothing else.
  if (!IsOverloaded(report, nearest)) {
    std::vector<std::string> limits;
    for (const LimitKept& kept : nearest.limits) {
      limits.push_back(absl::StrFormat("%s=%sms",
                                       std::string(bench::SloMetricName(kept.limit.metric)),
                                       Ms(std::max(kept.limit.limit_ms, kept.at_percentile_ms))));
    }
    would.push_back(absl::StrCat("limits of about ", absl::StrJoin(limits, ",")));
  }
  if (plan.bearable && *plan.bearable > 0) {
    would.push_back(absl::StrFormat("%.2g requests/s, %.0f %% of the load",
                                    *plan.bearable * report.question.facts.rate,
                                    100 * *plan.bearable));
  }
  would.push_back(report.hardware ? "more devices (--max-devices)" : "a faster machine");
  return absl::StrCat(text, "What would do: ", absl::StrJoin(would, "; or "), ".\n");
}

}  // namespace

std::string PlanText(const PlanReport& report) {
  const Plan& plan = report.plan;
  std::string text = absl::StrFormat(
      "%s on %s\nload  %s\nSLO   %s\n\n", report.flags.model_dir,
      report.hardware ? absl::StrCat(report.hardware->name, ", reckoned")
                      : absl::StrCat("this machine, ", Count(report.cores, "core"), ", measured"),
      LoadText(report), bench::SloText(report.question.slo));
  if (plan.best) {
    absl::StrAppend(&text, "Plan: ", ClusterText(report, *plan.best), "\n\n",
                    ExpectedText(report, *plan.best), "\n", WhyText(report));
  } else {
    absl::StrAppend(&text, NoPlanText(report));
  }
  for (const std::string& why : report.left_out) absl::StrAppend(&text, "Left out: ", why, ".\n");
  if (plan.cut) {
    absl::StrAppend(&text, "The search ended after ", kMostTrials,
                    " simulated clusters; a better one may exist.\n");
  }
  if (plan.best) absl::StrAppend(&text, "\n", CommandsText(report));
  return text;
}

}  // namespace baton::planner
