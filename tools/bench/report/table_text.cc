#include "tools/bench/report/table_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace baton::bench {

namespace {

constexpr int kNameWidth = 26;

Runs RunsOf(const BenchResult& result, bool forced) {
  Runs runs;
  for (const RunResult& run : result.runs) {
    if ((run.eos != EosMode::kHonor) == forced) runs.push_back(&run);
  }
  return runs;
}

}  // namespace

Runs NaturalRuns(const BenchResult& result) { return RunsOf(result, /*forced=*/false); }
Runs ForcedRuns(const BenchResult& result) { return RunsOf(result, /*forced=*/true); }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return PercentileOfSorted(values, 50);
}

double Middle(const Runs& runs, const std::function<double(const Figures&)>& number) {
  std::vector<double> values;
  for (const RunResult* run : runs) values.push_back(number(run->figures));
  return Median(std::move(values));
}

std::string Short(double value) {
  const double size = std::abs(value);
  const int decimals = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return absl::StrFormat("%.*f", decimals, value);
}

std::string TableRow(const std::string& name, const std::vector<std::string>& cells) {
  std::string row = absl::StrFormat("%-*s", kNameWidth, name);
  for (const std::string& cell : cells) absl::StrAppendFormat(&row, "%10s", cell);
  return row + "\n";
}

}  // namespace baton::bench
