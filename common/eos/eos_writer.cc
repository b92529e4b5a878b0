#include "common/eos/eos_writer.h"

#include <optional>
#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr size_t kFlushBytes = size_t{256} << 10;
// So long without a loss, an outage is over. A disk at the edge of its room would otherwise report
// with every line.
constexpr base::Duration kOverAfter = std::chrono::seconds(10);
// How often the end of a log looks whether the disk hangs.
constexpr base::Duration kLookEvery = std::chrono::milliseconds(20);

}  // namespace

EosWriter::EosWriter(Options options, LineFile rows, LineFile summaries,
                     std::unique_ptr<LogRotation> rotation)
    : options_(options),
      rows_file_(std::move(rows)),
      summaries_file_(std::move(summaries)),
      rotation_(std::move(rotation)),
      queue_(options.queue_lines) {}

void EosWriter::Append(Line line) {
  if (queue_.TryPush(std::move(line))) return;
  Drop(1,
       Stalled() ? "the disk hangs and the queue to it is full" : "the queue to the disk is full");
}

bool EosWriter::Congested() const { return queue_.size() > queue_.capacity() / 2 && !Stalled(); }

bool EosWriter::Stalled() const {
  const int64_t began = write_began_.load();
  return began != 0 &&
         options_.clock->Now() - base::Instant(base::Duration(began)) >= options_.stalled_after;
}

void EosWriter::Run() {
  base::Instant flush_at = base::kNever;  // of the oldest line that waits
  while (true) {
    std::optional<Line> line = queue_.PopUntil(flush_at);
    const bool waiting = line.has_value();
    if (waiting) {
      Take(std::move(*line));
      if (flush_at == base::kNever) {
        flush_at = std::chrono::steady_clock::now() + options_.flush_every;
      }
    }
    const bool due = !waiting || std::chrono::steady_clock::now() >= flush_at;
    if (due || rows_.size() + summaries_.size() >= kFlushBytes) {
      Flush();
      flush_at = base::kNever;
    }
    if (!waiting && queue_.closed() && queue_.size() == 0) break;
  }
  base::MutexLock lock(&mutex_);
  ended_ = true;
  ended_changed_.NotifyAll();
}

bool EosWriter::AwaitEnd() {
  base::MutexLock lock(&mutex_);
  while (!ended_) {
    if (Stalled()) {
      spdlog::error("EOS log {}: the disk hangs; at least {} lines that wait for it are lost",
                    rows_file_.path(), queue_.size());
      return false;
    }
    ended_changed_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + kLookEvery);
  }
  return true;
}

void EosWriter::Take(Line line) {
  if (const auto* row = std::get_if<EosRow>(&line)) {
    AppendEosLine(*row, &rows_);
    ++rows_waiting_;
  } else {
    summaries_.append(std::get<std::string>(line)).push_back('\n');
    ++summaries_waiting_;
  }
}

void EosWriter::MakeRoom() {
  if (rotation_ == nullptr) return;
  write_began_ = options_.clock->Now().time_since_epoch().count();
  rotation_->MakeRoom(rows_.size(), &rows_file_, summaries_.size(), &summaries_file_);
  write_began_ = 0;
}

void EosWriter::Flush() {
  MakeRoom();
  if (!rows_.empty()) {
    const absl::Status written = Write(&rows_file_, rows_);
    if (written.ok()) {
      rows_written_ += rows_waiting_;
    } else {
      Drop(rows_waiting_, std::string(written.message()));
    }
  }
  if (!summaries_.empty()) {
    const absl::Status written = Write(&summaries_file_, summaries_);
    if (!written.ok()) Drop(summaries_waiting_, std::string(written.message()));
  }
  rows_.clear();
  summaries_.clear();
  rows_waiting_ = summaries_waiting_ = 0;
}

absl::Status EosWriter::Write(LineFile* file, const std::string& lines) {
  write_began_ = options_.clock->Now().time_since_epoch().count();
  const absl::Status written = file->Append(lines);
  write_began_ = 0;
  if (written.ok()) NoteWritten();
  return written;
}

void EosWriter::Drop(uint64_t lines, std::string_view why) {
  base::MutexLock lock(&mutex_);
  if (!losing_) lost_before_ = lines_dropped_;
  lines_dropped_ += lines;
  last_drop_ = options_.clock->Now();
  if (std::exchange(losing_, true)) return;
  spdlog::error(
      "EOS log {}: lines are lost from here on: {}. Give the disk room or time, or start with "
      "--eos-log off; requests are served all the same",
      rows_file_.path(), std::string(why));
}

void EosWriter::NoteWritten() {
  base::MutexLock lock(&mutex_);
  if (!losing_ || options_.clock->Now() - last_drop_ < kOverAfter) return;
  losing_ = false;
  spdlog::warn("EOS log {}: lines are written again; {} were lost", rows_file_.path(),
               lines_dropped_.load() - lost_before_);
}

}  // namespace baton
