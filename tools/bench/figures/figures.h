#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/figures/slo.h"
#include "tools/bench/figures/statistics.h"
#include "tools/bench/load/load_generator.h"
#include "tools/bench/load/request_record.h"
#include "tools/bench/plan/request_plan.h"

namespace baton::bench {

// The span of a run that is measured, both ends included, seconds since its start. Latencies are
// those of the requests that were scheduled inside, whenever they ended: leaving out slow ones
// would flatter. Throughputs, and goodput as one of them, count what arrived inside. Before `from`
// the server fills; after `to`, when nothing more arrives, it drains.
struct Window {
  double from = 0;
  double to = 0;
  bool whole_run = false;  // nothing was cut off: asked for, or the run was too short to cut

  double seconds() const { return to > from ? to - from : 0; }
  bool Holds(double at) const { return at >= from && at <= to; }
};

struct WindowOptions {
  double warmup_s = 0;      // what the user wants left out at least
  int32_t concurrency = 0;  // of a closed loop; 0 = open loop
};

// The measured window of a run:
//   to    the last scheduled arrival (closed loop: the last sending);
//   from  the latest of the warm-up and the ramp. Ramp of an open loop: the median time a request
//         takes, but at most a tenth of `to`. Of a closed loop: the sending of request
//         `concurrency` + 1, as the first ones all start at once.
// When fewer than half of the requests after the warm-up would be left, the whole run is the
// window, and says so.
Window MeasuredWindow(const LoadResult& load, const WindowOptions& options);
// The window from the start to the last end, ramp and drain included, as other tools measure.
Window WholeRun(const LoadResult& load);

// Concurrency as a step function: `requests` are under way from `at` on.
struct ConcurrencyStep {
  double at = 0;
  int32_t requests = 0;
};
std::vector<ConcurrencyStep> ConcurrencyOverTime(std::span<const RequestRecord> records);
// The average over the time between `from` and `to`.
double MeanConcurrency(std::span<const ConcurrencyStep> steps, double from, double to);

// Every figure of one run over one window. Each is a row of FigureTable(), which holds its formula.
struct Figures {
  Window window;
  // Counts of the requests scheduled inside the window.
  int64_t requests = 0;   // completed + failed + cancelled
  int64_t completed = 0;  // the only ones that the figures below look at
  int64_t failed = 0;
  int64_t cancelled = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t output_tokens = 0;
  int64_t extra_attempts = 0;
  std::map<std::string, int64_t> finish_reasons;
  std::map<std::string, int64_t> errors;  // failed requests by message

  // Per request; milliseconds unless the name says otherwise.
  Summary ttft_ms;
  Summary ttft_from_sent_ms;
  Summary client_queue_ms;
  Summary ttft_per_prompt_token_ms;
  Summary tpot_ms;
  Summary itl_ms;  // of gaps, pooled
  Summary max_gap_ms;
  Summary e2el_ms;
  Summary ntpot_ms;
  Summary tokens_per_s_per_user;
  Summary prefill_tokens_per_s;
  Summary server_prefill_tokens_per_s;
  Summary decode_tokens_per_s;
  Summary decode_tokens_per_s_n1;
  Summary queue_ms;
  Summary prefill_ms;
  Summary ttft_rest_ms;
  Summary network_ms;
  Summary kv_transfer_ms;
  Summary first_decode_ms;
  Summary prompt_len;
  Summary output_len;
  Summary natural_end_step;

  // What the measured window was like.
  double duration_s = 0;
  double mean_concurrency = 0;
  double peak_concurrency = 0;
  double request_throughput = 0;
  double input_throughput = 0;
  double output_throughput = 0;
  double total_token_throughput = 0;
  double peak_output_tokens_per_s = 0;
  double tokens_per_chunk = 0;
  double natural_end_share = 0;
  double tokens_after_natural_end_share = 0;
  double request_goodput = 0;  // with an SLO, else 0
  double goodput_share = 0;
  double failed_share = 0;
  std::vector<SloCount> slo;  // one per limit
};

// `seed` is of the bootstrap.
Figures ComputeFigures(const LoadResult& load, const Window& window, const std::optional<Slo>& slo,
                       uint64_t seed);

// One figure: what --explain prints and docs/bench.md holds.
struct FigureInfo {
  std::string_view name;  // as in result.json
  std::string_view unit;
  std::string_view formula;
  std::string_view purpose;
  // Exactly one of these.
  Summary Figures::*distribution = nullptr;
  double Figures::*number = nullptr;
};

// Every figure once, in the order in which they are shown.
std::span<const FigureInfo> FigureTable();
// The table as aligned text (--explain) and as the rows of docs/bench.md.
std::string ExplainFigures();
std::string FiguresAsMarkdown();

// Why a run of forced lengths (mask, continue) is void: the first completed request whose output is
// not its max_tokens, with its id, what was expected and what was found. Empty when it is not, and
// for EosMode::kHonor. Failed and cancelled requests are counted apart and void nothing.
std::string VoidReason(std::span<const RequestRecord> records, EosMode eos);

// Whether an open loop was late by its own doing: P99 of its lag over 5 ms.
constexpr double kClientLimitedLagMs = 5;
bool ClientLimited(std::span<const double> lag_ms);
double LagP99(std::span<const double> lag_ms);

}  // namespace baton::bench
