#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/bench/report/table_text.h"

namespace baton::bench {
namespace {

struct Distribution {
  const char* name;
  Summary Figures::*summary;
};

constexpr Distribution kLatencies[] = {{"TTFT, ms", &Figures::ttft_ms},
                                       {"TPOT, ms", &Figures::tpot_ms},
                                       {"gap between tokens, ms", &Figures::itl_ms},
                                       {"largest gap, ms", &Figures::max_gap_ms},
                                       {"end to end, ms", &Figures::e2el_ms}};
constexpr Distribution kRates[] = {{"tokens/s per user", &Figures::tokens_per_s_per_user},
                                   {"prefill tokens/s", &Figures::prefill_tokens_per_s},
                                   {"decode tokens/s", &Figures::decode_tokens_per_s}};
struct Column {
  const char* name;
  double Summary::*value;
  Interval Summary::*interval;  // null where there is none
  double percentile;            // 0 for what is none
};

constexpr Column kColumns[] = {{"mean", &Summary::mean, &Summary::mean_ci, 0},
                               {"median", &Summary::p50, &Summary::p50_ci, 50},
                               {"p90", &Summary::p90, &Summary::p90_ci, 90},
                               {"p95", &Summary::p95, &Summary::p95_ci, 95},
                               {"p99", &Summary::p99, &Summary::p99_ci, 99},
                               {"p99.9", &Summary::p999, &Summary::p999_ci, 99.9},
                               {"max", &Summary::max, nullptr, 0}};

// One distribution, of each run that has samples.
class SummaryRows {
 public:
  SummaryRows(const Runs& runs, const Distribution& distribution)
      : name_(distribution.name), several_(runs.size() > 1) {
    for (const RunResult* run : runs) {
      const Summary& summary = run->figures.*distribution.summary;
      if (summary.count == 0) continue;
      summaries_.push_back(&summary);
      count_ += summary.count;
      fewest_ = fewest_ == 0 ? summary.count : std::min(fewest_, summary.count);
    }
  }

  // The samples of each run count for themselves: a percentile of too few samples lies too low, and
  // so does the median of such percentiles, of however many runs.
  bool Shows(const Column& column) const {
    return count_ > 0 && (column.percentile == 0 || Carries(fewest_, column.percentile));
  }
  bool LeavesOut(const Column& column) const { return count_ > 0 && !Shows(column); }

  std::string Text() const {
    std::vector<std::string> values;
    std::vector<std::string> ranges;
    for (const Column& column : kColumns) {
      values.push_back(Shows(column) ? Value(column) : kNothing);
      ranges.push_back(Shows(column) ? Range(column) : "");
    }
    std::string text = TableRow(name_, values);
    if (count_ < 2) return text;
    return text + TableRow(several_ ? "  lowest to highest run" : "  95 % interval", ranges);
  }

 private:
  std::string Value(const Column& column) const {
    std::vector<double> values;
    for (const Summary* summary : summaries_) values.push_back(summary->*column.value);
    return Short(Median(std::move(values)));
  }

  std::string Range(const Column& column) const {
    Interval range{};
    if (several_) {
      range.low = range.high = summaries_.front()->*column.value;
      for (const Summary* summary : summaries_) {
        range.low = std::min(range.low, summary->*column.value);
        range.high = std::max(range.high, summary->*column.value);
      }
    } else if (column.interval != nullptr) {
      range = summaries_.front()->*column.interval;
    } else {
      return "";
    }
    return absl::StrCat(Short(range.low), "–", Short(range.high));
  }

  const char* name_;
  bool several_;
  std::vector<const Summary*> summaries_;
  int64_t count_ = 0;   // of all runs together
  int64_t fewest_ = 0;  // of one run
};

// Names the columns that some row leaves out, with the samples that they take.
std::string NoteOfTooFew(const std::vector<SummaryRows>& rows, bool several) {
  std::string needs;
  for (const Column& column : kColumns) {
    const auto leaves_out = [&](const SummaryRows& row) { return row.LeavesOut(column); };
    if (std::ranges::none_of(rows, leaves_out)) continue;
    const bool first = needs.empty();
    absl::StrAppend(&needs, first ? "" : ", ", column.name, first ? " needs " : " ",
                    SamplesNeededFor(column.percentile));
  }
  if (needs.empty()) return "";
  return absl::StrCat(kNothing, ": too few samples", several ? " in a run" : "", " (", needs,
                      ")\n");
}

}  // namespace

std::string LatencyTable(const Runs& runs) {
  std::vector<SummaryRows> rows;
  for (const Distribution& distribution : kLatencies) rows.emplace_back(runs, distribution);
  for (const Distribution& distribution : kRates) rows.emplace_back(runs, distribution);
  std::vector<std::string> names;
  for (const Column& column : kColumns) names.emplace_back(column.name);
  std::string text = TableRow("", names);
  for (const SummaryRows& row : rows) text += row.Text();
  return text + NoteOfTooFew(rows, runs.size() > 1);
}

}  // namespace baton::bench
