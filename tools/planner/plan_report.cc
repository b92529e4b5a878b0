#include "tools/planner/plan_report.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/config/flag_set.h"

namespace baton::planner {
namespace {

using Json = nlohmann::ordered_json;
using simulator::SimFigures;

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

template <typename Member>
Json TimesJson(const Trial& trial, Member member) {
  Json json = {{"mean", 0.0}, {"p50", 0.0}, {"p99", 0.0}};
  const auto runs = static_cast<double>(trial.runs.size());
  for (const SimFigures& run : trial.runs) {
    const bench::Summary& summary = run.*member;
    json["mean"] = json["mean"].get<double>() + summary.mean / runs;
    json["p50"] = json["p50"].get<double>() + summary.p50 / runs;
    json["p99"] = json["p99"].get<double>() + summary.p99 / runs;
  }
  return json;
}

Json ExpectedJson(const PlanReport& report, const Trial& trial) {
  const Served served = ServedBy(report, trial);
  const auto mean = [&](double (*figure)(const SimFigures&)) { return trial.Mean(figure); };
  return {
      {"ttft_ms", TimesJson(trial, &SimFigures::ttft_ms)},
      {"tpot_ms", TimesJson(trial, &SimFigures::tpot_ms)},
      {"e2e_ms", TimesJson(trial, &SimFigures::e2e_ms)},
      {"goodput", served.good_requests},
      {"goodput_share", mean([](const SimFigures& run) { return run.goodput_share.value_or(0); })},
      {"request_throughput", served.requests},
      {"output_throughput", served.output_tokens},
      {"busy_share", mean([](const SimFigures& run) { return run.cluster.busy_share; })},
      {"prefill_busy_share",
       mean([](const SimFigures& run) { return run.cluster.prefill_busy_share; })},
      {"kv_use_p95", mean([](const SimFigures& run) { return run.cluster.kv_p95; })},
      {"preemptions",
       mean([](const SimFigures& run) { return static_cast<double>(run.cluster.preemptions); })},
      {"joules_per_output_token", OrNull(JoulesPerToken(report, trial))},
      {"price_per_million_output_tokens", OrNull(PricePerMillionTokens(report, trial))}};
}

Json ClusterJson(const PlanReport& report, const std::optional<Trial>& trial) {
  if (!trial) return nullptr;
  const Candidate& candidate = trial->candidate;
  const WorkerBuild& build = *candidate.build;
  Json limits = Json::array();
  for (const LimitKept& kept : trial->limits) {
    limits.push_back({{"metric", std::string(bench::SloMetricName(kept.limit.metric))},
                      {"limit_ms", kept.limit.limit_ms},
                      {"at_percentile_ms", kept.at_percentile_ms},
                      {"share", kept.share}});
  }
  return {{"mode", candidate.unified() ? "unified" : "split"},
          {"prefill", candidate.prefill},
          {"decode", candidate.decode},
          {"devices", candidate.devices()},
          {"tensor_parallel_size", build.ranks},
          {"threads", build.threads},
          {"max_num_seqs", candidate.max_num_seqs},
          {"kv_cache_bytes", trial->kv_bytes},
          {"kv_cache_tokens", trial->kv_tokens},
          {"weight_bytes", build.weight_bytes},
          {"activation_bytes", build.activation_bytes},
          {"library_bytes", build.library_bytes},
          {"step_cost_us", simulator::CostTerms(build.cost)},
          {"keeps", trial->keeps},
          {"worst_good_share", trial->good_share},
          {"limits", std::move(limits)},
          {"expected", ExpectedJson(report, *trial)}};
}

// Watts of one device that computes for this share of the time.
double Watts(const Hardware::Power& power, double busy) {
  return power.idle_watts + (power.busy_watts - power.idle_watts) * busy;
}

std::vector<std::string> WorkerWords(const PlanReport& report, const Trial& trial) {
  const PlanFlags& flags = report.flags;
  const WorkerBuild& build = *trial.candidate.build;
  std::vector<std::string> words;
  const auto add = [&](const char* name, const std::string& value) {
    words.push_back(absl::StrCat("--", name, " ", value));
  };
  if (report.hardware && report.hardware->device != "cpu") add("device", report.hardware->device);
  if (build.ranks > 1) add("tensor-parallel-size", absl::StrCat(build.ranks));
  if (flags.dtype != DtypeFlag::kAuto) {
    add("dtype", std::string(kernels::Name(report.question.model.compute_dtype)));
  }
  if (flags.kv_dtype != KvDtypeFlag::kAuto) {
    add("kv-dtype", std::string(kernels::Name(report.question.model.kv_dtype)));
  }
  if (flags.quantization != kernels::Quantization::kNone) {
    add("quantization", std::string(kernels::Name(flags.quantization)));
  }
  add("max-num-seqs", absl::StrCat(trial.candidate.max_num_seqs));
  if (report.hardware && report.hardware->device == "cuda") {
    add("gpu-memory-utilization", absl::StrCat(report.hardware->memory_share));
  } else {
    add("kv-cache-memory", absl::StrCat(static_cast<int64_t>(trial.kv_bytes) >> 20, "MiB"));
  }
  const PlanFlags usual;
  if (flags.max_prefill_tokens != usual.max_prefill_tokens) {
    add("max-prefill-tokens", absl::StrCat(flags.max_prefill_tokens));
  }
  if (flags.max_num_batched_tokens != usual.max_num_batched_tokens) {
    add("max-num-batched-tokens", absl::StrCat(flags.max_num_batched_tokens));
  }
  if (flags.block_size != usual.block_size) add("block-size", absl::StrCat(flags.block_size));
  if (flags.load.max_model_len > 0) add("max-model-len", absl::StrCat(flags.load.max_model_len));
  return words;
}

// A word as a shell reads it.
std::string ShellWord(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", R"('\'')"}}), "'");
}

}  // namespace

std::string ServeCommandOf(const PlanReport& report, const Trial& trial) {
  const Candidate& candidate = trial.candidate;
  if (report.hardware && candidate.devices() > report.hardware->devices) return "";
  std::vector<std::string> words = {"baton serve", ShellWord(report.flags.model_dir)};
  if (candidate.unified()) {
    words.push_back(absl::StrCat("--mode unified --decode ", candidate.decode));
  } else {
    words.push_back(absl::StrCat("--prefill ", candidate.prefill, " --decode ", candidate.decode));
  }
  for (std::string& word : WorkerWords(report, trial)) words.push_back(std::move(word));
  return absl::StrJoin(words, " ");
}

std::string BenchCommandOf(const PlanReport& report) {
  std::string command = "baton bench";
  for (const std::string& word : BenchLoad(report.flags, report.question)) {
    absl::StrAppend(&command, " ", ShellWord(word));
  }
  return command;
}

bool IsOverloaded(const PlanReport& report, const Trial& trial) {
  // Even a fast cluster serves somewhat less over a run than comes while the load lasts.
  constexpr double kServedShare = 0.75;
  return trial.Mean([](const SimFigures& run) { return run.request_throughput; }) <
         kServedShare * report.question.facts.rate;
}

Served ServedBy(const PlanReport& report, const Trial& trial) {
  const auto mean = [&](double (*figure)(const SimFigures&)) { return trial.Mean(figure); };
  Served served;
  served.requests = mean([](const SimFigures& run) { return run.request_throughput; });
  served.good_requests = mean([](const SimFigures& run) { return run.goodput.value_or(0); });
  served.output_tokens = mean([](const SimFigures& run) { return run.output_throughput; });
  const double rate = report.question.facts.rate;
  if (rate <= 0 || served.requests <= 0 || IsOverloaded(report, trial)) return served;
  const double completed = mean([](const SimFigures& run) {
    return static_cast<double>(run.completed) / static_cast<double>(run.completed + run.refused);
  });
  served.output_tokens *= rate * completed / served.requests;
  served.good_requests =
      rate * mean([](const SimFigures& run) { return run.goodput_share.value_or(0); });
  served.requests = rate * completed;
  return served;
}

std::optional<double> JoulesPerToken(const PlanReport& report, const Trial& trial) {
  if (!report.hardware || !report.hardware->power) return std::nullopt;
  const Candidate& candidate = trial.candidate;
  const Hardware::Power& power = *report.hardware->power;
  const double decode = trial.Mean([](const SimFigures& run) { return run.cluster.busy_share; });
  const double prefill =
      trial.Mean([](const SimFigures& run) { return run.cluster.prefill_busy_share; });
  const double watts = candidate.build->devices * (candidate.decode * Watts(power, decode) +
                                                   candidate.prefill * Watts(power, prefill));
  const double tokens = ServedBy(report, trial).output_tokens;
  if (tokens <= 0) return std::nullopt;
  return watts / tokens;
}

std::optional<double> PricePerMillionTokens(const PlanReport& report, const Trial& trial) {
  if (!report.hardware || !report.hardware->price_per_hour) return std::nullopt;
  const double tokens = ServedBy(report, trial).output_tokens;
  if (tokens <= 0) return std::nullopt;
  return *report.hardware->price_per_hour * trial.candidate.devices() / 3600 / tokens * 1e6;
}

nlohmann::ordered_json PlanJson(const PlanReport& report) {
  const Plan& plan = report.plan;
  Json left_out = Json::array();
  for (const std::string& why : report.left_out) left_out.push_back(why);
  FlagSet set("baton plan", "plan", "");
  PlanFlags flags = report.flags;
  BindPlan(&set, &flags);
  const std::string serve = plan.best ? ServeCommandOf(report, *plan.best) : "";
  return {{"schema", "baton.plan/1"},
          {"question", simulator::SettingsJson(set)},
          {"hardware", report.hardware ? report.hardware->name : "measured"},
          {"plan", ClusterJson(report, plan.best)},
          {"cheaper", ClusterJson(report, plan.cheaper)},
          {"nearest", ClusterJson(report, plan.nearest)},
          {"left_out", std::move(left_out)},
          {"simulated", plan.simulated},
          {"complete", !plan.cut},
          {"devices_needed", plan.devices_needed > 0 ? Json(plan.devices_needed) : Json(nullptr)},
          {"bearable_share", OrNull(plan.bearable)},
          {"serve", serve.empty() ? Json(nullptr) : Json(serve)},
          {"bench", BenchCommandOf(report)}};
}

}  // namespace baton::planner
