#include "tools/bench/report/rows_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/bench/report/row_json.h"

namespace baton::bench {
namespace {

std::string JsonLine(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

RowsFile::RowsFile(std::string path, std::unique_ptr<OutputFile> file)
    : path_(std::move(path)), file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<RowsFile>> RowsFile::Create(const std::string& path) {
  auto file = OutputFile::Create(path, ".partial");
  if (!file.ok()) {
    return absl::Status(file.status().code(), absl::StrCat(std::string(file.status().message()),
                                                           "; give another path to --rows"));
  }
  std::unique_ptr<RowsFile> rows(new RowsFile(path, *std::move(file)));
  BATON_RETURN_IF_ERROR(rows->Write(JsonLine({{"schema", kRowsSchema}})));
  BATON_RETURN_IF_ERROR(rows->Flush());
  return rows;
}

RowsFile::~RowsFile() {
  if (rows_ > 0) file_->Keep();
}

absl::Status RowsFile::Noted(const absl::Status& done) {
  if (done.ok()) return done;
  status_ =
      absl::Status(done.code(), absl::StrCat(std::string(done.message()), "; it keeps about ",
                                             rows_, " rows, and ", path_,
                                             " was not written; free space or give another path "
                                             "to --rows"));
  return status_;
}

absl::Status RowsFile::Write(const std::string& line) {
  if (!status_.ok()) return status_;
  return Noted(file_->Write(line));
}

absl::Status RowsFile::Flush() { return Noted(file_->Flush()); }

absl::Status RowsFile::Append(const LoadResult& load, const std::string& label) {
  for (size_t i = 0; i < load.records.size(); ++i) {
    const double lag_ms = i < load.lag_ms.size() ? load.lag_ms[i] : 0;
    BATON_RETURN_IF_ERROR(Write(JsonLine(RowAsJson(runs_, load.records[i], lag_ms))));
    ++rows_;
  }
  BATON_RETURN_IF_ERROR(Write(JsonLine({{"run", runs_},
                                        {"end",
                                         {{"started_unix", load.unix_started},
                                          {"duration_s", load.duration_s},
                                          {"interrupted", load.interrupted},
                                          {"label", label}}}})));
  ++runs_;
  // So that a run is on the disk, or known not to be, before the next one begins.
  return Flush();
}

absl::Status RowsFile::Close(const std::string& partial_reason) {
  const nlohmann::ordered_json reason =
      partial_reason.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(partial_reason);
  BATON_RETURN_IF_ERROR(Write(
      JsonLine({{"complete", true}, {"partial", !partial_reason.empty()}, {"reason", reason}})));
  BATON_RETURN_IF_ERROR(Noted(file_->Finish()));
  status_ = absl::FailedPreconditionError(absl::StrCat(path_, " is closed"));
  return absl::OkStatus();
}

}  // namespace baton::bench
