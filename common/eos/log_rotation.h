#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/eos/line_file.h"
#include "common/eos/log_upkeep.h"
#include "common/eos/part_keeper.h"

namespace baton {

// Makes a part of both files of the log FILE, whatever they hold, with `meta_json` as what is true
// for them. After an error both can be written as before.
absl::Status TurnLogFiles(const std::string& file, const std::string& meta_json, LineFile* rows,
                          LineFile* summaries);

// Gives the last part the FILE.N.meta.json that a process which ended within TurnLogFiles could not
// write any more: `meta_json`, the content of FILE.meta.json, is true for it unless that file is
// newer than its last row. Where the truth about a part is not known any more, the process's log
// says so.
absl::Status MendPartsWithoutMeta(const std::string& file, const std::string& meta_json);

// Makes parts of a log's files when they are full. Rows and summaries turn together, so the summary
// of a request is in the part of its last row or in the next one. One owner at a time.
class LogRotation final {
 public:
  struct Options {
    std::string path;       // FILE
    std::string meta_json;  // the content of FILE.meta.json
    int64_t max_bytes = 0;  // of each of the two files; at least 1
    int32_t keep = 1;       // parts beside FILE
    const base::Clock* clock = nullptr;
  };
  // A rotation that failed is tried again after so long.
  static constexpr base::Duration kRetryAfter = std::chrono::seconds(10);

  LogRotation(Options options, std::shared_ptr<LogUpkeep> upkeep);

  // Turns both files if one of them has no room for so many bytes. A file without a line takes any
  // number. Failures are noted, and both files can be written afterwards whatever happened.
  void MakeRoom(size_t row_bytes, LineFile* rows, size_t summary_bytes, LineFile* summaries);
  // TurnLogFiles, noted.
  void Turn(const std::string& meta_json, LineFile* rows, LineFile* summaries);

  bool idle() const { return keeper_.idle(); }

 private:
  bool IsFull(const LineFile& file, size_t more) const;

  const Options options_;
  const std::shared_ptr<LogUpkeep> upkeep_;
  base::Instant retry_at_{};
  PartKeeper keeper_;
};

}  // namespace baton
