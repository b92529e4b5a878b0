#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/bounded_queue.h"
#include "common/eos/eos_row.h"
#include "common/eos/line_file.h"

namespace baton {

// Where a log is written, and how much may wait.
struct EosLogOptions {
  std::string path;       // FILE; FILE.meta.json and FILE.requests.jsonl stand beside it
  std::string meta_json;  // the whole content of FILE.meta.json
  size_t queue_rows = size_t{1} << 18;  // rows and summaries that may wait for the disk
};

// The EOS log. One thread writes what any thread appends, in whole lines only and at the latest
// kFlushEvery after they were appended. Thread-safe. A request has its rows written like this:
//
//   auto log = EosLog::Open({.path = "eos.jsonl", .meta_json = meta});
//   EosRequestLog rows(log->get(), {.request_id = "r1", .prompt_length = 20});
//   rows.Accept({.timestamp = clock.UnixNow(), .step = 1, .id = token, .signal = signal});
//   rows.Finish(FinishReason::kLength);  // writes the last row, which carries the reason
//
// Append never waits, so a slow disk cannot slow a request. From half a queue on `Congested` is
// true and the router opens no new attempts; should the queue fill up all the same, rows are
// dropped, counted and reported. When the disk is full the error is logged once, the lines are
// dropped and counted, and writing goes on as soon as there is room again.
class EosLog final {
 public:
  static constexpr base::Duration kFlushEvery = std::chrono::milliseconds(100);

  // Refuses a file that cannot be written or that another process writes.
  static absl::StatusOr<std::unique_ptr<EosLog>> Open(EosLogOptions options);
  // Writes what was appended before it ends.
  ~EosLog();

  void Append(EosRow row);
  // Appends one line to FILE.requests.jsonl. `json` is an object without a newline.
  void AppendSummary(std::string json);

  bool Congested() const { return queue_.size() > queue_.capacity() / 2; }
  uint64_t rows_written() const { return rows_written_.load(); }
  // How many rows and summaries were lost.
  uint64_t lines_dropped() const { return lines_dropped_.load(); }

 private:
  using Item = std::variant<EosRow, std::string>;

  EosLog(const EosLogOptions& options, LineFile rows, LineFile summaries);
  void Run();
  void Take(Item item);
  void Flush();
  void Drop(uint64_t lines, std::string_view why);

  LineFile rows_file_;
  LineFile summaries_file_;
  base::BoundedQueue<Item> queue_;
  std::string rows_;       // lines that wait for Flush; the writer thread's own
  std::string summaries_;  // likewise
  uint64_t rows_waiting_ = 0;
  uint64_t summaries_waiting_ = 0;
  std::atomic<uint64_t> rows_written_{0};
  std::atomic<uint64_t> lines_dropped_{0};
  std::atomic<bool> drop_reported_{false};
  std::thread writer_;
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
