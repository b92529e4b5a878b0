#include "tools/eos/row_source.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {

namespace {

// A part may be compressed, or removed, between the moment when it was found and this one.
absl::StatusOr<LineSource> OpenPart(const std::string& path) {
  absl::StatusOr<LineSource> opened = LineSource::Open(path);
  if (!absl::IsNotFound(opened.status())) return opened;
  const bool compressed = path.ends_with(kZstdSuffix);
  absl::StatusOr<LineSource> other =
      LineSource::Open(compressed ? path.substr(0, path.size() - kZstdSuffix.size())
                                  : absl::StrCat(path, std::string(kZstdSuffix)));
  return other.ok() ? std::move(other) : std::move(opened);
}

}  // namespace

absl::StatusOr<RowSource> RowSource::Open(const LogFiles& log) {
  RowSource rows;
  int64_t first = log.first_part;
  rows.parts_ = log.parts;
  if (log.live) {
    std::vector<LogPart> parts = PartsOf(log.name);
    absl::StatusOr<OpenedLog> opened = OpenLog(log.name);
    if (opened.ok()) {
      rows.live_ = std::make_unique<LineSource>(std::move(opened->live));
      parts = std::move(opened->parts);
    } else if (!absl::IsNotFound(opened.status()) || parts.empty()) {
      return opened.status();
    }
    for (LogPart& part : parts) rows.parts_.push_back(std::move(part.path));
    first = parts.empty() ? 1 : parts.front().number;
    rows.parts_may_go_ = true;
  }
  rows.begins_in_the_middle_ = first > 1;
  BATON_ASSIGN_OR_RETURN(const bool any, rows.OpenNext());
  if (any) return rows;
  return absl::NotFoundError(absl::StrCat(log.name, " and its parts were removed meanwhile"));
}

absl::StatusOr<bool> RowSource::OpenNext() {
  while (next_ < parts_.size()) {
    absl::StatusOr<LineSource> part = OpenPart(parts_[next_++]);
    if (part.ok()) {
      lines_ = std::make_unique<LineSource>(*std::move(part));
      return true;
    }
    if (!absl::IsNotFound(part.status()) || !parts_may_go_ || began_) return part.status();
    begins_in_the_middle_ = true;
  }
  if (live_ == nullptr) return false;
  lines_ = std::move(live_);
  return true;
}

absl::StatusOr<RowSource::Got> RowSource::Next(EosLogRow* row) {
  while (true) {
    BATON_ASSIGN_OR_RETURN(const LineSource::Got got, lines_->Next(&line_));
    began_ = true;
    if (got == LineSource::Got::kTooLong) {
      problem_ = absl::StrCat("found a line of more than ", LineSource::kMaxLineBytes,
                              " bytes, expected a row");
      return Got::kNoRow;
    }
    if (got == LineSource::Got::kLine) {
      const absl::Status read = ReadEosRow(line_, row);
      if (read.ok()) return Got::kRow;
      problem_ = std::string(read.message().data(), read.message().size());
      return Got::kNoRow;
    }
    const size_t rest = lines_->rest().size();
    if (next_ == parts_.size() && live_ == nullptr) return Got::kEnd;
    const std::string ended = path();
    BATON_RETURN_IF_ERROR(OpenNext().status());
    if (rest == 0) continue;
    problem_ = absl::StrCat("found ", rest, " bytes without an end of line behind the last row of ",
                            ended, ", expected a whole line");
    return Got::kNoRow;
  }
}

std::string RowSource::Place() const { return absl::StrCat(path(), ":", lines_->line_number()); }

RowSource::Rest RowSource::rest() const {
  if (lines_->rest().empty()) return Rest::kNothing;
  return lines_->HasWriter() ? Rest::kBeingWritten : Rest::kCutOff;
}

std::string RowSource::RestText(Rest rest) const {
  if (rest == Rest::kNothing) return "";
  const std::string what =
      absl::StrCat(path(), ":", lines_->line_number() + 1, ": the last line has no end (",
                   lines_->rest().size(), " bytes): ");
  return what + (rest == Rest::kBeingWritten
                     ? "it is not complete yet, for a process writes this file"
                     : "it was cut off, for no process writes this file. A router that goes on "
                       "with the file takes the line out");
}

}  // namespace baton
