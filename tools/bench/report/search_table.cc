#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/bench/report/closing_table.h"
#include "tools/bench/report/table_text.h"

namespace baton::bench {

std::string PointText(const SearchPoint& point) {
  if (point.partial) return "not judged: " + point.reason;
  if (!point.accepted) return "fails: " + point.reason;
  return "passes";
}

std::string SearchTable(const FindMaxResult& search, SearchFor variable, const Slo& slo) {
  const char* const name = variable == SearchFor::kRate ? "requests/s" : "concurrency";
  std::vector<const SearchPoint*> points;
  for (const SearchPoint& point : search.points) points.push_back(&point);
  std::stable_sort(points.begin(), points.end(),
                   [](const auto* a, const auto* b) { return a->value < b->value; });
  std::string text = absl::StrCat("SLO ", SloText(slo), "\n");
  text += TableRow(name, {"requests", "TTFT p99", "TPOT p99", "tokens/s"});
  for (const SearchPoint* point : points) {
    std::string row =
        TableRow(Short(point->value),
                 {std::to_string(point->requests), Short(point->figures.ttft_ms.p99),
                  Short(point->figures.tpot_ms.p99), Short(point->figures.output_throughput)});
    row.pop_back();
    absl::StrAppend(&text, row, "  ", PointText(*point), "\n");
  }
  if (search.best) {
    absl::StrAppend(&text, "highest ", name, " that keeps the SLO: ", Short(*search.best));
  } else {
    absl::StrAppend(&text, "no ", name, " was found that keeps the SLO");
  }
  if (search.first_failing) {
    absl::StrAppend(&text, "; first failing ", Short(*search.first_failing), ": ",
                    search.failed_because);
  }
  absl::StrAppend(&text, "\n", search.ended, "\n");
  return text;
}

}  // namespace baton::bench
