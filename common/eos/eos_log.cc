#include "common/eos/eos_log.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/block_hash.h"
#include "common/base/output_file.h"
#include "common/base/status.h"
#include "common/eos/log_parts.h"
#include "common/eos/log_rotation.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

const base::Clock* SteadyTime() {
  static const base::SteadyClock clock;
  return &clock;
}

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Whether two contents of FILE.meta.json say the same of rows, whenever they were written.
bool SayTheSame(const std::string& one, const std::string& other) {
  const auto facts = [](const std::string& text) {
    nlohmann::json meta = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (meta.is_object()) meta.erase("written");
    return meta;
  };
  const nlohmann::json here = facts(one);
  return here.is_discarded() ? one == other : here == facts(other);
}

// A link leads to a file whose own name must not be that of a part, whatever the link is called.
absl::Status CheckRealName(const std::string& path, const std::string& real) {
  if (real == path || !NamesAPart(real)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, " is a link to ", real,
      ", which has the name of a part of a log: whoever reads it would get this part alone; "
      "expected a link to a file whose name ends neither in .N nor in .zst"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EosLog>> EosLog::Open(EosLogOptions options) {
  const std::string path = RealLogPath(options.path);
  BATON_RETURN_IF_ERROR(CheckRealName(options.path, path));
  const std::string meta_path = absl::StrCat(path, std::string(kMetaSuffix));
  const base::Clock* const clock = options.clock != nullptr ? options.clock : SteadyTime();
  BATON_ASSIGN_OR_RETURN(LineFile rows, LineFile::Open(path));
  BATON_ASSIGN_OR_RETURN(LineFile summaries,
                         LineFile::Open(absl::StrCat(path, std::string(kRequestsSuffix))));
  const auto upkeep = std::make_shared<LogUpkeep>(path);
  std::unique_ptr<LogRotation> rotation;
  if (options.max_bytes > 0) {
    rotation = std::make_unique<LogRotation>(LogRotation::Options{.path = path,
                                                                  .meta_json = options.meta_json,
                                                                  .max_bytes = options.max_bytes,
                                                                  .keep = options.keep,
                                                                  .clock = clock},
                                             upkeep);
  }
  const std::string before = Content(meta_path);
  upkeep->Note(UpkeepStep::kRotate, MendPartsWithoutMeta(path, before));
  if (rows.size() > 0 && !before.empty() && !SayTheSame(before, options.meta_json)) {
    if (rotation != nullptr) {
      rotation->Turn(before, &rows, &summaries);
    } else {
      upkeep->Note(UpkeepStep::kRotate, TurnLogFiles(path, before, &rows, &summaries));
    }
  }
  BATON_RETURN_IF_ERROR(WriteWholeFile(meta_path, options.meta_json));
  const EosWriter::Options writer = {.queue_lines = options.queue_rows,
                                     .flush_every = kFlushEvery,
                                     .stalled_after = kStalledAfter,
                                     .clock = clock};
  return std::unique_ptr<EosLog>(
      new EosLog(std::make_shared<EosWriter>(writer, std::move(rows), std::move(summaries),
                                             std::move(rotation)),
                 upkeep, options.sample));
}

EosLog::EosLog(std::shared_ptr<EosWriter> writer, std::shared_ptr<const LogUpkeep> upkeep,
               double sample)
    : writer_(std::move(writer)),
      upkeep_(std::move(upkeep)),
      sample_(sample),
      thread_([writer = writer_] { writer->Run(); }) {}

bool EosLog::Samples(std::string_view request_id) const {
  // The upper bits of the hash as a number below 1.
  return std::ldexp(static_cast<double>(HashSalt(request_id) >> 11), -53) < sample_;
}

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
