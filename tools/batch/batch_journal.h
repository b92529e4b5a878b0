#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/eos/line_file.h"
#include "tools/batch/line_key.h"

namespace baton::batch {

// The file with the answers, which says what is done: a line counts once its answer is there as a
// whole line, and what is there is never written again. One process at a time. Not thread-safe.
class BatchJournal final {
 public:
  // Goes on after the answers that `path` has, if it is there. INVALID_ARGUMENT for a file that
  // holds anything else, which is left as it is; FAILED_PRECONDITION while another process writes
  // it. `drop_failed` takes answers that are errors out of the file, so that their lines are asked
  // again.
  static absl::StatusOr<BatchJournal> Open(const std::string& path, bool drop_failed);

  bool Has(const LineKey& key) const { return done_.contains(key); }
  int64_t done() const { return static_cast<int64_t>(done_.size()); }
  int64_t failed() const { return failed_; }  // of those that are done
  // Bytes of a last line without an end, as an interruption leaves it, that Open took away.
  int64_t cut_bytes() const { return cut_bytes_; }
  int64_t dropped() const { return dropped_; }  // failed answers that were taken out

  // `line` has its line break. After an error of the disk nothing more may be added.
  absl::Status Add(const LineKey& key, bool failed, std::string_view line);
  // Has the disk keep what was added, for when the power fails.
  absl::Status Sync() const;

 private:
  explicit BatchJournal(LineFile file) : file_(std::move(file)) {}

  absl::Status Read();
  absl::Status ReplaceByGood() const;

  LineFile file_;
  absl::flat_hash_set<LineKey> done_;
  int64_t failed_ = 0;
  int64_t cut_bytes_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace baton::batch
