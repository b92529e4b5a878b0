#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/eos/eos_row.h"
#include "common/eos/line_file.h"
#include "common/eos/log_rotation.h"

namespace baton {

// What an EOS log's thread does: it takes lines out of a bounded queue and writes them, at the
// latest `flush_every` after they came. Run is that thread's; the rest is thread-safe.
class EosWriter final {
 public:
  using Line = std::variant<EosRow, std::string>;  // a row, or a summary as JSON

  struct Options {
    size_t queue_lines = 0;
    base::Duration flush_every{};
    base::Duration stalled_after{};  // without the disk taking what it was given
    const base::Clock* clock = nullptr;
  };
  // `rotation` makes parts of both files; null: they grow for ever.
  EosWriter(Options options, LineFile rows, LineFile summaries,
            std::unique_ptr<LogRotation> rotation);

  // Never waits: a line that finds no room is dropped and counted.
  void Append(Line line);
  // More than half of the queue waits, for a disk that is slow but not hung.
  bool Congested() const;

  // Writes until Close was called and everything is written.
  void Run();
  void Close() { queue_.Close(); }
  // Waits for the end of Run. False when the disk hangs, after saying what is lost; Run may then go
  // on for ever.
  bool AwaitEnd();

  bool writing() const { return write_began_.load() != 0; }
  uint64_t rows_written() const { return rows_written_.load(); }
  uint64_t lines_dropped() const { return lines_dropped_.load(); }
  // Whether no full file waits to be compressed.
  bool parts_are_kept() const { return rotation_ == nullptr || rotation_->idle(); }

 private:
  bool Stalled() const;
  void Take(Line line);
  void Flush();
  void MakeRoom();
  absl::Status Write(LineFile* file, const std::string& lines);
  void Drop(uint64_t lines, std::string_view why);
  void NoteWritten();

  const Options options_;
  LineFile rows_file_;
  LineFile summaries_file_;
  const std::unique_ptr<LogRotation> rotation_;
  base::BoundedQueue<Line> queue_;
  std::string rows_;       // lines that wait for Flush; Run's own
  std::string summaries_;  // likewise
  uint64_t rows_waiting_ = 0;
  uint64_t summaries_waiting_ = 0;
  std::atomic<int64_t> write_began_{0};  // on the clock, in ticks; 0: no write is going on
  std::atomic<uint64_t> rows_written_{0};
  std::atomic<uint64_t> lines_dropped_{0};

  base::Mutex mutex_;
  base::CondVar ended_changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t lost_before_ ABSL_GUARDED_BY(mutex_) = 0;  // dropped before the present outage
  base::Instant last_drop_ ABSL_GUARDED_BY(mutex_){};
  bool losing_ ABSL_GUARDED_BY(mutex_) = false;  // an outage was reported
};

}  // namespace baton
