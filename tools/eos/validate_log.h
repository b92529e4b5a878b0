#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/eos/log_parts.h"

namespace baton {

// What was found in one log.
struct LogFindings {
  int64_t rows = 0;  // lines, whether they are rows or not
  int64_t bad = 0;   // of them, those that are not as they should be
  int64_t requests = 0;
  int64_t open = 0;                   // of them, those without a last row
  std::vector<std::string> problems;  // a line for each of the first bad rows
  int64_t begun_before = 0;           // of the requests, those whose first rows are in older parts
  bool cut_off = false;               // the last line has no end, and nobody writes the file
  bool broken = false;                // a compressed file was cut off or damaged, as `rest` says
  std::string rest;                   // about a last line without an end; "" if there is none
};

// Checks every row of a log: against the schema, and against what the rows of a request promise.
// Tells of `most_problems` bad rows and counts the others.
absl::StatusOr<LogFindings> ValidateLog(const LogFiles& log, size_t most_problems);

// "eos.jsonl: 120 rows of 3 requests, 1 of them open: all rows are good\n"
std::string FindingsText(const std::string& path, const LogFindings& found);

}  // namespace baton
