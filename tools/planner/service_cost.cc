#include "tools/planner/service_cost.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "tools/planner/child_runs.h"
#include "tools/planner/trial.h"
#include "tools/sim/sim_flags.h"
#include "tools/sim/workload.h"

namespace baton::planner {
namespace {

constexpr base::Duration kServicePatience = std::chrono::minutes(5);
constexpr int32_t kManyEach = 16;  // requests under way for each worker
constexpr int32_t kRuns = 3;
constexpr int32_t kPromptTokens = 32, kAnswerTokens = 32;

// Means over a run's requests, the median of the runs.
struct Means {
  double ttft_ms = 0, tpot_ms = 0;
};

template <typename Run>
double MedianRun(const std::vector<Run>& runs, double (*figure)(const Run&)) {
  std::vector<double> values;
  for (const Run& run : runs) values.push_back(figure(run));
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int32_t RequestsFor(int32_t under_way) { return std::max(12, 4 * under_way); }

absl::StatusOr<Means> AskService(const ServiceMeasurement& how, const std::string& server,
                                 int32_t under_way) {
  BATON_ASSIGN_OR_RETURN(const ScratchFolder folder, ScratchFolder::Make());
  const std::string out = folder.File("bench.json");
  BATON_RETURN_IF_ERROR(
      RunTogether(
          how.program,
          {"bench", absl::StrCat("--server=", server), absl::StrCat("--concurrency=", under_way),
           absl::StrCat("--requests=", RequestsFor(under_way)),
           absl::StrCat("--input-tokens=", kPromptTokens),
           absl::StrCat("--output-tokens=", kAnswerTokens), "--eos=mask",
           absl::StrCat("--runs=", kRuns), "--seed=1", absl::StrCat("--out=", out)},
          1, kServicePatience)
          .status());
  std::ifstream file(out);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (json.is_discarded() || json["runs"].empty()) {
    return absl::InternalError("baton bench wrote no result that can be read");
  }
  const auto runs = json["runs"].get<std::vector<nlohmann::json>>();
  return Means{.ttft_ms = MedianRun<nlohmann::json>(
                   runs,
                   [](const nlohmann::json& run) {
                     return run["whole_run"]["ttft_ms"]["mean"].get<double>();
                   }),
               .tpot_ms = MedianRun<nlohmann::json>(runs, [](const nlohmann::json& run) {
                 return run["whole_run"]["tpot_ms"]["mean"].get<double>();
               })};
}

absl::StatusOr<Means> Simulated(const ModelUse& model, const WorkerBuild& build,
                                int32_t under_way) {
  simulator::SimFlags load;
  load.concurrency = under_way;
  load.requests = RequestsFor(under_way);
  load.input_tokens = absl::StrCat(kPromptTokens);
  load.output_tokens = absl::StrCat(kAnswerTokens);
  load.max_model_len = model.config.max_positions;
  Question question{.model = model};
  for (int32_t run = 0; run < kRuns; ++run) {
    BATON_ASSIGN_OR_RETURN(const bench::PlanOptions plan, simulator::PlanOf(load, run));
    BATON_ASSIGN_OR_RETURN(simulator::Workload work, simulator::PlannedWorkload(plan));
    question.runs.push_back(std::move(work));
  }
  question.facts = FactsOf(question.runs.front().requests, under_way, 1, 0);
  question.max_model_len = load.max_model_len;
  question.forced_lengths = true;
  // A limit that everything keeps.
  question.slo.limits = {{.metric = bench::SloMetric::kE2e, .limit_ms = 1e12}};
  const Candidate candidate{
      .build = &build, .decode = build.only_workers.value_or(1), .max_num_seqs = 2 * kManyEach};
  BATON_ASSIGN_OR_RETURN(const Trial trial, Try(question, candidate, kRuns));
  using simulator::SimFigures;
  return Means{.ttft_ms = MedianRun<SimFigures>(
                   trial.runs, [](const SimFigures& run) { return run.ttft_ms.mean; }),
               .tpot_ms = MedianRun<SimFigures>(
                   trial.runs, [](const SimFigures& run) { return run.tpot_ms.mean; })};
}

absl::StatusOr<std::pair<ChildRun, std::string>> Serve(const ServiceMeasurement& how,
                                                       int32_t workers) {
  std::vector<std::string> arguments = {"serve",
                                        how.model_dir,
                                        "--mode=unified",
                                        absl::StrCat("--decode=", workers),
                                        "--port=0",
                                        "--admin-port=0",
                                        "--http-port=0",
                                        "--eos-log=off",
                                        "--load-cache=off",
                                        absl::StrCat("--max-num-seqs=", 2 * kManyEach)};
  arguments.insert(arguments.end(), how.engine_flags.begin(), how.engine_flags.end());
  BATON_ASSIGN_OR_RETURN(ChildRun service, ChildRun::Start(how.program, arguments));
  BATON_ASSIGN_OR_RETURN(const std::string line,
                         service.FirstLine(base::SteadyClock().Now() + kServicePatience));
  const auto ready = nlohmann::json::parse(line, nullptr, false);
  if (!ready.is_object() || !ready.contains("grpc")) {
    return absl::InternalError(absl::StrCat("baton serve said ", line, " when it was ready"));
  }
  return std::pair(std::move(service), ready["grpc"].get<std::string>());
}

}  // namespace

absl::Status AddServiceCost(const ModelUse& model, const ServiceMeasurement& how,
                            WorkerBuild* build) {
  const int32_t workers = build->only_workers.value_or(1);
  Means served_few, served_many;
  {
    BATON_ASSIGN_OR_RETURN(auto service, Serve(how, workers));
    BATON_ASSIGN_OR_RETURN(served_few, AskService(how, service.second, workers));
    BATON_ASSIGN_OR_RETURN(served_many, AskService(how, service.second, kManyEach * workers));
    service.first.Stop();
  }
  BATON_ASSIGN_OR_RETURN(const Means few, Simulated(model, *build, workers));
  BATON_ASSIGN_OR_RETURN(const Means many, Simulated(model, *build, kManyEach * workers));
  const double missing_few = served_few.tpot_ms - few.tpot_ms;
  const double missing_many = served_many.tpot_ms - many.tpot_ms;
  const double row = std::max(0.0, (missing_many - missing_few) / (kManyEach - 1));
  build->cost.row += 1e3 * row;
  build->cost.step += 1e3 * std::max(0.0, missing_few - row);
  BATON_ASSIGN_OR_RETURN(const Means again, Simulated(model, *build, workers));
  build->message_ms = std::max(0.0, (served_few.ttft_ms - again.ttft_ms) / 2);
  return absl::OkStatus();
}

}  // namespace baton::planner
