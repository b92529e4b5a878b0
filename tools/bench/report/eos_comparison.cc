#include <algorithm>

#include "absl/strings/str_format.h"
#include "tools/bench/report/closing_table.h"
#include "tools/bench/report/table_text.h"

namespace baton::bench {

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
    text += TableRow("peak KV use, %", {Short(natural), Short(peak(forced)), ratio});
  }
  return text;
}

}  // namespace baton::bench
