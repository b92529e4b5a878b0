#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/eos/eos_row.h"
#include "common/eos/eos_writer.h"
#include "common/eos/log_upkeep.h"

namespace baton {

// Where a log is written, and how much may wait.
struct EosLogOptions {
  std::string path;       // FILE; FILE.meta.json and FILE.requests.jsonl stand beside it
  std::string meta_json;  // the whole content of FILE.meta.json
  size_t queue_rows = size_t{1} << 18;  // rows and summaries that may wait for the disk
  int64_t max_bytes = 0;                // FILE becomes FILE.N before it is larger; 0: never
  int32_t keep = 1;                     // of these; the oldest are removed
  double sample = 1;                    // share of all requests that are logged
  // Outlives even a write that does not come back; null: the steady clock.
  const base::Clock* clock = nullptr;
};

// The EOS log. One thread writes what any thread appends, in whole lines only and at the latest
// kFlushEvery after they were appended. Thread-safe. A request has its rows written like this:
//
//   auto log = EosLog::Open({.path = "eos.jsonl", .meta_json = meta});
//   EosRequestLog rows(log->get(), {.request_id = "r1", .prompt_length = 20});
//   rows.Accept({.timestamp = clock.UnixNow(), .step = 1, .id = token, .signal = signal});
//   rows.Finish(FinishReason::kLength);  // writes the last row, which carries the reason
//
// Append never waits, so no disk can slow a request. From half a queue on `Congested` is true and
// the router opens no new attempts, so that a slow disk gets every row. A disk that took nothing
// for kStalledAfter hangs: nobody waits for it any more, and once the queue is full rows are
// dropped, counted and reported, as they are when the disk is full. Writing goes on as soon as it
// can.
//
// FILE, FILE.requests.jsonl and FILE.meta.json become parts of the log as log_parts.h names them,
// when one of the first two is full, and at the start when what FILE.meta.json says of the rows
// that are there is no longer true. Where that fails, the files that there are grow on.
class EosLog final {
 public:
  static constexpr base::Duration kFlushEvery = std::chrono::milliseconds(100);
  static constexpr base::Duration kStalledAfter = std::chrono::seconds(2);

  // Refuses a file that cannot be written or that another process writes.
  static absl::StatusOr<std::unique_ptr<EosLog>> Open(EosLogOptions options);
  // Writes what was appended before it ends, unless the disk hangs.
  ~EosLog();

  // Whether the request with this id is one of the sample. It depends on the id and the share
  // alone, so all routers and all attempts say the same, and a larger sample holds a smaller one.
  bool Samples(std::string_view request_id) const;

  void Append(EosRow row) { writer_->Append(std::move(row)); }
  // Appends one line to FILE.requests.jsonl. `json` is an object without a newline.
  void AppendSummary(std::string json) { writer_->Append(std::move(json)); }

  bool Congested() const { return writer_->Congested(); }
  // Whether the disk has something that it did not take yet.
  bool writing() const { return writer_->writing(); }
  uint64_t rows_written() const { return writer_->rows_written(); }
  // How many rows and summaries were lost.
  uint64_t lines_dropped() const { return writer_->lines_dropped(); }
  // How often a step of the upkeep of files failed.
  uint64_t upkeep_failures(UpkeepStep step) const { return upkeep_->failures(step); }
  // Whether no full file waits to be compressed.
  bool parts_are_kept() const { return writer_->parts_are_kept(); }

 private:
  EosLog(std::shared_ptr<EosWriter> writer, std::shared_ptr<const LogUpkeep> upkeep, double sample);

  // Shared with the thread, which outlives the log when a write does not come back.
  const std::shared_ptr<EosWriter> writer_;
  const std::shared_ptr<const LogUpkeep> upkeep_;
  const double sample_;
  std::thread thread_;
};

// The rows of one request. Holds the last one back until the request's end is known, so that it can
// carry the reason. One owner at a time.
class EosRequestLog final {
 public:
  EosRequestLog(EosLog* log, EosRequestFacts facts);

  struct Token {
    double timestamp = 0;
    int32_t step = 0;  // the one after the last
    TokenId id = 0;
    EosSignal signal;
    std::optional<int32_t> natural_end_step;
    int32_t attempt = 1;
  };
  void Accept(const Token& token);
  // The request is over. Nothing is written for one without tokens. Call once.
  void Finish(FinishReason reason);

 private:
  EosLog* const log_;
  const std::shared_ptr<const EosRequestFacts> facts_;
  std::optional<EosRow> held_;
};

}  // namespace baton
