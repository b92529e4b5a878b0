#include "common/eos/log_rotation.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/output_file.h"
#include "common/base/status.h"
#include "common/eos/log_parts.h"

namespace baton {
namespace {

// Whether FILE.meta.json was there when the last row of `part` was written. One that came later is
// of a later start, perhaps with other settings.
bool HadMetaOf(const std::string& file, const std::string& part) {
  std::error_code unknown;
  const auto meta =
      std::filesystem::last_write_time(absl::StrCat(file, std::string(kMetaSuffix)), unknown);
  if (unknown) return false;
  const auto rows = std::filesystem::last_write_time(part, unknown);
  return !unknown && meta <= rows;
}

}  // namespace

absl::Status TurnLogFiles(const std::string& file, const std::string& meta_json, LineFile* rows,
                          LineFile* summaries) {
  const std::string part = PartPath(file, LastPartNumber(file) + 1);
  // Rows first: readers take a number for used once its rows are there. A process that ends in
  // between leaves summaries for the next part, which is where they may be anyway.
  if (rows->regular()) BATON_RETURN_IF_ERROR(rows->StartAnew(part));
  absl::Status summaries_turned;
  if (summaries->regular()) {
    summaries_turned = summaries->StartAnew(absl::StrCat(part, std::string(kRequestsSuffix)));
  }
  // The rows are a part now, so what is true for them is told whatever became of the summaries.
  BATON_RETURN_IF_ERROR(WriteWholeFile(absl::StrCat(part, std::string(kMetaSuffix)), meta_json));
  return summaries_turned;
}

absl::Status MendPartsWithoutMeta(const std::string& file, const std::string& meta_json) {
  absl::Status mended;
  std::string unknown;
  const int64_t last = LastPartNumber(file);
  for (const LogPart& part : PartsOf(file)) {
    const std::string meta = absl::StrCat(PartPath(file, part.number), std::string(kMetaSuffix));
    std::error_code unreadable;  // then it is taken for absent, and writing it says why
    if (std::filesystem::exists(meta, unreadable)) continue;
    if (part.number == last && !meta_json.empty() && HadMetaOf(file, part.path)) {
      mended = WriteWholeFile(meta, meta_json);
      if (mended.ok()) spdlog::info("EOS log {}: wrote {}, which was missing", file, meta);
    } else {
      absl::StrAppend(&unknown, unknown.empty() ? "" : ", ", part.path);
    }
  }
  if (!unknown.empty()) {
    spdlog::warn(
        "EOS log {}: no .meta.json stands beside {}: which model and settings these rows are of is "
        "not known. Put back the file if there is a copy",
        file, unknown);
  }
  return mended;
}

LogRotation::LogRotation(Options options, std::shared_ptr<LogUpkeep> upkeep)
    : options_(std::move(options)),
      upkeep_(std::move(upkeep)),
      keeper_(options_.path, options_.keep, upkeep_) {}

bool LogRotation::IsFull(const LineFile& file, size_t more) const {
  return file.regular() && file.size() > 0 &&
         file.size() + static_cast<int64_t>(more) > options_.max_bytes;
}

void LogRotation::MakeRoom(size_t row_bytes, LineFile* rows, size_t summary_bytes,
                           LineFile* summaries) {
  if (!IsFull(*rows, row_bytes) && !IsFull(*summaries, summary_bytes)) return;
  if (options_.clock->Now() < retry_at_) return;
  Turn(options_.meta_json, rows, summaries);
}

void LogRotation::Turn(const std::string& meta_json, LineFile* rows, LineFile* summaries) {
  const absl::Status turned = TurnLogFiles(options_.path, meta_json, rows, summaries);
  upkeep_->Note(UpkeepStep::kRotate, turned);
  if (!turned.ok()) retry_at_ = options_.clock->Now() + kRetryAfter;
  keeper_.Wake();
}

}  // namespace baton
