#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "common/eos/eos_row_reader.h"
#include "common/eos/line_source.h"

namespace baton {

// The rows of one EOS log, from its beginning to where it ends now.
class RowSource final {
 public:
  static absl::StatusOr<RowSource> Open(const std::string& path);

  enum class Got {
    kRow,
    kNoRow,  // a line that is no row; `problem` says why
    kEnd,
  };
  // `row` holds what could be read of a line that is no row. An error is one of the disk.
  absl::StatusOr<Got> Next(EosLogRow* row);
  const std::string& problem() const { return problem_; }
  // The line itself, until the next call of Next.
  std::string_view line() const { return line_; }

  // "eos.jsonl:17", the line that Next read last.
  std::string Place() const;
  const std::string& path() const { return lines_.path(); }
  LineSource::Change Look() const { return lines_.Look(); }

  // What stands behind the last newline when Next gave kEnd. A writer may be about to complete it;
  // without one it was cut off.
  enum class Rest { kNothing, kBeingWritten, kCutOff };
  Rest rest() const;
  // A sentence about that, with its place; empty for kNothing.
  std::string RestText(Rest rest) const;

 private:
  explicit RowSource(LineSource lines) : lines_(std::move(lines)) {}

  LineSource lines_;
  std::string_view line_;
  std::string problem_;
};

}  // namespace baton
