#pragma once

// rows.jsonl: line one is a header object {"schema": "baton.bench.rows/1", ...}, then one object
// per request of every run, in the order in which runs were made and requests sent:
//
//   {"run": 0, "index": 0, "scheduled": s, "sent": s, "ended": s,
//    "chunks": [[s, tokens], ..], "error": null | {"code": "UNAVAILABLE", "message": ".."},
//    "cancelled": false, "request_id": "..", "planned_prompt_tokens": n, "max_tokens": n,
//    "prompt_tokens": n, "cached_tokens": n, "output_tokens": n, "counted_by_server": true,
//    "natural_end_step": n | null,
//    "finish_reason": "..", "attempts": n,
//    "timings_ms": null | {"queue": x, "prefill": x, "kv_transfer": x, "ttft": x}, "lag_ms": x}
//
// and after a run a line {"run": 0, "end": {"started_unix": s, "duration_s": s,
// "interrupted": bool, "label": ".."}}. Seconds are since the start of the run. A file that was not
// closed has no last line {"complete": true, "partial": bool, "reason": null | ".."}.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/output_file.h"
#include "tools/bench/load/load_generator.h"

namespace baton::bench {

// Streams runs to disk as they end. Not thread-safe. Writes PATH.partial and renames it to PATH in
// Close(), so that PATH is never half a file; what was written stays in PATH.partial if the disk
// fills or the process dies. What is no file is written in place (OutputFile).
class RowsFile final {
 public:
  static absl::StatusOr<std::unique_ptr<RowsFile>> Create(const std::string& path);
  ~RowsFile();
  RowsFile(const RowsFile&) = delete;
  RowsFile& operator=(const RowsFile&) = delete;

  // Appends all requests of a run and flushes. After an error (which says how many rows are kept,
  // and where) nothing more is written and every call returns it.
  absl::Status Append(const LoadResult& load, const std::string& label);
  // `partial_reason` is "" for a complete file.
  absl::Status Close(const std::string& partial_reason);

 private:
  RowsFile(std::string path, std::unique_ptr<OutputFile> file);
  absl::Status Write(const std::string& line);
  absl::Status Flush();
  // Returns `done`; what failed is remembered, with what is kept.
  absl::Status Noted(const absl::Status& done);

  const std::string path_;
  const std::unique_ptr<OutputFile> file_;
  absl::Status status_;
  int runs_ = 0;
  int64_t rows_ = 0;
};

struct RowsOfRun {
  std::string label;
  LoadResult load;       // `started` is not kept
  bool complete = true;  // its closing line is there
};
struct RowsContent {
  std::vector<RowsOfRun> runs;
  bool complete = false;  // the closing line of the file is there
  std::string partial_reason;
};

// Reads a file of RowsFile back, a partial one up to its last whole line. An error names the line.
absl::StatusOr<RowsContent> ReadRows(const std::string& path);

}  // namespace baton::bench
