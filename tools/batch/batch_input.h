#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/batch/batch_line.h"
#include "tools/batch/batch_part.h"
#include "tools/batch/line_key.h"
#include "tools/serve/child_process.h"

namespace baton::batch {

// Where a line stands and what is known of it before it is sent: 48 bytes, so that an input of a
// million lines takes 48 MB whatever stands in them.
struct InputLine {
  int64_t offset = 0;  // in the file
  int64_t bytes = 0;   // without the line break
  int64_t number = 0;  // from 1, empty lines counted
  LineKey key;
  uint32_t prompt = 0;  // tokens, about
  int32_t limit = -1;   // tokens of the answer at most; -1 = unknown
};

// The file with the requests, one on each line. Only one line at a time is in memory.
class BatchInput final {
 public:
  // Reads all of the file once. INVALID_ARGUMENT when it cannot be read in any order, as a pipe, or
  // when a custom_id stands twice in it, in whichever part. Lines that are wrong are kept: their
  // error is their answer.
  static absl::StatusOr<BatchInput> Open(const std::string& path, const BatchPart& part);

  // Those of the part, in the order of the file; empty ones are none.
  const std::vector<InputLine>& lines() const { return lines_; }
  // Which are there; lines may be taken out or sorted.
  std::vector<InputLine>& lines() { return lines_; }

  // DATA_LOSS when the file has been changed.
  absl::StatusOr<BatchLine> Read(const InputLine& line) const;

 private:
  BatchInput(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  UniqueFd file_;
  std::vector<InputLine> lines_;
};

}  // namespace baton::batch
