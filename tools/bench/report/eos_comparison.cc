#include <algorithm>

#include "absl/strings/str_format.h"
#include "tools/bench/report/closing_table.h"
#include "tools/bench/report/table_text.h"

namespace baton::bench {

namespace {

constexpr double kSameLength = 0.98;  // of the forced tokens

double OutputTokensOf(const Runs& runs) {
  return Middle(runs, [](const Figures& figures) { return figures.output_len.mean; });
}

// How often the servers' gauges were read.
double ReadingsPerSecond(const RunResult& run) {
  return 1 / std::max(1e-3, run.server_metrics.value("interval_s", 1.0));
}

}  // namespace

std::string EosComparison(const BenchResult& result) {
  const Runs honor = NaturalRuns(result);
  const Runs forced = ForcedRuns(result);
  if (honor.empty() || forced.empty()) return "";
  const auto row = [&](const std::string& name, const std::function<double(const Figures&)>& of) {
    const double natural = Middle(honor, of);
    const double full = Middle(forced, of);
    const std::string ratio = natural > 0 ? absl::StrFormat("%.2f", full / natural) : "-";
    return TableRow(name, {Short(natural), Short(full), ratio});
  };
  std::string text = TableRow("", {"natural", "forced", "ratio"});
  text += row("output tokens per request", [](const Figures& f) { return f.output_len.mean; });
  text += row("output tokens/s", [](const Figures& f) { return f.output_throughput; });
  text += row("end to end, mean ms", [](const Figures& f) { return f.e2el_ms.mean; });
  text += row("TPOT, mean ms", [](const Figures& f) { return f.tpot_ms.mean; });
  text += row("under way, mean", [](const Figures& f) { return f.mean_concurrency; });
  if (honor.front()->peak_kv_usage && forced.front()->peak_kv_usage) {
    const auto peak = [](const Runs& runs) {
      double most = 0;
      for (const RunResult* run : runs) most = std::max(most, run->peak_kv_usage.value_or(0));
      return 100 * most;
    };
    const double natural = peak(honor);
    const std::string ratio = natural > 0 ? absl::StrFormat("%.2f", peak(forced) / natural) : "-";
    text += TableRow(absl::StrFormat("peak KV use, %% (%g/s)", ReadingsPerSecond(*forced.front())),
                     {Short(natural), Short(peak(forced)), ratio});
  }
  const double full = OutputTokensOf(forced);  // 0 where no forced answer completed
  if (full > 0 && OutputTokensOf(honor) >= kSameLength * full) {
    text +=
        "! hardly an answer ended by itself, so both columns are of the same lengths; give "
        "--prompts whose answers end\n";
  }
  return text;
}

}  // namespace baton::bench
