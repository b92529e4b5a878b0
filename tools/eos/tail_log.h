#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/eos/eos_row_reader.h"

namespace baton {

struct TailOptions {
  std::string path;
  std::string request_id;       // only its rows; empty: those of all requests
  std::optional<int64_t> rows;  // of those that are there, only the last; absent: all
  bool follow = false;          // go on with what is written later
};

// What a tail does to the world.
struct TailHooks {
  // Takes text for the reader; false when there is no reader any more.
  std::function<bool(std::string_view text)> write;
  // Takes a sentence about the log itself.
  std::function<void(const std::string& sentence)> note;
  // Waits until the file may have changed; false when the tail shall end.
  std::function<bool()> wait;
};

// Shows the rows of a log, one line each, and with `follow` those that are added, also when the log
// is rotated. One that was replaced or became shorter is read from its beginning. A line that is no
// row is noted, and so is without `follow` a last line without an end. Returns how many lines were
// no rows.
absl::StatusOr<int64_t> TailLog(const TailOptions& options, const TailHooks& hooks);

// The head of the lines, and a row as one of them.
std::string TailHead();
std::string TailLine(const EosLogRow& row);

}  // namespace baton
