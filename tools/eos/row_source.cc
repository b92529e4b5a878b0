#include "tools/eos/row_source.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {

absl::StatusOr<RowSource> RowSource::Open(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(LineSource lines, LineSource::Open(path));
  return RowSource(std::move(lines));
}

absl::StatusOr<RowSource::Got> RowSource::Next(EosLogRow* row) {
  BATON_ASSIGN_OR_RETURN(const LineSource::Got got, lines_.Next(&line_));
  if (got == LineSource::Got::kEnd) return Got::kEnd;
  if (got == LineSource::Got::kTooLong) {
    problem_ = absl::StrCat("found a line of more than ", LineSource::kMaxLineBytes,
                            " bytes, expected a row");
    return Got::kNoRow;
  }
  const absl::Status read = ReadEosRow(line_, row);
  if (read.ok()) return Got::kRow;
  problem_ = std::string(read.message().data(), read.message().size());
  return Got::kNoRow;
}

std::string RowSource::Place() const { return absl::StrCat(path(), ":", lines_.line_number()); }

RowSource::Rest RowSource::rest() const {
  if (lines_.rest().empty()) return Rest::kNothing;
  return lines_.HasWriter() ? Rest::kBeingWritten : Rest::kCutOff;
}

std::string RowSource::RestText(Rest rest) const {
  if (rest == Rest::kNothing) return "";
  const std::string what =
      absl::StrCat(path(), ":", lines_.line_number() + 1, ": the last line has no end (",
                   lines_.rest().size(), " bytes): ");
  return what + (rest == Rest::kBeingWritten
                     ? "it is not complete yet, for a process writes this file"
                     : "it was cut off, for no process writes this file. A router that goes on "
                       "with the file takes the line out");
}

}  // namespace baton
