#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/eos/log_parts.h"

namespace baton {

// The line with the names of all columns: the keys of a row, in the order of the log.
std::string CsvHeader();
// Appends a row of the log, which ReadEosRow has accepted, as a line of CSV (RFC 4180, but lines
// end with a newline only). What is null is empty; numbers stand as they do in the log. A text
// that a spreadsheet would compute has an apostrophe in front.
void AppendCsvLine(std::string_view row, std::string* out);

struct CsvResult {
  int64_t rows = 0;
  std::string rest;  // about a last line without an end, which is left out; "" if there is none
};
// Writes a log as CSV to `out`, an OutputFile. A line that is no row ends
// it with an error and without a file.
absl::StatusOr<CsvResult> ConvertToCsv(const LogFiles& log, const std::string& out);

}  // namespace baton
