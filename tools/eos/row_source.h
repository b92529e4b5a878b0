#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/eos/eos_row_reader.h"
#include "common/eos/line_source.h"
#include "common/eos/log_parts.h"

namespace baton {

// The rows of one EOS log, from its beginning to where it ends now, over all its files. A log that
// is rotated meanwhile is read up to the end of the file that was written when it was opened.
class RowSource final {
 public:
  static absl::StatusOr<RowSource> Open(const LogFiles& log);
  // The rows of one file.
  explicit RowSource(LineSource lines) : lines_(std::make_unique<LineSource>(std::move(lines))) {}

  enum class Got {
    kRow,
    kNoRow,  // a line that is no row; `problem` says why
    kEnd,
  };
  // `row` holds what could be read of a line that is no row. An error is one of the disk, or
  // DATA_LOSS of a compressed file that was cut off.
  absl::StatusOr<Got> Next(EosLogRow* row);
  const std::string& problem() const { return problem_; }
  // The line itself, until the next call of Next.
  std::string_view line() const { return line_; }

  // "eos.jsonl:17", the line that Next read last.
  std::string Place() const;
  const std::string& path() const { return lines_->path(); }
  LineSource::Change Look() const { return lines_->Look(); }
  // Whether there were parts before the first one that is read: then requests may have begun there.
  bool begins_in_the_middle() const { return begins_in_the_middle_; }

  // What stands behind the last newline when Next gave kEnd. A writer may be about to complete it;
  // without one it was cut off.
  enum class Rest { kNothing, kBeingWritten, kCutOff };
  Rest rest() const;
  // A sentence about that, with its place; empty for kNothing.
  std::string RestText(Rest rest) const;

 private:
  RowSource() = default;
  // Goes on with the next file. False when there is none.
  absl::StatusOr<bool> OpenNext();

  std::vector<std::string> parts_;  // to be read, from next_ on
  size_t next_ = 0;
  bool parts_may_go_ = false;         // the writer may remove the first ones
  std::unique_ptr<LineSource> live_;  // to be read after them; open, so that no rotation moves it
  std::unique_ptr<LineSource> lines_;
  bool began_ = false;  // something was read
  bool begins_in_the_middle_ = false;
  std::string_view line_;
  std::string problem_;
};

}  // namespace baton
