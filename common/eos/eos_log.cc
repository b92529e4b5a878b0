#include "common/eos/eos_log.h"

#include <utility>

#include "common/base/status.h"

namespace baton {
namespace {

const base::Clock* SteadyTime() {
  static const base::SteadyClock clock;
  return &clock;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EosLog>> EosLog::Open(EosLogOptions options) {
  BATON_ASSIGN_OR_RETURN(LineFile rows, LineFile::Open(options.path));
  BATON_ASSIGN_OR_RETURN(LineFile summaries, LineFile::Open(options.path + ".requests.jsonl"));
  BATON_RETURN_IF_ERROR(WriteWholeFile(options.path + ".meta.json", options.meta_json));
  const EosWriter::Options writer = {
      .queue_lines = options.queue_rows,
      .flush_every = kFlushEvery,
      .stalled_after = kStalledAfter,
      .clock = options.clock != nullptr ? options.clock : SteadyTime()};
  return std::unique_ptr<EosLog>(
      new EosLog(std::make_shared<EosWriter>(writer, std::move(rows), std::move(summaries))));
}

EosLog::EosLog(std::shared_ptr<EosWriter> writer)
    : writer_(std::move(writer)), thread_([writer = writer_] { writer->Run(); }) {}

EosLog::~EosLog() {
  writer_->Close();
  if (writer_->AwaitEnd()) {
    thread_.join();
  } else {
    thread_.detach();
  }
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
