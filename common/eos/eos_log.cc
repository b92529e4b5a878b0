#include "common/eos/eos_log.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr size_t kFlushBytes = size_t{256} << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<EosLog>> EosLog::Open(EosLogOptions options) {
  BATON_ASSIGN_OR_RETURN(LineFile rows, LineFile::Open(options.path));
  BATON_ASSIGN_OR_RETURN(LineFile summaries, LineFile::Open(options.path + ".requests.jsonl"));
  BATON_RETURN_IF_ERROR(WriteWholeFile(options.path + ".meta.json", options.meta_json));
  return std::unique_ptr<EosLog>(new EosLog(options, std::move(rows), std::move(summaries)));
}

EosLog::EosLog(const EosLogOptions& options, LineFile rows, LineFile summaries)
    : rows_file_(std::move(rows)),
      summaries_file_(std::move(summaries)),
      queue_(options.queue_rows),
      writer_([this] { Run(); }) {}

EosLog::~EosLog() {
  queue_.Close();
  writer_.join();
}

void EosLog::Append(EosRow row) {
  if (!queue_.TryPush(Item(std::move(row)))) Drop(1, "the queue to the disk is full");
}

void EosLog::AppendSummary(std::string json) {
  if (!queue_.TryPush(Item(std::move(json)))) Drop(1, "the queue to the disk is full");
}

void EosLog::Run() {
  base::Instant flush_at = base::kNever;  // of the oldest line that waits
  while (true) {
    std::optional<Item> item = queue_.PopUntil(flush_at);
    const bool waiting = item.has_value();
    if (waiting) {
      Take(std::move(*item));
      if (flush_at == base::kNever) flush_at = std::chrono::steady_clock::now() + kFlushEvery;
    }
    const bool due = !waiting || std::chrono::steady_clock::now() >= flush_at;
    if (due || rows_.size() + summaries_.size() >= kFlushBytes) {
      Flush();
      flush_at = base::kNever;
    }
    if (!waiting && queue_.closed() && queue_.size() == 0) return;
  }
}

void EosLog::Take(Item item) {
  if (const auto* row = std::get_if<EosRow>(&item)) {
    AppendEosLine(*row, &rows_);
    ++rows_waiting_;
  } else {
    summaries_.append(std::get<std::string>(item)).push_back('\n');
    ++summaries_waiting_;
  }
}

void EosLog::Flush() {
  if (!rows_.empty()) {
    const absl::Status written = rows_file_.Append(rows_);
    if (written.ok()) {
      rows_written_ += rows_waiting_;
    } else {
      Drop(rows_waiting_, std::string(written.message()));
    }
  }
  if (!summaries_.empty()) {
    const absl::Status written = summaries_file_.Append(summaries_);
    if (!written.ok()) Drop(summaries_waiting_, std::string(written.message()));
  }
  rows_.clear();
  summaries_.clear();
  rows_waiting_ = summaries_waiting_ = 0;
}

void EosLog::Drop(uint64_t lines, std::string_view why) {
  lines_dropped_ += lines;
  if (drop_reported_.exchange(true)) return;
  spdlog::error(
      "EOS log {}: lines are lost from here on: {}. Free some space or start with "
      "--eos-log off; requests are served all the same",
      rows_file_.path(), std::string(why));
}

EosRequestLog::EosRequestLog(EosLog* log, EosRequestFacts facts)
    : log_(log), facts_(std::make_shared<const EosRequestFacts>(std::move(facts))) {}

void EosRequestLog::Accept(const Token& token) {
  if (held_) log_->Append(std::move(*held_));
  held_ = EosRow{.request = facts_,
                 .timestamp = token.timestamp,
                 .step = token.step,
                 .token = token.id,
                 .signal = token.signal,
                 .natural_end_step = token.natural_end_step,
                 .attempt = token.attempt};
}

void EosRequestLog::Finish(FinishReason reason) {
  if (!held_) return;
  held_->finish_reason = reason;
  log_->Append(std::move(*held_));
  held_.reset();
}

}  // namespace baton
