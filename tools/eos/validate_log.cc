#include "tools/eos/validate_log.h"

#include "absl/strings/str_cat.h"
#include "common/base/shown_text.h"
#include "common/base/status.h"
#include "tools/eos/row_check.h"
#include "tools/eos/row_source.h"

namespace baton {
namespace {

std::string Problem(const RowSource& rows, std::string_view request_id, const std::string& what) {
  const std::string request =
      request_id.empty() ? std::string() : absl::StrCat("request ", ShownText(request_id), ": ");
  return absl::StrCat(rows.Place(), ": ", request, what);
}

std::string Counted(int64_t count, std::string_view noun) {
  return absl::StrCat(count, " ", std::string(noun), count == 1 ? "" : "s");
}

}  // namespace

absl::StatusOr<LogFindings> ValidateLog(const LogFiles& log, size_t most_problems) {
  BATON_ASSIGN_OR_RETURN(RowSource rows, RowSource::Open(log));
  LogFindings found;
  RowCheck check(rows.begins_in_the_middle());
  EosLogRow row;
  while (true) {
    row.request_id.clear();
    const absl::StatusOr<RowSource::Got> got = rows.Next(&row);
    if (absl::IsDataLoss(got.status())) {
      found.broken = true;
      found.rest = std::string(got.status().message());
      break;
    }
    if (!got.ok()) return got.status();
    if (*got == RowSource::Got::kEnd) break;
    ++found.rows;
    const std::string problem = *got == RowSource::Got::kNoRow ? rows.problem() : check.Take(row);
    if (problem.empty()) continue;
    ++found.bad;
    if (found.problems.size() >= most_problems) continue;
    found.problems.push_back(Problem(rows, row.request_id, problem));
  }
  found.requests = check.requests();
  found.open = check.open();
  found.begun_before = check.begun_before();
  if (found.broken) return found;
  const RowSource::Rest rest = rows.rest();
  found.rest = rows.RestText(rest);
  found.cut_off = rest == RowSource::Rest::kCutOff;
  return found;
}

std::string FindingsText(const std::string& path, const LogFindings& found) {
  std::string text;
  for (const std::string& problem : found.problems) absl::StrAppend(&text, problem, "\n");
  const int64_t untold = found.bad - static_cast<int64_t>(found.problems.size());
  if (untold > 0) {
    absl::StrAppend(&text, path, ": ", Counted(untold, "more bad row"), ", not shown\n");
  }
  if (!found.rest.empty()) absl::StrAppend(&text, found.rest, "\n");
  absl::StrAppend(&text, path, ": ", Counted(found.rows, "row"), " of ",
                  Counted(found.requests, "request"), ", ", found.open, " of them open");
  if (found.begun_before > 0) {
    absl::StrAppend(&text, ", ", found.begun_before, " begun in older parts");
  }
  const std::string verdict =
      found.bad == 0 ? std::string("all rows are good") : Counted(found.bad, "bad row");
  absl::StrAppend(&text, ": ", verdict, found.cut_off ? ", the last line is cut off" : "",
                  found.broken ? ", a file is broken and the rest unread" : "", "\n");
  return text;
}

}  // namespace baton
