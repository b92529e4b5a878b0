#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/bench/report/closing_table.h"
#include "tools/bench/report/table_text.h"

namespace baton::bench {
namespace {

const char* NameOf(SearchFor variable) {
  return variable == SearchFor::kRate ? "requests/s" : "concurrency";
}

std::string ValueText(double value, SearchFor variable) {
  return variable == SearchFor::kRate ? Short(value) : absl::StrFormat("%.0f", value);
}

// A limit of the SLO as a column: the percentile of --slo, or the nearest of those that are known.
struct SloColumn {
  std::string name;  // "ttft p90"
  Summary Figures::*figure;
  double Summary::*value;
  double percentile;
};

Summary Figures::*FigureOf(SloMetric metric) {
  switch (metric) {
    case SloMetric::kTtft:
      return &Figures::ttft_ms;
    case SloMetric::kTpot:
      return &Figures::tpot_ms;
    case SloMetric::kItl:
      return &Figures::itl_ms;
    case SloMetric::kE2e:
      return &Figures::e2el_ms;
    case SloMetric::kMaxGap:
      return &Figures::max_gap_ms;
  }
  return nullptr;
}

std::vector<SloColumn> ColumnsOf(const Slo& slo) {
  double percentile = 50;
  double Summary::*value = &Summary::p50;
  for (const auto& [known, member] : {std::pair(90.0, &Summary::p90),
                                      {95.0, &Summary::p95},
                                      {99.0, &Summary::p99},
                                      {99.9, &Summary::p999}}) {
    if (std::abs(known - slo.percentile) > std::abs(percentile - slo.percentile)) continue;
    percentile = known;
    value = member;
  }
  std::vector<SloColumn> columns;
  for (const SloLimit& limit : slo.limits) {
    columns.push_back(
        {absl::StrFormat("%s p%g", std::string(SloMetricName(limit.metric)), percentile),
         FigureOf(limit.metric), value, percentile});
  }
  return columns;
}

std::string PointRow(const SearchPoint& point, SearchFor variable,
                     const std::vector<SloColumn>& columns) {
  std::vector<std::string> cells = {std::to_string(point.requests)};
  for (const SloColumn& column : columns) {
    const Summary& summary = point.figures.*column.figure;
    cells.push_back(Carries(summary.count, column.percentile) ? Short(summary.*column.value)
                                                              : kNothing);
  }
  cells.push_back(Short(point.figures.output_throughput));
  std::string row = TableRow(ValueText(point.value, variable), cells);
  row.pop_back();
  return absl::StrCat(row, "  ", PointText(point), "\n");
}

// What a search that does not know the highest value knows instead of it.
std::string WhyNoHighest(const FindMaxResult& search, SearchFor variable) {
  if (!search.too_slow_at) return search.ended;
  const double value = *search.too_slow_at;
  if (search.best && value <= *search.best) {
    return "at a second look at it this program was too slow";
  }
  const std::string at = absl::StrCat("at ", ValueText(value, variable));
  return search.best ? absl::StrCat("above that, ", at, ", this program was too slow")
                     : at + " this program was too slow";
}

}  // namespace

std::string SearchAnswer(const FindMaxResult& search, SearchFor variable) {
  const char* const name = NameOf(variable);
  if (search.best && search.complete()) {
    return absl::StrCat("highest ", name,
                        " that keeps the SLO: ", ValueText(*search.best, variable));
  }
  const std::string why = search.complete() ? "" : "; " + WhyNoHighest(search, variable);
  if (!search.best) return absl::StrCat("no ", name, " was found that keeps the SLO", why);
  return absl::StrCat(name, " that keeps the SLO: at least ", ValueText(*search.best, variable),
                      why);
}

std::string SearchAdvice(const FindMaxResult& search) {
  if (!search.too_slow_at) return "";
  return "Give this program a core that the server leaves alone, as with `taskset -c 0 baton serve "
         "...` (one thread for each core that it may use) and `taskset -c 1 baton bench ...`, or "
         "run "
         "it on another machine.";
}

std::string PointText(const SearchPoint& point) {
  if (!point.judged()) return "not judged: " + point.reason;
  if (!point.accepted) return "fails: " + point.reason;
  return "passes";
}

std::string SearchTable(const FindMaxResult& search, SearchFor variable, const Slo& slo) {
  std::vector<const SearchPoint*> points;
  for (const SearchPoint& point : search.points) points.push_back(&point);
  std::stable_sort(points.begin(), points.end(),
                   [](const auto* a, const auto* b) { return a->value < b->value; });
  std::string text = absl::StrCat("SLO ", SloText(slo), "\n");
  const std::vector<SloColumn> columns = ColumnsOf(slo);
  std::vector<std::string> names = {"requests"};
  for (const SloColumn& column : columns) names.push_back(column.name);
  names.emplace_back("tokens/s");
  text += TableRow(NameOf(variable), names);
  for (const SearchPoint* point : points) text += PointRow(*point, variable, columns);
  absl::StrAppend(&text, SearchAnswer(search, variable));
  if (search.first_failing) {
    absl::StrAppend(&text, "; first failing ", ValueText(*search.first_failing, variable), ": ",
                    search.failed_because);
  }
  absl::StrAppend(&text, "\n");
  if (search.complete()) absl::StrAppend(&text, search.ended, "\n");
  if (search.too_slow_at) absl::StrAppend(&text, SearchAdvice(search), "\n");
  return text;
}

}  // namespace baton::bench
