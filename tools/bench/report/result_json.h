#pragma once

// result.json is one object. Its top level has the names of `vllm bench serve --save-result`, so
// that readers of that file work on this one; ours are nested below. vLLM's names say what they say
// there: they are of the whole run, ramp and drain included, and of several runs they are pooled
// with the durations added. Absent figures are null.
//
//   vLLM's      date "YYYYmmdd-HHMMSS" (UTC), endpoint_type, backend, label, model_id,
//               tokenizer_id, num_prompts, request_rate (number, "inf" in a closed loop),
//               burstiness (number, "inf" for constant arrivals), max_concurrency (null in an open
//               loop), duration [s], completed, failed, total_input_tokens, total_output_tokens,
//               request_throughput, request_goodput (null without SLO), output_throughput,
//               total_token_throughput, input_lens [..], output_lens [..], ttfts [s ..],
//               itls [[s ..] ..], latencies [s ..], start_times [s ..], queue_times [s ..],
//               errors ["" ..],
//               max_output_tokens_per_s, max_concurrent_requests, and for each of ttft, tpot, itl,
//               e2el: mean_X_ms, median_X_ms, std_X_ms, p50_X_ms, p90_X_ms, p95_X_ms, p99_X_ms,
//               p99.9_X_ms
//   schema      "baton.bench/1"
//   command     [argv ..]
//   arrivals    "poisson" | "constant" | "gamma" | "trace", null in a closed loop
//   prompt_salt null | n: with --prompt-salt n the same prompts are sent again (openai)
//   server      {address, protocol, ..} as the caller fills it
//   eos         "honor" | "mask" | "continue" | "both"
//   slo         null | {text, percentile, reader|null, limits {"ttft": ms, "tpot": ms, ..}}
//   partial     bool, and partial_reason: string | null
//   void        string | null: why an ignore-EOS run, or a point of a search, does not count
//   client_limited  bool: a run, or a point of a search
//   runs        [{seed, label, eos, rate|"inf"|null, concurrency|null, partial,
//   partial_reason|null,
//                 void|null, client_limited, unix_started, duration_s,
//                 lag_ms SUMMARY, window {from, to, whole_run},
//                 figures FIGURES (of the window), whole_run FIGURES,
//                 prompt_counts {compared, different, first: null | {planned, counted}},
//                 saturation {saturated, enough_data, concurrency_slope_per_s,
//                             ttft_slope_ms_per_s, concurrency_p, ttft_p},
//                 concurrency_over_time [[s, n] ..] (at most 2000 steps),
//                 server_metrics object|null}]
//   find_max    null | {variable "rate"|"concurrency", answer (a sentence, as it is printed),
//                 best|null, first_failing|null, failed_metric|null, failed_because, converged,
//                 complete, interrupted, too_slow_at|null, ended, error|null, requests}; unless
//                 complete, best passed but is not known to be the highest
//   points      [{value, accepted, reason|null, failed_metric|null, undecided, requests,
//                 failed_requests, runs, seconds, saturated, saturation {..}, client_limited,
//                 void|null, partial,
//                 metrics [{metric, limit_ms, samples, violations,
//                           verdict "passes"|"fails"|"needs_more", more}],
//                 figures FIGURES}]    in the order tried; [] without --find-max
//   eos_compare null | {natural SIDE, forced SIDE}, SIDE = {output_tokens, mean_output_len,
//                 duration_s, output_throughput, mean_e2el_ms, mean_tpot_ms,
//                 peak_kv_usage|null, natural_end_share, tokens_after_natural_end_share}
//
//   SUMMARY     {count, mean, std, min, max, p50, p90, p95, p99, "p99.9",
//                too_few_for ["p99", ..]: percentiles that `count` samples say nothing about,
//                ci95 {mean [low, high], p50 [..], p90 [..], p95 [..], p99 [..], "p99.9" [..]}}
//   FIGURES     {requests, completed, failed, cancelled, prompt_tokens, cached_tokens,
//                output_tokens, extra_attempts, finish_reasons {..}, errors {..},
//                slo [{metric, limit_ms, samples, violations}],
//                and each row of FigureTable() by its name: a SUMMARY (null without samples) or a
//                number (null where it is a share or a mean of nothing)}

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "tools/bench/figures/figures.h"
#include "tools/bench/figures/slo.h"
#include "tools/bench/load/load_generator.h"
#include "tools/bench/search/find_max.h"
#include "tools/bench/search/saturation.h"

namespace baton::bench {

// How long the server found the prompts of completed requests, where it says so and the plan knows.
struct PromptCounts {
  int64_t compared = 0;
  int64_t different = 0;
  int32_t planned = 0;  // of the first that differs
  int32_t counted = 0;
};

// One run with what was computed from it.
struct RunResult {
  uint64_t seed = 0;
  std::string label;  // "run 1", "natural", "forced"
  EosMode eos = EosMode::kHonor;
  std::optional<double> rate;          // requests per second, open loop
  std::optional<int32_t> concurrency;  // closed loop
  LoadResult load;
  Figures figures;    // of the measured window
  Figures whole_run;  // ramp and drain included
  Saturation saturation;
  PromptCounts prompt_counts;
  bool client_limited = false;
  std::string void_reason;                // "" = counts
  std::string partial_reason;             // "" = complete
  nlohmann::ordered_json server_metrics;  // null when none were read
  std::optional<double> peak_kv_usage;    // 0..1, for the comparison of EOS modes
};

// Window, figures, saturation, lag and forced lengths of `load`: everything but the names.
RunResult ComputeRun(LoadResult load, EosMode eos, const WindowOptions& window,
                     const std::optional<Slo>& slo, uint64_t seed);

// Everything that result.json holds.
struct BenchResult {
  std::vector<std::string> command;
  std::string endpoint_type;  // "baton", "openai"
  std::string model_id;
  std::string tokenizer_id;
  std::string eos;       // as given: "both" is none of EosMode
  std::string arrivals;  // "" in a closed loop
  double burstiness = 1;
  std::optional<int64_t> prompt_salt;
  std::optional<Slo> slo;
  nlohmann::ordered_json server;  // what the caller knows of it
  std::vector<RunResult> runs;
  std::optional<SearchFor> find_max_variable;  // with find_max
  std::optional<FindMaxResult> find_max;
  std::string partial_reason;  // "" = complete; runs and a search that broke off say it too
};

// Runs of natural against those of forced length; null unless there are both.
nlohmann::ordered_json EosCompareAsJson(const std::vector<RunResult>& runs);
nlohmann::ordered_json FiguresAsJson(const Figures& figures);
nlohmann::ordered_json SummaryAsJson(const Summary& summary);
nlohmann::ordered_json ResultAsJson(const BenchResult& result);

// As an OutputFile: PATH is the old file or the whole new one, and after an error nothing of the
// new one is left, so that a full disk is not made fuller.
absl::Status WriteResult(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace baton::bench
