#include "tools/bench/report/table_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace baton::bench {

namespace {

constexpr int kNameWidth = 26;
constexpr size_t kCellWidth = 12;

// Characters of UTF-8 text, of which a terminal gives each one place.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

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
  if (value == 0) return "0";
  const double size = std::abs(value);
  const int decimals = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return absl::StrFormat("%.*f", decimals, value);
}

std::string TableRow(const std::string& name, const std::vector<std::string>& cells) {
  std::string row = absl::StrFormat("%-*s", kNameWidth, name);
  for (const std::string& cell : cells) {
    const size_t width = std::min(kCellWidth - 1, Width(cell));
    row += std::string(kCellWidth - width, ' ') + cell;
  }
  row.erase(row.find_last_not_of(' ') + 1);
  return row + "\n";
}

}  // namespace baton::bench
