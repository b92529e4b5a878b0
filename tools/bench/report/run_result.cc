#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "tools/bench/report/result_json.h"

namespace baton::bench {
namespace {

using Json = nlohmann::ordered_json;

// Why a run is less than it was planned to be; "" when it is whole.
std::string PartialReason(const LoadResult& load) {
  if (load.interrupted) return "interrupted";
  if (!load.gave_up.ok()) return std::string(load.gave_up.message());
  const auto cut_off = std::count_if(load.records.begin(), load.records.end(),
                                     [](const RequestRecord& record) { return record.cancelled; });
  if (cut_off == 0) return "";
  return absl::StrCat(cut_off, " requests did not end in time and were cut off");
}

PromptCounts ComparePrompts(const LoadResult& load) {
  PromptCounts counts;
  for (const RequestRecord& record : load.records) {
    if (!record.ok() || record.planned_prompt_tokens < 0 || record.prompt_tokens <= 0) continue;
    ++counts.compared;
    if (record.planned_prompt_tokens == record.prompt_tokens) continue;
    if (counts.different++ > 0) continue;
    counts.planned = record.planned_prompt_tokens;
    counts.counted = record.prompt_tokens;
  }
  return counts;
}

// One side of the comparison of EOS modes: whole runs, since both sides answer
// prompts of the same lengths. Means are of the runs in which something completed, null without
// one.
Json EosSide(const std::vector<const RunResult*>& runs) {
  double tokens = 0;
  double seconds = 0;
  std::optional<double> peak_kv;
  std::map<std::string, double> sums;
  double completed = 0;
  for (const RunResult* run : runs) {
    const Figures& figures = run->whole_run;
    tokens += static_cast<double>(figures.output_tokens);
    seconds += figures.duration_s;
    completed += figures.completed > 0 ? 1 : 0;
    sums["mean_output_len"] += figures.output_len.mean;
    sums["mean_e2el_ms"] += figures.e2el_ms.mean;
    sums["mean_tpot_ms"] += figures.tpot_ms.mean;
    sums["natural_end_share"] += figures.natural_end_share;
    sums["tokens_after_natural_end_share"] += figures.tokens_after_natural_end_share;
    if (run->peak_kv_usage) peak_kv = std::max(peak_kv.value_or(0), *run->peak_kv_usage);
  }
  Json side = {{"output_tokens", tokens / static_cast<double>(runs.size())},
               {"duration_s", seconds / static_cast<double>(runs.size())},
               {"output_throughput", seconds > 0 ? tokens / seconds : 0},
               {"peak_kv_usage", peak_kv ? Json(*peak_kv) : Json(nullptr)}};
  for (const auto& [name, sum] : sums) {
    side[name] = completed > 0 ? Json(sum / completed) : Json(nullptr);
  }
  return side;
}

}  // namespace

RunResult ComputeRun(LoadResult load, EosMode eos, const WindowOptions& options,
                     const std::optional<Slo>& slo, uint64_t seed) {
  RunResult run;
  run.seed = seed;
  run.eos = eos;
  run.load = std::move(load);
  const Window window = MeasuredWindow(run.load, options);
  run.figures = ComputeFigures(run.load, window, slo, seed);
  run.whole_run = ComputeFigures(run.load, WholeRun(run.load), slo, seed);
  run.saturation = FindSaturation(run.load.records, window);
  run.prompt_counts = ComparePrompts(run.load);
  if (options.concurrency > 0) {
    run.concurrency = options.concurrency;
  } else {
    run.client_limited = ClientLimited(run.load.lag_ms);
  }
  run.void_reason = VoidReason(run.load.records, eos);
  run.partial_reason = PartialReason(run.load);
  return run;
}

Json EosCompareAsJson(const std::vector<RunResult>& runs) {
  std::vector<const RunResult*> natural;
  std::vector<const RunResult*> forced;
  for (const RunResult& run : runs) {
    (run.eos == EosMode::kHonor ? natural : forced).push_back(&run);
  }
  if (natural.empty() || forced.empty()) return nullptr;
  return {{"natural", EosSide(natural)}, {"forced", EosSide(forced)}};
}

}  // namespace baton::bench
